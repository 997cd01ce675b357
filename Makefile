# The developer's commands. Each target first makes .venv, or brings it up to date; the machine
# needs only Python 3.11 or newer with pip (or ensurepip), git and make.

PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.capset-setup

export NO_MKDOCS_2_WARNING := 1
export UV_LINK_MODE := copy
export UV_PROJECT_ENVIRONMENT := .venv
export UV_PYTHON_DOWNLOADS := never
unexport VIRTUAL_ENV
# What was compiled is kept, or each of the many processes that the tests start would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help anew setup demo serve test near nightly weekly check format examples docs clean

help: ## show this list
	@sed -nE 's/^([a-z%-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 22

setup: $(SETUP) ## make .venv with everything in it
	@echo "setup: .venv is ready"

demo: $(SETUP) ## run the main job on real files (DIR=folder for your own; OPEN=1 opens the console with it)
	@$(BIN)/capset demo $(if $(OPEN),--open )$(if $(DIR),"$(DIR)",docs packages)

serve: $(SETUP) ## serve REST and MCP on this machine, without keys (PORT=8000)
	@$(BIN)/capset serve --insecure --port $(or $(PORT),8000)

# What each level runs. Tests of real time, of browsers and of others' clients have targets of their own.
LEVEL := gate
MARKS_gate := not nightly and not weekly
MARKS_nightly := not weekly
RUN_TESTS = $(if $(filter-out gate,$(LEVEL)),HYPOTHESIS_PROFILE=thorough) $(BIN)/python -m scripts.run_tests

test: $(SETUP) ## run the tests of the gate (P=capset-server or P=kernel/streams for a part, ARGS="-k name" to choose, LEVEL=nightly for more)
	@scripts/install_for_tests.sh
	@$(RUN_TESTS) $(if $(SHUFFLE),--shuffle) -m "$(MARKS_$(LEVEL)) and not realtime and not clients and not browser" $(ARGS) $(addprefix --part ,$(P))

near: $(SETUP) ## run the tests near what you changed (ARGS="HEAD~3" for the change since a commit)
	@scripts/install_for_tests.sh
	@$(BIN)/python -m scripts.near $(ARGS)

nightly: ## run all that is checked each night, to its end (JOBS="test console" for some)
	@$(PYTHON) scripts/jobs.py nightly $(JOBS)

weekly: ## run what takes hours: faults, sieges, load, scale, mutants, soaks, corpora; jobs that passed are kept
	@$(PYTHON) scripts/jobs.py weekly $(JOBS)

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

examples: $(SETUP) ## run every example in a fresh folder
	@scripts/install_for_tests.sh
	@$(BIN)/python scripts/run_examples.py $(ARGS)

docs: $(SETUP) ## build the documentation into site/, and check its pages, menu, words, tables, and what is made of code
	@scripts/install_for_tests.sh chromium
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@$(BIN)/python -m scripts.check_docs

lab-%: ## run a target of lab/Makefile, which measures, attacks and compares (make lab-targets lists them)
	@$(MAKE) --no-print-directory -f lab/Makefile $*

clean: ## remove everything that was built
	@rm -rf .corpus .venv .venv-a2a .venv-bench .venv-bfcl .venv-claude-agent-sdk .venv-clients .venv-contextforge .venv-frameworks .venv-google-adk .venv-crewai .venv-guardbench .venv-matrix .venv-mcpclients .hypothesis .import_linter_cache .mutants .pytest_cache .reports .ruff_cache dist site
	@rm -rf lab/conformance/node_modules lab/clients/generated/node_modules lab/clients/mcp_clients/node_modules lab/clients/front_ends/node_modules lab/clients/interop_clients/node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A Python that is named, and is of another version than that of .venv, makes .venv anew.
VERSION := -c 'import sys; print(sys.version_info[:2])'
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) $(VERSION) 2>/dev/null),$(shell $(BIN)/python $(VERSION) 2>/dev/null))
ANEW := anew
endif
endif

anew:
$(SETUP): pyproject.toml $(wildcard packages/*/pyproject.toml) uv.lock $(ANEW)
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
	@$(BIN)/uv sync --frozen --quiet
	@touch $@
