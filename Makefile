# Every target sets up what it needs: a virtual environment in .venv with pinned packages.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: quickstart test test-slow test-ray test-dist lint format clean

quickstart: $(INSTALLED)
	cd projects/quickstart && $(abspath $(BIN))/python -m spacy project run all

test: $(INSTALLED)
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -m slow

# What needs Ray, which is large: a worker of projects/embed_cluster is killed.
test-ray: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,ray]'
	$(BIN)/python -m pytest -m slow tests/projects/test_embed_cluster.py

# Builds sdist and wheel and uses each in an environment that never saw the checkout.
test-dist: $(INSTALLED)
	$(BIN)/python tests/check_dist.py

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(INSTALLED): setup.cfg setup.py pyproject.toml constraints.txt $(wildcard spacy_elmo/bilm/kernel/*.[ch])
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 10) and 'Python 3.10 or newer is needed')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(INSTALLED)

clean:
	rm -rf $(VENV) build dist *.egg-info
