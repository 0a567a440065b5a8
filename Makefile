# Everything a person or an automatic run needs. Each target can be run again at any time.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup system-packages lint types check coverage coverage-all test test-vllm demo demo-train tour tour-train bench clean requirements reference slurm-up slurm-down

BIN := .venv/bin
# The machines this is sized for have two cores: two workers for tests that compute, three for all of them, since
# many of those wait for a scheduler, a time limit or a training. Bytecode is kept, since hundreds of processes that
# the tests start import the same sources; `make clean` removes it.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -q --dist worksteal
SHELL_FILES = $(wildcard scripts/*.sh scripts/slurm/*.sh src/nemo_cli/*.sh src/nemo_gym/shell/*.sh src/nemo_gym/sandbox/*.sh src/nemo_slurm/*.sh src/*/remote/*.sh src/*/*/*/remote/*.sh src/*/*/*/on_cluster/*.sh) .ci/run

help:
	@echo "make setup    every pinned package and the project into .venv; programs in .venv/bin"
	@echo "make check    format, lint, types, layering, shell files, fast tests (under a minute)"
	@echo "make coverage which share of each package's lines the fast tests run"
	@echo "make coverage-all  the same of all tests but those of a real Slurm, with the processes that they start (an hour)"
	@echo "make test     everything that check does, and the tests with real programs and the real small model"
	@echo "make test-vllm  the service type vllm with a real vLLM without a GPU (installs 3.5 GB once)"
	@echo "make demo     submit a real evaluation of a real small model and follow it to its scores"
	@echo "make demo-train  train that model, pause and resume it, and compare its scores before and after"
	@echo "make tour     the same as a chain of jobs on a real Slurm, with its status, certificate and bill"
	@echo "make tour-train  a training there that loses its walltime and its node and is paused, its weights compared"
	@echo "make bench    measurements, each a ratio in one run"
	@echo "make slurm-up   a real Slurm on this machine, four nodes (root on Debian installs it); make slurm-down stops it"
	@echo "make reference     write the generated pages of docs/reference; make requirements writes the pins"
	@echo "make clean    remove what the others made, .venv and runs/ excepted"

system-packages:
	@scripts/system-packages.sh

setup: system-packages
	@scripts/setup.sh

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(if $(shell command -v shellcheck),shellcheck -x $(SHELL_FILES),@echo "shellcheck is not installed: the shell files were not checked" >&2)

types: setup
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini

check: lint types
	$(PYTEST) -n 2 -m "not e2e and not slow and not slurm and not services"

# The fast tests alone: what runs in processes of its own (job scripts, steps, engines) is not counted.
coverage: setup
	$(PYTEST) -n 2 -m "not e2e and not slow and not slurm and not services" \
		--cov --cov-fail-under=0 --cov-report= --cov-report=json:.coverage.json
	$(BIN)/python scripts/coverage_by_package.py .coverage.json

# All tests but those of a real Slurm, with what they start, in about an hour; what runs in the interpreters of
# training engines is not counted. TESTS=FOLDER measures some alone.
coverage-all: export COVERAGE_FILE = $(CURDIR)/.coverage
coverage-all: setup
	$(BIN)/coverage erase
	-$(BIN)/coverage run --rcfile=scripts/whole_coverage.ini -m pytest -q --dist worksteal -n 2 -m "not slurm" \
		-p no:pytest_cov $(TESTS)
	$(BIN)/coverage combine --rcfile=scripts/whole_coverage.ini -q
	$(BIN)/coverage json --rcfile=scripts/whole_coverage.ini -q -o .coverage.json
	$(BIN)/python scripts/coverage_by_package.py .coverage.json 90

# Budget on two cores, installing aside: 40 minutes. A whole run of 13,695 tests took 35.
test: lint types
	$(PYTEST) -n 3

# Once 3.5 GB into the user's cache, for the tests of the service type `vllm` alone.
test-vllm: setup
	$(BIN)/pytest -q -s -m vllm tests/e2e/test_vllm.py

demo: setup
	@scripts/demo.sh

demo-train: setup
	@scripts/demo-train.sh

tour: setup
	@scripts/tour-slurm.sh

tour-train: setup
	@scripts/tour-train.sh

bench: setup
	@scripts/bench.sh

slurm-up:
	@scripts/slurm/up.sh

slurm-down:
	@scripts/slurm/down.sh

requirements: setup
	scripts/compile-requirements.sh

# What other packages add, in an environment that has some, is no part of the pages.
reference: REFERENCE := NEMO_WITHOUT_PACKAGES=1 $(BIN)/python
reference: setup
	$(REFERENCE) scripts/write_reference.py
	$(REFERENCE) scripts/write_settings_reference.py
	$(REFERENCE) scripts/write_verifier_reference.py
	$(REFERENCE) scripts/write_python_reference.py
	$(REFERENCE) scripts/write_job_statuses.py
	$(REFERENCE) scripts/write_customization_reference.py
	$(REFERENCE) scripts/write_recipe_reference.py

clean:
	rm -rf build dist screenshots .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.json
	find src tests bench benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
