# Every command a person or CI needs. `make` alone prints them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The cache of jars lies outside the checkout, keyed by the lock's content; ICDC_CACHE_DIR moves it.
JAR_SETS := spark opensearch-2.19.6 opensearch-3.8.0
PYTEST := $(BIN)/python -m pytest
# Test processes side by side, each with a Spark and an OpenSearch node of its own (about 4 GB). A
# file stays in one process, for what its tests share; files start in their order, slow ones first.
WORKERS ?= 2
# All ways in which these stories can go wrong by ICDC_SOAK; without it a fortieth of them.
SOAK := tests/api/stories
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup check lint types layers sizes crds crds-check docs-check lock \
        test test-unit test-api test-spark soak-operator bench-operator demo clean

help: ## list these targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
setup: $(STAMP) ## make .venv with icdc and fetch the jars (later starts are offline)
	@$(BIN)/python -m icdc_operator.embedded.jars fetch $(JAR_SETS)

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; set PYTHON=") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## run the main job: three tables, changes, a crash, and the proof of equality
	@$(BIN)/icdc demo $(ARGS)

##@ Check and test
check: setup lint types layers sizes crds-check docs-check ## lint, types, layer contracts, sizes, CRD drift, links

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy crds operator sparkapps tests tools

layers:
	$(BIN)/lint-imports

sizes:
	$(BIN)/python tools/check_sizes.py

crds-check:
	$(BIN)/python -m icdc_api.crd --check

docs-check:
	$(BIN)/python tools/check_links.py

test: setup ## every test that CI runs, all levels
	$(PYTEST) $(PARALLEL) tests

test-unit: setup ## the pure level: seconds
	$(PYTEST) tests/unit

test-api: setup ## a real Kubernetes API server; the first time builds it, with Go, in minutes
	@$(BIN)/python tests/support/support_kube_binaries.py
	$(PYTEST) tests/api

test-spark: setup ## local Spark, real Iceberg tables, a real OpenSearch node
	$(PYTEST) $(PARALLEL) tests/spark

soak-operator: setup ## all that can go wrong in the operator's stories, on a real API server: half an hour
	ICDC_SOAK=1 $(PYTEST) $(PARALLEL) --timeout 1800 $(SOAK)

bench-operator: setup ## the operator with 1,000 pipelines on a real API server: forty minutes
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_operator.py $(ARGS)

##@ Maintain
crds: setup ## regenerate the CRD from the models
	$(BIN)/python -m icdc_api.crd --write

lock: setup ## resolve the locked versions anew (needs uv on PATH for the Python part)
	uv pip compile pyproject.toml --extra operator --extra spark --group dev --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  --upgrade -o requirements.lock
	$(BIN)/python -m icdc_operator.embedded.jars lock

clean: ## remove what setup and tests made in the checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .icdc
