# Two commands, from a fresh clone with nothing but Python 3.10+:
#   make demo    trains models with and without attention on the embedded corpus, and shows the difference
#   make test    runs the tests
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo demo-models test lint docs reference page dist audit licenses sbom matrix clean

demo: .venv/ready
	$(BIN)/seq2seq-attn demo

# The trained models that the package ships, seq2seq_attn/demo_models/, trained again.
demo-models: .venv/ready
	$(BIN)/python .ci/demo_models.py

test: .venv/ready
	$(BIN)/python -m pytest

# Style, types and import layers.
lint: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation as a site that opens from disk: docs/_build/index.html.
docs: .venv/ready
	$(BIN)/sphinx-build -W --keep-going --quiet docs docs/_build

# The pages of docs/ that are made from the package: commands, configuration, and the names of the API.
reference: .venv/ready
	$(BIN)/python docs/reference.py

# The page of the server, the parts of the page that works offline, and the script of a report, from
# seq2seq_attn/serve/frontend into serve/page, export/page and report/page of the package, which are committed. Needs
# Node 20.
page:
	cd seq2seq_attn/serve/frontend && npm ci && npm test && npm run build

# The sdist and the wheel in dist/, tried out in an environment of their own. With URL=https://github.com/OWNER/NAME the
# links of the README are absolute, as the package index needs them, and those to notebooks open them in Colab.
dist: .venv/ready
	$(BIN)/python .ci/dist.py $(URL)

# The pinned releases against the known vulnerabilities. Behind a mirror without such data pip-audit finds none, so a
# release that is known to be vulnerable is looked up first.
LOOK_UP = $(BIN)/pip-audit --no-deps --disable-pip --progress-spinner off --requirement
audit: .venv/ready
	@-$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip-audit
	@if echo jinja2==2.11.2 | $(LOOK_UP) /dev/stdin 2>&1 | grep -q PYSEC-2021-66; then $(LOOK_UP) constraints.txt; \
	else echo "audit skipped: the index of vulnerabilities cannot be reached, or has no data"; fi

# What is installed with the package and its extras, in an environment of its own: the table in docs/licenses.md by
# pip-licenses, and dist/sbom.cdx.json (CycloneDX) by cyclonedx-py.
EXTRAS = $(shell sed -n '/extras_require/,/^docs/s/^\([a-z]*\) =$$/\1/p' setup.cfg | grep -vx docs | paste -sd,)
build/alone/ready: setup.cfg constraints.txt
	$(PYTHON) -m venv build/alone
	build/alone/bin/python -m pip install --quiet --constraint constraints.txt '.[$(EXTRAS)]'
	touch $@

licenses: .venv/ready build/alone/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip-licenses
	sed -i '/^| Name /,$$d' docs/licenses.md
	$(BIN)/pip-licenses --python build/alone/bin/python --format markdown --ignore-packages seq2seq_attn pip setuptools \
	    >> docs/licenses.md

sbom: .venv/ready build/alone/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt cyclonedx-bom
	mkdir -p dist
	$(BIN)/cyclonedx-py environment --output-file dist/sbom.cdx.json build/alone

# Tests on other releases of Python, torch and the other packages: noxfile.py says which.
matrix: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt nox
	$(BIN)/nox

.venv/ready: setup.cfg constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "seq2seq_attn needs Python 3.10 or newer, got $$($(PYTHON) --version); try make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs]'
	touch $@

clean:
	rm -rf .venv .nox build dist *.egg-info docs/_build docs/_generated
