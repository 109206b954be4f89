#!/usr/bin/env bash
# Simulates clusters from seeds; a failing seed prints itself.
#   SEEDS=20000 ci/sim.sh    that many seeds
#   SEED=123 ci/sim.sh       one seed again, with its events
source "$(dirname "$0")/lib.sh"

[ -z "${SEED:-}" ] || export SEED
[ -z "${SEEDS:-}" ] || export SEEDS
cargo test --release --locked -p disque-core --test sim -- --nocapture
