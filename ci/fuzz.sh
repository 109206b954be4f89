#!/usr/bin/env bash
# Fuzzes each target of fuzz/ for SECONDS_EACH (30). The corpora replay in
# ordinary tests on every machine; this looks for new inputs.
source "$(dirname "$0")/lib.sh"

if ! cargo +nightly --version >/dev/null 2>&1; then
  echo "skipped: no nightly toolchain (rustup toolchain install nightly)"
  exit 0
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "skipped: no cargo-fuzz (cargo install cargo-fuzz)"
  exit 0
fi
for target in fuzz/fuzz_targets/*.rs; do
  target=$(basename "$target" .rs)
  echo "== $target"
  cargo +nightly fuzz run "$target" "fuzz/corpus/$target" -- -max_total_time="${SECONDS_EACH:-30}"
done
