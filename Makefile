# A thin list of what can be done; the work is in dev/.
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help setup install demo test explore test-live bench docs fmt clean-clusters

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 24

setup: ## install what is missing to build and test (Debian packages, cargo-pgrx, pgvector)
	@dev/setup

install: setup ## build (PROFILE=release unless set) and install the extension into the server
	@PROFILE=$${PROFILE:-release} TEST_HOOKS=no dev/install

demo: setup ## run a prompt on the simulator in a private cluster; KEEP=1 leaves it running
	@dev/install
	@dev/demo

test: setup ## formatting, lints, and every layer of tests; LAYERS="core regress" for some, REPEAT=10 runs them ten times
	@REPEAT=$(REPEAT) dev/test $(LAYERS)

explore: setup ## run the property tests with random seeds for EXPLORE_SECONDS (600); prints every seed
	@dev/explore

test-live: setup ## ask real models: the cheapest of every provider whose key is in the environment
	@dev/install
	@dev/test-live

bench: setup ## measure a release build against what it promises; ROWS="calls latency" for some; JSON in target/bench.json
	@PROFILE=release dev/install
	@dev/bench $(ROWS)

docs: setup ## write docs/reference from the catalog and the sources
	@dev/install
	@dev/docs

fmt: ## format the Rust sources
	@cargo fmt --all

clean-clusters: ## stop and remove the private clusters of this checkout
	@dev/cluster clean
