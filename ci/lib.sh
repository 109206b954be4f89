# Common to the scripts here; sourced by them.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# rustup's own place, for shells that have not read its profile.
if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
  PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
fi

# Where the module is after `cargo build --release`.
module_path() {
  printf '%s/release/libdisque.so\n' "$(realpath -m "${CARGO_TARGET_DIR:-target}")"
}

# With the whole workspace, as the tests: what the module shares with them is then
# built once, with the same features.
build_module() {
  cargo build --release --locked --workspace
}
