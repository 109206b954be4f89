#!/usr/bin/env bash
# Builds the module and runs every test: units and properties of the core, the
# simulation, the links of the bus, the end-to-end tests on one server and on
# several. Arguments go to cargo test:
#   ci/test.sh                                       everything
#   ci/test.sh -p disque-bus                         the links only
#   ci/test.sh -p disque --test cluster              several servers only
#   ci/test.sh -p disque --test e2e                  one server only
#   ci/test.sh -p disque --test e2e -- pause::       one module of it
#   REDIS_SERVER=/path/to/server ci/test.sh          on another server
source "$(dirname "$0")/lib.sh"

if [ $# -eq 0 ]; then
  set -- --workspace --no-fail-fast
fi
build_module
# Most end-to-end tests wait for a server's time to pass: more of them at once
# than there are processors.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-8}
DISQUE_MODULE=${DISQUE_MODULE:-$(module_path)} cargo test --release --locked "$@"
