# The two commands of a newcomer, `make demo` and `make test`, set up everything they need in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check format tables clean

demo: .venv/ready
	$(BIN)/tempograph demo

test: .venv/ready
	$(BIN)/pytest -n auto

check: .venv/ready
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

tables: .venv/ready
	$(BIN)/python scripts/update_tables.py

# torch goes first and by its exact version: an open range would fetch gigabytes of GPU libraries on some machines.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tempograph needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch .venv/ready

clean:
	rm -rf .venv runs build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
