# Everything runs in $(VENV), made from requirements.lock, with what the package registries give.

# The first of these that is Python 3.11 or newer makes the environment.
PYTHON = python3 python3.14 python3.13 python3.12 python3.11
VENV = .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
TOOLS = $(VENV)/.tools
ARGS =
# Else each of some hundred processes that the tests start would compile the program again.
unexport PYTHONDONTWRITEBYTECODE
# The tests that need no brokers, no Spark and no network.
ALONE = -n 2 --dist loadgroup -m "not (brokers or spark or fetched or worlds or nightly)"

.PHONY: help demo test nightly compatibility check coverage lint style bench simulate soak mutants dist site audit fuzz venv lock clean

help: ## Show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP) ## Two clusters, orders flowing, a live view (ARGS="--seconds 20" ends by itself)
	@$(BIN)/replicator demo $(ARGS)

# mypy takes most of a minute in a fresh clone, and one core: it runs beside the tests, and its errors come last.
define with_types
	@log=$$(mktemp); $(BIN)/mypy --no-error-summary >$$log 2>&1 & types=$$!; \
	$(BIN)/python -m pytest $(1); tests=$$?; \
	wait $$types; types=$$?; cat $$log; rm -f $$log; test $$tests = 0 && test $$types = 0
endef

test: style ## All checks, and all tests but the longest (ARGS goes to pytest)
	$(call with_types,-n 2 --dist loadgroup -m "not nightly" $(ARGS))

nightly: style $(TOOLS) ## All checks and all tests, and the floor of branch coverage (ARGS goes to pytest)
	$(call with_types,-n 2 --dist loadgroup $(ARGS))
	@$(MAKE) --no-print-directory coverage ARGS=

compatibility: $(STAMP) ## Run and record the tests of docs/COMPATIBILITY.md, and write it (ARGS goes to pytest: -k for some)
	@$(BIN)/python -m pytest -n 2 --dist loadgroup --compatibility=docs/compatibility.json $(ARGS); tests=$$?; \
	$(BIN)/python -m tools.compatibility_page && exit $$tests

check: style ## All that needs no brokers, no Spark and no network, in two minutes (ARGS goes to pytest)
	$(call with_types,$(ALONE) $(ARGS))

coverage: $(STAMP) ## The same tests with their branch coverage, which has a floor in pyproject.toml
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest $(ALONE) $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

lint: style ## Style, format, layers and types
	@$(BIN)/mypy --no-error-summary

style: $(STAMP)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --quiet --check
	@$(BIN)/lint-imports --no-logo

bench: $(STAMP) ## Benchmarks beside the Java way (ARGS goes to the benchmark)
	@$(BIN)/python -m bench $(ARGS)

SEEDS = 1000
SEED =
simulate: $(STAMP) ## Whole workers in SEEDS simulated worlds, or in the one of SEED with its history
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

MINUTES = 10
soak: $(STAMP) ## Real workers and brokers under faults for MINUTES, round after round (SEED=n repeats them)
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

mutants: $(STAMP) ## Which of a list of errors in the code the simulation finds
	@$(BIN)/python -m tests.simulation --mutants --seeds $(SEEDS) $(ARGS)

dist: $(TOOLS) ## Wheels of all platforms, the source archive, the SBOM and checksums, into dist/
	@rm -rf dist
	@$(BIN)/python -m tools.dist
	@echo "Before a release: make audit" >&2

site: $(TOOLS) ## The documentation as a site, into site/; a link that leads nowhere ends it
	@rm -rf site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m tools.site

audit: $(TOOLS) ## Look the locked packages up in PyPI's list of vulnerabilities
	@$(BIN)/pip-audit --strict --require-hashes --disable-pip --progress-spinner off -r requirements.lock || { \
		echo "A vulnerability, or, where it says 'could not be audited', a version that this registry does not list:" \
		"ask PyPI itself then, since nothing was looked up" >&2; exit 1; }

SECONDS = 60
fuzz: $(TOOLS) ## Fuzz every decoder for SECONDS each, and the compiled code under sanitizers (ARGS: names)
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

venv: $(STAMP) ## Only make the environment

# The lock file is the result of uv alone: no index or mirror of this machine may stand in it.
lock: $(STAMP) ## Renew requirements.lock from pyproject.toml
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header --all-extras --group dev \
		pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header --group tools -c requirements.lock \
		-o requirements-tools.lock

clean: ## Delete the environment and all caches of the checkout
	@rm -rf $(VENV) .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist site build
	@rm -f replicator/protocol/*.so
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): requirements.lock pyproject.toml replicator/protocol/uniform_run.c tools/compile.py
	@for each in $(PYTHON); do \
		$$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && python=$$each && break; \
	done; \
	if [ -z "$$python" ]; then \
		echo "Python 3.11 or newer is needed, and none of these is: $(PYTHON). Say which one: make PYTHON=/path/to/python" >&2; \
		exit 1; \
	fi; \
	if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "$$python has no venv module. Debian and Ubuntu have it in the package python3-venv." >&2; \
		exit 1; \
	fi; \
	if ! $(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		echo "Making $(VENV) with $$python …"; \
		$$python -m venv --clear $(VENV); \
	fi
	@echo "Installing the $$(grep -c '==' requirements.lock) packages that requirements.lock names: a minute or so …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@echo "Installing this project, whose C file is compiled …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

$(TOOLS): $(STAMP) requirements-tools.lock
	@echo "Installing what requirements-tools.lock names …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-tools.lock
	@touch $(TOOLS)
