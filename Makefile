# Two commands on a fresh machine: `make demo` and `make test`. See `make help`.
.DEFAULT_GOAL := help
.PHONY: help demo test test-slurm test-postgres check lint types imports openapi pytest bench drill fidelity serve shim fuzz format clean

PYTHON ?= python3
export PYTHON
# openapi-python-client calls ruff, and tests call monkeytree, by name.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# In CI the packet simulator and PyTorch must be there: what needs them is not skipped.
ifeq ($(CI),true)
export MONKEYTREE_REQUIRE_NS3 ?= 1
export MONKEYTREE_REQUIRE_TORCH ?= 1
endif
py := .venv/bin/python
code := $(wildcard monkeytree agent service simulation slurm workers validation cli examples tests bench tools)
# As many processes as there are cores; PYTEST_ARGS= runs them in one.
PYTEST_ARGS ?= -n auto --dist worksteal

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup-run ## plan a real placement end to end: serve, POST, solve, check, print; then replay it packet by packet
	@$(py) -m monkeytree.cli demo --prepare "tools/setup.sh validation"

test: setup-dev check pytest ## everything CI runs: check, then the tests

check: lint types imports openapi ## ruff, mypy --strict, import-linter, openapi.yaml in step

lint: setup-dev
	$(py) -m ruff check $(code)
	$(py) -m ruff format --check $(code)

types: setup-dev
	$(py) -m mypy

imports: setup-dev
	.venv/bin/lint-imports

openapi: setup-dev
	$(py) tools/openapi_drift.py

pytest: setup-dev
	$(py) -m pytest $(PYTEST_ARGS)

test-slurm: setup-dev ## reads, advises and moves on a real Slurm of 32 nodes here (root; installs Debian's packages)
	tools/slurm_lab/install.sh
	MONKEYTREE_SLURM_LAB=1 $(py) -m pytest tests/slurm_lab

#: Everything that touches the store; the other tests are the same with any database.
on_postgres := tests/adapters tests/service tests/executions tests/workers tests/integration
test-postgres: setup-dev ## store and service on a PostgreSQL of the tests' own (docs/postgresql.md)
	@$(py) -c 'import psycopg' 2>/dev/null || $(py) -m pip install --quiet -c constraints.txt 'psycopg[binary]'
	tools/postgres.sh $(py) -m pytest $(on_postgres) $(PYTEST_ARGS)

reproduce: setup-dev ## docs/figures/: the paper's figures from the runs that are kept; FIGURES=6 chooses, SCALE=quick or paper goes to build/figures/
	$(py) -m monkeytree.cli reproduce $(or $(FIGURES),all) --scale $(or $(SCALE),stated)

bench: setup-dev ## the figures: solve times, POST to ready, ingest, memory
	$(py) -m bench

drill: setup-dev ## move a rank of a real training job, undisturbed and with every actor killed at every state
	$(py) -m monkeytree.cli drill --matrix --state-gb 0.001

fidelity: setup-dev ## docs/fidelity.md: public packet runs beside ours (needs the extra `validation`)
	$(py) tools/fidelity.py
	$(py) tools/isolation.py 300 >> docs/fidelity.md

shim: setup-run ## build/shim/libibverbs.so.1, which puts NCCL's flows on their uplinks (docs/steering-nccl.md)
	@$(py) -m monkeytree.agent.shim --out $(or $(OUT),build/shim) $(if $(REAL),--real $(REAL))

serve: setup-run ## the service on http://127.0.0.1:8080 (DATA=DIR keeps it elsewhere)
	@$(py) -m monkeytree.cli serve $(if $(DATA),--data $(DATA))

fuzz: setup-dev ## 5,000 and more random snapshots, and longer property tests (an hour of patience)
	MONKEYTREE_FUZZ=17 $(py) -m pytest tests/fuzz tests/library $(PYTEST_ARGS)

format: setup-dev ## write the code as ruff wants it
	$(py) -m ruff check --fix $(code)
	$(py) -m ruff format $(code)

clean: ## remove .venv and what the tools left
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

.PHONY: setup-run setup-dev
setup-run setup-dev: setup-%:
	@tools/setup.sh $*
