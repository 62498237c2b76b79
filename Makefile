# Everything starts here: `make chat` and `make test` set up what they need, in .venv, and nothing outside this folder.
#
#   make test ARGS="tests/unit -k name"    hands arguments to pytest
#   make check VENV=/some/where            uses another virtual environment
#   make chat PYTHON=python3.12            uses another Python

VENV ?= .venv
ARGS ?=
ifndef PYTHON
PYTHON := $(shell for one in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$one" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$one"; break; }; done)
endif

py := "$(VENV)/bin/python"

# Makes the environment and installs the package, unless that was done since pyproject.toml was last changed.  $(1): an extra.
define setup
	@test -n "$(PYTHON)" || { echo "nanobot needs Python 3.11 or newer, and there is none here. Install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@if ! $(py) -c '' 2>/dev/null; then \
		echo "Setting up $(VENV), once; this takes a minute." >&2; \
		"$(PYTHON)" -m venv --clear "$(VENV)" || { echo "Python's venv module does not work here (see above)." >&2; exit 1; }; \
	fi
	@if [ ! -e "$(VENV)/.has$(1)" ] || [ pyproject.toml -nt "$(VENV)/.has$(1)" ]; then \
		echo "Installing nanobot$(1) into $(VENV)." >&2; \
		$(py) -m pip install --quiet --disable-pip-version-check --editable ".$(1)" \
			&& touch "$(VENV)/.has" "$(VENV)/.has$(1)"; \
	fi
endef

.PHONY: help chat test check format bench bench-peers clean

help:
	@echo "make chat     set up and talk to nanobot"
	@echo "make test     set up and run the tests (ARGS=... goes to pytest)"
	@echo "make check    all that CI checks: format, lint, types, imports, tests"
	@echo "make format   format the code and apply safe fixes"
	@echo "make bench    measure, against floors of the same run (bench-peers: and beside other projects)"
	@echo "make clean    remove .venv and caches"

chat:
	$(call setup,)
	@$(py) -m nanobot agent $(ARGS)

test:
	$(call setup,[dev])
	@$(py) -m pytest $(ARGS)

check:
	$(call setup,[dev])
	$(py) -m ruff format --check .
	$(py) -m ruff check .
	$(py) -m basedpyright --pythonpath $(py)
	$(py) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'
	$(py) -m pytest $(ARGS)

format:
	$(call setup,[dev])
	$(py) -m ruff format .
	$(py) -m ruff check --fix .

bench:
	$(call setup,[dev])
	@$(py) -m bench.run $(ARGS)

bench-peers:
	$(call setup,[dev])
	@$(py) -m bench.peers
	@$(py) -m bench.run --peers $(ARGS)

clean:
	rm -rf "$(VENV)" .bench .bench-* build *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
