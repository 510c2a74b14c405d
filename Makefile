# Every target makes its own virtual environment when there is none: no other step is needed on a fresh machine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint format bench bench-full clean

demo: $(VENV)/.demo
	$(BIN)/python -m blockbasis.demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --cov --cov-report=term:skip-covered --cov-fail-under=95

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

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

clean:
	rm -rf $(VENV) .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis dist

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.peers: $(VENV)/.bench
	-$(BIN)/python -m pip install --quiet gpytorch
	-$(BIN)/python -m pip install --quiet pykeops
	touch $@

$(VENV)/.%: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	touch $@
