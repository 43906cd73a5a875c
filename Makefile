# `make` alone lists the targets. Each one sets up what it needs by itself.
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
SECONDS ?= 120
WORKERS ?= auto
ARGS ?=
# Rewriting the assertions of all tests takes longer than many of them; so it is kept, whatever the
# environment says. `make clean` removes it.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q

.DEFAULT_GOAL := help
.PHONY: help run test test-agents test-mcp lint check soak mutants bench conformance dist clean venv tools

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' Makefile

run: venv ## show the main job: two agents, one killed in a write, resumed
	@$(BIN)/python examples/main_job.py $(ARGS)

test: venv tools ## whole test suite (WORKERS=0: one process, ARGS= for pytest)
	@$(PYTEST) -n $(WORKERS) $(ARGS)

test-agents: venv tools ## real agents, fetched by npm, against scripted models
	@sh scripts/setup.sh agents
	@$(PYTEST) -n $(WORKERS) -m agents tests/real_agents $(ARGS)

test-mcp: venv ## the MCP server against its inspector and conformance suite
	@sh scripts/setup.sh mcp
	@$(PYTEST) -m mcp tests/mcp $(ARGS)

lint: venv tools ## ruff, mypy --strict and codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src tests bench
	$(BIN)/codespell

check: lint ## before pushing: lint, tests held against the requirements
	$(PYTEST) -n $(WORKERS) --conformance $(ARGS)

soak: venv tools ## the long tiers, about SECONDS=120; kills at every step
	@FORESTAY_SOAK_SECONDS=$(SECONDS) $(PYTEST) -m soak --hypothesis-profile=soak $(ARGS)

mutants: venv tools ## let the tests find kept faults (SECONDS=0 for all of them)
	@$(BIN)/python -m tests.mutants.run --seconds $(SECONDS) $(ARGS)

bench: venv ## measure the figures beside the raw limits (ARGS=--quick)
	@$(BIN)/python bench/run.py $(ARGS)

conformance: venv tools ## count the requirements: tested, documented, refused, later
	@$(PYTEST) -n $(WORKERS) -m 'req and not soak' --conformance $(ARGS)

dist: venv ## wheel, sdist, plugin and desktop extension into dist/
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist .
	@$(BIN)/python scripts/packages.py dist

clean: ## remove everything the targets made, .venv too
	rm -rf .venv .tools dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Compiled ahead, because where PYTHONDONTWRITEBYTECODE is set every start would compile anew.
venv:
	@PYTHON='$(PYTHON)' sh scripts/setup.sh venv
	@$(BIN)/python -m compileall -q src

tools:
	@sh scripts/setup.sh tools
