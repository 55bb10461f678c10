"""Training with ``backend=tensorflow``, 4 workers: ours next to TensorFlow's own parameter server."""

from __future__ import annotations

from functools import partial

import pytest

from .goals import TENSORFLOW_GOALS
from .launch import call
from .probe import Probe
from .replay import recorded_clock, replay_peer
from .report import Report
from .rounds import Comparison, bracketed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600), pytest.mark.benchmark(timer=recorded_clock)]

JOB = {"model": "mlp", "num_workers": 4, "iterations": 150}
PEERS = {
    "tf parameter server": partial(call, "peers.tf_parameter_server", "asp_step"),
    "ours asp": partial(call, "ours", "tensorflow_step", strategy="asp"),
    "ours bsp": partial(call, "ours", "tensorflow_step", strategy="bsp"),
}


@pytest.fixture(scope="module")
def comparison(probe: Probe, rounds: int) -> Comparison:
    peers = {name: partial(run, **JOB, timeout_s=240.0) for name, run in PEERS.items()}
    return bracketed("4 gradients with TensorFlow, mlp, 4 workers", peers, probe, rounds)


@pytest.mark.parametrize("name", PEERS)
def test_tensorflow_step(name, comparison, benchmark):
    replay_peer(benchmark, comparison, name)


def test_tensorflow_goals(comparison: Comparison, report: Report):
    report.judge(comparison.title, [goal.judge(comparison) for goal in TENSORFLOW_GOALS], comparison)
