"""Jobs of a cluster as counts of GPUs: jobs per second of every policy next to a bare heap, and memory."""

from __future__ import annotations

import heapq
import math
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import pytest

from runtime.virtual.counts import CountsReplay
from strategies.cluster.placements.pack import Pack
from strategies.cluster.policies.backfill import Backfill
from strategies.cluster.policies.fifo import Fifo
from strategies.cluster.policies.las import Las
from strategies.cluster.policies.sjf import Sjf
from strategies.cluster.policies.srtf import Srtf
from strategies.protocol import JobRequest, Machine, Policy
from tests.support.runs import ROOT

from .goals import FAIL, PASS, Verdict, at_most
from .report import Report

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

JOBS, LIMIT_S = 100_000, 60.0
"""The goal: so many jobs, and the seconds that they may take."""
ROUNDS, JOBS_OF_A_ROUND = 3, 10_000
HOSTS, GPUS = 16, 8
SIZES = (1, 1, 1, 1, 2, 4, 8)
POLICIES: dict[str, Callable[[], Policy]] = {
    "fifo": Fifo,
    "backfill": Backfill,
    "sjf": Sjf,
    "srtf": Srtf,
    "srsf": lambda: Srtf(by_gpus=True),
    "las": Las,
}


def jobs(count: int, load: float = 0.9) -> Iterator[JobRequest]:
    """Poisson arrivals of lognormal jobs that keep this part of the GPUs busy."""
    draws, t, mean_s = random.Random(0), 0.0, 1000.0
    rate = load * HOSTS * GPUS / (mean_s * sum(SIZES) / len(SIZES))
    for number in range(count):
        t += draws.expovariate(rate)
        lasts_s = draws.lognormvariate(math.log(mean_s) - 0.5, 1.0)
        yield JobRequest(job=f"j{number}", submit_s=t, gpus=draws.choice(SIZES), duration_s=lasts_s)


def ignore(t: float, kind: str, /, **fields: Any) -> None:
    """No record is written."""


def play(name: str, count: int) -> float:
    """Processor seconds of a replay."""
    machines = [Machine(number=number, gpus=GPUS) for number in range(HOSTS)]
    begun = time.process_time()
    CountsReplay(jobs(count), machines, POLICIES[name](), Pack(), ignore).run()
    return time.process_time() - begun


def bare_heap(count: int) -> float:
    """The floor: the same jobs, each pushed and popped at its arrival and its end."""
    begun = time.process_time()
    heap = [(0.0, 0)]
    for one in jobs(count):
        heapq.heappush(heap, (one.submit_s, one.gpus))
        heapq.heappop(heap)
        heapq.heappush(heap, (one.submit_s + (one.duration_s or 0.0), one.gpus))
    return time.process_time() - begun


def test_jobs_per_second(report: Report) -> None:
    took: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name in POLICIES:
            took.setdefault(name, []).append(play(name, JOBS_OF_A_ROUND))
        took.setdefault("heap", []).append(bare_heap(JOBS_OF_A_ROUND))
    verdicts = []
    for name in POLICIES:
        seconds = median(took[name]) * JOBS / JOBS_OF_A_ROUND
        floors = median(a / b for a, b in zip(took[name], took["heap"], strict=True))
        status = PASS if seconds <= LIMIT_S else FAIL
        found = f"{seconds:.1f} s, {floors:.0f} times the bare heap"
        verdicts.append(Verdict(f"{name}: {JOBS:,} jobs on {HOSTS * GPUS} GPUs", f"<= {LIMIT_S:g} s", found, status))
    report.judge("jobs of a cluster as counts of GPUs", verdicts)


def peak_mb(name: str, count: int) -> float:
    """Peak memory of a process that replays so many jobs."""
    words = [sys.executable, "-m", "tests.bench.test_bench_cluster", name, str(count)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def test_memory_does_not_grow_with_the_number_of_jobs(report: Report) -> None:
    peaks = {(name, count): peak_mb(name, count) for name in ("fifo", "las") for count in (5_000, 50_000)}
    verdicts = []
    for name in ("fifo", "las"):
        ratio = peaks[name, 50_000] / peaks[name, 5_000]
        verdicts.append(at_most(f"{name}: peak memory of 10 times the jobs", ratio, 1.1, "x"))
    report.judge("memory of jobs as counts", verdicts, extra=f"{peaks['fifo', 50_000]:.0f} MB")


if __name__ == "__main__":
    play(sys.argv[1], int(sys.argv[2]))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
