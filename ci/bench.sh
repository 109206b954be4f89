#!/usr/bin/env bash
# The module beside Redis Streams and lists on this machine, see docs/performance.md.
# About ten minutes; what else runs meanwhile spoils the figures. Arguments are the
# names of workloads, w1 to w8; ROUNDS, COMMANDS, JOBS, DEEP, CLIENTS, SECONDS_EACH and
# QUEUES say how much.
source "$(dirname "$0")/lib.sh"

ci/needs.sh --build >&2
build_module
# Each client that waits is a connection at both ends.
ulimit -n "$(ulimit -Hn)"
DISQUE_MODULE=${DISQUE_MODULE:-$(module_path)} \
  cargo run --release --locked --quiet --package disque-bench -- "$@"
