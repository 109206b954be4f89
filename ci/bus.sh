#!/usr/bin/env bash
# Figures of the bus between servers on this machine, see docs/performance.md. About
# half a minute; what else runs meanwhile spoils them.
source "$(dirname "$0")/lib.sh"

ci/needs.sh --build >&2
build_module
DISQUE_MODULE=${DISQUE_MODULE:-$(module_path)} cargo run --release --locked --quiet --example bus_figures
