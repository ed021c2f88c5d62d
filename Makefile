# Start with `make demo` or `make test`; both install everything they need into .venv.
PYTHON ?= python3
BIN := .venv/bin
# Tests often wait for processes and pages, so there are more of them than cores.
WORKERS = $(shell $(PYTHON) -c 'import os; print(os.cpu_count() * 3 // 2)')

.PHONY: demo test check docs format tables pictures clean

demo: .venv/ready
	$(BIN)/tempograph demo

# Every worker imports everything: compiled modules are kept, also where Python is told not to.
# The explorer is tested in a browser. Without one, those tests are skipped with a message.
test: .venv/ready
	@command -v chromium > /dev/null || $(BIN)/playwright install chromium || echo "could not install a browser"
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(WORKERS) --dist worksteal

check: .venv/ready
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: .venv/ready
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

tables: .venv/ready
	$(BIN)/python scripts/count_test_measurements.py
	$(BIN)/python scripts/update_tables.py

# The pictures of README.md and docs/. This needs ICEWS14, ICEWS05-15 and the browser chromium.
pictures: .venv/ready
	$(BIN)/tempograph compare demo --models ted,complex,srgcn,temp-gru,temp-sa --device cpu --out runs/pictures
	$(BIN)/tempograph train demo --model pointer --device cpu --overwrite --out runs/pictures/pointer
	$(BIN)/tempograph complete runs/pictures/pointer --subject Talenne --relation visits --time 2030-03-01 --top 4 --evidence 2 --plot docs/images/answer.png
	$(BIN)/tempograph report runs/pictures/*-seed0 --out runs/pictures/report.md
	cp runs/pictures/report-pictures/data1-test-replication-hits10.svg docs/images/replication.svg
	cp runs/pictures/report-pictures/data1-test-reference-hits10.svg docs/images/reference.svg
	cp runs/pictures/report-pictures/data1-test-groups.svg docs/images/groups.svg
	cp runs/pictures/report-pictures/data1-test-relations.svg docs/images/relations.svg
	cp runs/pictures/report-pictures/run4-learned.svg docs/images/learned-gru.svg
	cp runs/pictures/report-pictures/run5-learned.svg docs/images/learned-sa.svg
	$(BIN)/tempograph reproduce figures --dataset icews14 --no-train --out runs/pictures/icews14
	for name in replication-hits10 reference-hits10 groups; do cp runs/pictures/icews14/$$name.svg docs/images/icews14-$${name%-hits10}.svg; done
	$(BIN)/tempograph reproduce figures --dataset icews05-15 --no-train --out runs/pictures/icews05-15
	cp runs/pictures/icews05-15/groups.svg docs/images/icews05-15-groups.svg
	$(BIN)/python scripts/explorer_pictures.py temp-gru=runs/pictures/temp-gru-seed0 ted=runs/pictures/ted-seed0 --out runs/pictures/explorer
	cp runs/pictures/explorer/answers-1440-light.png docs/images/explorer.png

# Install torch first, at its exact version: an open range downloads gigabytes of CUDA libraries on some machines.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tempograph needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch .venv/ready

clean:
	rm -rf .venv runs build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
