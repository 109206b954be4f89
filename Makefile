# Shortcuts only: what each does stands in ci/ and can be run by hand.

MODULE = $(or $(CARGO_TARGET_DIR),target)/release/libdisque.so
PORT ?= 7711

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: needs
needs: ## Check for what building and testing need; as root or with YES=1 install it
	@ci/needs.sh

.PHONY: build
build: ## Build the module, target/release/libdisque.so
	cargo build --release --locked

.PHONY: run
run: build ## Start a server with the module in the foreground, PORT=7711
	$(or $(REDIS_SERVER),redis-server) --bind 127.0.0.1 --port $(PORT) --loadmodule $(abspath $(MODULE))

.PHONY: cluster
cluster: ## Start three joined servers in the foreground, from PORT=7711
	@PORT=$(PORT) exec ci/cluster.sh

.PHONY: demo
demo: ## Build, then add, get and acknowledge jobs on servers of its own
	@ci/demo.sh

.PHONY: test
test: ## Run every test: units, simulation, one server, several servers
	@ci/test.sh

.PHONY: bench
bench: ## Measure the module beside Redis Streams and lists; W="w1 w3" some of it
	@ci/bench.sh $(W)

.PHONY: instructions
instructions: ## Count the instructions of the core's commands against those kept
	@ci/instructions.sh

.PHONY: bus
bus: ## Measure the bus between servers on this machine
	@ci/bus.sh

.PHONY: lint
lint: ## Check format, warnings, where `unsafe` stands, exported symbols
	@ci/lint.sh

.PHONY: fmt
fmt: ## Format the code
	cargo fmt --all

.PHONY: sim
sim: ## Simulate clusters: SEEDS=n many, or SEED=n that one again
	@ci/sim.sh

.PHONY: mutants
mutants: ## Show that the simulation finds out nodes that break a rule
	@ci/mutants.sh

.PHONY: faults
faults: ## Do everything to real servers that can befall them: SECONDS=60, SEED=n
	@ci/faults.sh

.PHONY: soak
soak: ## Look for what grows under an hour of steady load: SECONDS=3600
	@ci/soak.sh

.PHONY: memcheck
memcheck: ## Run the tests on one server under valgrind
	@ci/memcheck.sh

.PHONY: fuzz
fuzz: ## Fuzz each target for SECONDS_EACH=30; needs nightly and cargo-fuzz
	@ci/fuzz.sh

.PHONY: clean
clean: ## Remove what was built
	cargo clean
