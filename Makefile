# Two commands: `make book` writes _build/html/index.html, `make test` runs the tests of every push.
# `make PYTHON=python3.12 book` picks another Python. No GPU, no root, no compiler is needed.

PYTHON ?= python3
PORT ?= 8000
JOBS ?= auto
VENV := .venv
BIN := $(VENV)/bin
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check
CHAPTERS := $(wildcard book/*.md)

# Matplotlib's first import lists the fonts and says so on stderr, where a chapter may say nothing.
export MPLCONFIGDIR := $(CURDIR)/$(VENV)/matplotlib
export PYDEVD_DISABLE_FILE_VALIDATION := 1
# Chapters run with no one's own IPython settings, and kernels do not warn about talking to localhost.
export IPYTHONDIR := $(CURDIR)/$(VENV)/ipython
# IPython puts the packages of an activated environment before its own, even of another project's.
unexport VIRTUAL_ENV

.DEFAULT_GOAL := help
.PHONY: help book pdf lab test test-day test-week lint format notebooks figures serve clean inputs force

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- the environment: each stamp says what has been installed ------------------------------------

# Where a GPU answers, its driver's version says which CUDA the wheels are of (requirements/*.txt say why).
# `make WHEELS=requirements.txt book` leaves the GPU out.
WHEELS ?= $(or $(shell nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | \
  awk -F. 'NR == 1 && $$1 ~ /^[0-9]+$$/ { \
    if ($$1 >= 580) print "requirements/cuda13.txt"; \
    else if ($$1 >= 525) print "requirements/cuda12.txt" }'),requirements.txt)
WHEELS := $(WHEELS)
# What an environment made for another driver, or for none, holds and this one must not.
ODD_requirements/cuda12.txt := cupy-cuda13x nvidia-cuda-nvrtc
ODD_requirements/cuda13.txt := cupy-cuda12x
ODD := $(ODD_$(WHEELS))

# The stamp holds the name of the file that was installed.
ifneq ($(shell cat $(VENV)/.book 2>/dev/null),$(WHEELS))
$(VENV)/.book: force
endif

$(VENV)/.book: requirements.txt $(wildcard requirements/*.txt) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed, and '$(PYTHON)' is not (or is not there)." >&2; \
	  echo "Name one that is: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "[environment] making $(VENV)"; $(PYTHON) -m venv $(VENV); } || { \
	  echo "'$(PYTHON) -m venv' failed: on Debian and Ubuntu, install python3-venv." >&2; exit 1; }
	@echo "[environment] installing $(WHEELS): what builds and runs the book (about 1 GB, once)"
	@$(if $(ODD),$(subst install,uninstall --yes,$(PIP)) $(ODD) 2>/dev/null)
	@$(PIP) -r $(WHEELS) -e . 2>$(VENV)/pip.log || { grep -E '^(ERROR|error)' $(VENV)/pip.log | head -n 3 >&2; \
	  echo "pip could not install what $(WHEELS) names. If this machine has no network now, that is why: call make" \
	    "again when it has. All that pip said is in $(VENV)/pip.log." >&2; exit 1; }
	@$(BIN)/python -c 'import matplotlib.font_manager'
	@mkdir -p $(IPYTHONDIR)/profile_default
	@echo '{"IPKernelApp": {"log_level": 40}}' > $(IPYTHONDIR)/profile_default/ipython_kernel_config.json
	@echo $(WHEELS) > $@

$(VENV)/.lab: $(VENV)/.book
	@echo "[environment] installing JupyterLab"
	@$(PIP) -e '.[lab]'
	@touch $@

$(VENV)/.test: $(VENV)/.book
	@echo "[environment] installing what the tests need"
	@$(PIP) -e '.[test]'
	@for name in chromium chromium-browser google-chrome; do \
	  command -v $$name >/dev/null && exit 0; done; \
	  echo "[environment] fetching Chromium, in which the pages are tested"; \
	  $(BIN)/playwright install chromium || { \
	  echo "That failed: install Chromium with your package manager." >&2; exit 1; }
	@touch $@

$(VENV)/.lint: $(VENV)/.book
	@echo "[environment] installing the linters"
	@$(PIP) -e '.[lint]'
	@touch $@

# --- the book ------------------------------------------------------------------------------------

# A page runs once, for its notebook and for the book, where its code or what it reads has changed
# since; RUN=all runs every page, and RUN="06 intro" those whose names begin so.
AGAIN := $(if $(RUN),--again $(filter-out all,$(RUN)))

notebooks: $(VENV)/.book ## book/*.ipynb from book/*.md, with their outputs (RUN=all: of new runs)
	@JUPYTER_PREFER_ENV_PATH=1 $(BIN)/python -m helpers notebooks $(AGAIN)

# Listings, quizzes and colours follow from helpers and kernels: when any of these changes, every page
# is read anew. No page runs for that.
inputs:
	@mkdir -p _build
	@find helpers packages kernels data book/_ext requirements.txt requirements -type f ! -name '*.pyc' | LC_ALL=C sort | \
	  xargs cksum > _build/inputs.new
	@$(if $(TILE_PAGE),echo pages run >> _build/inputs.new)
	@cmp -s _build/inputs.new _build/inputs || rm -rf _build/.doctrees
	@mv _build/inputs.new _build/inputs

# PAGE=1 builds pages whose cells can be edited and run where they stand; what they load when a reader
# asks for that is fetched first, once, since it may not be had.
export TILE_PAGE := $(filter 1,$(PAGE))

# After a failure the pages are read anew, or the next call would not repeat the warning, and there
# is no index.html, so that nobody takes the rest for a book. How Sphinx is set up is of no interest
# where it succeeds; its whole log is in _build/sphinx.log.
book: export TILE_BOOK_BUILD := 1
book: export TILE_TRACEBACK := 1
book: $(VENV)/.book inputs ## write _build/html/index.html; pages that changed run first (RUN=all: every page; PAGE=1: cells run in the page)
	@$(if $(TILE_PAGE),$(BIN)/python -m tools.page_files,rm -rf _build/html/run _build/html/_static/run.js)
	@rm -f _build/emulator.log; touch _build/emulator.log; date +%s > _build/started
	@JUPYTER_PREFER_ENV_PATH=1 TILE_EMULATOR_LOG="$(CURDIR)/_build/emulator.log" \
	  $(BIN)/python -m helpers notebooks --book $(AGAIN) || { rm -f _build/html/index.html; exit 1; }
	@echo "[book] Sphinx writes $(words $(CHAPTERS)) pages"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/jupyter-book build -W -n --keep-going . >_build/sphinx.log 2>&1 || { \
	  grep -E 'WARNING|ERROR|Error|rror:' _build/sphinx.log || tail -n 40 _build/sphinx.log; \
	  echo "[book] Sphinx failed: mend what is named above and call make book again; the pages' runs" \
	    "are kept. All that it said is in _build/sphinx.log." >&2; \
	  rm -rf _build/.doctrees _build/html/index.html; exit 1; }
	@touch _build/html/index.html
	@awk -v s=$$(cat _build/started) -v e=$$(date +%s) '{ t += $$1 } END { printf \
	  "[book] built in %d s; the emulator ran %d launches in %.0f s of them\n", e - s, NR, t }' \
	  _build/emulator.log
	@echo "The book is at $(CURDIR)/_build/html/index.html"

# One page holds the whole book, and Chromium prints it; the book's own pages are made first.
pdf: book $(VENV)/.test ## write _build/tile-by-tile.pdf
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/jupyter-book build --keep-going --builder custom --custom-builder singlehtml . \
	  >_build/pdf.log 2>&1 || { tail -n 40 _build/pdf.log; exit 1; }
	@cp _build/singlehtml/book/intro.html _build/singlehtml/whole.html  # from there its links lead to its style
	@$(BIN)/python -m tools.pdf _build/singlehtml/whole.html _build/tile-by-tile.pdf

serve: book ## the book on http://localhost:8000 (PORT=..., PAGE=1)
	@echo "http://localhost:$(PORT)/ (stop with Ctrl-C)"
	@$(BIN)/python -m http.server --bind localhost --directory _build/html $(PORT)

# The notebooks run in .venv, whatever kernels the user has; kernels/ can be edited beside them.
# JupyterLab shows the figures that a notebook carries only where its reader trusts it. Opened are copies in
# mine/, so that running them changes nothing that git tracks; a copy that its reader changed stays.
lab: $(VENV)/.lab ## JupyterLab with copies of the book's notebooks in mine/ (LAB=... for its options)
	@mkdir -p mine/.as_given
	@new=; for page in book/*.ipynb; do copy=mine/$${page#book/}; given=mine/.as_given/$${page#book/}; \
	  if ! test -e $$copy || cmp -s $$copy $$given; then cp $$page $$copy && cp $$page $$given && new="$$new $$copy"; \
	  elif ! cmp -s $$page $$given; then \
	    echo "[lab] $$copy holds changes of yours and stays; $$page is newer: to get that, rename $$copy" ; fi; done; \
	  test -z "$$new" || $(BIN)/jupyter-trust $$new >/dev/null
	@JUPYTER_PREFER_ENV_PATH=1 $(BIN)/python -m jupyterlab --ServerApp.root_dir="$(CURDIR)" \
	  --LabApp.default_url=/lab/tree/mine/intro.ipynb --LabApp.news_url=None \
	  --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate $(LAB)

figures: $(VENV)/.book ## the README's picture of the ladder, from the record
	@$(BIN)/python -m helpers figures

# --- checks --------------------------------------------------------------------------------------

# tests/rings.py says which tests wait for a larger ring, and of which the smaller ones take a part.
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

test: $(VENV)/.test ## the tests of every push; builds the book if there is none
	@$(PYTEST) --ring push

test-day: $(VENV)/.test ## also whole products of cases, and pages on pretended GPUs
	@$(PYTEST) --ring day

test-week: $(VENV)/.test ## every test, and whether the tests find one-line mutants
	@$(PYTEST) --seconds
	@$(BIN)/python -m tools.mutation --seed $(shell git rev-list --count HEAD) --count 60

lint: $(VENV)/.lint ## ruff, codespell, mypy, whether claims have their conditions, essays keep their measures, notebooks follow their chapters
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/codespell
	@$(BIN)/mypy
	@$(BIN)/python -m tools.sentences
	@$(BIN)/python -m tools.essays --check
	@$(BIN)/python -m helpers notebooks --check

format: $(VENV)/.lint ## let ruff rewrite the Python files
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean: ## remove what was built, not the environment
	@rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis
