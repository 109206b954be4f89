#!/usr/bin/env bash
# Shows that the simulation would notice: nodes that break one rule each are run until
# a seed finds them out. Fails if 200 seeds do not, or if anything of them is in the
# module.
#   ci/mutants.sh                       all of core/src/mutants.rs
#   MUTANT=AckNotPersisted ci/mutants.sh    that one
source "$(dirname "$0")/lib.sh"

build_module
# A directory of its own: the flag would have everything built anew each time.
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/mutants
# A node alone shows little of the protocol, and few show less than many.
export DISQUE_SIM_NODES=${DISQUE_SIM_NODES:-5} DISQUE_SIM_REPLICATED=${DISQUE_SIM_REPLICATED:-1000}
RUSTFLAGS="${RUSTFLAGS:-} --cfg mutants" cargo test --release --locked --target-dir "$target" \
  -p disque-core --test sim -- --nocapture mutants::

# The name of one shows whether they are in a binary at all.
holds_mutants() {
  grep -qF ReplyBeforeReplication "$@"
}
holds_mutants "$target"/release/deps/sim-* || {
  echo "the names of mutants are not found where they must be"
  exit 1
}
if holds_mutants "$(module_path)"; then
  echo "there are mutants in the module"
  exit 1
fi
echo "none of them is in the module"
