PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test browser lucene lint types format bench quality notebooks docs papers papers-check fuzz crash ends extras \
	build lock licences clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

CHECKED := test dev docs plot track serve sign
comma := ,
space := $(subst ,, )

# What a lock file names, by hash, with luce as it stands here; or else what pip finds for it, with a remark. With
# LOCKED=only, as in CI, nothing else is installed: a package that was tampered with must not come in by the back door.
pip := $(BIN)/python -m pip install --quiet
locked = $(pip) --require-hashes $(1:%=--requirement locks/%.txt)
otherwise = echo "Remark: locks/$(1).txt does not fit this machine's index or platform$(remark)"$(if $(strict),; exit 1)
strict := $(filter only,$(LOCKED))
remark := $(if $(strict),.,; pip chooses the versions.)
here := $(pip) --no-deps --no-build-isolation --editable .

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp for each set of extras: made again when pyproject.toml or the lock file changes.
$(VENV)/core.stamp: $(BIN)/python pyproject.toml locks/core.txt locks/tools.txt
	($(call locked,tools core) && $(here)) || { $(call otherwise,core); $(pip) --editable .; }
	@touch $@

# PyTorch is none of the locked: which of its wheels is right differs from machine to machine.
$(VENV)/check.stamp: $(VENV)/core.stamp locks/check.txt
	$(call locked,check) || \
		{ $(call otherwise,check); $(pip) --editable ".[$(subst $(space),$(comma),$(CHECKED))]"; }
	$(pip) "torch==2.13.0"
	@touch $@

# Reports are tested in a browser, and features of text against Lucene. Where there is none of them, those tests are
# skipped with a reason; a CI machine gets both.
browser:
	@if [ "$(CI)" = true ] && ! command -v chromium > /dev/null && command -v apt-get > /dev/null; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver > /dev/null; \
	fi
lucene:
	@if [ "$(CI)" = true ] && ! ls /usr/share/java/lucene-core-*.jar > /dev/null 2>&1 && command -v apt-get > /dev/null; \
	then apt-get update -qq && \
		apt-get install -y -qq --no-install-recommends liblucene8-java default-jdk-headless > /dev/null; \
	fi

$(VENV)/bench.stamp: $(VENV)/core.stamp
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	@touch $@

demo: $(VENV)/core.stamp ## Simulate a collection, train several models, print a leaderboard
	$(BIN)/luce demo --out demo

test: $(VENV)/check.stamp browser lucene lint ## Full test suite, lint, types, documentation
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

papers-check: $(VENV)/check.stamp ## Compute the quick rows of the paper pages again and compare
	cd papers && ../$(BIN)/python -m kit.check

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

# The bill is of an environment that has the wheel and what it needs, and nothing else.
into := $(BIN)/python -m pip --python $(VENV)/wheel/bin/python install --quiet
BUILD := build twine hatchling cyclonedx-bom

build: $(BIN)/python ## Wheel, sdist and bill of materials into dist/, checked
	$(call locked,build) || { $(call otherwise,build); $(pip) $(BUILD); }
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv --clear --without-pip $(VENV)/wheel
	$(into) --require-hashes --requirement locks/core.txt || \
		{ $(call otherwise,core); $(into) dist/*.whl; }
	$(into) --no-deps dist/*.whl
	$(BIN)/cyclonedx-py environment $(VENV)/wheel/bin/python --pyproject pyproject.toml --mc-type library \
		--output-reproducible --output-file $$(ls dist/*.whl | sed 's/-py3-none-any.whl/.cdx.json/')
	rm -rf $(VENV)/wheel

# One resolution for every platform and version of Python; what `make demo` installs is a part of what `make test` does.
resolve = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	--no-annotate --output-file locks/$(1).txt

lock: $(BIN)/python ## Write the lock files anew, with the versions of today
	$(pip) uv
	$(call resolve,check) $(CHECKED:%=--extra %) pyproject.toml
	$(call resolve,core) --constraint locks/check.txt pyproject.toml
	printf '%s\n' pip hatchling editables | $(call resolve,tools) --constraint locks/check.txt -
	printf '%s\n' $(BUILD) | $(call resolve,build) --constraint locks/check.txt -

licences: $(VENV)/check.stamp ## List the licences of what is installed in docs/licences.md
	$(pip) pip-licenses
	$(BIN)/python docs/licences.py

clean: ## Remove environment, caches and outputs
	rm -rf $(VENV) demo site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
