PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test browser lint types format bench quality notebooks docs papers fuzz crash ends extras build clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# A stamp for each set of extras: made again when pyproject.toml changes.
$(VENV)/core.stamp: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/check.stamp: $(VENV)/core.stamp
	$(BIN)/python -m pip install --quiet --editable ".[test,dev,docs,plot,track,serve,sign]"
	$(BIN)/python -m pip install --quiet "torch==2.13.0"
	@touch $@

# Reports are tested in a browser. Where there is none, those tests are skipped with a reason; a CI machine gets one.
browser:
	@if [ "$(CI)" = true ] && ! command -v chromium > /dev/null && command -v apt-get > /dev/null; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver > /dev/null; \
	fi

$(VENV)/bench.stamp: $(VENV)/core.stamp
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	@touch $@

demo: $(VENV)/core.stamp ## Simulate a collection, train several models, print a leaderboard
	$(BIN)/luce demo --out demo

test: $(VENV)/check.stamp browser lint ## Full test suite, lint, types, documentation
	$(BIN)/python -m mkdocs build --strict --site-dir $(VENV)/site
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/check.stamp ## Format, lint, types, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory types

types: $(VENV)/check.stamp ## Types and import layers
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/check.stamp ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/bench.stamp ## Speed and memory beside peers, as ratios in one run
	$(BIN)/python benchmarks/run.py

quality: $(VENV)/bench.stamp ## How good auto is beside other systems and peers, on every set at hand (hours; goes on)
	$(BIN)/python benchmarks/quality/run.py --repeats 3
	$(BIN)/python benchmarks/quality/coverage.py
	$(BIN)/python benchmarks/quality/page.py

notebooks: $(VENV)/check.stamp ## Run the notebooks of the documentation and keep their outputs
	$(BIN)/python docs/notebooks.py

docs: $(VENV)/check.stamp ## Build the documentation into site/
	$(BIN)/python -m mkdocs build --strict

papers: $(VENV)/check.stamp ## Make the paper pages again from data
	for script in papers/*.py; do $(BIN)/python $$script || exit 1; done

# MINUTES for all targets together; by coverage where atheris installs, by mutation anywhere.
MINUTES ?= 10
KILLS ?= 200
PROBLEMS ?= 20000

fuzz: $(VENV)/check.stamp ## Attack every reader, model file and request for MINUTES=10, solve PROBLEMS=20000
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)
	$(BIN)/python -m tests.fuzz --problems $(PROBLEMS)
	@if $(BIN)/python -c "import atheris" 2> /dev/null || $(BIN)/python -m pip install --quiet atheris; then \
		$(BIN)/python -m tests.fuzz --guided --minutes $(MINUTES); \
	fi

crash: $(VENV)/check.stamp ## Kill commands KILLS=200 times, go on, compare bytes
	$(BIN)/python -m tests.fuzz.crash --kills $(KILLS)

RUNS ?= 50

ends: $(VENV)/check.stamp ## Run every kind of command that fails RUNS=50 times; none may end by a signal
	$(BIN)/python -m tests.fuzz.ends --runs $(RUNS)

extras: build ## Install each extra alone, from the wheel, into an empty environment, and use it
	$(BIN)/python -m tests.extras dist/*.whl

build: $(BIN)/python ## Wheel and sdist into dist/, checked
	$(BIN)/python -m pip install --quiet build twine
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

clean: ## Remove environment, caches and outputs
	rm -rf $(VENV) demo site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
