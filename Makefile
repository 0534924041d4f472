# Everything starts from a machine with Python 3.11+ and nothing else: each target sets up what it needs in .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: help demo test check test-slow chaos bench gallery format clean

help:  ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.venv/made:
	$(PYTHON) -m venv .venv
	@touch $@

.venv/demo: .venv/made pyproject.toml constraints.txt
	@echo "setting up .venv for the demo (a few minutes the first time)"
	$(INSTALL) -e '.[laptop]'
	@touch $@

.venv/dev: .venv/made pyproject.toml constraints.txt
	@echo "setting up .venv for development (a few minutes the first time)"
	$(INSTALL) -e '.[dev]'
	@touch $@ .venv/demo

# The report's page is tested in a real browser: Debian's Chromium, or the one that is there.
.venv/browser: .venv/made
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
		|| ($(ROOT) apt-get -qq update && $(ROOT) apt-get -qq install -y --no-install-recommends chromium) \
		|| (echo "install Chromium: the report's page is tested in it" && false)
	@touch $@

demo: .venv/demo  ## a real sweep of a small model in a few minutes, with its report
	$(BIN)/python examples/demo.py

test: check .venv/browser  ## everything that must pass: format, lint, types, import contracts, docs, tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

check: .venv/dev  ## all but the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir .cache/site

test-slow: .venv/dev .venv/browser  ## the proofs that take minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow

chaos: .venv/dev  ## a sweep killed twenty times, against one left alone
	$(BIN)/python tests/sweep/chaos.py

bench: .venv/dev  ## benchmarks: ratios, measured side by side in one run
	$(BIN)/python benchmarks/bench_optim.py
	$(BIN)/python benchmarks/bench_compact.py
	$(BIN)/python benchmarks/bench_analysis.py
	$(BIN)/python benchmarks/bench_logs.py --megabytes 50
	$(BIN)/python benchmarks/bench_twins.py
	$(BIN)/python benchmarks/bench_sweep.py

gallery: .venv/dev .venv/browser  ## the pictures of the docs and the reports of the studies, from committed data
	$(BIN)/python scripts/gallery.py --page "$$(command -v chromium || command -v chromium-browser || command -v google-chrome)"

format: .venv/dev  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the environment and all caches
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
