#!/usr/bin/env bash
# Format, warnings, where `unsafe` stands, what the library exports.
source "$(dirname "$0")/lib.sh"

failed=0
check() { # check NAME COMMAND...
  local name=$1
  shift
  if "$@"; then
    echo "ok: $name"
  else
    echo "FAILED: $name"
    failed=1
  fi
}

clippy() {
  cargo clippy --release --locked --workspace --all-targets -- -D warnings
}

# Rust files of the repository, comments cut off.
unsafe_elsewhere() {
  local found
  found=$(git ls-files --cached --others --exclude-standard '*.rs' | grep -v '^src/ffi/' |
    xargs -r grep -nE '\bunsafe\b' /dev/null | grep -vE '^[^:]*:[0-9]+: *//|//.*\bunsafe\b' || true)
  [ -z "$found" ] || {
    echo "$found"
    return 1
  }
}

exported_symbols() {
  build_module || return 1
  local symbols stray
  symbols=$(nm -D --defined-only "$(module_path)" | awk '{ print $NF }')
  stray=$(grep -vE '^(RedisModule_OnLoad|__(start|stop)_linkm[2e]_.*)$' <<<"$symbols" || true)
  if [ -n "$stray" ]; then
    echo "$stray"
    return 1
  fi
  grep -qx RedisModule_OnLoad <<<"$symbols" || {
    echo "RedisModule_OnLoad is missing"
    return 1
  }
}

# fuzz/module is the module with another kind of output: it needs what that needs.
fuzz_manifest() {
  dependencies() {
    sed -n '/^\[dependencies\]/,/^$/p' "$1" | sed 's|"\.\./\.\./|"|'
  }
  diff <(dependencies Cargo.toml) <(dependencies fuzz/module/Cargo.toml)
}

scripts() {
  local script
  for script in ci/*.sh .ci/run; do
    bash -n "$script" || return 1
  done
}

check "the scripts parse" scripts
check "the fuzzer builds the module with its dependencies" fuzz_manifest
check "the code is formatted" cargo fmt --all --check
check "no warnings" clippy
check "no unsafe outside src/ffi" unsafe_elsewhere
check "only the entry point is exported" exported_symbols
exit "$failed"
