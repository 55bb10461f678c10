"""Push and pull of one flat gradient between one worker and one server: ours next to sockets, gloo and RPC."""

from __future__ import annotations

from functools import partial

import pytest

from .goals import TRANSPORT_GOALS, TRANSPORT_GOALS_1MB
from .launch import call
from .probe import Probe
from .replay import recorded_clock, replay_peer
from .report import Report
from .rounds import Comparison, bracketed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600), pytest.mark.benchmark(timer=recorded_clock)]

ITERATIONS = {1_000_000: 400, 10_000_000: 80, 100_000_000: 12}
"""Bytes each way -> iterations: a second or less of measuring per peer and round."""
PEERS = {
    "bare sockets": partial(call, "peers.bare_sockets", "push_pull"),
    "gloo": partial(call, "peers.gloo_sendrecv", "push_pull"),
    "torch rpc": partial(call, "peers.torch_rpc", "push_pull"),
    "ours tcp": partial(call, "ours", "push_pull", transport="tcp"),
    "ours shm": partial(call, "ours", "push_pull", transport="shm"),
}


@pytest.fixture(scope="module", params=ITERATIONS, ids=lambda nbytes: f"{nbytes // 1_000_000}MB")
def nbytes(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="module")
def comparison(nbytes: int, probe: Probe, rounds: int) -> Comparison:
    peers = {name: partial(run, nbytes=nbytes, iterations=ITERATIONS[nbytes]) for name, run in PEERS.items()}
    return bracketed(f"push+pull of {nbytes // 1_000_000} MB", peers, probe, rounds)


@pytest.mark.parametrize("name", PEERS)
def test_push_pull(name, comparison, benchmark):
    replay_peer(benchmark, comparison, name)


def test_transport_goals(nbytes: int, comparison: Comparison, report: Report):
    goals = TRANSPORT_GOALS + (TRANSPORT_GOALS_1MB if nbytes == 1_000_000 else [])
    report.judge(comparison.title, [goal.judge(comparison) for goal in goals], comparison)
