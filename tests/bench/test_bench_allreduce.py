"""All-reduce: our ring and gloo's, and a whole iteration of replicas under the coordinator and of plain DDP."""

from __future__ import annotations

from functools import partial

import pytest

from .goals import ALLREDUCE_GOALS, ALLREDUCE_STEP_GOALS
from .launch import call
from .probe import Probe
from .replay import recorded_clock, replay_peer
from .report import Report
from .rounds import Comparison, bracketed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600), pytest.mark.benchmark(timer=recorded_clock)]

SHAPES = {(4, 1_000_000): 200, (8, 1_000_000): 100, (4, 10_000_000): 40, (8, 10_000_000): 20}
"""(ranks, bytes) -> iterations."""
PEERS = {
    "gloo": partial(call, "peers.gloo_allreduce", "all_reduce"),
    "our ring": partial(call, "rings", "all_reduce"),
}
NUM_WORKERS = 4
ITERATIONS = {"mlp 1 MB": 300, "mlp 10 MB": 60}
STEP_PEERS = {
    "pure compute": partial(call, "peers.pure_compute", "bsp_step"),
    "ddp gloo": partial(call, "peers.ddp_gloo", "bsp_step"),
    "our ring": partial(call, "ours", "bsp_step", transport="tcp", num_servers=0, collective="ring"),
    "our ddp": partial(call, "ours", "bsp_step", transport="tcp", num_servers=0, collective="ddp"),
}
""""our ddp" is the same DistributedDataParallel, ordered by our coordinator: the difference is what ordering costs."""


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: f"{shape[0]} ranks, {shape[1] // 1_000_000} MB")
def shape(request: pytest.FixtureRequest) -> tuple[int, int]:
    return request.param


@pytest.fixture(scope="module")
def comparison(shape: tuple[int, int], probe: Probe, rounds: int) -> Comparison:
    num_ranks, nbytes = shape
    job = {"num_ranks": num_ranks, "nbytes": nbytes, "iterations": SHAPES[shape]}
    title = f"all-reduce of {nbytes // 1_000_000} MB, {num_ranks} ranks"
    return bracketed(title, {name: partial(run, **job) for name, run in PEERS.items()}, probe, rounds)


@pytest.mark.parametrize("name", PEERS)
def test_all_reduce(name, comparison, benchmark):
    replay_peer(benchmark, comparison, name)


def test_all_reduce_goals(shape: tuple[int, int], comparison: Comparison, report: Report):
    report.judge(comparison.title, [goal.judge(comparison) for goal in ALLREDUCE_GOALS[shape]], comparison)


@pytest.fixture(scope="module", params=ITERATIONS)
def model(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def steps(model: str, probe: Probe, rounds: int) -> Comparison:
    job = {"model": model, "num_workers": NUM_WORKERS, "iterations": ITERATIONS[model]}
    peers = {name: partial(run, **job) for name, run in STEP_PEERS.items()}
    return bracketed(f"BSP iteration by all-reduce, {model}, {NUM_WORKERS} workers", peers, probe, rounds)


@pytest.mark.parametrize("name", STEP_PEERS)
def test_step(name, steps, benchmark):
    replay_peer(benchmark, steps, name)


def test_step_goals(steps: Comparison, report: Report):
    report.judge(steps.title, [goal.judge(steps) for goal in ALLREDUCE_STEP_GOALS], steps)
