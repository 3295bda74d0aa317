# make quickstart   set everything up and run the whole job on a small model
# make test         set everything up and run the tests
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
DATA ?= data/quickstart

# Python 3.11 or newer, wherever PYTHON points to something older.
FIND_PYTHON = for p in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo "$$p"; exit; }; done

.PHONY: help quickstart test test-slow lint setup setup-dev wheel clean

help:
	@sed -n 's/^# //p' Makefile

setup: $(VENV)/installed

setup-dev: $(VENV)/installed-dev

$(VENV)/installed: requirements.txt
	@python=$$($(FIND_PYTHON)); \
	test -n "$$python" || { echo "error: Python 3.11 or newer is needed"; exit 1; }; \
	"$$python" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

quickstart: setup
	$(BIN)/python -m electra_tf.run_quickstart --data_dir=$(DATA)

# The recorded numbers beside the checkout, where they are, after the project's own.
test: setup-dev lint
	$(BIN)/python -m pytest -q -m "not slow"
	@if [ -d ../shared/golden ]; then \
	ELECTRA_GOLDEN_DIR=$$(cd ../shared/golden && pwd) $(BIN)/python -m pytest -q -m golden; fi

test-slow: setup-dev
	$(BIN)/python -m pytest -q -m slow

lint: setup-dev
	$(BIN)/ruff check .

wheel: setup-dev
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) build dist *.egg-info
