"""Jobs as counts of GPUs: against simulations that nobody shares code with, and against formulas of queueing theory."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import fmean, stdev
from typing import Any

import pytest
from scipy.integrate import quad

from runtime.virtual.counts import CountsReplay
from strategies.cluster.placements.first_fit import FirstFit
from strategies.cluster.placements.pack import Pack
from strategies.cluster.placements.spread import Spread
from strategies.cluster.policies.backfill import Backfill
from strategies.cluster.policies.fifo import Fifo
from strategies.cluster.policies.las import Las
from strategies.cluster.policies.sjf import Sjf
from strategies.cluster.policies.srtf import Srtf
from strategies.protocol import JobRequest, Policy
from tests.support.clusters_of_jobs import Choice, by_hand, easy, greedy, keeping, machines_of, play, random_jobs
from tests.support.long_tests import long_after, rows_long_after

THRESHOLDS = (60.0, 200.0)
KINDS: dict[str, tuple[Callable[[], Policy], Choice]] = {
    "fifo": (Fifo, keeping(lambda job: 0.0, blocks=True)),
    "sjf": (Sjf, keeping(lambda job: job.left_s, blocks=False)),
    "backfill": (lambda: Backfill(depth=None), easy),
    "srtf": (Srtf, greedy(lambda job: job.left_s)),
    "srsf": (lambda: Srtf(by_gpus=True), greedy(lambda job: job.left_s * job.request.gpus)),
    "las": (lambda: Las(thresholds=THRESHOLDS), greedy(lambda job: float(job.level))),
}


def ends_of(policy: Policy, jobs: list[JobRequest], placement: Any = None, gpus: tuple[int, ...] = (8,)) -> list[float]:
    found = play(jobs, machines_of(*gpus), policy, placement or FirstFit()).times("Ended")
    return [found[one.job] for one in jobs]


# ---- against the independent simulation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "how"),
    rows_long_after(
        [
            (5, {"every_s": 25.0, "mean_s": 40.0, "whole": True}),  # many things happen at once
            *((seed, {"every_s": (20.0, 30.0, 60.0)[seed % 3]}) for seed in range(12)),
        ],
        always=4,
    ),
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_job_ends_when_an_independent_simulation_says(kind: str, seed: int, how: Any) -> None:
    make, choose = KINDS[kind]
    jobs = random_jobs(seed, 150, (1, 1, 2, 3, 4, 8), **how)
    thresholds = THRESHOLDS if kind == "las" else ()
    assert ends_of(make(), jobs) == pytest.approx(by_hand(jobs, 8, choose, thresholds), abs=1e-5)


@pytest.mark.parametrize("placement", [FirstFit(), Pack(), Spread()])
@pytest.mark.parametrize("kind", KINDS)
def test_where_gangs_are_changes_nothing_for_counts(kind: str, placement: Any) -> None:
    """Machines of unequal size, one without GPUs: only their sum matters where a gang may be on any of them."""
    jobs = random_jobs(1, 80, (1, 2, 3, 8), every_s=20.0)
    make = KINDS[kind][0]
    assert ends_of(make(), jobs, placement, (4, 0, 3, 1)) == ends_of(make(), jobs)


@pytest.mark.parametrize("promote", long_after([2.0, 0.5, 8.0], always=1))
@pytest.mark.parametrize("seed", long_after(range(6), always=2))
def test_jobs_that_starve_are_promoted_when_an_independent_simulation_says(seed: int, promote: float) -> None:
    jobs = random_jobs(seed, 150, (1, 1, 2, 3, 4, 8), every_s=(18.0, 25.0)[seed % 2])
    choose = KINDS["las"][1]
    expected = by_hand(jobs, 8, choose, THRESHOLDS, promote)
    assert ends_of(Las(thresholds=THRESHOLDS, promote=promote), jobs) == pytest.approx(expected, abs=1e-5)
    assert expected != by_hand(jobs, 8, choose, THRESHOLDS), "somebody has starved"


def test_a_long_job_among_short_ones_has_its_turn() -> None:
    """On one GPU. From 10 s on short jobs leave no gap; after 20 s, twice the 10 s that it had, the long one is in the
    first queue, before those that came later; it runs from the next end, 34 s, for its 10 s there, and so on."""
    short = [JobRequest(job=f"s{n}", submit_s=10.0 + 8.0 * n, gpus=1, duration_s=8.0) for n in range(12)]
    jobs = [JobRequest(job="long", submit_s=0.0, gpus=1, duration_s=30.0), *short]
    fair = play(jobs, machines_of(1), Las(thresholds=(10.0,), promote=2.0), FirstFit())
    starts = [t for t, kind, fields in fair.notes if kind == "Placed" and fields["job"] == "long"]
    assert starts == [0.0, 34.0, 68.0]
    assert fair.times("Ended")["long"] == 78.0
    starved = play(jobs, machines_of(1), Las(thresholds=(10.0,)), FirstFit())
    assert starved.times("Ended")["long"] == 10.0 + 12 * 8.0 + 20.0


# ---- against formulas ------------------------------------------------------------------------------------------------


def erlang_c(servers: int, load: float) -> float:
    """The probability that an arrival waits in M/M/c; ``load``: arrival rate x mean service."""
    terms = [load**k / math.factorial(k) for k in range(servers)]
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(terms) + last)


def one_gpu_jobs(seed: int, count: int, rate: float, mean_s: float = 1.0) -> list[JobRequest]:
    draws, t, found = random.Random(seed), 0.0, []
    for number in range(count):
        t += draws.expovariate(rate)
        found.append(JobRequest(job=f"j{number}", submit_s=t, gpus=1, duration_s=draws.expovariate(1 / mean_s)))
    return found


def interval(values: list[float]) -> tuple[float, float]:
    """Four standard errors around the mean of independent repetitions: a false alarm in some thousand runs."""
    half = 4 * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


def mean_times(policy: Callable[[], Policy], servers: int, rate: float, kind: str, repeats: int = 6) -> list[float]:
    """Mean time from submission to the first or last note of a kind, by repetition."""
    found = []
    for seed in range(repeats):
        jobs = one_gpu_jobs(seed, 1500, rate)
        played = play(jobs, machines_of(servers), policy(), FirstFit())
        times = played.times(kind)
        found.append(fmean(times[one.job] - one.submit_s for one in jobs[200:]))
    return found


@pytest.mark.parametrize(("servers", "rate"), rows_long_after([(4, 2.8), (1, 0.6), (10, 8.0)], always=1))
def test_fifo_waits_as_erlang_says(servers: int, rate: float) -> None:
    """M/M/c: the mean wait is C(c, a) / (c mu - lambda)."""
    low, high = interval(mean_times(Fifo, servers, rate, "Placed"))
    assert low < erlang_c(servers, rate) / (servers - rate) < high


def srpt_mean_s(rate: float) -> float:
    """Mean response time of M/M/1 with SRPT, mean service 1 (Schrage and Miller, 1966)."""

    def load(x: float) -> float:  # of jobs up to x
        return rate * (1 - (1 + x) * math.exp(-x))

    def second(x: float) -> float:  # integral of t^2 f(t) up to x
        return 2 - (2 + 2 * x + x * x) * math.exp(-x)

    def response(x: float) -> float:
        wait = rate * (second(x) + x * x * math.exp(-x)) / (2 * (1 - load(x)) ** 2)
        return wait + quad(lambda y: 1 / (1 - load(y)), 0, x)[0]

    return float(quad(lambda x: response(x) * math.exp(-x), 0, 40)[0])


@pytest.mark.long(like="test_plain_las_on_one_gpu_shares_it")
def test_srtf_on_one_gpu_is_srpt() -> None:
    low, high = interval(mean_times(Srtf, 1, 0.7, "Ended"))
    assert low < srpt_mean_s(0.7) < high
    assert srpt_mean_s(0.7) < 0.8 / (1 - 0.7), "and it is far below that of FIFO, 1 / (mu - lambda)"


def test_plain_las_on_one_gpu_shares_it() -> None:
    """M/M/1 with exponential service: least attained service in small quanta responds in the mean as FIFO does.

    (Exponential sizes have a constant hazard rate, so no policy that does not know them differs in the mean: 1 / (mu -
    lambda).)
    """
    found = mean_times(lambda: Las(thresholds=(), quantum=0.5), 1, 0.6, "Ended", repeats=6)
    low, high = interval(found)
    assert low < 1 / (1 - 0.6) < high


# ---- conservation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_held_gpu_seconds_are_those_of_the_jobs(kind: str) -> None:
    jobs = random_jobs(4, 100, (1, 2, 4), every_s=20.0)
    replay = play(jobs, machines_of(8), KINDS[kind][0](), Pack()).replay
    assert replay is not None
    totals = replay.totals
    assert totals.ended == len(jobs)
    assert totals.held_gpu_s == pytest.approx(sum(one.gpus * (one.duration_s or 0) for one in jobs))
    assert (totals.preemptions > 0) == (kind in ("srtf", "srsf", "las"))


def test_a_restart_costs_what_it_is_said_to() -> None:
    """A long job is preempted by a short one at 10 s, continues at 15 s, and has lost 3 s: 10 + 5 + 3 + 90."""
    jobs = [
        JobRequest(job="long", submit_s=0.0, gpus=1, duration_s=100.0),
        JobRequest(job="short", submit_s=10.0, gpus=1, duration_s=5.0),
    ]
    played = play(jobs, machines_of(1), Srtf(), FirstFit(), restart_s=3.0)
    assert played.times("Ended") == {"short": 15.0, "long": 108.0}
    assert played.times("Placed") == {"short": 10.0, "long": 15.0}
    assert played.times("Started") == {"short": 10.0, "long": 18.0}
    assert [(t, kind) for t, kind, fields in played.notes if fields["job"] == "long"] == [
        (0.0, "Submitted"),
        (0.0, "Placed"),
        (0.0, "Started"),
        (10.0, "Preempted"),
        (10.0, "Queued"),
        (15.0, "Placed"),
        (18.0, "Started"),
        (108.0, "Ended"),
    ]


def test_a_job_that_is_preempted_before_it_has_restarted_loses_no_progress() -> None:
    jobs = [
        JobRequest(job="long", submit_s=0.0, gpus=1, duration_s=100.0),
        JobRequest(job="a", submit_s=10.0, gpus=1, duration_s=5.0),
        JobRequest(job="b", submit_s=16.0, gpus=1, duration_s=5.0),
    ]
    played = play(jobs, machines_of(1), Srtf(), FirstFit(), restart_s=3.0)
    assert played.times("Ended") == {"a": 15.0, "b": 21.0, "long": 114.0}


def test_what_cannot_run_is_refused_by_name() -> None:
    big = JobRequest(job="big", submit_s=0.0, gpus=9, duration_s=1.0)
    with pytest.raises(ValueError, match=r"^job big: gpus=9: the cluster has 8 GPUs"):
        play([big], machines_of(8), Fifo(), FirstFit())
    endless = JobRequest(job="endless", submit_s=0.0, gpus=1)
    with pytest.raises(ValueError, match=r"^job endless: detail=gpus_only needs its duration"):
        play([endless], machines_of(8), Fifo(), FirstFit())
    with pytest.raises(ValueError, match=r"^restart_s=-1"):
        CountsReplay([], machines_of(8), Fifo(), FirstFit(), lambda *_, **__: None, restart_s=-1)


def test_what_is_kept_does_not_grow_with_the_number_of_jobs() -> None:
    """After any number of jobs nothing of them is left, in the replay, the automaton or the policy."""
    for make, _ in KINDS.values():
        policy = make()
        replay = play(random_jobs(0, 60, every_s=30.0), machines_of(4), policy, Pack()).replay
        assert replay is not None
        held = [vars(replay), vars(replay.coordinator), vars(policy)]
        sizes = [len(value) for one in held for value in one.values() if isinstance(value, dict)]
        assert sizes
        assert not any(sizes)
        assert not replay.coordinator.room.held
        assert not any(map(len, vars(vars(policy)["_waiting"]).values()))
