# Two commands, from a fresh clone with nothing but Python 3.10+:
#   make demo    trains attention and its rivals on the embedded corpus, and shows what attention is for
#   make test    proves that the package works
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint clean

demo: .venv/ready
	$(BIN)/seq2seq-attn demo

test: .venv/ready
	$(BIN)/python -m pytest

# Style, types and import layers.
lint: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

.venv/ready: setup.cfg constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "seq2seq_attn needs Python 3.10 or newer, got $$($(PYTHON) --version); try make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build *.egg-info
