"""Eager SGD against its source: Li et al., "Taming unbalanced training workloads in deep learning with partial
collective operations", PPoPP 2020 (arXiv:1908.04207): who begins a sum, send buffers, division by N."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from runtime.core.job import ComputeOrder
from strategies.basic.bsp import BSP
from strategies.eager_sgd import EagerSGD
from strategies.eager_sgd.initiated import initiator_of
from strategies.protocol import Strategy
from tests.contract.test_identities import difference
from tests.support.harness import HeapRun, make_job
from tests.support.long_tests import long_after
from tests.support.own_steps import QUICK, Pull, Trained, Watched
from tests.support.virtual_runs import VirtualRun, draw_replica_world
from tests.unit.virtual.test_virtual_session import finish, session, slow, virtual_job

PLAIN: dict[str, Any] = {"name": "sgd", "lr": 0.25}
MOMENTUM: dict[str, Any] = {"name": "sgd", "lr": 0.0625, "momentum": 0.5}
TOLERANCE = 2e-6
"""Absolute, of parameters below 1 in float32; the reference computes in float64."""

Update = tuple[float, list[tuple[int, int]], float]
"""When, the (worker, version) of each gradient, and the rate."""


def updates_of(run: HeapRun) -> list[Update]:
    return [(t, [(grad.worker, grad.version) for grad in grads], order.lr) for t, order, grads in run.applied]


def seed_of(*initiators: int, workers: int = 3) -> int:
    """A seed by which these workers are drawn, one after another."""
    wanted = list(enumerate(initiators))
    everybody = tuple(range(workers))
    return next(seed for seed in count() if all(initiator_of(seed, at, everybody) == one for at, one in wanted))


# ---- worked numbers: three workers, whose gradients of two samples take 2, 5.5 and 9 s ------------------------------

TIMES_S = (2.0, 5.5, 9.0)


def play(strategy: Strategy, max_time_s: float) -> HeapRun:
    job = make_job(num_workers=3, num_servers=0, global_batch_samples=6, max_time_s=max_time_s)
    return HeapRun(strategy, job, TIMES_S).run()


def test_solo_waits_for_the_fastest_and_the_others_contribute_what_they_have() -> None:
    """Abstract: fast workers "contribute their gradients eagerly without waiting for the slower". Published code: the
    sum is divided by the number of processes. Worker 1's first gradient, of the first parameters, arrives at 5.5 s and
    is in the sum of 6 s, which divides two gradients by 3. From 5.5 s on the worker computes on the parameters of then,
    the second ones, until 11 s."""
    run = play(EagerSGD(mode="solo"), 12.25)
    one, two = pytest.approx(1 / 3), pytest.approx(2 / 3)
    assert updates_of(run) == [
        (2.0, [(0, 0)], one),
        (4.0, [(0, 1)], one),
        (6.0, [(0, 2), (1, 0)], two),
        (8.0, [(0, 3)], one),
        (10.0, [(0, 4), (2, 0)], two),
        (12.0, [(0, 5), (1, 2)], two),
    ]
    assert [order.weights for _, order, _ in run.applied[:3]] == [(1 / 2,), (1 / 2,), (1 / 4, 1 / 4)]
    assert [t for t, _, _ in play(BSP(), 12.25).applied] == [9.0], "negative control: BSP waits for the slowest"


def test_majority_waits_for_the_drawn_worker_and_late_gradients_add_up() -> None:
    """Abstract, and published code: a random activator. Workers 1, 0 and 2 are drawn. Worker 2's first gradient, late
    at 9 s, begins no sum: the third one waits for its next, at 18 s. It has two gradients of worker 1 and two of worker
    2 by then: five, divided by 3."""
    run = play(EagerSGD(mode="majority", seed=seed_of(1, 0, 2)), 18.25)
    assert updates_of(run) == [
        (5.5, [(0, 0), (1, 0)], pytest.approx(2 / 3)),
        (7.5, [(0, 1)], pytest.approx(1 / 3)),
        (18.0, [(0, 2), (1, 1), (1, 2), (2, 0), (2, 2)], pytest.approx(5 / 3)),
    ]
    assert run.applied[2][1].weights == (1 / 10,) * 5


def test_every_second_sum_waits_for_all() -> None:
    """Published code: solo makes a synchronous sum every 32 steps. Here the second one needs gradients of all on
    the parameters of 2 s: worker 2's arrives at 18 s."""
    run = play(EagerSGD(mode="solo", sync_every=2), 18.25)
    assert updates_of(run) == [
        (2.0, [(0, 0)], pytest.approx(1 / 3)),
        (18.0, [(0, 1), (1, 0), (1, 1), (2, 0), (2, 1)], pytest.approx(5 / 3)),
    ]


def test_on_average_half_of_the_workers_have_arrived_at_a_majority() -> None:
    """Abstract: "at least half of the participants". The rank of the drawn worker is uniform: of 64, a mean of 32.5,
    within four standard errors of 4,000 draws."""
    ranks = [1 + initiator_of(7, version, tuple(range(64))) for version in range(4000)]
    assert fmean(ranks) == pytest.approx(32.5, abs=4 * np.sqrt((64**2 - 1) / 12 / 4000))
    assert set(ranks) == set(range(1, 65))


def test_all_workers_draw_the_same_and_a_repeated_round_draws_again_the_same() -> None:
    """Published code: one seed for all processes. Beyond the paper, rollbacks."""
    drawn = [[initiator_of(seed, version, (0, 1, 2)) for version in range(20)] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


# ---- the parameters -------------------------------------------------------------------------------------------------


def train(strategy: Strategy, optimizer: dict[str, Any], workers: int, samples: int, **slower: float) -> Trained:
    """A job of replicas, some of which are slower; each batch has two samples, also at the ends of epochs."""
    size = {"num_servers": 0, "global_batch_samples": 2 * workers, "epochs": 2, "lr": optimizer["lr"]}
    job = virtual_job(workers, samples, **size)
    model = Watched(Pull(num_samples=samples), job, strategy, optimizer)
    run, tape = session(strategy, job, QUICK, model_state=model, actuator=slow(**slower))
    finish(run, tape)
    return Trained(model, tape, run)


def by_the_algorithm(trained: Trained, lr: float) -> tuple[list[np.ndarray[Any, Any]], list[int]]:
    """The parameters of each version, and how many versions old each summed gradient was.

    Every worker has a send buffer, to which each gradient that arrives is added; a sum has all of them, divided by the
    number of workers, and empties them. The record says only what arrives when, and after which arrival a sum begins.
    """
    model, workers = trained.model, range(trained.run.spec.job.num_workers)
    versions, ages = [np.ones(3)], list[int]()
    buffers, came = {worker: np.zeros(3) for worker in workers}, list[int]()
    began = {worker: iter(model.began[worker]) for worker in workers}
    for line in (line for line in trained.tape.plain() if line["kind"] == "event"):
        grad = line["event"].get("grad")
        if line["event"]["type"] == "Arrived" and grad["samples"]:
            one = next(began[grad["worker"]])
            assert one.version == grad["version"]
            np.testing.assert_allclose(one.params, versions[one.version], atol=TOLERANCE)
            targets = model.model.task.targets(one.indices).astype(float)  # type: ignore[attr-defined]
            buffers[grad["worker"]] += versions[one.version] - targets.mean(axis=0)
            came.append(one.version)
        if line["version"] == len(versions):
            ages += [len(versions) - 1 - version for version in came]
            versions.append(versions[-1] - lr / len(workers) * sum(buffers.values()))
            buffers, came = {worker: np.zeros(3) for worker in workers}, []
    return versions, ages


@pytest.mark.parametrize("mode", ["solo", "majority"])
def test_parameters_are_those_of_the_algorithm(mode: str) -> None:
    """Abstract: "decentralized accumulation". The reference has send buffers, and knows no command."""
    trained = train(EagerSGD(mode=mode), PLAIN, workers=3, samples=48, w1=3.0, w2=12.0)
    versions, ages = by_the_algorithm(trained, PLAIN["lr"])
    assert len(versions) == len(trained.model.common) > 8
    for version, params in enumerate(versions):
        np.testing.assert_allclose(trained.model.common[version], params, atol=TOLERANCE)
    assert len(ages) == 2 * 48 / 2, "each batch of both epochs is in one sum"
    assert max(ages) > 1
    assert 0 in ages


# ---- BSP ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["solo", "majority"])
@pytest.mark.parametrize("num_workers", [1, 4])
@pytest.mark.parametrize("seed", long_after(range(6), always=2))
def test_if_every_sum_waits_for_all_it_is_bsp(mode: str, num_workers: int, seed: int) -> None:
    """Beyond the paper: in worlds with jitter, delays, losses and departures: the same events and commands at the same
    times to the bit, and every sample is used as often."""
    world = draw_replica_world(num_workers, seed)
    eager, bsp = (VirtualRun(world, one) for one in (EagerSGD(mode=mode, sync_every=1), BSP()))
    assert eager.refused == ""
    assert difference(eager, bsp) == ""


@pytest.mark.parametrize("seed", [0, 1])
def test_one_worker_alone_is_bsp(seed: int) -> None:
    """Beyond the paper: nobody is late."""
    world = draw_replica_world(1, seed)
    assert difference(VirtualRun(world, EagerSGD(mode="solo")), VirtualRun(world, BSP())) == ""


def test_what_is_not_bsp_is_found() -> None:
    """Negative control: solo with four workers, in the same world, differs from BSP."""
    world = draw_replica_world(4, 0)
    assert difference(VirtualRun(world, EagerSGD(mode="solo")), VirtualRun(world, BSP()))


def last_is(worker: int) -> Callable[[int, ComputeOrder], float]:
    """Seconds of a gradient: the drawn worker's, or another's if ``worker`` says so, takes longest."""
    return lambda one, order: 2.0 if one == (initiator_of(0, order.version, (0, 1, 2)) + worker) % 3 else 1.0


def test_majority_whose_initiator_is_the_last_to_arrive_is_bsp() -> None:
    """Beyond the paper: the same updates at the same times."""
    job = make_job(num_workers=3, num_servers=0, num_samples=60, global_batch_samples=6, epochs=2, max_time_s=1e3)
    eager, bsp, first = (
        HeapRun(strategy, job, seconds).run()
        for strategy, seconds in ((EagerSGD(), last_is(0)), (BSP(), last_is(0)), (EagerSGD(), last_is(1)))
    )
    assert eager.applied == bsp.applied
    assert len(eager.applied) == 20
    assert first.applied != bsp.applied, "negative control: another is the last"


@pytest.mark.parametrize("optimizer", [PLAIN, MOMENTUM], ids=["plain", "momentum"])
def test_its_parameters_are_then_those_of_bsp_to_the_bit(optimizer: dict[str, Any]) -> None:
    """Beyond the paper: the slower of two workers is drawn for each of eight sums."""
    seed = seed_of(*[1] * 8, workers=2)
    eager, bsp, other = (
        train(strategy, optimizer, workers=2, samples=16, w1=1.0)
        for strategy in (EagerSGD(seed=seed), BSP(), EagerSGD(mode="solo"))
    )
    assert len(eager.model.common) == 9
    assert eager.model.params.tobytes() == bsp.model.params.tobytes() != other.model.params.tobytes()
    assert eager.tape.update_times() == bsp.tape.update_times()
