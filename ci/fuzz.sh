#!/usr/bin/env bash
# Fuzzes each target of fuzz/ for some time. The corpora replay in ordinary tests
# on every machine; this looks for new inputs, and keeps them in fuzz/target.
#   ci/fuzz.sh               each target for 30 seconds, or SECONDS_EACH
#   ci/fuzz.sh 300           each for 5 minutes
#   ci/fuzz.sh 300 records   this one
source "$(dirname "$0")/lib.sh"

seconds=${1:-${SECONDS_EACH:-30}}
if ! cargo +nightly --version >/dev/null 2>&1; then
  echo "skipped: no nightly toolchain (rustup toolchain install nightly)"
  exit 0
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "skipped: no cargo-fuzz (cargo install cargo-fuzz)"
  exit 0
fi
for target in ${2:-$(cd fuzz/fuzz_targets && ls)}; do
  target=${target%.rs}
  echo "== $target"
  found=fuzz/target/corpus/$target
  mkdir -p "$found"
  # Long inputs from the start: sequences are what breaks things.
  cargo +nightly fuzz run "$target" "$found" "fuzz/corpus/$target" -- \
    -max_total_time="$seconds" -len_control=0 -max_len=2048
done
