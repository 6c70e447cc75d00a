# Everything runs in a local virtual environment, which the first target that needs it makes.
# Needs Python 3.11 or newer and make. PRIVOPT_DATA may name a folder with the real data sets.
# LOCKED=1 installs the versions of pylock.toml. PIP_CONSTRAINT may name a file with other versions.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PERFORMANCE := $(VENV)/.performance
DOCS := $(VENV)/.docs
DIFFPRIVLIB := $(VENV)/.diffprivlib
OPACUS := $(VENV)/.opacus
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check
ARGS ?=
# The tests start many processes. Without bytecode each of them compiles the package again.
export PYTHONDONTWRITEBYTECODE :=

# A file stays with one worker, which compiles its programs once; a few workers are enough.
PYTEST := $(BIN)/pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile
# XLA ends a process that is told a flag it does not know, and from some JAX after 0.10 on it has no
# other code generator to choose.
OTHER_EMITTERS := --xla_cpu_use_fusion_emitters=false
IF_KNOWN = XLA_FLAGS=$(OTHER_EMITTERS) $(BIN)/python -c 'import jax; jax.devices()' >/dev/null 2>&1
QUICK_COMPILER = $(shell $(IF_KNOWN) && echo $(OTHER_EMITTERS)) --xla_cpu_parallel_codegen_split_count=1

# While work goes on, one algorithm and one mechanism of each contract suffice.
CHECKED := $(wildcard $(patsubst %,tests/test_%.py,core examples import readme rooms spec)) \
	tests/theory tests/privacy/test_guarantee.py $(wildcard tests/*/test_contract.py) \
	-k "not test_contract or dp_sgd or laplace"

# Tried in turn: the first that is new enough and can make a virtual environment is taken.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11 python
SUITABLE := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))

.DEFAULT_GOAL := help
.PHONY: help install test test-all ci check lint types pytest mutants reproduce reproduce-full record-quick report performance notebooks docs format clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(INSTALLED)  ## set up .venv (done once; again when pyproject.toml changes)

# mypy runs beside the first tests, which leave a share of the processors idle.
test: lint  ## style, types and tests: of a contract, the cases that differ in kind
	@$(MAKE) --no-print-directory --jobs=2 types pytest

test-all:  ## the same with every case, in half an hour: each night, and before a release
	$(MAKE) test CASES=--all

ci: test docs  ## what CI runs: test and docs

# A second process runs cells from the last experiment backwards; its messages are in
# build/work.log. The code generator compiles twice as fast (see "pytest"). Status 3 says that a
# verdict is refuted: a result, told in the report, and no failure of make.
HALF = $(shell $(BIN)/python -c 'import os; print(max(1, os.cpu_count() // 2))')
reproduce: $(INSTALLED)  ## run every experiment at its quick size into build/results, and compare
	export XLA_FLAGS="$(QUICK_COMPILER)"; \
	mkdir -p build; \
	$(BIN)/privopt work --backwards --devices $(HALF) $(ARGS) >build/work.log 2>&1 & \
	trap "kill $$! 2>/dev/null" EXIT INT TERM; \
	$(BIN)/privopt run --profile quick --devices $(HALF) $(ARGS) || test $$? -eq 3

reproduce-full: $(INSTALLED)  ## the same at full size into results (resumable)
	$(BIN)/privopt run --profile full $(ARGS) || test $$? -eq 3

record-quick: $(INSTALLED)  ## write the tables in results/quick that make reproduce compares with
	$(BIN)/privopt run --profile quick --record $(ARGS) || test $$? -eq 3

report: $(INSTALLED)  ## write results/index.html again from the recorded results
	$(BIN)/privopt report $(ARGS)

performance: $(PERFORMANCE) $(DIFFPRIVLIB) $(OPACUS)  ## time privopt beside its peers, e.g. ARGS=accounting
	$(BIN)/python benchmarks/run.py $(ARGS)

notebooks: $(INSTALLED)  ## execute the notebooks in place
	$(BIN)/jupyter-execute --inplace --timeout=600 notebooks/*.ipynb

docs: $(DOCS)  ## build the book in build/docs; a warning is an error
	$(BIN)/sphinx-build -W --keep-going --quiet -E -a -b html docs build/docs $(ARGS)
	@echo "Open build/docs/index.html"

lint: $(INSTALLED)  ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)  ## mypy, strict, over privopt/
	$(BIN)/mypy

# The code generator compiles twice as fast. Tests that are about rounding and bits are compiled with
# the default one (tests/conftest.py).
pytest: $(INSTALLED)  ## the tests alone, e.g. make pytest ARGS="tests/privacy -x --all"
	XLA_FLAGS="$(QUICK_COMPILER)" $(PYTEST) $(CASES) $(ARGS)

check: lint types  ## for work in progress, under two minutes: style, types, and tests that are quick
	XLA_FLAGS="$(QUICK_COMPILER)" $(PYTEST) $(CHECKED) $(ARGS)

mutants: $(INSTALLED)  ## plant lies in a copy of the code and tell which no test sees: an hour
	XLA_FLAGS="$(QUICK_COMPILER)" $(BIN)/python tests/mutants/run.py $(ARGS)

format: $(INSTALLED)  ## put the code into its one format
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: lock dist
lock: $(INSTALLED)  ## write pylock.toml: versions and hashes of every package of the extra dev
	@$(PIP_INSTALL) 'uv>=0.13'
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --upgrade \
		--quiet --custom-compile-command "make lock" --format pylock.toml --output-file pylock.toml

# A tag that is not the version would release a package under a wrong name.
dist: $(INSTALLED)  ## build a source distribution and a wheel in dist; TAG, if set, is checked
	@test -z "$$TAG" || test "$$TAG" = "v$$($(BIN)/python -c \
		'import privopt; print(privopt.__version__)')" || { echo "TAG is not the version" >&2; exit 1; }
	$(BIN)/python -m hatchling build

clean:  ## remove the environment and all caches; results stay
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written only when its installation has finished, so an interrupted one is done again.
$(INSTALLED): pyproject.toml
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
		for python in $(PYTHON); do \
			"$$python" -c '$(SUITABLE)' </dev/null >/dev/null 2>&1 && exec "$$python" -m venv $(VENV); \
		done; \
		echo "privopt needs Python 3.11 or newer with venv, tried: $(PYTHON)." >&2; \
		echo "Name one: make PYTHON=/path/to/python3" >&2; \
		exit 1; }
	@echo "Installing privopt into $(VENV) (once; takes a minute or two)"
	@test -z '$(LOCKED)' || { $(PIP_INSTALL) --upgrade 'pip>=26.1' && $(PIP_INSTALL) -r pylock.toml; }
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

$(DOCS): $(INSTALLED)
	@echo "Installing what makes the book"
	@$(PIP_INSTALL) --editable '.[docs]'
	@touch $@

# Of opacus the accountant is timed here, which needs no PyTorch; the rest has its environment.
$(PERFORMANCE): $(INSTALLED)
	@echo "Installing its peers beside it"
	@$(PIP_INSTALL) --editable '.[performance]'
	@$(PIP_INSTALL) --no-deps 'opacus==1.6.*'
	@touch $@

# diffprivlib does not import beside the scikit-learn of today, so it has an environment of its own.
$(DIFFPRIVLIB): $(INSTALLED)
	@echo "Installing diffprivlib in $(VENV)/diffprivlib"
	@$(BIN)/python -m venv $(VENV)/diffprivlib
	@$(VENV)/diffprivlib/bin/python -m pip install --quiet --no-input --disable-pip-version-check \
		'diffprivlib==0.6.6' 'scikit-learn<1.7'
	@touch $@

# PyTorch takes gigabytes, and none of it is wanted beside privopt.
$(OPACUS): $(INSTALLED)
	@echo "Installing opacus in $(VENV)/opacus"
	@$(BIN)/python -m venv $(VENV)/opacus
	@$(VENV)/opacus/bin/python -m pip install --quiet --no-input --disable-pip-version-check \
		'opacus==1.6.*'
	@touch $@
