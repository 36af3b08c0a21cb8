# make setup | demo | test | ring-NAME | everything | ledger | test-versions | simulate | chaos | cluster-test | fuzz | bench | bench-compare | lint | dependencies | lock | dist | dist-hosts | clean.
# Needs Python 3.11, which the lock file is for, and for most nothing else; what needs more is in CONTRIBUTING.md, and .ci/run
# looks for it.

PYTHON := .venv/bin/python
# With it, as container images often have it, every process of a test would compile Muster anew.
unexport PYTHONDONTWRITEBYTECODE
RINGS := $(shell sed -n "s/^\[\(.*\)\]$$/\1/p" tests/rings/rings.toml)
STAMP := .venv/.requirements.lock
# What else an installed checkout depends on: its commands, plugins and packages.
PROJECTS := pyproject.toml pytest-muster/pyproject.toml
INSTALLED := .venv/.installed

.PHONY: help setup demo test everything ledger test-versions simulate chaos cluster-test fuzz bench bench-compare lint dependencies lock dist dist-hosts clean

help:
	@echo "make setup   a .venv with everything of requirements.lock and this checkout"
	@echo "make demo    the demonstration: real clients, real data, faults, a Spark report"
	@echo "make test    the test suite of every change; one test: $(PYTHON) -m pytest tests/FILE.py -k NAME"
	@echo "make ring-NAME   one ring of checks: $(RINGS)"
	@echo "make everything   all of them; make ledger: when each ring passed"
	@echo "make test-versions   the lowest versions that pyproject.toml allows, with Python 3.11 and 3.12, the newest, with 3.13, the pytest plugin with 3.9 and 3.10"
	@echo "make bench     Muster side by side with Apache Kafka; BENCH=NAME for one row, or for a benchmark of Muster alone"
	@echo "make bench-compare A=FILE B=FILE   two runs of make bench beside each other"
	@echo "make simulate SEEDS=1000 FIRST=200   the group coordinator, consumer groups, copies of its actor, and the transaction coordinator, against any history; a bad one is printed with its command"
	@echo "make chaos SEED=1 MINUTES=3   real clients under random faults, checked; a bad run keeps its journals"
	@echo "make chaos BUCKET=1 SEED=1   the same on a bucket, whose requests are refused, delayed and lost"
	@echo "make cluster-test   three hosts on a bucket, killed in turn under load; as root"
	@echo "make chaos PLAN=batches ROUNDS=20   muster.data.batches while its drivers, workers and coordinators are killed"
	@echo "make chaos PLAN=pool ROUNDS=20   muster.pool while its workers, supervisor, coordinator and drivers are killed"
	@echo "make fuzz SEED=1 FRAMES=1000000   hostile clients, frames from the schemas; more by FUZZ=\"--minutes 5\""
	@echo "make lint    style, layers, commit subjects, types"
	@echo "make dependencies   known vulnerabilities and licences of what is installed; build/sbom.json"
	@echo "make lock    write the three requirements*.lock anew, out of pyproject.toml and requirements-audit.in"
	@echo "make dist    wheel and sdist of muster-kafka and pytest-muster, of what is committed, in dist/"
	@echo "make dist-hosts   dist/muster: what the hosts of cluster.yaml and the image of deploy/Dockerfile install"
	@echo "make clean   remove .venv, caches and what the demo wrote"

# The stamps are copies, made last: whatever was interrupted or is out of date starts over.
setup: $(STAMP)
	@set -e; \
	if cat $(PROJECTS) 2> /dev/null | cmp -s - $(INSTALLED) 2> /dev/null; then exit 0; fi; \
	echo "== 3 of 3: this checkout"; \
	PYTHONWARNINGS=ignore $(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps --no-build-isolation -e . -e ./pytest-muster; \
	cat $(PROJECTS) > $(INSTALLED)
	$(if $(filter setup,$(MAKECMDGOALS)),@echo "ready: .venv/bin/muster up")

.PHONY: $(STAMP)
$(STAMP):
	@set -e; found=; \
	if cmp -s requirements.lock $(STAMP); then exit 0; fi; \
	for python in python3.11 python3 python; do \
	  if $$python -c 'import sys, ensurepip, venv; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; \
	    then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "muster: no Python 3.11 with venv found as python3.11, python3 or python; install it" \
	    "(Debian: python3.11 and python3.11-venv), then run make again" >&2; exit 1; fi; \
	echo "== 1 of 3: .venv, with $$found"; \
	rm -rf .venv; \
	$$found -m venv .venv; \
	echo "== 2 of 3: the packages of requirements.lock, about 1.8 GB: two minutes, more on a slow line"; \
	$(PYTHON) deploy/install.py requirements.lock; \
	cp requirements.lock $(STAMP)

demo: setup
	$(PYTHON) -m examples.demo.run $(if $(KEEP),--keep-running)

# Workers mostly wait, so there are more of them than processors. tests/rings/rings.toml has the other tests.
test: setup
	$(PYTHON) -m pytest --max-worker-restart 0 -m "not ring" --dist loadgroup --no-loadscope-reorder -n 4

# A ring needs what CONTRIBUTING.md names, and adds a row to tests/rings/ledger.csv.
ring-first: lint
ring-%: setup
	$(PYTHON) -m tests.rings run $*

everything: lint
	$(PYTHON) -m tests.rings everything

ledger: setup
	$(PYTHON) -m tests.rings ledger

# pyenv has interpreters on PATH only as shims that refuse all but one version.
TOX ?=
TOX_VENV := .cache/tox-venv
test-versions: setup
	@test -x $(TOX_VENV)/bin/tox || { rm -rf $(TOX_VENV) && $(PYTHON) -m venv $(TOX_VENV) && \
	  $(TOX_VENV)/bin/pip install --quiet --disable-pip-version-check "tox>=4.30,<5" "tox-uv>=1.28,<2"; }
	PATH="$$PATH$$(printf ':%s' "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/*/bin)" $(TOX_VENV)/bin/tox run $(TOX)

BENCH ?=
bench: setup
	$(PYTHON) -m benchmarks $(BENCH)

bench-compare: setup
	$(PYTHON) -m benchmarks diff $(A) $(B)

SEEDS ?= 1000
FIRST ?= 200
simulate: setup
	$(PYTHON) -m tests.simulation --seeds $(SEEDS) --first $(FIRST)
	$(PYTHON) -m tests.simulation --processes --seeds $(SEEDS) --first $(FIRST)
	$(PYTHON) -m tests.simulation --transactions --seeds $(SEEDS) --first $(FIRST)
	$(PYTHON) -m tests.simulation --consumer-groups --seeds $(SEEDS) --first $(FIRST)
	$(PYTHON) -m tests.simulation --wal --seeds $(SEEDS) --first $(FIRST)

SEED ?= 1
MINUTES ?= 3
PLAN ?=
ROUNDS ?= 20
chaos: setup
	$(PYTHON) -m tests.chaos $(if $(PLAN),$(PLAN) --seed $(SEED) --rounds $(ROUNDS),--seed $(SEED) --minutes $(MINUTES) $(if $(BUCKET),--bucket))

# As root, like ring-hosts, of which it is a part.
cluster-test: setup
	$(PYTHON) -m pytest -s tests/hosts/test_on_bucket.py -m ring

FRAMES ?= 1000000
fuzz: setup
	$(PYTHON) -m tests.fuzz --seed $(SEED) --frames $(FRAMES) $(FUZZ)

AUDIT_VENV := .cache/audit-venv
dependencies: setup
	@cmp -s requirements-audit.lock $(AUDIT_VENV)/requirements-audit.lock || { rm -rf $(AUDIT_VENV) && \
	  $(PYTHON) -m venv $(AUDIT_VENV) && \
	  $(AUDIT_VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-audit.lock && \
	  cp requirements-audit.lock $(AUDIT_VENV); }
	$(PYTHON) -m tests.house.dependencies $(AUDIT_VENV)

lint: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	.venv/bin/lint-imports --no-cache --no-logo
	$(PYTHON) -m tests.house.subjects
	$(PYTHON) -m mypy

PIP_COMPILE := .venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links
# The second is a part of the first, and setuptools: what cluster.yaml installs on hosts. The third has tools.
lock: setup
	$(PIP_COMPILE) --all-extras --output-file requirements.lock pyproject.toml
	cp requirements.lock requirements-hosts.lock
	$(PIP_COMPILE) --extra console --extra data --extra serve --extra spark --build-deps-for wheel --output-file requirements-hosts.lock pyproject.toml
	$(PIP_COMPILE) --output-file requirements-audit.lock requirements-audit.in

# Out of a copy, so that nothing of this folder gets in that is not committed. The wheels are built from the sdists.
DIST ?= dist
TREE ?= HEAD
dist: setup
	@set -e; rm -f $(DIST)/*.whl $(DIST)/*.tar.gz; \
	source=$$(mktemp -d); trap 'rm -rf "$$source"' EXIT; \
	git archive $(TREE) | tar -x -C "$$source"; \
	for project in "$$source" "$$source/pytest-muster"; do \
	  $(PYTHON) -m build --no-isolation --quiet --outdir $(DIST) "$$project"; done

dist-hosts:
	rm -rf dist/muster
	mkdir -p dist/muster
	git archive HEAD | tar -x -C dist/muster

clean:
	rm -rf .venv build dist *.egg-info pytest-muster/build pytest-muster/src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache demo-data demo-report.html
