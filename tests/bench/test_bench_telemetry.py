"""What telemetry costs the coordinator: a sample of eight tasks on two hosts, made and encoded for the record."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from typing import Any

import msgspec
import pytest

from runtime.cluster.hosts import Placement, parse_hosts
from runtime.live.control.telemetry import Sampler
from strategies.protocol import Observed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(120)]

NUM_TASKS = 8


def test_a_sample_of_eight_tasks(benchmark: Any) -> None:
    idle = [sys.executable, "-c", "input()"]
    tasks = [subprocess.Popen(idle, stdin=subprocess.PIPE) for _ in range(NUM_TASKS)]
    names = [f"worker:{number}" for number in range(NUM_TASKS)]
    pids = [(name, task.pid) for name, task in zip(names, tasks, strict=True)]
    hosts = parse_hosts({"count": 2, "placement": [names[:4], names[4:]]}, NUM_TASKS, 0)
    sampler = Sampler(None, Placement(hosts))
    encoder, seconds = msgspec.json.Encoder(), count()

    def sample() -> bytes:
        period_s, nodes = sampler.sample(float(next(seconds)), pids)
        return encoder.encode(Observed(t=0.0, period_s=period_s, nodes=nodes))

    try:
        benchmark(sample)
    finally:
        for task in tasks:
            task.communicate(b"\n")
    each_s = benchmark.stats.stats.median
    benchmark.extra_info["percent_of_a_core_at_20_hz"] = 100 * 20 * each_s
    print(f"\n{each_s * 1e6:.0f} us a sample: {2000 * each_s:.2f} % of a core at 20 Hz, {200 * each_s:.2f} % at 2 Hz")
