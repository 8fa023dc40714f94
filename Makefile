# make demo | test | lint | bench | chaos | fuzz | broker: each makes its own virtual environment if there is none.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint format bench chaos fuzz broker clean
demo: $(VENV)/.installed
	$(BIN)/streamgp demo $(ARGS)

test: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.installed-bench
	$(BIN)/python -m pytest tests/benchmarks -m bench -s -o addopts= $(ARGS)

# ARGS="--seeds 1 --observations 1200": less of it
chaos: $(VENV)/.installed-test
	$(BIN)/python -m tests.chaos $(ARGS)

fuzz: $(VENV)/.installed-test
	$(BIN)/python -m tests.fuzz $(ARGS)

broker:
	docker/broker run $(ARGS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet -e '.[test]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml | $(VENV)/bin/python
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet -e '.[bench]'
	touch $@ $(VENV)/.installed $(VENV)/.installed-test

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@ $(VENV)/.installed $(VENV)/.installed-test

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
