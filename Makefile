# `make` or `make help` lists the targets. Everything runs in .venv, which `make setup` makes.
#
#   PYTHON=python3.12        which Python makes .venv (3.11 or later)
#   PIP_FLAGS=...            for pip; on a machine without a GPU, naming an index of
#                            CPU builds of torch here saves gigabytes
#   CONFIG=workflow/config/full.yaml   what `make leaderboard` runs
#   PROFILE=gpu              which profile; by default gpu where nvidia-smi is, else cpu

PYTHON ?= python3
PIP_FLAGS ?=
CONFIG ?= workflow/config/default.yaml
PROFILE ?= $(if $(shell command -v nvidia-smi 2>/dev/null),gpu,cpu)
PYTEST_FLAGS ?= -n 2

STAMP := .venv/.made
SNAKEMAKE := snakemake --workflow-profile workflow/profiles/$(PROFILE)
export PATH := $(CURDIR)/.venv/bin:$(PATH)
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help setup leaderboard smoke plan status site test test-quick lint format schemas clean-results clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP) ## Make .venv with SpecAtlas and its tools

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "SpecAtlas needs Python 3.11 or later as $(PYTHON): install one, or give it as make setup PYTHON=python3.12." >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "This Python cannot make virtual environments: type apt-get install python3-venv, then make setup." >&2; exit 2; }
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip install $(PIP_FLAGS) -c constraints.txt -e '.[dev,slurm]'
	@touch $@

leaderboard: setup ## Fetch, train, measure, rank, and build the site; continues where an earlier run stopped
	@specatlas unlock
	@$(SNAKEMAKE) --configfile $(CONFIG) || { specatlas status --config $(CONFIG); exit 1; }
	@specatlas board --show
	@echo "The site: $(CURDIR)/site/public/index.html"

smoke: ## The whole leaderboard on a tiny random model, in two minutes
	@$(MAKE) --no-print-directory leaderboard CONFIG=workflow/config/smoke.yaml

plan: setup ## What `make leaderboard` would do
	@$(SNAKEMAKE) --configfile $(CONFIG) --dry-run --quiet rules

status: setup ## What a run has, what failed, what is missing and why
	@specatlas status --config $(CONFIG)

site: setup ## Rank the records that are there and build the site; measures nothing
	@specatlas board
	@specatlas site

test: setup ## The whole test suite
	OMP_NUM_THREADS=1 python -m pytest $(PYTEST_FLAGS)

test-quick: setup ## The test suite without Snakemake and browser
	OMP_NUM_THREADS=1 python -m pytest $(PYTEST_FLAGS) -m 'not workflow and not browser'

lint: setup ## ruff, mypy, snakefmt, snakemake --lint, schemas
	ruff check .
	ruff format --check .
	mypy
	snakefmt --check Snakefile workflow/rules
	snakemake --lint
	specatlas schemas --check

format: setup ## Format Python and Snakemake files
	ruff check --fix .
	ruff format .
	snakefmt Snakefile workflow/rules

schemas: setup ## Write workflow/schemas from the pydantic models
	specatlas schemas

clean-results: ## Remove everything the DAG made; published records stay
	rm -rf results site/public .snakemake

clean: clean-results ## Also remove .venv and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
