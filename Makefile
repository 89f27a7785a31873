# Targets for readers (serve, site, test) and for contributors (check, format, records, frameworks, test-frameworks,
# constraints).
# Each sets up what is missing: .venv is made once, and again when pyproject.toml or constraints.txt changes.

VENV   := .venv
BIN    := $(VENV)/bin
# What reading needs is installed, and what developing needs; the second has the first in it.
SITE   := $(VENV)/.site-ready
DEV    := $(VENV)/.dev-ready
INSTALL := src/tilewise/cli/install.py
PYTHONS := $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python
NEWER  := import sys; sys.exit(sys.version_info < (3, 11, 5))
TORCH  := 2.13.0
TRITON := 3.9.0
# Processes that share the tests; 0 for none beside pytest's own.
WORKERS := 2

# Material prints a notice about another project's future on every run; it changes nothing here.
export NO_MKDOCS_2_WARNING := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Without bytecode each start compiles some thousand modules anew.
unexport PYTHONDONTWRITEBYTECODE

# What make test-quick leaves out besides sweeps, by pytest --durations=60: what opens a browser, builds a site,
# runs lessons, starts processes or needs NVIDIA's compiler.
SLOW := browser site validation cli calls/test_attentions.py calls/test_compiling.py test_background.py test_contributing.py test_errors.py test_frameworks.py \
  test_frontend.py test_lesson_bounds.py test_lessons.py test_lexers.py test_notebook.py test_page.py test_run.py \
  test_setup.py test_snapshots.py test_sweeps.py kernel/test_nvrtc.py kernel/test_machine_code.py \
  measurements/test_device.py

.PHONY: help serve site publish test test-quick test-all test-gpu check format records frameworks test-frameworks \
  constraints wheel clean
.DEFAULT_GOAL := help

help:
	@echo "make serve       set up what is missing, then serve the site with live reload; PORT=8001 for another port"
	@echo "make site        set up what is missing, then build the site into site/"
	@echo "make publish     build site/ strictly, as the Pages workflow does; SITE_URL and REPO_URL say for where"
	@echo "make test        set up what is missing, then run every test that needs no GPU, but no unchanged sweep"
	@echo "make test-quick  run the tests that are done in a minute: no browser, no site, no lesson, no sweep"
	@echo "make test-all    run every test that needs no GPU: nightly and before a release"
	@echo "make test-gpu    run the tests that need a GPU, and those of the functions under compute-sanitizer"
	@echo "make check       format, lint, types, tests and the strict build: what a change must pass"
	@echo "make format      format the code and repair what the linter can"
	@echo "make records     renew the committed records that need no GPU, after a kernel or the simulator has changed"
	@echo "make frameworks  add PyTorch (CPU) and Triton, for the tabs that use them"
	@echo "make test-frameworks  run those tabs; only cells that tests/device_cells.txt lists may be skipped"
	@echo "make wheel       build the package into dist/, with the simulator's engine compiled for common platforms"
	@echo "make clean       remove .cache and site; .venv stays"

define SET_UP
	@for python in $(PYTHONS); do \
	  if command -v $$python >/dev/null 2>&1 && $$python -c "$(NEWER)" 2>/dev/null; then \
	    exec $$python $(INSTALL) $(1); \
	  fi; \
	done; \
	echo "tilewise needs Python 3.11.5 or newer; tried: $(PYTHONS)." >&2; \
	echo "Found: $$(python3 --version 2>&1 || true). Install a newer one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; \
	exit 1
endef

$(SITE): pyproject.toml constraints.txt $(INSTALL)
	$(call SET_UP,site)
	@touch $@

$(DEV): pyproject.toml constraints.txt $(INSTALL)
	$(call SET_UP,dev)
	@touch $(SITE) $@

serve: $(SITE)
	@$(BIN)/mkdocs serve $(if $(PORT),--dev-addr 127.0.0.1:$(PORT))

site: $(SITE)
	@$(BIN)/mkdocs build

publish: $(DEV)
	@$(BIN)/mkdocs build --strict

test: $(DEV)
	$(BIN)/python -m pytest --numprocesses $(WORKERS)

test-quick: $(DEV)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) -m "not sweep" $(SLOW:%=--ignore=tests/%)

test-all: $(DEV)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --all

check: $(DEV)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python -m pytest --numprocesses $(WORKERS)
	$(BIN)/mkdocs build --strict

format: $(DEV)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# What NVRTC and the simulator make of the lessons' kernels, for the pages that show it; a changed kernel needs it.
records: $(DEV)
	$(BIN)/python -m validation --renew

# The CPU build of PyTorch where pip's indexes have it, else the general one, which is larger and works as well.
frameworks: $(DEV)
	$(BIN)/python -m pip install --constraint constraints.txt "torch==$(TORCH)+cpu" "triton==$(TRITON)" || \
	  $(BIN)/python -m pip install --constraint constraints.txt "torch==$(TORCH)" triton

test-frameworks: frameworks
	$(BIN)/python -m pytest --device-skips-only tests/test_frameworks.py tests/kernel/test_front_ends.py \
	  tests/calls/test_pytorch.py tests/test_lessons.py -k "not wrong_line and not notebook"

# On a machine with a GPU: every test that uses it, then the functions' own under compute-sanitizer.
test-gpu: $(DEV)
	TILEWISE_BACKEND=gpu $(BIN)/python -m pytest tests/gpu tests/calls -m "not sweep"
	TILEWISE_BACKEND=gpu compute-sanitizer --tool memcheck --error-exitcode 1 $(BIN)/python -m pytest tests/calls/test_cupy_arrays.py

constraints: $(DEV)
	@{ sed -n '/^#/p' constraints.txt; \
	   $(BIN)/python -m pip freeze --exclude-editable; } > constraints.new && mv constraints.new constraints.txt

# The package with the simulator's engine for Linux, macOS and Windows in it; zig compiles all five here.
wheel: $(DEV)
	$(BIN)/python -c "from tilewise.simulator.engine.built import main; exit(main())"
	$(BIN)/hatchling build --target wheel

clean:
	rm -rf .cache site
