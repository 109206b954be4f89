#!/usr/bin/env bash
# Simulates clusters from seeds; a failing seed prints itself.
#   ci/sim.sh                     some seeds from a random start, which is printed
#   SEEDS=20000 ci/sim.sh         that many
#   SEED=123 ci/sim.sh            one seed again, with its last events if it fails
#   SEED=123 SEEDS=10 ci/sim.sh   that one and the nine after it
source "$(dirname "$0")/lib.sh"

for name in SEED SEEDS; do
  if [ -n "${!name:-}" ]; then export "$name"; else unset "$name"; fi
done
export DISQUE_SIM_START=${DISQUE_SIM_START:-random}
cargo test --release --locked -p disque-core --test sim -- --nocapture
