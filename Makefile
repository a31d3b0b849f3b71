# Needs only Python 3.11 or later, make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CODE := planner formulations instances solvers
WORKERS ?= auto
MINUTES ?=
INSTANCES ?=
SEED ?=
COUNT ?= 60
PART ?=

QUICK := -m "not slow"
SLOW := -m slow
# The extras that tests use; PyTorch is large, and tests of learned methods are skipped without it.
TESTED := test,scip,bayes,dask
LOWEST_PYTHON ?= python3.11
NEWEST_PYTHON ?= $(firstword $(foreach found,python3.13 $(wildcard $(HOME)/.pyenv/versions/3.13*/bin/python3.13),\
	$(shell $(found) -c '' 2> /dev/null && echo $(found))))

.PHONY: demo test test-all test-lowest test-newest lint types quick slow wheel docs pictures bench-startup bench-functions bench-batch bench-allocation bench-staging bench-consolidation bench-clusters bench-graphs bench-limits bench-again bench-default-limit bench-mix bench-prediction bench-scheduling bench-recorded fuzz mutate record count clean help

help:
	@echo "make demo   install and solve the bundled examples of all kinds"
	@echo "make test   install with extras; linters, types, the quick tests, and the built wheel"
	@echo "make slow   the slow tests alone"
	@echo "make test-all   make test, then make slow; a quarter of an hour"
	@echo "make test-lowest   the quick tests on Python 3.11 with the lowest versions that pyproject.toml allows"
	@echo "make test-newest   the quick tests on Python 3.13, where there is one, with the newest versions"
	@echo "make docs   build the documentation site: docs/_build/html/index.html"
	@echo "make pictures   pages of examples as pictures, for README and documentation; needs Chromium"
	@echo "make bench-startup   how long the command takes beside a bare interpreter"
	@echo "make bench-functions   how many functions of the package a small solve enters; some seconds"
	@echo "make bench-batch   what a batch costs beside its solves, and what a second worker brings; a minute"
	@echo "make bench-allocation   every allocation method from 10 to 1,000,000 jobs; about an hour"
	@echo "make bench-staging   every staging method from 5 layers on 2 types to 300 on 64; about 40 minutes"
	@echo "make bench-consolidation   every consolidation method from 16 to 100,000 servers; about 40 minutes"
	@echo "make bench-clusters   every consolidation method on traces of real clusters, beside published figures; about an hour"
	@echo "make bench-graphs   graphs of layers beside published optima and the authors' programmes (PIPEDREAM=…, DNN_PARTITIONING=…); about 20 minutes"
	@echo "make bench-limits   every solver on large instances with limits of 1, 5 and 20 s; about half an hour"
	@echo "make bench-again    a million jobs, and planning again after a change; about five minutes"
	@echo "make bench-default-limit   what the default time limit costs beside none; about five minutes"
	@echo "make bench-prediction   predictions beside what was measured, and published errors; some minutes"
	@echo "make bench-scheduling   every scheduling policy on traces, its distance from the best possible, beside published figures; about an hour and a half"
	@echo "make bench-mix          who shares a GPU, and which machines serve a model: measured jobs and models, beside simple rules; some ten minutes"
	@echo "make fuzz MINUTES=30 WORKERS=2 SEED=… | INSTANCES=5000   random instances, forged results, damaged files; adds to the recorded counts"
	@echo "make mutate SEED=1 COUNT=60 WORKERS=2   small mistakes in the checks, and whether tests notice; about 20 minutes"
	@echo "make record PART=solves   store what users get anew, and say what changed; all parts without PART"
	@echo "make count   AST nodes, files and folders of each floor, which have a budget"
	@echo "make bench-recorded   processor time and memory of 30 solves beside those recorded; about ten minutes"
	@echo "make clean  remove what the other targets made"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; set PYTHON=…")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs,scip,bayes,dask]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs,scip,bayes,dask,rl]'
	@touch $@ $(VENV)/.installed-dev $(VENV)/.installed

demo: $(VENV)/.installed
	$(BIN)/clusterplan solve instances/examples/*.yaml

test: lint types quick wheel

test-all: test slow

test-lowest: $(VENV)-lowest/.installed
	$(VENV)-lowest/bin/pytest -n $(WORKERS) $(QUICK)

# What is newest changes by the day, so that this environment is made each time.
test-newest:
	$(if $(NEWEST_PYTHON),rm -rf $(VENV)-newest,@echo "skipped: there is no Python 3.13; set NEWEST_PYTHON=…")
	$(if $(NEWEST_PYTHON),$(MAKE) $(VENV)-newest/.installed)
	$(if $(NEWEST_PYTHON),$(VENV)-newest/bin/pytest -n $(WORKERS) $(QUICK))

$(VENV)-lowest/.installed: INTERPRETER = $(LOWEST_PYTHON)
$(VENV)-lowest/.installed: RESOLUTION = lowest-direct
$(VENV)-newest/.installed: INTERPRETER = $(NEWEST_PYTHON)
$(VENV)-newest/.installed: RESOLUTION = highest
# uv can choose the lowest versions, pip cannot.
$(VENV)-lowest/.installed $(VENV)-newest/.installed: pyproject.toml
	$(INTERPRETER) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python --resolution $(RESOLUTION) --editable '.[$(TESTED)]'
	@touch $@

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The link gives the checkout the package's name, whatever its folder is called.
types: $(VENV)/.installed-dev
	@mkdir -p $(VENV)/src && ln -sfn ../.. $(VENV)/src/clusterplan
	cd $(VENV)/src && ../bin/mypy --config-file ../../pyproject.toml $(CODE:%=-p clusterplan.%)

quick: $(VENV)/.installed-dev
	$(BIN)/pytest -n $(WORKERS) $(QUICK)

slow: $(VENV)/.installed-dev
	$(BIN)/pytest -n $(WORKERS) $(SLOW)

# The wheel as a user gets it: a fresh environment, another folder, the bundled and the copied examples.
wheel: $(VENV)/.installed-dev
	rm -rf build dist $(VENV)-wheel
	$(BIN)/python -m build --quiet --wheel
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	$(BIN)/python tests/wheel_check.py $(VENV)-wheel instances/examples
	rm -rf build dist $(VENV)-wheel

docs: $(VENV)/.installed-dev
	$(BIN)/sphinx-build -b html -W --keep-going -n -q -d docs/_build/doctrees docs docs/_build/html
	@echo "docs/_build/html/index.html"

# The pages of examples as pictures, which README and documentation show; needs Chromium.
pictures: $(VENV)/.installed-dev
	$(BIN)/python docs/pictures.py

bench-startup: $(VENV)/.installed
	$(BIN)/python benchmarks/startup.py

bench-functions: $(VENV)/.installed
	$(BIN)/python benchmarks/functions_entered.py

bench-batch: $(VENV)/.installed
	$(BIN)/python benchmarks/batch.py

bench-allocation: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/allocation.py

bench-staging: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/staging.py

bench-consolidation: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/consolidation.py

bench-clusters: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/clusters.py

bench-graphs: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/graphs.py

bench-limits: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/limits.py

bench-again: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/planning_again.py

bench-default-limit: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/default_limit.py

bench-recorded: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/recorded.py

bench-prediction: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/prediction.py
	$(BIN)/python benchmarks/prediction_steps.py
	$(BIN)/python benchmarks/prediction_names.py
	$(BIN)/python benchmarks/prediction_plans.py
	$(BIN)/python benchmarks/prediction_trees.py

bench-mix: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/mix.py

bench-scheduling: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/scheduling.py

count: $(VENV)/.installed
	$(BIN)/python tests/budget.py

# What differs is printed by file, case and field; a change on purpose is named in the changelog.
record: $(VENV)/.installed-dev
	cd tests && ../$(BIN)/python -m recorded --record $(PART)

# What fails is made small and kept in tests/regressions. Two processes, unless WORKERS says how many.
fuzz: $(VENV)/.installed-dev
	cd tests && ../$(BIN)/python -m fuzz --record $(MINUTES:%=--minutes %) $(INSTANCES:%=--instances %) \
		--workers $(patsubst auto,2,$(WORKERS)) $(SEED:%=--seed %)

# Survivors are recorded with a word why; the exit code is 1 if one has none.
mutate: $(VENV)/.installed-dev
	cd tests && ../$(BIN)/python -m mutants --record --count $(COUNT) --workers $(patsubst auto,2,$(WORKERS)) $(SEED:%=--seed %)

clean:
	rm -rf $(VENV) $(VENV)-wheel $(VENV)-lowest $(VENV)-newest build dist docs/_build docs/generated *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .mutants_cache
