"""How long a strategy thinks: ``handle`` under a stream of lawful events, without processes and without tensors."""

from __future__ import annotations

import heapq
import math
import random
import time
from functools import partial
from itertools import count
from statistics import median, quantiles

import pytest

from strategies.basic.asp import ASP
from strategies.basic.backup_workers import BackupWorkers
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.mlfabric.fluid import Update
from strategies.mlfabric.order import plan
from strategies.protocol import AnyCommand, AnyEvent, Apply, Arrived, Compute, Grad, Started, Strategy, Timings

from .goals import DECISION_LIMITS_S, PLAN_LIMIT_S, RECORDING, AtMost
from .launch import PeerError, call
from .probe import Probe
from .replay import recorded_clock, replay_peer
from .report import Report, table
from .rounds import Comparison, bracketed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600), pytest.mark.benchmark(timer=recorded_clock)]

STRATEGIES = {
    "bsp": BSP,
    "asp": ASP,
    "ssp": partial(SSP, bound=3),
    "backup_workers": partial(BackupWorkers, num_backup=1),
}
ITERATIONS_PER_WORKER = {64: 400, 1024: 25}
"""About 25,000 events each: 250 of them lie above the 99th percentile."""
WARM_UP_FRAC = 0.1
PLANS = 20


class Events:
    """Answers every Compute with an Arrived later: a heap of finishing times, a tenth of them ten times as late."""

    def __init__(self, num_workers: int) -> None:
        self.random = random.Random(0)
        self.heap: list[tuple[float, int, Compute, int]] = []
        self.now_s, self.version, self.ids = 0.0, 0, count()
        self.iterations = [0] * num_workers

    def carry_out(self, commands: list[AnyCommand]) -> None:
        for command in commands:
            match command:
                case Compute():
                    slow = 10.0 if self.random.random() < 0.1 else 1.0
                    end_s = self.now_s + slow * self.random.uniform(0.9, 1.1)
                    heapq.heappush(self.heap, (end_s, next(self.ids), command, self.version))
                case Apply():
                    self.version += 1

    def next(self) -> Arrived:
        self.now_s, grad_id, command, version = heapq.heappop(self.heap)
        worker, samples = command.worker, command.num_samples
        self.iterations[worker] += 1
        grad = Grad(
            id=grad_id,
            worker=worker,
            incarnation=0,
            iteration=self.iterations[worker] - 1,
            version=version,
            samples=samples,
            assigned_samples=samples,
        )
        return Arrived(t=self.now_s, grad=grad, timings=Timings(compute_s=0.1), loss=1.0)


def latencies_s(strategy: Strategy, num_workers: int) -> list[float]:
    """Of every ``handle`` after the warm-up."""
    events, seconds = Events(num_workers), []
    started = Started(t=0.0, workers=tuple(range(num_workers)), batch_samples=(32,) * num_workers, num_servers=1)
    events.carry_out(timed(strategy, started, seconds))
    num_events = num_workers * ITERATIONS_PER_WORKER[num_workers]
    for _ in range(num_events):
        events.carry_out(timed(strategy, events.next(), seconds))
    return seconds[int(num_events * WARM_UP_FRAC) :]


def timed(strategy: Strategy, event: AnyEvent, seconds: list[float]) -> list[AnyCommand]:
    begun = time.perf_counter()
    commands = strategy.handle(event)
    seconds.append(time.perf_counter() - begun)
    return list(commands)


@pytest.fixture(scope="module", params=DECISION_LIMITS_S, ids=lambda workers: f"{workers}workers")
def num_workers(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="module")
def details() -> dict[str, list[tuple[float, float]]]:
    """Strategy -> (p50, largest) in seconds, one pair per round."""
    return {}


@pytest.fixture(scope="module")
def comparison(
    num_workers: int, probe: Probe, rounds: int, details: dict[str, list[tuple[float, float]]]
) -> Comparison:
    details.clear()

    def p99_s(name: str) -> float:
        seconds = latencies_s(STRATEGIES[name](), num_workers)
        details.setdefault(name, []).append((median(seconds), max(seconds)))
        return quantiles(seconds, n=100)[98]

    measures = {name: partial(p99_s, name) for name in STRATEGIES}
    return bracketed(f"p99 of a decision, {num_workers} workers", measures, probe, rounds)


@pytest.mark.parametrize("name", STRATEGIES)
def test_decisions(name, comparison, benchmark):
    replay_peer(benchmark, comparison, name)


def test_decision_goals(num_workers, comparison: Comparison, details, report: Report):
    limit_s = DECISION_LIMITS_S[num_workers]
    verdicts = [AtMost(name, limit_s, "us", 1e6).judge(comparison.median_s(name)) for name in STRATEGIES]
    rows = [
        [name, *(f"{median(column) * 1e6:.1f}" for column in zip(*details[name], strict=True))] for name in STRATEGIES
    ]
    report.judge(comparison.title, verdicts, comparison, table(["strategy", "p50 us", "largest us"], rows))


def waiting(equal: bool) -> tuple[list[Update], dict[str, float]]:
    """64 updates of 1 MB on uplinks as fast as the servers' link, or on others of at least half of that."""
    rng = random.Random(0)
    links = {f"worker:{worker}": 1e8 if equal else 1e8 * rng.uniform(0.5, 1.0) for worker in range(64)}
    pending = [
        Update(id=number, worker=number, version=100 - number, size_bytes=1e6, ready_s=0.0, path=(name, "servers"))
        for number, name in enumerate(links)
    ]
    return pending, {**links, "servers": 1e8}


def test_planning_goal(probe: Probe, rounds: int, report: Report):
    """MLfabric's plan is made when the one before is done: seldom of as many as this."""

    def plan_s(equal: bool) -> float:
        pending, links = waiting(equal)
        begun = time.perf_counter()
        for _ in range(PLANS):
            plan(pending, links, now_s=0.0, version=100, tau_max=128)
        return (time.perf_counter() - begun) / PLANS

    measures = {"equal links": partial(plan_s, True), "unequal links": partial(plan_s, False)}
    comparison = bracketed("a plan of 64 transfers", measures, probe, rounds)
    verdicts = [AtMost(name, PLAN_LIMIT_S, "ms", 1e3).judge(comparison.median_s(name)) for name in measures]
    report.judge(comparison.title, verdicts, comparison)


def test_recording_goal(report: Report):
    try:
        frac, note = call("ours", "recording_core_frac", num_workers=8, duration_s=5.0), ""
    except PeerError as error:
        frac, note = math.nan, str(error).splitlines()[0]
    report.judge("recording and telemetry, 8 workers", [RECORDING.judge(frac, note)])
