# Everything starts here: `make demo` for a look, `make test` for the proof, `make help` for the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKS := requirements-build.lock requirements.lock
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tidegate
export NUMBA_CACHE_DIR ?= $(CACHE)/numba
# Tests wait about as long as they compute: two workers leave half of two cores idle, four are too many
# where captures run.
WORKERS ?= 3
PYTEST_ARGS ?=

COMPILE := $(BIN)/pip-compile -q --generate-hashes --strip-extras --no-header --no-annotate \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options

STAMP := $(VENV)/.installed-$(shell cat $(LOCKS) pyproject.toml | sha256sum | cut -c1-16)

.PHONY: ddl-corpus help setup kernels servers demo cluster-demo cluster-db-demo shards-demo snapshot-demo test test-fast lint wheel dashboards pictures fmt bench soak lock clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) kernels ## .venv with the locked packages, kernels compiled, Spark's classes kept

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "setup: Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) -V)"; exit 1; }
	@command -v java >/dev/null || { echo "setup: a JDK (17 or newer) is needed for Spark and Kafka"; exit 1; }
	@test -x $(BIN)/python || { echo "setup: making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "setup: installing the locked packages"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-build.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-build-isolation -r requirements.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.installed-*
	@touch $@

kernels: $(STAMP)
	@$(BIN)/python -m compileall -q cdc filter owner processor sink bench tests
	@mkdir -p "$$NUMBA_CACHE_DIR"
	@$(BIN)/python -m cdc.kernels
	@$(BIN)/python -m processor.spark.record_classes

servers: setup ## fetch every server that tests and bench need
	@$(BIN)/python -m tests.servers fetch --all
	@$(BIN)/python -m bench.debezium

demo: setup ## a real change feed in two minutes, killed in the middle, and proven complete
	@$(BIN)/python -m tests.servers fetch --demo
	@$(BIN)/python -m bench.demo

cluster-demo: setup ## three captures and an etcd: owner, disk and members are lost under load, nothing else
	@$(BIN)/python -m tests.servers fetch --demo etcd-3.5
	@$(BIN)/python -m bench.cluster_demo

cluster-db-demo: setup ## three servers that are one database, to a topic, a table and a replica: killed, frozen, never torn
	@$(BIN)/python -m tests.servers fetch --demo
	@$(BIN)/python -m bench.cluster_db_demo

shards-demo: setup ## eight tables of two servers are one; ALTERs by hand and by tools, kill -9: who waits for whom
	@$(BIN)/python -m tests.servers fetch --demo mariadb-11.8
	@$(BIN)/python -m bench.shards_demo

snapshot-demo: setup ## rows that are there already, changed and moved under load: to a topic and an empty server, with kill -9; ROWS=5000000
	@$(BIN)/python -m tests.servers fetch --demo
	@$(BIN)/python -m bench.snapshot_demo $(if $(ROWS),--rows $(ROWS))

test: servers ## all tests, on real servers
	@rc=0; $(BIN)/python -m pytest -m "not control and not soak" -n $(WORKERS) --dist worksteal $(PYTEST_ARGS) || rc=$$?; \
	if [ $$rc = 5 ]; then echo "test: no test was collected, so nothing is shown"; fi; exit $$rc

test-fast: setup ## tests that need no server
	@$(BIN)/python -m pytest -m "not real and not slow" $(PYTEST_ARGS)

ddl-corpus: servers ## the whole DDL corpus and long random runs on every server version
	@for v in 10.11 11.4 11.8; do $(BIN)/python -m tests.ddl_diff --server mariadb --version $$v \
		--generate 1500 tests/ddl_diff/corpus/{common,mariadb}/*.sql; done
	@for v in 8.0 9.7; do $(BIN)/python -m tests.ddl_diff --server mysql --version $$v \
		--generate 1500 tests/ddl_diff/corpus/{common,mysql}/*.sql; done

lint: setup ## ruff, mypy and the layers
	@$(BIN)/ruff check --no-cache .
	@$(BIN)/ruff format --no-cache --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

wheel: $(STAMP) ## dist/tidegate-….whl, with dashboards, sample configurations and docs
	@rm -rf build dist
	@$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w dist .
	@rm -rf build
	@ls dist/*.whl

dashboards: setup ## write Grafana's dashboards anew from configs/grafana/make.py
	@$(BIN)/python -m configs.grafana.make

pictures: servers ## make the pictures of docs anew: the console from its tests, dashboards from a run of two minutes
	@PICTURES=docs/pictures $(BIN)/python -m pytest -q -p no:xdist tests/api/test_console.py
	@$(BIN)/python -m tests.prometheus.pictures docs/pictures

fmt: setup ## put the sources into shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: servers ## measure against the peers, into bench/out/latest.json
	@$(BIN)/python -m bench

soak: servers ## kill -9 under load: make soak SINK=mysql KILLS=100 SERVER=mysql-8.0; FAULTS=1, DDL=1, CLUSTER=1, CLUSTERDB=1, SNAPSHOT=1, SHARDS=1; ENDURE=60; SEED=
	@if [ -n "$(FILTER)" ]; then \
	  $(BIN)/python -m tests.filter_expr.oracle --pairs 1000000 --seed $(or $(SEED),1); \
	elif [ -n "$(CONTROLS)" ]; then \
	  $(BIN)/python -m pytest -m "control or soak" tests; \
	else \
	  SINK="$(SINK)" KILLS="$(KILLS)" MINUTES="$(MINUTES)" SEED="$(SEED)" DDL="$(DDL)" \
	  FAULTS="$(FAULTS)" SNAPSHOT="$(SNAPSHOT)" CLUSTER="$(CLUSTER)" CLUSTERDB="$(CLUSTERDB)" SHARDS="$(SHARDS)" NODES="$(NODES)" ENDURE="$(ENDURE)" SERVER="$(SERVER)" TARGET="$(TARGET)" UPSTREAM="$(UPSTREAM)" \
	    $(BIN)/python -m tests.soak $(SOAK_ARGS); \
	fi

lock: setup ## write the lock files anew from pyproject.toml
	@$(COMPILE) --extra dev -o requirements.lock pyproject.toml
	@printf 'pip\nsetuptools>=77\n' | $(COMPILE) --allow-unsafe -o requirements-build.lock -

clean: ## remove what was built (downloads in the cache stay)
	@rm -rf $(VENV) *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache bench/out build dist
