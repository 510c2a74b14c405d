# Every target makes its own virtual environment when there is none: no other step is needed on a fresh machine.
PYTHON ?= python3
VENV ?= .venv
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)

.PHONY: demo test test-all test-oldest test-newest fuzz fuzz-full lint format bench bench-full docs clean

demo: $(VENV)/.demo
	$(BIN)/python -m blockbasis demo --force

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report=term:skip-covered --cov-fail-under=97

# Also the tests marked "slow", which repeat claims of the others with more cases or more points.
test-all: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist worksteal -m "" --hypothesis-profile all

# The oldest versions that pyproject.toml names, and the newest that can be had, each in an environment of its own.
OLDEST := numpy==2.0.0 scipy==1.13.0 scikit-learn==1.6.0 joblib==1.4.0 threadpoolctl==3.5.0 pytest==8.2.0 pandas==2.2.2
VERSIONED := pytest hypothesis pandas pyarrow rich typer matplotlib "dask[array,dataframe]" distributed

test-oldest:
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/$(SCRIPTS)/python -m pip install --quiet $(OLDEST) $(VERSIONED) --editable .
	$(VENV)-oldest/$(SCRIPTS)/python -W ignore -m tools.public_calls
	$(VENV)-oldest/$(SCRIPTS)/python -m pytest

test-newest:
	$(PYTHON) -m venv $(VENV)-newest
	$(VENV)-newest/$(SCRIPTS)/python -m pip install --quiet --upgrade --upgrade-strategy eager $(VERSIONED) --editable .
	$(VENV)-newest/$(SCRIPTS)/python -W ignore -m tools.public_calls
	$(VENV)-newest/$(SCRIPTS)/python -m pytest

# Random files, kills, inputs, threads, limits and tolerances for five minutes; "make fuzz MINUTES=60" for more, and
# "make fuzz-full" for the counts that docs/promises.md names.
MINUTES ?= 5
fuzz: $(VENV)/.test
	$(BIN)/python -m tools.fuzz --minutes $(MINUTES)

fuzz-full: $(VENV)/.test
	$(BIN)/python -m tools.fuzz --counts full

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A reduced set of every suite in at most 15 minutes, and the page; bench-full runs every cell beside every peer that
# installs, and takes hours. Peers that are not installed are reported as absent.
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py all --minutes 14
	$(BIN)/python benchmarks/page.py

bench-full: $(VENV)/.peers
	$(BIN)/python benchmarks/run.py all --full
	$(BIN)/python benchmarks/page.py

# The documentation site in docs/_build/html; warnings are errors, and the links between its pages are checked.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	$(BIN)/python -m tools.check_links docs/_build/html

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-newest .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist docs/_build docs/generated docs/gallery docs/api/generated

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: $(VENV)/pyvenv.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[cli,plot]'
	touch $@

$(VENV)/.peers: $(VENV)/.bench
	-$(BIN)/python -m pip install --quiet gpytorch
	-$(BIN)/python -m pip install --quiet pykeops
	touch $@

$(VENV)/.%: $(VENV)/pyvenv.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	touch $@
