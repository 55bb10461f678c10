# Two commands: `make run` and `make test`. Both set up a virtual environment first (PYTHON chooses the interpreter).
PYTHON ?= python3
VENV ?= .venv
# Where PyTorch comes from. auto: its CPU build, where there is no NVIDIA GPU and download.pytorch.org can be reached, else pip's
# usual index; empty: the usual index; an address: that index, or none.
TORCH_INDEX ?= auto
PY := $(VENV)/bin/python
GPU_PY ?= $(if $(wildcard $(PY)),$(PY),$(PYTHON))
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Tests by folder, so that nobody collects what is not to be run.
PURE := tests/unit tests/contract tests/paper
LIVE := tests/live tests/chaos
QUICK := tests/unit/core tests/unit/strategies tests/unit/predictors tests/unit/training/test_optimizers.py \
	tests/unit/injectors/test_plan.py tests/unit/injectors/test_schedule.py tests/unit/injectors/test_patterns.py \
	tests/unit/virtual/test_fluid.py tests/unit/virtual/test_virtual_clock.py tests/unit/virtual/test_virtual_costs.py \
	tests/unit/analysis/test_analysis_metrics.py tests/unit/analysis/test_summary_fields.py \
	tests/unit/house tests/contract/test_transcripts.py tests/live/test_evaluator.py \
	tests/live/test_device_mix.py
PARALLEL := -n 2 --dist worksteal --benchmark-disable
# Live tests need two thirds of two cores, since they wait for one another's processes: three at a time.
LIVE_PARALLEL := -n 3 --dist loadgroup --benchmark-disable
# One thread for each of the two processes: with two each, libraries wait for cores that the other has (20 times as long).
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# Many tests start programs: they compile what they import once, whatever the environment says of compiled files.
export PYTHONDONTWRITEBYTECODE :=
# LONG=1 (what CI runs) adds the long tests, with the same examples every time.
ALL_OF_THEM = $(if $(LONG),--long --hypothesis-profile ci)

.PHONY: help setup run quick test mutants check bench fidelity harm injectors figures paper gpu predictors ray chaos slow release docs clean

help:  ## what can be made
	@sed -nE 's/^([a-z]+):.*##  */\1\t/p' $(MAKEFILE_LIST) | expand -t 12

$(VENV)/.run: pyproject.toml setup.py constraints.txt $(wildcard runtime/*/_*.c runtime/*/*/_*.c runtime/*/*/*.h)
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || { echo "no virtual environment: install python3-venv (Debian: apt-get install python3-venv), or set PYTHON=..."; exit 2; }
	@index=$$($(PY) scripts/torch_index.py "$(TORCH_INDEX)") || exit 2; test -z "$$index" || $(PIP) --extra-index-url "$$index" torch
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) --editable '.[dev]'
	@touch $@

setup: $(VENV)/.dev  ## a virtual environment with everything that the tests need

run: $(VENV)/.run  ## the main job: four strategies under the same stragglers, with table and plots
	$(PY) run.py -m strategy=bsp,asp,ssp,backup_workers $(ARGS)

test: $(VENV)/.dev  ## all tests but the long ones (some ten minutes on two idle cores)
	@# what measures, or looks at all of the machine, comes last and by itself
	$(ONE_THREAD) $(PY) -m pytest $(PURE) $(PARALLEL) $(ALL_OF_THEM) $(ARGS) || [ $$? = 5 ]
	$(PY) -m pytest $(LIVE) $(LIVE_PARALLEL) $(ALL_OF_THEM) -m "not alone and not slow" $(ARGS) || [ $$? = 5 ]
	$(PY) -m pytest $(LIVE) $(ALL_OF_THEM) -m "alone and not slow" $(ARGS) || [ $$? = 5 ]

quick: $(VENV)/.dev check  ## what a commit needs, in about a minute: `check`, the tests that find most per second, a few live ones
	$(ONE_THREAD) $(PY) -m pytest $(QUICK) $(PARALLEL) $(ARGS)

mutants: $(VENV)/.dev  ## plant 600 bugs drawn by a seed: do the tests notice? (an hour or two on two idle cores; continues where it was; out/mutants/report.md)
	$(ONE_THREAD) $(PY) scripts/mutants.py --report out/mutants/report.md $(ARGS)

check: $(VENV)/.dev  ## format, lint, types, import arrows
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.dev  ## speed against peers, as ratios (takes minutes; keep the machine idle meanwhile)
	$(PY) -m pytest tests/bench -m bench $(ARGS)

fidelity: $(VENV)/.run  ## live against virtual: every strategy, into docs/fidelity*.md (some 35 minutes; keep the machine idle)
	$(PY) scripts/fidelity.py --report docs/fidelity.md $(ARGS)
	$(PY) scripts/fidelity.py --grid allreduce --report docs/fidelity_allreduce.md $(ARGS)

harm: $(VENV)/.run  ## every strategy relative to BSP under every straggler on the virtual clock, into docs/harm.md (half an hour)
	$(PY) scripts/harm_and_gain.py --report docs/harm.md $(ARGS)

injectors: $(VENV)/.run  ## requested against achieved for every injector, into docs/injectors.md (a quarter of an hour; keep the machine idle)
	$(PY) scripts/calibrate_injectors.py --report docs/injectors.md $(ARGS)

figures: $(VENV)/.run  ## draw all figures again from the records below RUNS; or EXPERIMENT=antdt_table3: run what is missing of it, draw, judge
	$(PY) $(if $(EXPERIMENT),scripts/experiment.py $(EXPERIMENT) $(ARGS),scripts/figures.py $(or $(RUNS),runs))

paper: $(VENV)/.run  ## all runs of docs/paper again on this commit, and the pages (ARGS=--virtual: an hour on 2 cores; --live: 100 minutes, keep the machine idle)
	$(PY) scripts/experiment.py '*' --fresh $(ARGS)

# Not installed first: it uses whatever build of torch with CUDA there is, in .venv or else that of PYTHON.
# With DEVICE=fake all of it runs without a GPU, but what only hardware shows. The same command continues; MINUTES=14 ends in time.
gpu:  ## all that needs a GPU: exactness, restarts, sharing, and speed against plain DDP (skips without one; or DEVICE=fake)
	$(if $(ARGS),\
	STRAGGLAB_GPU_DEVICE=$(or $(DEVICE),cuda) STRAGGLAB_BENCH_ROUNDS=$(or $(STRAGGLAB_BENCH_ROUNDS),2) $(GPU_PY) -m pytest tests/live/test_gpu.py tests/bench/test_bench_gpu.py -m gpu $(ARGS),\
	$(GPU_PY) scripts/gpu_session.py --device $(or $(DEVICE),cuda) $(if $(MINUTES),--minutes $(MINUTES)))

predictors: $(VENV)/.run  ## score predictors of stragglers on the records below RUNS
	$(PY) run.py predictors $(or $(RUNS),runs) $(ARGS)

ray: $(VENV)/.dev  ## what Ray starts: raylets of this machine (installs Ray; some ten minutes)
	$(PIP) --editable '.[ray]'
	$(PY) -m pytest tests/on_ray -m ray $(ARGS)

chaos: $(VENV)/.dev  ## the long fault tests (320 faults; 110 runs that are interrupted or killed)
	$(PY) -m pytest tests/chaos -m chaos $(ARGS)

slow: $(VENV)/.dev  ## every workload with every backend that trains it, live; all long tests; chance ten times as often (an hour)
	$(PY) -m pytest tests/live -m "slow" $(ARGS)
	$(PY) -m pytest $(PURE) $(LIVE) --long -m "long and not alone" $(PARALLEL:worksteal=loadgroup) --hypothesis-profile nightly $(ARGS) || [ $$? = 5 ]
	$(ONE_THREAD) $(PY) -m pytest tests/unit $(PARALLEL) --hypothesis-profile nightly $(ARGS)

release: check  ## before a release: everything that runs without a GPU (hours)
	$(MAKE) test LONG=1
	$(MAKE) slow chaos ray

docs: $(VENV)/.docs  ## the site of docs/, into out/site: open out/site/index.html, no network needed
	$(VENV)/bin/mkdocs build --strict $(ARGS)

$(VENV)/.docs: $(VENV)/.run
	$(PIP) --editable '.[docs]'
	@touch $@

clean:  ## remove environments, caches and records
	rm -rf $(VENV) build out runs data *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
