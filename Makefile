# `make` prints the verbs. Each sets up what it needs in $(VENV) first; a second call is instant.
SHELL := bash
VENV ?= .venv
PYTHON := $(VENV)/bin/python
PROCESSES ?= 2
.DEFAULT_GOAL := help

CHROMIUM_NAMES := chromium chromium-browser google-chrome chrome
CHROMIUM = $(firstword $(foreach name,$(CHROMIUM_NAMES),$(shell command -v $(name) 2>/dev/null)) \
  $(foreach cache,.cache Library/Caches,$(wildcard $(HOME)/$(cache)/ms-playwright/chromium-*)))
PICTURE_SHAPES := 64x256,64x1024,64x4096,1024x256,1024x1024,1024x4096,8192x256,8192x1024,8192x4096
DEMO_FOLDER := runs/demo-$(shell date +%Y-%m-%d-%H%M%S)

.PHONY: help setup build demo test check docs format wheel mutants bench bench-picture bench-lab clean

help: ## print this list
	@echo "normkit: normalization in deep networks. The verbs:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo "Settings: VENV=FOLDER (an environment of your own, torch and all), ARGS=\"...\" for the"
	@echo "tool behind a verb, STEPS=N for a shorter demo, PROCESSES=N for tests and mutants."

setup: ## create or refresh the environment in VENV
	@tools/set_up.sh "$(VENV)"

build: setup ## compile the CPU kernels ahead of their first use; instant where they are there
	$(PYTHON) -m normkit build

demo: setup ## train small models on real text and open the page that compares them
	@$(PYTHON) -m normkit build || echo "The demo goes on with torch operations." >&2
	$(PYTHON) -m normkit compare --recipe demo --out $(DEMO_FOLDER) $(if $(STEPS),--steps $(STEPS)) $(ARGS)
	@if [ -z "$(CI)" ] && { [ "$$(uname)" = Darwin ] || [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ]; }; then \
	  $(PYTHON) -m webbrowser -t "file://$(CURDIR)/$(DEMO_FOLDER)/page.html"; fi

test: build ## run the tests; ARGS="tests/spec -k shape" runs some of them
ifneq ($(CHROMIUM),)
	$(PYTHON) -m pytest -n $(PROCESSES) --dist worksteal $(ARGS)
else ifneq ($(CI),)
	@echo "CI runs the browser tests too, and found no Chromium: apt-get install chromium." >&2; exit 1
else
	@echo "No Chromium here, so the tests marked 'browser' (those that open a page) are left out; they run after: apt-get install chromium (elsewhere: $(PYTHON) -m playwright install chromium)"
	$(PYTHON) -m pytest -n $(PROCESSES) --dist worksteal -m "not browser" $(ARGS)
endif

check: setup ## formatting, lint, types, and which room imports which
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	$(VENV)/bin/lint-imports

docs: setup ## draw the pictures and build docs/ into build/docs; a warning is an error
	$(PYTHON) tools/pictures.py
	$(PYTHON) tools/performance.py
	$(PYTHON) -m sphinx --fail-on-warning --keep-going --fresh-env --write-all --quiet \
	  --conf-dir docs --doctree-dir build/doctrees $(ARGS) . build/docs
	@echo "build/docs/index.html is its first page."

format: setup ## rewrite the code as `make check` wants it
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

wheel: setup ## build dist/*.whl with the compiled CPU kernels inside
	tools/build_wheel.sh $(PYTHON) dist

mutants: build ## plant every listed bug and show that the tests find it
	$(PYTHON) -m tests.mutants --jobs $(PROCESSES) $(ARGS)

bench: setup ## time norms beside torch and others; ARGS="--op rms_norm --page bench.html" for others
	$(PYTHON) -m normkit bench $(ARGS)

bench-picture: setup ## measure the speeds that the README's picture shows, and draw it
	$(PYTHON) -m normkit bench --op rms_norm,layer_norm --mode forward_backward --dtype float32 \
	  --shape $(PICTURE_SHAPES) --against torch,compile --json docs/measurements/picture.json $(ARGS)
	$(PYTHON) tools/pictures.py

bench-lab: setup ## training speed of the lab against a bare loop
	$(PYTHON) benchmarks/lab_throughput.py $(ARGS)

clean: ## remove caches and build outputs; the environment and runs/ stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples tools -name __pycache__ -prune -exec rm -rf {} +
