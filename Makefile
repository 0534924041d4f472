# Everything starts from a machine with Python 3.10+ and nothing else: each target sets up what it needs in .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test check docs bench test-slow format clean

help:  ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.venv/made:
	$(PYTHON) -m venv .venv
	@touch $@

.venv/demo: .venv/made pyproject.toml constraints.txt
	@echo "setting up .venv for the demo (a few minutes the first time)"
	$(INSTALL) -e . scikit-learn
	@touch $@

.venv/dev: .venv/made pyproject.toml constraints.txt
	@echo "setting up .venv for development (a few minutes the first time)"
	$(INSTALL) -e '.[dev]'
	@touch $@ .venv/demo

demo: .venv/demo  ## advise a beta and train with it, beside torch's default
	$(BIN)/python examples/demo.py

test: check  ## everything that must pass: format, lint, types, import contracts, docs, tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

check: .venv/dev  ## all but the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports
	$(BIN)/mkdocs build --strict --quiet --site-dir .cache/site

test-slow: .venv/dev  ## the proofs that take minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow

bench: .venv/dev  ## benchmarks: ratios, measured side by side in one run
	$(BIN)/python benchmarks/bench_optim.py

format: .venv/dev  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the environment and all caches
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
