# Every command a person or CI needs. `make` alone prints them.
# Where it is set, as in many containers, each of the thousand processes of Python that tests start
# would compile our modules anew: half a second of a core.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The cache of jars lies outside the checkout, keyed by the lock's content; ICDC_CACHE_DIR moves it.
JAR_SETS := spark opensearch-2.19.6 opensearch-3.8.0
# Without the flags of this `make`, which one that a test starts would follow.
PYTEST := env -u MAKEFLAGS $(BIN)/python -m pytest
# Test processes side by side, each with a Spark and an OpenSearch node of its own (about 4 GB). A
# file stays in one process, for what its tests share, and so does a folder with servers of its own
# (icdc_testing/waiting/dealing.py). They start in their order, after the one that waits longest.
WORKERS ?= 2
# The parts of the lock, for each image, for building both and for the command line, have the versions
# of the whole.
COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-header --no-annotate
# With ICDC_SOAK every fault at every call of these stories; without it a fortieth of them.
SOAK := tests/api/stories
# Random histories that `make soak` plays.
HISTORIES ?= 1000
BY_FILE := --dist loadfile --no-loadscope-reorder
PARALLEL = -n $(WORKERS) $(BY_FILE)
ON_CLUSTER := -n 2 $(BY_FILE) tests/cluster
# Not side by side, which would measure what they take from each other.
BENCHMARKS := cli idle planning file-counts changelog fields latency lingering cold encryption memory tables \
  isolation partitions columns sink export verify operator
# Helm packs nothing from outside of a chart's folder, so the chart has a copy of the CRD.
CHART_CRD := charts/iceberg-cdc-operator/files/icebergcdcpipelines.icebergcdc.dev.yaml
# What is read by people; tests and bad samples misspell on purpose.
SPELLED := '*.md' '*.py' '*.yaml' '*.tpl' '*.txt' '*.toml' Makefile Dockerfile ':!tests' ':!crds/samples/bad'
# Tools that write the pages in docs/reference, and docs/compatibility.md.
REFERENCE := fields_page commands_page metrics_page documents_page compatibility_page

# ICDC_TEST_KUBECONFIG names another cluster (kind, k3s) for the tests to use.
HAS_NODES := [ -n "$$ICDC_TEST_KUBECONFIG" ] || [ "$$(uname) $$(id -u)" = "Linux 0" ]
ARCHIVES := .icdc/images
# Where a program cannot be built, nothing is run with whatever PATH has instead.
PROGRAM_BUILDER := PYTHONPATH=tests/support $(BIN)/python -m icdc_testing.kube.binaries
PROGRAMS = path="$$($(PROGRAM_BUILDER) --path $(1))" && \
  PATH="$$path:$$PATH"
# BuildKit, which `docker build` is, treats a Dockerfile differently from buildah.
BUILDKIT = $(call PROGRAMS,buildkitd buildctl) $(BIN)/python tools/images/images.py
BUILDKIT_ARCHIVES := .icdc/images-buildkit
# What pushes or signs counts only where it is typed: a variable of the shell must not push a dry run.
TYPED = $(if $(filter command line,$(origin $(1))),$($(1)))
# From Go modules in pinned versions: another Helm packs other bytes.
RELEASE = $(call PROGRAMS,helm crane $(if $(call TYPED,SIGN_KEY),cosign)) \
  PYTHONPATH=tools/images:tools/generated $(BIN)/python tools/release/release.py "$(VERSION)" \
  --registry "$(call TYPED,REGISTRY)" --sign-key "$(call TYPED,SIGN_KEY)"
CLUSTER := PYTHONPATH=tests/support $(BIN)/python -m icdc_testing.real_cluster.command

PICTURES := PYTHONPATH=tests/support:tools/images $(BIN)/python tools/generated/page_pictures.py

.DEFAULT_GOAL := help
.PHONY: help setup check lint types layers sizes words prose shape rooms crds crds-check charts \
        charts-check docs-check lock guards guard-table words-page pictures reference site pod-template images images-check images-parts release test programs cluster-images test-unit test-api test-spark test-cluster cluster-up cluster-down \
        soak soak-operator soak-pauses soak-simulation soak-nodes soak-world soak-losses soak-state soak-state-index soak-release soak-helm soak-buildkit soak-oldest bench bench-operator bench-cli bench-planning bench-file-counts bench-idle bench-changelog bench-fields \
        bench-encryption bench-export bench-latency bench-lingering bench-cold bench-columns bench-isolation bench-memory bench-partitions bench-sink bench-tables bench-verify demo cluster-demo clean caches clean-caches

help: ## list these targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
setup: $(STAMP) ## make .venv with icdc and fetch what Spark needs (later starts are offline)
	@$(BIN)/python -m icdc_cli.embedded.jars fetch $(JAR_SETS)
	@$(BIN)/python -m icdc_cli.embedded.class_data

$(STAMP): tools/locks/all.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; set PYTHON=") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/locks/all.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## run the main job: three tables, changes, a crash, and the proof of equality
	@$(BIN)/icdc demo $(ARGS)

cluster-demo: setup ## walk docs/quick-start.md on a cluster of one node, made for it (root); ARGS=--keep leaves it
	@[ -n "$$ICDC_TEST_CLUSTER$$ICDC_TEST_KUBECONFIG" ] || $(BIN)/python tools/images/images.py build --archive $(ARCHIVES)
	@PYTHONPATH=tests/support $(BIN)/python -m icdc_testing.real_cluster.demo --images $(ARCHIVES) $(ARGS)

##@ Check and test
check: setup lint types layers sizes words crds-check charts-check docs-check site ## lint, types, layer contracts, sizes, words, drift of CRD and charts, links, the site

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# With what mypy knows outside the checkout, so that another one is checked sooner.
types:
	cache="$$($(BIN)/python -c 'from icdc_cli.embedded import jars; print(jars.choose_cache_dir() / "mypy")')" && \
	  $(BIN)/mypy --cache-dir "$$cache" crds operator sparkapps tests tools

layers:
	$(BIN)/lint-imports

sizes:
	$(BIN)/python tools/checks/check_sizes.py

crds-check:
	$(BIN)/python -m icdc_api.crd --check

charts-check:
	$(BIN)/python -m icdc_api.crd --check $(CHART_CRD)
	$(BIN)/python tools/generated/chart_schema.py --check
	$(BIN)/python tools/generated/chart_readme.py --check

words:
	$(BIN)/python tools/checks/check_words.py
	$(BIN)/python tools/checks/check_modules.py
	git ls-files -z $(SPELLED) | xargs -0 $(BIN)/codespell

prose: setup ## print how we write, beside the figures of others; ARGS='--list sparkapps'
	@$(BIN)/python tools/checks/prose.py $(ARGS)

shape: setup ## print sizes, types, errors and tests of our code; ARGS='--at COMMIT' shows an earlier one beside
	@$(BIN)/python tools/checks/shape.py $(ARGS)

rooms: setup ## print the import graph: rooms, floors, arrows; ARGS='icdc_spark' draws a package, '--at COMMIT' an earlier one
	@$(BIN)/python tools/checks/rooms.py $(ARGS)

docs-check:
	$(BIN)/python tools/checks/check_links.py
	$(BIN)/python tools/generated/spark_properties.py --check
	PYTHONPATH=tests/support $(BIN)/python tools/generated/guard_table.py --check
	$(BIN)/python tools/generated/words_page.py --check
	$(PICTURES) --check
	@for page in $(REFERENCE); do PYTHONPATH=tests/support $(BIN)/python tools/generated/$$page.py --check || exit 1; done

test: setup ## every test that CI runs, all levels that this host can; ICDC_REQUIRE_ALL=1: or fail
	@$(MAKE) --no-print-directory --jobs=2 WHOLE=1 programs test-api test-unit $$($(HAS_NODES) && echo test-cluster)
	@$(HAS_NODES) || { echo "LEFT OUT: the level cluster (tests/cluster), which needs root on Linux, or another" \
	  "cluster in ICDC_TEST_KUBECONFIG" >&2; [ -z "$$ICDC_REQUIRE_ALL" ]; }

# In `make test` what is built but once is built beside the level spark, which does without. Beside the
# level cluster is one process of tests that wait for nothing: its pods get of the processors what the
# host's own processes leave them.
ifdef WHOLE
test-api: test-spark programs
test-unit test-cluster: test-api
cluster-images: programs
programs: private BESIDE := nice -n 5
test-api: private SPREAD = $(PARALLEL)
ifneq (,$(filter test-cluster,$(MAKECMDGOALS)))
test-unit: private BESIDE := nice
test-unit: private WORKERS := 1
endif
endif

# A program that cannot be built is for the tests to name.
programs: $(STAMP)
	-@$(BESIDE) env $(PROGRAM_BUILDER) --host

cluster-images: setup
	@$(BIN)/python tools/images/images.py build --archive $(ARCHIVES)
	@$(BIN)/python tools/images/images.py check --archive $(ARCHIVES)

test-unit: setup ## the pure level: seconds
	$(BESIDE) $(PYTEST) $(PARALLEL) tests/unit

test-api: setup ## a real Kubernetes API server; the first time builds it, with Go, in minutes
	@$(PROGRAM_BUILDER)
	@$(PROGRAM_BUILDER) helm gitops crane promql
	$(PYTEST) $(SPREAD) tests/api

test-spark: setup ## local Spark, real Iceberg tables, a real OpenSearch node
	$(PYTEST) $(PARALLEL) tests/spark

test-cluster: cluster-images ## a cluster of one node, made for it; as root, the first time half an hour
	$(CLUSTER) run --images $(ARCHIVES) -- $(PYTEST) $(ON_CLUSTER)

cluster-up: cluster-images ## bring up such a cluster that stays, and print what to export
	@$(CLUSTER) up --images $(ARCHIVES)

cluster-down: setup ## take it down
	@$(CLUSTER) down

guards: setup ## take out each guard of the product and see its test fail: half an hour; ARGS='NAME'
	@PYTHONPATH=tests/support $(BIN)/python -m icdc_testing.mutants.command $(ARGS)

soak-operator: setup ## every fault at every call of the operator's stories, on a real API server: half an hour
	ICDC_SOAK=1 $(PYTEST) -n $(WORKERS) --dist worksteal --timeout 1800 $(SOAK)

soak-pauses: setup ## a driver stopped at each request, every change of the spec in every phase, long outages: an hour
	ICDC_SOAK=1 $(PYTEST) -n $(WORKERS) --dist worksteal --timeout 7200 tests/spark/kills/test_paused_runs.py \
	  tests/unit/icdc_operator/core/decide/test_there_and_back.py tests/api/process/test_outages.py tests/api/crd/test_fields.py

soak: setup ## a thousand random histories of tables; HISTORIES=n plays another number
	ICDC_HISTORIES=$(HISTORIES) $(PYTEST) -n $(WORKERS) --dist worksteal --timeout 1800 \
	  tests/spark/source/histories/test_long_histories.py tests/spark/source/histories/test_stream_histories.py

soak-simulation: setup ## simulated worlds, a million; ARGS='--worlds N --minutes M --seed S --cores C'
	@PYTHONPATH=tests/support $(BIN)/python -m icdc_testing.simulation.command --worlds 1000000 --cores 0 $(ARGS)

soak-nodes: setup ## OpenSearch nodes killed at every step, three victims each; as root: an hour
	ICDC_SOAK=1 $(PYTEST) --timeout 1800 tests/spark/nodes

soak-world: setup ## random faults of three nodes and of runs, judged; as root; ARGS='--minutes N --seed S'
	@PYTHONPATH=tests/support $(BIN)/python tests/soak/soak_world.py $(ARGS)

soak-losses: setup ## hot keys, a row of 50 MB, 60 batches that lose executors: half an hour
	ICDC_SOAK=1 $(PYTEST) --timeout 3600 tests/spark/pipeline/tables/test_hot_keys.py \
	  tests/spark/pipeline/tables/test_large_rows.py tests/spark/kills/test_decommission.py

soak-state: setup ## whether anything grows with the batches, and a restart; ARGS='--tables N --rounds N --minutes N'
	@PYTHONPATH=tests/support $(BIN)/python -W ignore tests/soak/soak_state.py $(ARGS)

soak-state-index: setup ## what OpenSearch stores of replaced state documents: six minutes; ARGS='--tables N --rounds N'
	@PYTHONPATH=tests/support $(BIN)/python -W ignore tests/soak/soak_state_index.py $(ARGS)

soak-release: setup ## a release signed by the real cosign, and checked: six minutes, once, to build it
	ICDC_SOAK=1 $(PYTEST) --timeout 1800 tests/api/charts/test_release.py

soak-helm: setup ## the tests of the charts with Helm 3: four minutes, and three more, once, to build it
	ICDC_HELM=helm3 $(PYTEST) -n 2 --timeout 1800 tests/api/charts --ignore tests/api/charts/test_release.py

soak-buildkit: setup ## the level cluster on images as `docker build` makes them, by BuildKit; as root: half an hour
	@$(BUILDKIT) build --builder buildkit --archive $(BUILDKIT_ARCHIVES)
	@$(BUILDKIT) check --builder buildkit --archive $(BUILDKIT_ARCHIVES)
	$(CLUSTER) run --images $(BUILDKIT_ARCHIVES) -- $(PYTEST) $(ON_CLUSTER)

soak-oldest: export ICDC_KUBERNETES := kubernetes-oldest
soak-oldest: test-api ## the level api on the oldest Kubernetes that the charts accept: ten minutes more, once, to build it

bench: setup ## every benchmark below, one after another: hours, on a machine with nothing else to do
	@for name in $(BENCHMARKS); do $(MAKE) --no-print-directory bench-$$name || exit 1; done

bench-operator: setup ## the operator with 1,000 pipelines on a real API server: forty minutes
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_operator.py $(ARGS)

bench-cli: setup ## what the extra `cli` installs, and icdc status beside kubectl: half a minute; ARGS='--table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_cli.py $(ARGS)

bench-planning: setup ## planning in tables of up to 50,000 files, beside Iceberg's own: ten minutes
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_planning.py $(ARGS)

bench-file-counts: setup ## planning in tables of up to a million files: memory and time; ARGS='--files N --table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_file_counts.py $(ARGS)

bench-idle: setup ## a poll of 100 unchanged tables: two minutes; ARGS='--table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_idle.py $(ARGS)

bench-changelog: setup ## the changelog beside create_changelog_view, 2 M rows; ARGS='--rows N --table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_changelog.py $(ARGS)

bench-fields: setup ## twenty expressions, and one of 1 ms a row, beside their columns, 2 M rows; ARGS='--rows N --table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_changelog.py --fields $(ARGS)

bench-memory: setup ## what memory a batch takes, 2 M and 8 M rows: nine minutes; ARGS='--table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_memory.py $(ARGS)

bench-latency: setup ## from a small commit to the index, 1 M rows: ten minutes; ARGS='--table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_latency.py $(ARGS)

bench-lingering: setup ## how soon a run that lingers applies commits, beside a start for each: ten minutes; ARGS='--table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_lingering.py $(ARGS)

bench-cold: setup ## one commit where a run is started for it: CPU by parts; four minutes; ARGS='--java-options=… --table'
	@PYTHONPATH=tests/support $(BIN)/python -W ignore tests/bench/bench_cold.py $(ARGS)

bench-tables: setup ## one run of 1, 8 and 32 tables: memory, threads, files; six minutes; ARGS='--tables N --table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_tables.py $(ARGS)

bench-isolation: setup ## ten tables in one run, of which one misbehaves: what the others have of it; ARGS='--table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_tables.py --faults $(ARGS)

bench-partitions: setup ## an export of 1 M rows, 200 columns, 10,526 partitions: half an hour; ARGS='--heaps 2g 8g --table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_partitions.py $(ARGS)

bench-columns: setup ## what a row costs by the number of its columns: five minutes; ARGS='--columns 92 --table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_columns.py $(ARGS)

bench-sink: setup ## the sink beside prebuilt requests and opensearch-py, three shapes: a quarter of an hour; ARGS='--table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_sink.py $(ARGS)

bench-export: setup ## whole exports of ten layouts of 2 M rows, beside a plain Spark job: an hour; ARGS='--rows N --table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_export.py $(ARGS)

bench-verify: setup ## the proof that an index of 1 M documents equals its table: ten minutes; ARGS='--documents N --table'
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_verify.py $(ARGS)

bench-encryption: setup ## a shuffle between executors, with encryption and without: three minutes
	@PYTHONPATH=tests/support $(BIN)/python tests/bench/bench_encryption.py $(ARGS)

##@ Images
images: setup ## build both images as OCI archives; ARGS='--builder buildkit --tag T --archive FOLDER'
	@$(BIN)/python tools/images/images.py build $(ARGS)

images-check: setup ## check the images: user, rights, versions, what must not be there
	@$(BIN)/python tools/images/images.py check $(ARGS)

images-parts: setup ## print what the bytes of both images are for, in MB
	@$(BIN)/python tools/images/images.py build --archive $(ARCHIVES)
	@$(BIN)/python tools/images/images.py parts $(ARCHIVES)/operator.tar $(ARCHIVES)/spark.tar

release: setup ## make all files of a release: VERSION=; with REGISTRY= push images and charts too
	@$(RELEASE) --check
	@$(BIN)/python tools/images/images.py build --archive $(ARCHIVES)
	@$(BIN)/python tools/images/images.py check --archive $(ARCHIVES)
	@$(RELEASE) --images $(ARCHIVES) $(ARGS)

##@ Maintain
crds: setup ## regenerate the CRD from the models, and what charts and docs have of it
	$(BIN)/python -m icdc_api.crd --write
	$(BIN)/python tools/generated/spark_properties.py --write
	@$(MAKE) --no-print-directory charts reference

guard-table: setup ## write the table of guards in docs/testing.md
	PYTHONPATH=tests/support $(BIN)/python tools/generated/guard_table.py --write

pictures: setup ## take the pictures of icdc ui in the README anew, with Chromium
	$(PICTURES) --write

words-page: setup ## write docs/words.md from the explanations of `icdc explain`
	$(BIN)/python tools/generated/words_page.py --write

reference: setup ## write the pages in docs/reference, and that of compatibility, from code
	@for page in $(REFERENCE); do PYTHONPATH=tests/support $(BIN)/python tools/generated/$$page.py --write || exit 1; done

site: setup ## build the pages as a site, into .icdc/site; ARGS='--folder DIR --versioned --source URL'
	@$(BIN)/python tools/site/build_site.py $(ARGS)

pod-template: setup ## regenerate the types that pod templates are checked against, from a cluster
	kubectl get --raw /openapi/v3/api/v1 | $(BIN)/python tools/generated/pod_template_types.py --write

charts: setup ## regenerate what the charts have from the models, and their tables of values
	$(BIN)/python -m icdc_api.crd --write $(CHART_CRD)
	$(BIN)/python tools/generated/chart_schema.py --write
	$(BIN)/python tools/generated/chart_readme.py --write

lock: setup ## resolve the locked versions anew (needs uv on PATH for the Python part)
	$(COMPILE) pyproject.toml --extra operator --extra spark --group dev --upgrade -o tools/locks/all.lock
	$(COMPILE) pyproject.toml --extra operator -c tools/locks/all.lock -o tools/locks/operator.lock
	$(COMPILE) pyproject.toml --extra cli -c tools/locks/all.lock -o tools/locks/cli.lock
	$(COMPILE) pyproject.toml --extra spark -c tools/locks/all.lock -o tools/locks/spark.lock
	$(COMPILE) --group build -c tools/locks/all.lock -o tools/locks/build.lock
	$(COMPILE) --group site -c tools/locks/all.lock -o tools/locks/site.lock
	$(BIN)/python -m icdc_cli.embedded.jars lock

caches: $(STAMP) ## what is kept outside the checkout, how large it is and what it is for
	@$(BIN)/python tools/images/caches.py

clean-caches: $(STAMP) ## remove all of it; the next run makes it again, in minutes to an hour
	@$(BIN)/python tools/images/caches.py --remove

clean: ## remove what setup and tests made in the checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .icdc spark-warehouse
