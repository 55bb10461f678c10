"""Whole jobs against simulations that were written from the papers' sentences (tests/support/reference_gates.py).

Who is in which update, when, on which parameters, how many gradients are dropped, and at which learning rate: all of it
must be the same, for workers of any speed with any noise.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from math import exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.job import ComputeOrder
from strategies.basic.asp import ASP
from strategies.basic.backup_workers import BackupWorkers
from strategies.basic.bsp import BSP
from strategies.basic.dynamic_x import DynamicX
from strategies.basic.first_k import FirstK
from strategies.basic.ssp import SSP
from strategies.basic.static_x import StaticX
from strategies.lgc import LGC
from strategies.protocol import Strategy
from strategies.sync_switch import SyncSwitch
from tests.support import reference_gates as text
from tests.support.harness import HeapRun, make_job

END_S = 20.0
BATCH = 840
"""Samples of a worker; divided by any number of workers but the backup ones."""
WHOLE, SHARE = "whole", "share"
"""The rate of an update: that of the whole batch, or the gradients' share of it."""
Case = tuple[Strategy, text.Rule, str]
Draw = Callable[[random.Random, int], Case]


def lgc(draw: random.Random, n: int) -> Case:
    """K, the longest delay and the rule by which a late worker begins again are drawn."""
    k, delay, in_time = draw.randint(1, n), draw.choice([1, 1, 2, 3]), draw.random() < 0.5
    begin = "in_time" if in_time else "next_update"
    strategy = LGC(k_fastest=k, max_delay_versions=delay, late_begin=begin)
    return strategy, text.compensated(k, delay, in_time=in_time), SHARE


def sync_switch(draw: random.Random, n: int) -> Case:
    """Synchronous to the end but for stragglers, as STAR runs it."""
    seconds = draw.choice([1.0, 2.0, 5.0])
    strategy = SyncSwitch(bsp_frac=1.0, judge="published", duration_s=seconds, warmup_iters=0)
    return strategy, text.until_slow(seconds), SHARE


def dynamic_x(draw: random.Random, n: int) -> Case:
    """How often and by which window the clusters are formed is drawn."""
    iters, window_s = draw.choice([1, 3, 5]), draw.choice([6.0, 15.0])
    strategy = DynamicX(regroup_iters=iters, window_s=window_s, warmup_iters=0)
    return strategy, text.by_cluster(iters, window_s), SHARE


def by_number(make: Callable[[int], Strategy], rule: Callable[[int], text.Rule], low: int, rate: str) -> Draw:
    """A strategy with one setting, from ``low`` to the number of workers."""

    def case(draw: random.Random, n: int) -> Case:
        value = draw.randint(low, n)
        return make(value), rule(value), rate

    return case


def backup(draw: random.Random, n: int) -> Case:
    """Some are launched in addition to those that are needed."""
    spare = draw.randint(0, n - 1)
    return BackupWorkers(num_backup=spare), text.first(n - spare), WHOLE


CASES: dict[str, Draw] = {
    "asp": lambda draw, n: (ASP(data="dynamic"), text.each, SHARE),
    "bsp": lambda draw, n: (BSP(), text.first(n), WHOLE),
    "ssp": by_number(lambda bound: SSP(bound=bound), text.bounded, 0, SHARE),
    "backup_workers": backup,
    "first_k": by_number(lambda k: FirstK(k=k), text.first, 1, SHARE),
    "static_x": by_number(lambda x: StaticX(x=x), text.every, 1, SHARE),
    "lgc": lgc,
    "sync_switch": sync_switch,
    "dynamic_x": dynamic_x,
}


def drawn_seconds(seed: int, num_workers: int) -> text.Seconds:
    """Workers of different speed, some noise, and now and then some slow iterations in a row."""
    draw = random.Random(seed)
    base_s = [draw.choice([0.3, 1.0, 1.0, 2.0]) * draw.uniform(0.8, 1.25) for _ in range(num_workers)]
    noise, length = draw.choice([0.0, 0.05, 0.3]), draw.randint(3, 20)

    def seconds(worker: int, iteration: int) -> float:
        own = random.Random(f"{seed} {worker} {iteration}")
        slow = random.Random(f"{seed} {worker} {iteration // length} slow").choice([1, 1, 1, 3])
        return base_s[worker] * slow * exp(noise * own.gauss(0, 1))

    return seconds


def played(strategy: Strategy, num_workers: int, seconds: text.Seconds) -> HeapRun:
    """Our coordinator and strategy, with more data than the time suffices for."""
    begun = Counter[int]()

    def took(worker: int, order: ComputeOrder) -> float:
        begun[worker] += 1
        return seconds(worker, begun[worker] - 1)

    batch = BATCH * num_workers
    job = make_job(num_workers=num_workers, global_batch_samples=batch, num_samples=1000 * batch, max_time_s=END_S)
    return HeapRun(strategy, job, took).run()


def updates_of(run: HeapRun) -> list[text.Update]:
    return [
        text.Update(round(t, 9), tuple(sorted((grad.worker, grad.version) for grad in grads)))
        for t, _, grads in run.applied
    ]


def rates_of(updates: Sequence[text.Update], num_workers: int, rate: str) -> list[float]:
    return [1.0 if rate == WHOLE else len(update.members) / num_workers for update in updates]


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=12)
@given(seed=st.integers(0, 10**6))
def test_it_is_the_job_that_the_text_describes(name: str, seed: int) -> None:
    """STAR, sections IV-B and V-A, and the papers of the baselines, by their rules alone."""
    draw = random.Random(f"{name} {seed}")
    num_workers = draw.randint(2, 7)
    seconds = drawn_seconds(seed, num_workers)
    strategy, rule, rate = CASES[name](draw, num_workers)
    run = played(strategy, num_workers, seconds)
    wanted = text.Job(num_workers, seconds, rule).run(END_S)
    updates = [update._replace(t=round(update.t, 9)) for update in wanted.updates]
    assert updates_of(run) == updates
    assert len(run.dropped) == wanted.dropped
    assert [order.lr for _, order, _ in run.applied] == pytest.approx(rates_of(updates, num_workers, rate))
    assert all(len({*order.weights}) == 1 for _, order, _ in run.applied), "every sample counts alike"


def test_a_rule_that_is_a_little_different_is_noticed() -> None:
    """Beyond the paper: the comparison can fail. An update of three is none of two, and what is dropped is missing."""
    seconds = drawn_seconds(1, 5)
    wanted = text.Job(5, seconds, text.every(3)).run(END_S).updates
    assert updates_of(played(StaticX(x=3), 5, seconds)) == [update._replace(t=round(update.t, 9)) for update in wanted]
    for other in (text.every(2), text.first(3), text.compensated(3, 1, in_time=False)):
        assert text.Job(5, seconds, other).run(END_S).updates != wanted
