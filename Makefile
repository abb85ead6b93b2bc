# How Tipple is built, checked, tested and shown. `make help` lists the targets.
#
# Everything goes into .venv (the command, the library, the development tools) and target (Rust). Steps that
# need the network run only when their input changed: a second run of any target is quick and works offline.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
# A checker or test started from here must see this environment and no other.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(PYTHON)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONPATH PYTHONHOME CONDA_PREFIX

# rustup looks for its toolchains below HOME. Where HOME is not the home that rustup was installed in (a fresh
# account, a container), the toolchains are beside the .cargo directory that cargo itself is in.
ifndef RUSTUP_HOME
ifneq ($(shell cargo --version >/dev/null 2>&1 && echo found),found)
beside_cargo := $(dir $(patsubst %/,%,$(dir $(patsubst %/,%,$(dir $(shell command -v cargo))))))
ifneq ($(wildcard $(beside_cargo).rustup/toolchains),)
export RUSTUP_HOME := $(beside_cargo).rustup
endif
endif
endif

rust_sources := Cargo.toml Cargo.lock pyproject.toml \
    $(shell find crates -name '*.rs' -not -path '*/tests/*' -not -path '*/benches/*' -o -name Cargo.toml)
python_code := python tests scripts benchmarks
# Tests wait for processes most of the time. Each worker has servers of its own; 0 runs all in one process.
PYTEST_WORKERS ?= 4

.PHONY: help build demo check check-rust check-python check-docs test test-rust test-python servers bench lock fmt clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

build: $(VENV)/.built ## build the command and the library into .venv

$(PYTHON):
	python3 -m venv $(VENV)

# The stamp is a copy of what was installed, so that a checkout which only touches the file costs nothing.
$(VENV)/.requirements.txt: requirements/dev.txt | $(PYTHON)
	@cmp -s $< $@ || $(PYTHON) -m pip install --quiet --require-hashes -r $<
	@cp $< $@

# Editable: a change of Python needs no build. The wheel is built the same way (`maturin build --release`).
# No index, so that nothing comes in but what dev.txt pins by hash. The stamp bears the time at which the build
# began: a source that changed meanwhile is built next time.
$(VENV)/.built: $(VENV)/.requirements.txt $(rust_sources)
	@touch $@.begun
	PIP_NO_INDEX=1 $(BIN)/maturin develop --release --locked
	@# An installed wheel has its bytecode; without it, every start would compile where PYTHONDONTWRITEBYTECODE is set.
	@$(PYTHON) -m compileall -q python/tipple
	@mv $@.begun $@

demo: build ## generate TPC-H, load it into an embedded database in parallel, verify, report
	@scripts/demo

check: check-rust check-python check-docs ## formatting, lint, types, stubs and documents; rewrites nothing

check-rust: $(VENV)/.requirements.txt
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

check-python: build
	$(BIN)/ruff format --check $(wildcard $(python_code))
	$(BIN)/ruff check $(wildcard $(python_code))
	$(BIN)/mypy
	$(PYTHON) -m mypy.stubtest tipple._core
	@# Types are checked in the package only; a test module that no longer imports is found here, in seconds. So is
	@# a test whose name differs from one second to the next: the workers of a run must all find the same ones.
	@mkdir -p .cache
	for seed in 1 2; do PYTHONHASHSEED=$$seed $(PYTHON) -m pytest --collect-only --quiet | grep :: >.cache/tests.$$seed; done
	cmp .cache/tests.1 .cache/tests.2 && test -s .cache/tests.1

# Each script here says with its exit status whether a committed, generated file is what it would write now.
check-docs: build
	@for check in $(wildcard scripts/check-*); do echo "$$check"; "$$check" || exit 1; done

test: test-rust test-python ## all tests; pytest's summary comes last

test-rust: $(VENV)/.requirements.txt
	cargo test --workspace --locked --quiet

test-python: build servers
	@$(PYTHON) -m pytest --numprocesses $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

servers:
	@scripts/test-servers

bench: build ## compare with the peers on this machine (minutes; ARGS="--scale 10" for more)
	$(PYTHON) benchmarks/run.py $(ARGS)

lock: ## pin the newest versions that requirements/dev.in allows
	@test -x .cache/lock/bin/uv || { python3 -m venv .cache/lock && .cache/lock/bin/pip install --quiet uv; }
	env -u VIRTUAL_ENV .cache/lock/bin/uv pip compile --universal --python-version 3.11 --generate-hashes \
	    --no-header --upgrade --output-file requirements/dev.txt requirements/dev.in

fmt: $(VENV)/.requirements.txt ## format everything
	cargo fmt --all
	$(BIN)/ruff format $(wildcard $(python_code))
	$(BIN)/ruff check --fix --quiet $(wildcard $(python_code))

clean: ## remove what was built; not the environment's downloads, not demo data
	rm -rf target $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache python/tipple/_core*.so
