#!/usr/bin/env bash
# Checks for everything that building and testing need and names what is missing,
# with the one line that installs it. As root, or with YES=1, installs it.
#   ci/needs.sh            all
#   ci/needs.sh --build    without what only the tests need
source "$(dirname "$0")/lib.sh"

packages=()
need() { # need PACKAGES TEST...: the packages are missing unless the test succeeds
  local wanted=$1
  shift
  # shellcheck disable=SC2206
  "$@" >/dev/null 2>&1 || packages+=($wanted)
}

libclang() {
  compgen -G '/usr/lib/llvm-*/lib/libclang.so*' || compgen -G '/usr/lib/*/libclang-[0-9]*.so*'
}
clang_headers() {
  compgen -G '/usr/lib/llvm-*/lib/clang/*/include/stddef.h'
}
redis_server() { command -v "${REDIS_SERVER:-redis-server}" || [ -n "${REDIS_SERVER:-}" ]; }

check_packages() {
  packages=()
  need gcc command -v cc
  need libc6-dev test -e /usr/include/stdio.h
  need make command -v make
  need libclang1-14 libclang
  need libclang-common-14-dev clang_headers
  need redis-server redis_server
  need redis-tools command -v redis-cli
  if [ "${1:-}" != --build ]; then
    need binutils command -v nm
    need util-linux command -v setpriv
    need iproute2 command -v ip
  fi
}

check_packages "$@"
if [ ${#packages[@]} -gt 0 ]; then
  sudo=
  [ "$(id -u)" = 0 ] || sudo="sudo "
  line="${sudo}apt-get install -y --no-install-recommends ${packages[*]}"
  if [ "$(id -u)" = 0 ] || [ "${YES:-}" = 1 ]; then
    echo "installing: ${packages[*]}"
    # The server's package would start one as a service: there is one per test instead.
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
    ${sudo}apt-get update -qq
    $line
    check_packages "$@"
  else
    echo "missing: ${packages[*]}"
    echo "install with:"
    echo "  $line"
    echo "or let this script do it: YES=1 ci/needs.sh"
    exit 1
  fi
fi
if [ ${#packages[@]} -gt 0 ]; then
  echo "still missing after the installation: ${packages[*]}"
  exit 1
fi

wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
rust_help() {
  echo "Rust $wanted or later is needed. With rustup (https://rustup.rs), after its installation:"
  echo "  rustup toolchain install stable"
  exit 1
}
if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
  echo "cargo is missing."
  rust_help
fi
found=$(rustc --version | awk '{ print $2 }')
if [ "$(printf '%s\n%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)" != "$wanted" ]; then
  echo "rustc is $found."
  rust_help
fi
echo "rustc $found, $(cc --version | head -n 1), $(redis-cli --version): all that is needed is here"
