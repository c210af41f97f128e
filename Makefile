# Every target works on a fresh machine: what it needs, it installs first.
# Python compiles a module once and not at each start, whatever the machine's default is.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PREFIX ?= /opt/zbackup
BINDIR ?= /usr/local/bin
PIP_INSTALL := pip install --quiet --disable-pip-version-check

# Modules of which `make test` tells some repeats of a story, and test-slow all: see tests/lab/repeats.py.
REPEATED := tests/faults/test_snapshot_faults.py tests/platform/test_prune.py tests/platform/test_ship_killed.py \
  tests/platform/test_ship_ssh.py tests/system/test_backup_as_it_is.py tests/system/test_recovery_mongodb.py \
  tests/system/test_backup_as_it_is_mongodb.py tests/system/test_interrupted_restore.py tests/system/test_interrupted_snapshot.py \
  tests/system/test_come_back.py tests/system/test_odd_servers_mariadb.py tests/system/test_odd_servers_mongodb.py \
  tests/system/test_odd_servers_mysql.py
REPEATED_HERE := tests/destinations/test_s3_archive_cut.py tests/destinations/test_s3_cut.py tests/destinations/test_s3_keep.py \
  tests/lab/selftest_binlog.py tests/lab/selftest_copy.py tests/lab/selftest_copy_mongo.py tests/lab/selftest_engines.py \
  tests/lab/selftest_lock_recovery.py tests/lab/selftest_mongo.py tests/lab/selftest_replay.py tests/lab/selftest_servers.py

.PHONY: install deb man setup demo demo-mongodb test test-slow mutants test-containers test-versions test-ansible check types units lab guest servers bench docs lock clean

setup: $(VENV)/.done ## the virtual environment, exactly as locked

$(VENV)/.done: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

install: ## zbackup for this host, every package proven by its hash: PREFIX=/opt/zbackup BINDIR=/usr/local/bin
	umask 022 && $(PYTHON) -m venv $(PREFIX) \
	  && $(PREFIX)/bin/$(PIP_INSTALL) --require-hashes -r requirements-install.lock \
	  && $(PREFIX)/bin/$(PIP_INSTALL) --no-deps --no-build-isolation --no-index --force-reinstall . \
	  && mkdir -p $(BINDIR) && ln -sfn $(PREFIX)/bin/zbackup $(BINDIR)/zbackup

deb: ## the Debian package zbackup-pitr, for the release that this runs on: dist/zbackup-pitr_*.deb
	/usr/bin/python3 packaging/deb.py dist

man: setup ## man pages, from what the reference is made from
	$(BIN)/python docs/reference/man.py dist/man

check: setup ## format, lint, types, import contracts, unit tests, every job broken at every change: little more than a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j 2) types units

types: setup
	$(BIN)/mypy
	$(BIN)/lint-imports

units: setup
	$(BIN)/pytest -q -n 3 --dist worksteal tests/fast tests/unit # what takes long comes first

lab: ## build and fetch what the tests need: a guest kernel with OpenZFS, database servers
	tests/lab/lab up

guest: # the lab without servers needs no virtual environment
	tests/lab/lab up --no-servers

servers: setup
	$(PYTHON) -m tests.lab.servers fetch

demo: setup lab ## a table is dropped, and it is back: the whole story on real ZFS with a real MySQL
	tests/lab/lab run --disk 4G -- $(BIN)/python -m tests.lab.demo

demo-mongodb: setup lab ## the same with a real mongod and a dropped collection
	tests/lab/lab run --disk 4G -- $(BIN)/python -m tests.lab.demo_mongodb

test: ## everything: the checks while the lab is built, then every test on real ZFS with real servers
	$(MAKE) --no-print-directory -j 4 check guest servers
	tests/lab/lab test -j 5 --timeout 25m --here tests/power/selftest_cuts.py --here tests/lab --here tests/destinations --here tests/browser \
	  tests/faults tests/system tests/attacks tests/platform
	@if docker version >/dev/null 2>&1; then $(MAKE) --no-print-directory test-containers; \
	else echo "No Docker engine answers, so nothing was run in containers: make test-containers brings an engine."; fi

test-slow: setup lab ## long campaigns on the lab; their last results are in docs/reference/slow-tests.md
	ZBACKUP_EXAMPLES=10 $(BIN)/pytest -q -n 2 --dist worksteal tests/unit
	LAB_ZFS=packaged ZBACKUP_REPEATS=all tests/lab/lab test -j 2 --mem 7G --timeout 3h \
	  --here packaging/selftest_package.py --here bench/selftest_commands.py tests/slow tests/system@slow tests/attacks@slow
	ZBACKUP_REPEATS=all tests/lab/lab test -j 2 --timeout 1h $(REPEATED_HERE:%=--here %) $(REPEATED)
	$(BIN)/python -m tests.power.cuts --cuts 50
	$(BIN)/python -m tests.power.lost --rounds 10 --flavour mysql-9.7
	$(BIN)/python -m tests.power.lost --rounds 10 --flavour mariadb-10.11
	$(MAKE) --no-print-directory test-ansible

mutants: setup ## puts defects into a copy of the project, one by one, and says which no quick test finds
	$(BIN)/python -m tests.mutants
	$(BIN)/python -m tests.mutants.campaign --most 300

test-containers: $(VENV)/.containers ## the engine code against servers in containers; `make test` runs it where an engine answers
	$(BIN)/mypy tests/containers
	$(BIN)/python -m tests.containers

test-versions: setup guest ## recovery, transactions and clones with servers of yours: LAB_SERVERS=mysql-8.4=/opt/mysql84,...
	$(BIN)/python -m tests.lab.versions

test-ansible: $(VENV)/.ansible ## the Ansible role, in the lab; not part of `make test`
	$(BIN)/pytest -q contrib/ansible/selftest_role.py

$(VENV)/.ansible: $(VENV)/.done requirements-ansible.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-ansible.lock
	touch $@

$(VENV)/.containers: $(VENV)/.done requirements-containers.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-containers.lock
	touch $@

bench: setup lab ## measured side by side with what would be run instead, into docs/reference/benchmarks.md: BENCH="disaster --server mysql-9.7 --gib 3"
	$(BIN)/python -m bench $(BENCH)

docs: setup ## the reference pages and the picture of the house, from the code
	$(BIN)/python docs/reference/generate.py
	$(BIN)/python docs/images/house.py

lock: ## renew the locks from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	  --extra dev --extra web pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	  --extra dev --extra web --extra containers --constraint requirements.lock pyproject.toml -o requirements-containers.lock
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	  --extra install --extra web --constraint requirements.lock pyproject.toml -o requirements-install.lock
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	  --constraint requirements.lock contrib/ansible/requirements.in -o requirements-ansible.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
