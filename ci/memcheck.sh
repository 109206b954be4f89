#!/usr/bin/env bash
# Runs the end-to-end tests on one server with each server under valgrind's memcheck, and
# fails if that finds anything: ci/valgrind.supp leaves out what is Redis' own. Memory of
# the module comes from the system there, so that each block has its own bounds. Leaks are
# looked for wherever a test stops its server cleanly.
#   ci/memcheck.sh                  everything, an hour or less
#   ci/memcheck.sh persistence::    one file of it
source "$(dirname "$0")/lib.sh"

if ! command -v valgrind >/dev/null; then
  echo "skipped: there is no valgrind here (apt-get install valgrind)"
  exit 0
fi

# A directory of its own: the feature would have the module built anew each time.
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/memcheck
cargo build --release --locked --target-dir "$target" --features system-alloc --package disque
build_module

work=$(mktemp -d)
mkdir "$work/found"
# Redis of most distributions brings jemalloc, whose functions must be taken over, too.
checker="valgrind --quiet --log-file=$work/found/%p --soname-synonyms=somalloc=libjemalloc*"
checker+=" --suppressions=$PWD/ci/valgrind.supp --num-callers=40 --error-limit=no"
checker+=" --leak-check=full --show-leak-kinds=definite"
# A server is thirty times as slow there.
export DISQUE_TEST_PATIENCE=${DISQUE_TEST_PATIENCE:-10} RUST_TEST_THREADS=${RUST_TEST_THREADS:-3}
DISQUE_MODULE=$target/release/libdisque.so REDIS_SERVER="$checker ${REDIS_SERVER:-redis-server}" \
  cargo test --release --locked --package disque --test e2e -- "$@" | tee "$work/tests" || true

findings=$(find "$work/found" -type f -size +0)
if [ -n "$findings" ]; then
  # shellcheck disable=SC2086
  head -n 100 $findings
  echo "there are findings, in $work/found"
  exit 1
fi
# Tests that measure time fail when it is stretched so: that is no finding. But where
# many fail, little was looked at.
read -r passed failed < <(awk '/^test result/ { print $4, $6 }' "$work/tests")
processes=$(find "$work/found" -type f | wc -l)
rm -r "$work"
echo "memcheck found nothing in $processes processes; $passed tests passed, $failed did not"
[ "$passed" -gt $((9 * failed)) ]
