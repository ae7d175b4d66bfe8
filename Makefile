# The developer's and the user's interface. Needs GNU make, git and Python >= 3.11; everything else is installed here.
#   make evaluate    the first evaluation on LIBERO (PLAN=..., OUT=...)
#   make test        lint, types and the tests that are quick
#   make test-all    the slow tests as well
#   make bench docs lint setup clean

PYTHON ?= python3
VENV ?= .venv
PLAN ?= examples/first_claims.yaml
OUT ?= runs/first_claims
BENCHMARKS ?= step_speed episode_costs whole_evaluation wrapper_costs operator_costs executors shared_inference worker_memory million_episodes
PYTEST_ARGS ?=
# A file of tests stays in one process, so that its fixtures are made once.
PARALLEL ?= --numprocesses=auto --maxprocesses=4 --dist=loadfile
export MUJOCO_GL ?= egl

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
RENDERING := $(PYTHON) -I roep_gym/envs/rendering.py

.PHONY: setup rendering evaluate test test-all lint types bench docs clean
.DEFAULT_GOAL := setup

setup: rendering $(INSTALLED)

# Found out first, because an evaluation without off-screen rendering would fail only after the installation.
rendering:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 is needed, this is " + sys.version.split()[0])'
	@$(RENDERING) || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq \
	  && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$($(RENDERING) --packages) >/dev/null \
	  && $(RENDERING); }

$(INSTALLED): setup.cfg pyproject.toml constraints.txt
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[test]"
	@# The real policy servers of the tests: openpi-client asks for NumPy 1, but its protocol code runs with NumPy 2.
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps openpi-client openpi-server
	@touch $@

evaluate: setup
	$(BIN)/roep-gym evaluate $(PLAN) --out $(OUT)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

test: setup lint types
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

test-all: setup lint types
	$(BIN)/python -m pytest $(PARALLEL) -m "slow or not slow" $(PYTEST_ARGS)

bench: setup
	@set -e; for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py; done

docs: $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[docs]"
	$(BIN)/sphinx-build --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) build dist *.egg-info docs/_build docs/api .mypy_cache .ruff_cache .pytest_cache
