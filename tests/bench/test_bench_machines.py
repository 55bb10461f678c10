"""Between machines that have joined: 1 MB there and back in two namespaces, and the pace of the coordinator."""

from __future__ import annotations

import math
from functools import partial

import pytest

from .goals import MACHINES_GOALS, ORDERS
from .launch import PeerError, call
from .probe import Probe
from .replay import recorded_clock
from .report import Report, table
from .rounds import bracketed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600), pytest.mark.benchmark(timer=recorded_clock)]

PEERS = {
    "bare sockets": partial(call, "peers.apart", "push_pull"),
    "ours": partial(call, "ours", "push_pull_apart"),
    "ours, TLS": partial(call, "ours", "push_pull_apart", tls=True),
}
PACES = {"as fast as possible": 0.0, "2 s of computing": 2.0}
"""Seconds from an order to the worker's report."""


def test_push_pull_between_namespaces(probe: Probe, rounds: int, report: Report) -> None:
    peers = {name: partial(run, nbytes=1_000_000, iterations=400) for name, run in PEERS.items()}
    comparison = bracketed("push+pull of 1 MB between two namespaces", peers, probe, rounds)
    report.judge(comparison.title, [goal.judge(comparison) for goal in MACHINES_GOALS], comparison)


def test_the_coordinator_of_256_agents_and_1024_workers(report: Report) -> None:
    rows, p99_s, note = [], math.nan, ""
    size = {"num_agents": 256, "num_workers": 1024, "duration_s": 10.0}
    try:
        for name, think_s in PACES.items():
            figures = call("joined_agents", "turnaround", think_s=think_s, timeout_s=300.0, **size)
            p99_s = figures["p99_s"]
            times = [f"{figures[key] * 1e3:.2f}" for key in ("median_s", "p99_s")]
            cores = [f"{figures[key]:.2f}" for key in ("driver_core_frac", "fakes_core_frac", "others_core_frac")]
            rows.append([name, f"{figures['orders_per_s']:.0f}", *times, *cores])
    except PeerError as error:
        note = str(error).splitlines()[0]
    head = ["a worker reports", "orders per s", "median ms", "p99 ms", "cores: driver", "agents and workers", "others"]
    title = "the coordinator of 256 agents and 1,024 workers"
    report.judge(title, [ORDERS.judge(p99_s, note)], extra=table(head, rows))
