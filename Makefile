# The developer's commands. Each target first makes .venv, or brings it up to date; the machine
# needs only Python 3.11 or newer with pip (or ensurepip), git and make.

PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.capset-setup
PEERS := .venv-bench/.capset-setup
FORGE := .venv-contextforge/.capset-setup
EXTRAS := --extra server --extra mcp --extra agent --extra postgres --extra redis --extra dbos --extra web --extra email --extra slack --extra otel --extra sandbox --extra sandbox-data

export NO_MKDOCS_2_WARNING := 1
export UV_LINK_MODE := copy
export UV_PROJECT_ENVIRONMENT := .venv
export UV_PYTHON_DOWNLOADS := never
unexport VIRTUAL_ENV
# What was compiled is kept, or each of the many processes that the tests start would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help anew setup demo serve test near realtime uvloop bombs upgrades nightly weekly matrix check format bench agentdojo examples docs conformance guardbench bfcl corpus mcpservers clients console mcpclients frontends formats frameworks siege soak mixed-soak load faults sandbox-corpus mutants scale clean

help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 22

setup: $(SETUP) ## make .venv with everything in it
	@echo "setup: .venv is ready"

demo: $(SETUP) ## run the main job on real files (DIR=folder for your own; OPEN=1 opens the console with it)
	@$(BIN)/capset demo $(if $(OPEN),--open )$(if $(DIR),"$(DIR)",docs src)

serve: $(SETUP) ## serve REST and MCP on this machine, without keys (PORT=8000)
	@$(BIN)/capset serve --insecure --port $(or $(PORT),8000)

# What each level runs. Tests of real time, of browsers and of others' clients have targets of their own.
LEVEL := gate
MARKS_gate := not nightly and not weekly
MARKS_nightly := not weekly
RUN_TESTS = $(if $(filter-out gate,$(LEVEL)),HYPOTHESIS_PROFILE=thorough) $(BIN)/python -m scripts.run_tests

test: $(SETUP) ## run the tests of the gate (P=kernel/streams for a part, ARGS="-k name" to choose, LEVEL=nightly for more)
	@scripts/install_for_tests.sh
	@$(RUN_TESTS) $(if $(SHUFFLE),--shuffle) -m "$(MARKS_$(LEVEL)) and not realtime and not clients and not browser" $(ARGS) $(addprefix tests/,$(P))

near: $(SETUP) ## run the tests near what you changed (ARGS="HEAD~3" for the change since a commit)
	@scripts/install_for_tests.sh
	@$(BIN)/python -m scripts.near $(ARGS)

realtime: $(SETUP) ## run the tests with real processes and real time (ARGS="-m 'realtime and gate'" for those of the gate)
	@scripts/install_for_tests.sh
	@$(BIN)/python -m scripts.run_tests --processes 2 --durations tests/realtime_durations.json -m "realtime and not weekly and not clients and not browser" $(ARGS)

uvloop: $(SETUP) ## run the tests of the core again on uvloop, the event loop of servers
	@CAPSET_LOOP=uvloop $(BIN)/python -m scripts.run_tests -m "$(MARKS_gate) and not realtime" -k "not postgres" $(ARGS) tests/fingerprint tests/kernel tests/evaluation

bombs: $(SETUP) ## start fork bombs in the sandbox, as root and as another user, beside busy loops
	@$(BIN)/pytest -q -m weekly tests/builtin/sandbox/test_jail_bounds.py

upgrades: $(SETUP) ## upgrade databases of the revisions that the night leaves out
	@$(BIN)/python -m scripts.run_tests -m weekly tests/stores/sql/upgrades

nightly: ## run all that is checked each night, to its end (JOBS="test console" for some)
	@$(PYTHON) scripts/jobs.py nightly $(JOBS)

weekly: ## run what takes hours: faults, sieges, load, scale, mutants, soaks, corpora; jobs that passed are kept
	@$(PYTHON) scripts/jobs.py weekly $(JOBS)

matrix: $(SETUP) ## run the tests of the core on each Python from 3.11 to 3.14 that is here (ARGS=tests/server)
	@$(BIN)/python -m scripts.matrix $(ARGS)

check: $(SETUP) ## lint, format, types, floors, layout, words, recipes, spec ids
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/pyright
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python scripts/check_house.py
	@$(BIN)/python scripts/check_spec_ids.py

format: $(SETUP) ## format the code and mend what can be mended
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: $(PEERS) $(FORGE) ## measure, side by side with peers (ARGS="--quick --json")
	@.venv-bench/bin/python -m benchmarks $(ARGS)

agentdojo: $(PEERS) ## replay the ground truth of AgentDojo's suites as turns of agents
	@.venv-bench/bin/python -m benchmarks.agentdojo_replay

examples: $(SETUP) ## run every example in a fresh folder
	@scripts/install_for_tests.sh
	@$(BIN)/python scripts/run_examples.py $(ARGS)

docs: $(SETUP) ## build the documentation into site/, and check its pages, menu, words, tables, and what is made of code
	@scripts/install_for_tests.sh chromium
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@$(BIN)/python -m scripts.check_docs

conformance: $(SETUP) ## hold a real server, and the MCP client, against the official MCP conformance suite
	@$(BIN)/python -m scripts.conformance

guardbench: $(SETUP) ## play MCP-GuardBench's cases with the gateway before its servers (ARGS=--write: into the guide); needs a Python 3.12
	@$(BIN)/python -m scripts.guardbench $(ARGS)

bfcl: $(SETUP) ## make tools of BFCL's function documents, and hold its possible answers to them (ARGS=--known: but for those listed)
	@$(BIN)/python -m scripts.bfcl $(ARGS)

console: $(SETUP) ## walk through the console in a real browser (ARGS="-k name")
	@scripts/install_for_tests.sh chromium
	@$(BIN)/python -m scripts.run_tests --processes 2 -m browser $(ARGS) tests/server/console

corpus: $(SETUP) ## load 2,639 public OpenAPI documents, call 500 operations, run the JSON-Schema-Test-Suite (ARGS="documents", requests, schemas)
	@$(BIN)/python -m scripts.corpus $(ARGS)

mcpservers: $(SETUP) ## call each tool of twenty public MCP servers directly and through one gateway, and compare (ARGS="everything word")
	@$(BIN)/python -m scripts.mcpservers $(ARGS)

clients: $(SETUP) ## generate clients from the OpenAPI document, and use them against a real server
	@$(BIN)/pytest -n 0 -m clients $(ARGS) tests/generated

mcpclients: $(SETUP) ## have other people's MCP clients wait for an approval, and call public MCP servers through the gateway
	@$(BIN)/pytest -n 2 --dist loadgroup -m clients $(ARGS) tests/mcp_clients

frontends: $(SETUP) ## have the clients of front ends, the AI SDK's and AG-UI's, run an agent
	@$(BIN)/pytest -n 2 -m clients $(ARGS) tests/front_ends

frameworks: $(SETUP) ## run the adapters with the real agent frameworks, in environments of their own (ARGS="openai_agents", or --write)
	@$(BIN)/python -m scripts.frameworks $(ARGS)

formats: $(SETUP) ## hold exported files to those who read them: npm's mcpb, and the SDK of A2A
	@$(BIN)/pytest -n 0 -m clients $(ARGS) tests/interop_clients

siege: $(SETUP) ## attack two servers on SQLite and PostgreSQL, and measure what a bystander sees (ARGS="NAME --seconds 6")
	@scripts/install_for_tests.sh
	@$(BIN)/python -m siege $(ARGS)

sandbox-corpus: $(SETUP) ## run scripts as models write them by the sandbox's back ends, beside the real interpreters (ARGS="--each 5")
	@scripts/install_for_tests.sh
	@$(BIN)/python -m scripts.sandbox_corpus $(ARGS)

soak: $(SETUP) ## make 72,000 calls of a server on each engine, and measure the memory that stays taken (ARGS="--calls 6000")
	@scripts/install_for_tests.sh
	@$(BIN)/python -m siege.soak $(ARGS)

mixed-soak: $(SETUP) ## keep a server under mixed load for half an hour; fail on errors and on what grows (ARGS="--minutes 2 --save FILE.json")
	@scripts/install_for_tests.sh
	@$(BIN)/python -m siege.mixed $(ARGS)

load: $(SETUP) ## measure 1,000 streams among 10,000 sessions, several servers, and writers of one chain (ARGS="replicas --quick")
	@scripts/install_for_tests.sh
	@$(BIN)/python -m siege.load $(ARGS)

faults: $(SETUP) ## kill, freeze, fill and slow what a site is made of at random moments, and print the matrix (RUNS=3 KILLS=200 FREEZES=50 TURNS=50 SEED=1)
	@scripts/install_for_tests.sh
	@CAPSET_KILLS=$(or $(KILLS),200) CAPSET_PAIR_KILLS=$(or $(KILLS),200) CAPSET_FREEZES=$(or $(FREEZES),50) CAPSET_SEED=$(or $(SEED),1) \
	  CAPSET_TURN_KILLS=$(or $(TURNS),50) $(BIN)/pytest -q -s -n 0 tests/faults/test_random_kills.py tests/faults/test_random_freezes.py tests/faults/test_random_turns.py
	@$(BIN)/python -m tests.faults.matrix --runs $(or $(RUNS),3) --seed $(or $(SEED),1) $(ARGS)

mutants: $(SETUP) ## change single things in the core, and count how many the tests notice (COUNT=150 SEED=1)
	@scripts/install_for_tests.sh
	@nice -n 10 $(BIN)/python -m scripts.mutants --count $(or $(COUNT),150) --seed $(or $(SEED),1) $(ARGS)

scale: $(SETUP) ## ask 10,000 agents, 100,000 sessions, 1,000,000 records and 1,000,000 files everything, on both engines
	@CAPSET_SCALE=full $(BIN)/pytest -q -n 0 --durations=6 tests/stores/scale tests/server/console/test_pages_scale.py

clean: ## remove everything that was built
	@rm -rf .corpus .venv .venv-a2a .venv-bench .venv-bfcl .venv-claude-agent-sdk .venv-clients .venv-contextforge .venv-frameworks .venv-google-adk .venv-crewai .venv-guardbench .venv-matrix .venv-mcpclients .hypothesis .import_linter_cache .mutants .pytest_cache .reports .ruff_cache dist site
	@rm -rf scripts/conformance/node_modules tests/generated/node_modules tests/mcp_clients/node_modules tests/front_ends/node_modules tests/interop_clients/node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A Python that is named, and is of another version than that of .venv, makes .venv anew.
VERSION := -c 'import sys; print(sys.version_info[:2])'
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) $(VERSION) 2>/dev/null),$(shell $(BIN)/python $(VERSION) 2>/dev/null))
ANEW := anew
endif
endif

anew:
$(SETUP): pyproject.toml uv.lock $(ANEW)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "setup: capset needs Python 3.11 or newer; name one with: make PYTHON=python3.12" >&2; exit 1; }
	@test -z "$(ANEW)" -a -x $(BIN)/uv || { \
	  echo "setup: making .venv"; \
	  $(PYTHON) -m venv --clear --without-pip .venv && $(PYTHON) -m pip --python $(BIN)/python install -qq uv; \
	} || { \
	  echo "setup: trying again with the venv's own pip"; \
	  $(PYTHON) -m venv --clear .venv && $(BIN)/python -m pip install -qq uv; \
	}
	@echo "setup: installing what uv.lock names"
	@$(BIN)/uv sync --frozen --quiet $(EXTRAS)
	@touch $@

$(PEERS): $(SETUP)
	@echo "bench: installing the peers into .venv-bench"
	@UV_PROJECT_ENVIRONMENT=.venv-bench $(BIN)/uv sync --frozen --quiet --group peers $(EXTRAS)
	@touch $@

# Its SDK of MCP is older than capset's. Where it cannot be installed, it is not measured.
$(FORGE): $(SETUP)
	@echo "bench: installing ContextForge into .venv-contextforge"
	@{ $(PYTHON) -m venv .venv-contextforge && \
	  $(BIN)/uv pip install -q --python .venv-contextforge/bin/python mcp-contextforge-gateway==1.0.7.post20260921; } || \
	  { rm -rf .venv-contextforge; mkdir .venv-contextforge; echo "bench: it cannot be installed here"; }
	@touch $@
