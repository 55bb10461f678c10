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

# The comment behind a target: what it does | how long that takes | where the result is. `make help` lists it, and the target begins with it.
LINE := {split($$0, a, /:.*\#\# /); split(a[2], b, / [|] /); print a[1] ": " b[1] "; takes " b[2] "; result: " b[3]}
SAY = @awk '/^$@:.*\#\# / $(LINE)' $(firstword $(MAKEFILE_LIST)) >&2

help:  ## what can be made | a second | the terminal
	@awk '/^[a-z]+:.*\#\# / $(LINE)' $(firstword $(MAKEFILE_LIST))

$(VENV)/.run: pyproject.toml setup.py constraints.txt $(wildcard runtime/*/_*.c runtime/*/*/_*.c runtime/*/*/*.h)
	@echo "install: what runs need; takes a minute or two, mostly downloads of 1.6 GB (5.6 GB with CUDA); result: $(VENV)" >&2
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || { echo "no virtual environment: install python3-venv (Debian: apt-get install python3-venv), or set PYTHON=..."; exit 2; }
	@index=$$($(PY) -m scripts.packaging.torch_index "$(TORCH_INDEX)") || exit 2; test -z "$$index" || $(PIP) --extra-index-url "$$index" torch
	@$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) --editable '.[dev]'
	@# a library of universalmutator's brings the module typing of Python 2 along, which hides Python's own from programs with a PYTHONPATH
	@$(PY) -m pip uninstall --quiet --yes --disable-pip-version-check typing
	@touch $@

setup: $(VENV)/.dev  ## a virtual environment with everything that the tests need | some minutes, mostly downloads | .venv
	$(SAY)

run: $(VENV)/.run  ## the main job: four strategies under the same stragglers, with table and plots | two minutes | runs/
	$(SAY)
	$(PY) run.py -m strategy=bsp,asp,ssp,backup_workers $(ARGS)
	@command -v cpulimit > /dev/null || echo 'cpulimit is not installed (apt-get install cpulimit); only runtime.cpu_by=cpulimit needs it'

test: $(VENV)/.dev  ## all tests but the long ones | four to eight minutes on two idle cores | the terminal
	$(SAY)
	@# what measures, or looks at all of the machine, comes last and by itself
	$(ONE_THREAD) $(PY) -m pytest $(PURE) $(PARALLEL) $(ALL_OF_THEM) $(ARGS) || [ $$? = 5 ]
	$(PY) -m pytest $(LIVE) $(LIVE_PARALLEL) $(ALL_OF_THEM) -m "not alone and not slow" $(ARGS) || [ $$? = 5 ]
	$(PY) -m pytest $(LIVE) $(ALL_OF_THEM) -m "alone and not slow" $(ARGS) || [ $$? = 5 ]

quick: $(VENV)/.dev check  ## what a commit needs: `check`, the tests that find most per second, a few live ones | about a minute | the terminal
	$(SAY)
	$(ONE_THREAD) $(PY) -m pytest $(QUICK) $(PARALLEL) $(ARGS)

mutants: $(VENV)/.dev  ## plant 600 bugs drawn by a seed: do the tests notice? (continues where it was) | hours | out/mutants/report.md
	$(SAY)
	$(ONE_THREAD) $(PY) -m scripts.mutation.mutants --report out/mutants/report.md $(ARGS)

check: $(VENV)/.dev  ## format, lint, types, import arrows | under a minute, more at the first time | the terminal
	$(SAY)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.dev  ## speed against peers, as ratios (keep the machine idle meanwhile) | minutes | the terminal
	$(SAY)
	$(PY) -m pytest tests/bench -m bench $(ARGS)

fidelity: $(VENV)/.run  ## live against virtual: every strategy (keep the machine idle) | some 35 minutes | docs/fidelity*.md
	$(SAY)
	$(PY) run.py fidelity --report docs/fidelity.md $(ARGS)
	$(PY) run.py fidelity --grid allreduce --report docs/fidelity_allreduce.md $(ARGS)

harm: $(VENV)/.run  ## every strategy relative to BSP under every straggler on the virtual clock | half an hour on two cores, less on more | docs/harm.md
	$(SAY)
	$(PY) run.py harm --report docs/harm.md $(ARGS)

injectors: $(VENV)/.run  ## requested against achieved for every injector (keep the machine idle) | a quarter of an hour | docs/injectors.md
	$(SAY)
	$(PY) run.py injectors --report docs/injectors.md $(ARGS)

figures: $(VENV)/.run  ## draw all figures again from the records below RUNS; or EXPERIMENT=antdt_table3: run what is missing of it, draw, judge | seconds per run; an experiment up to an hour | figures/ of each run; out/experiments
	$(SAY)
	$(PY) $(if $(EXPERIMENT),run.py experiment $(EXPERIMENT) $(ARGS),run.py figures $(or $(RUNS),runs))

paper: $(VENV)/.run  ## all runs of docs/paper again on this commit, and the pages (ARGS=--virtual or --live: one half; live: keep the machine idle) | an hour on two cores, live 100 minutes | docs/paper
	$(SAY)
	$(PY) run.py experiment '*_*' --fresh $(ARGS)

# Not installed first: it uses whatever build of torch with CUDA there is, in .venv or else that of PYTHON.
# With DEVICE=fake all of it runs without a GPU, but what only hardware shows. The same command continues; MINUTES=14 ends in time.
gpu:  ## all that needs a GPU: exactness, restarts, sharing, and speed against plain DDP (skips without one; or DEVICE=fake) | half an hour, or MINUTES=14 | out/gpu
	$(SAY)
	$(if $(ARGS),\
	STRAGGLAB_GPU_DEVICE=$(or $(DEVICE),cuda) STRAGGLAB_BENCH_ROUNDS=$(or $(STRAGGLAB_BENCH_ROUNDS),2) $(GPU_PY) -m pytest tests/live/test_gpu.py tests/bench/test_bench_gpu.py -m gpu $(ARGS),\
	$(GPU_PY) -m scripts.gpu.gpu_session --device $(or $(DEVICE),cuda) $(if $(MINUTES),--minutes $(MINUTES)))

predictors: $(VENV)/.run  ## score predictors of stragglers on the records below RUNS | seconds to minutes per run | prediction/ of the run; out/prediction
	$(SAY)
	$(PY) run.py predictors $(or $(RUNS),runs) $(ARGS)

ray: $(VENV)/.dev  ## what Ray starts: raylets of this machine (installs Ray) | some ten minutes | the terminal
	$(SAY)
	$(PIP) --editable '.[ray]'
	$(PY) -m pytest tests/on_ray -m ray $(ARGS)

chaos: $(VENV)/.dev  ## the long fault tests (320 faults; 110 runs that are interrupted or killed) | about ten minutes | the terminal
	$(SAY)
	$(PY) -m pytest tests/chaos -m chaos $(ARGS)

slow: $(VENV)/.dev  ## every workload with every backend that trains it, live; all long tests; chance ten times as often | an hour | the terminal
	$(SAY)
	$(PY) -m pytest tests/live -m "slow" $(ARGS)
	$(PY) -m pytest $(PURE) $(LIVE) --long -m "long and not alone" $(PARALLEL:worksteal=loadgroup) --hypothesis-profile nightly $(ARGS) || [ $$? = 5 ]
	$(ONE_THREAD) $(PY) -m pytest tests/unit $(PARALLEL) --hypothesis-profile nightly $(ARGS)

release: check  ## before a release: everything that runs without a GPU | hours | the terminal
	$(SAY)
	$(MAKE) test LONG=1
	$(MAKE) slow chaos ray

docs: $(VENV)/.docs  ## the site of docs/, to be read without a network | a minute | out/site/index.html
	$(SAY)
	$(VENV)/bin/python -m mkdocs build --strict $(ARGS)

$(VENV)/.docs: $(VENV)/.run
	$(PIP) --editable '.[docs]'
	@touch $@

clean:  ## remove environments, caches and records | seconds | the sources alone
	$(SAY)
	rm -rf $(VENV) build out runs data *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
