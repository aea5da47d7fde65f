# Two commands matter: `make run` (a live example) and `make test` (everything that must hold).
# Needs only python3 (3.11 or later), make, git, sh and the core utilities.

PYTHON ?= python3
BIN := .venv/bin
PINS := $(wildcard requirements.lock)
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet $(if $(PINS),-c $(PINS))

.PHONY: run test lint bench lock clean

run: .venv/installed
	@if [ ! -d playground/handbook ]; then mkdir -p playground && cp -R examples/handbook playground/handbook; fi
	@echo 'The example is playground/handbook. Once it is ready, try from another terminal:'
	@echo '  $(BIN)/evercurrent search "how long does the battery last" --data playground/data'
	@$(BIN)/evercurrent up playground/handbook --data playground/data

test: .venv/installed-dev lint
	@$(BIN)/python -m pytest -n 2 --dist worksteal -rs

lint: .venv/installed-dev
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: .venv/installed-dev
	@$(BIN)/python bench/spine.py

# The versions that were tested together, from a fresh environment; commit the file with the reason.
lock:
	@rm -rf build/lock && $(PYTHON) -m venv build/lock
	@build/lock/bin/python -m pip --disable-pip-version-check install --quiet -e '.[dev]'
	@build/lock/bin/python -m pip --disable-pip-version-check freeze --exclude-editable > requirements.lock

clean:
	@rm -rf .venv build playground

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Evercurrent needs Python 3.11 or later; set PYTHON=...")'
	@$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml $(PINS)
	@echo "Installing Evercurrent into .venv (once) ..."
	@$(PIP) -e .
	@touch $@

.venv/installed-dev: .venv/bin/python pyproject.toml $(PINS)
	@echo "Installing Evercurrent and its tests' tools into .venv (once) ..."
	@$(PIP) -e '.[dev]'
	@touch $@ .venv/installed
