"""Prague against its source: Luo, He, Zhuo and Qian, ASPLOS 2020 (arXiv:1909.08029)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch

import strategies.prague.divided
from strategies.basic.bsp import BSP
from strategies.local_sgd import LocalSGD
from strategies.prague import Prague
from strategies.protocol import Average, Strategy
from tests.paper.test_local_sgd import ADAMW, MOMENTUM, PLAIN, TOLERANCE, step, torch_optimizer
from tests.support.harness import HeapRun, make_job
from tests.support.own_steps import Trained, train

Pairs = list[tuple[float, tuple[int, ...]]]


class Drawn:
    """In the place of random orders: those of some divisions, all others by rank. ``free`` are the workers of each."""

    def __init__(self, orders: dict[int, list[int]]) -> None:
        self.orders = orders
        self.free: list[list[int]] = []

    def __call__(self, workers: Iterable[int], seed: int, division: int) -> list[int]:
        self.free.append(sorted(workers))
        return self.orders.get(division, self.free[-1])


def test_who_averages_with_whom_when_one_of_four_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Abstract, Group Buffer and Group Division; with the slowdown filter, C = 2, by hand.

    Workers 0 to 2 take 1 s, worker 3 takes 4 s. At 1 s worker 0 asks first; the draw is {0, 3}, {1, 2}. So 0 waits for
    3 until 4 s, while 1 and 2 average at 1, 2, 3 and 4 s. At 4 s they have averaged three times, 0 and 3 once: 3 - 1 is
    not below 2, so the division is of 1 and 2 alone. At 5 s worker 0 asks, which is behind all: the division is of
    all, {0, 1} and {2, 3}. 2 waits for 3 until 8 s. Then 0 asks for its fifth group, with 3 two behind: the division is
    of 0, 1 and 2. There are no more samples, so an update of all 20 gradients ends the epoch; BSP would take 20 s.
    """
    drawn = Drawn({0: [0, 3, 1, 2], 7: [1, 2, 0]})
    monkeypatch.setattr(strategies.prague.divided, "shuffled", drawn)
    job = make_job(num_workers=4, num_servers=0, num_samples=20, epochs=1)
    run = HeapRun(Prague(group_size=2, max_behind=2), job, [1, 1, 1, 4]).run()
    expected: Pairs = [(1, (1, 2)), (2, (1, 2)), (3, (1, 2)), (4, (0, 3)), (4, (1, 2))]
    expected += [(5, (0, 1)), (6, (0, 1)), (7, (0, 1)), (8, (2, 3))]
    assert run.averages == expected
    assert drawn.free == [[0, 1, 2, 3], [1, 2], [1, 2], [1, 2], [0, 1, 2, 3], [0, 1], [0, 1], [0, 1, 2]]
    ((t, order, grads),) = run.applied
    assert (t, order.samples, len(grads)) == (8, 20, 20)
    assert HeapRun(BSP(), job, [1, 1, 1, 4]).run().t == 20


@pytest.mark.parametrize("inner", [PLAIN, MOMENTUM, ADAMW], ids=["plain", "momentum", "adamw"])
@pytest.mark.parametrize(
    "strategy",
    [Prague(), Prague(group_size=3, period=2, group_seed=3), Prague(common_every=3, max_behind=1)],
    ids=["pairs", "threes", "common"],
)
def test_it_is_the_algorithm(strategy: Strategy, inner: dict[str, Any]) -> None:
    """Abstract, Partial All-Reduce: a step, then the average over the group, with ``torch.optim`` in float64.

    The record says who averages when. Every gradient must have been computed on the parameters that result.
    """
    trained = train(strategy, inner, samples=62, workers=5, global_batch_samples=13)
    versions, averages = by_the_algorithm(trained, inner)
    assert versions.keys() == trained.model.common.keys()
    assert averages > 5
    for version, params in versions.items():
        np.testing.assert_allclose(trained.model.common[version], params, atol=TOLERANCE)


def by_the_algorithm(trained: Trained, inner: dict[str, Any]) -> tuple[dict[int, Any], int]:
    """The parameters of each version, and the number of averages."""
    began, task = trained.model.began, trained.model.model.task  # type: ignore[attr-defined]
    common = torch.ones(3, dtype=torch.float64)
    own = {worker: common.clone() for worker in began}
    steps = {worker: torch_optimizer(params, inner) for worker, params in own.items()}
    grads = {event["grad"]["id"]: event["grad"] for event in trained.tape.received("Arrived")}
    done, samples, averages, versions = Counter[int](), Counter[int](), 0, {0: common.numpy().copy()}
    for command in (command for line in trained.tape.plain() for command in line.get("commands", ())):
        match command:
            case {"type": "StepAlone", "grads": [grad_id]}:
                worker = grads[grad_id]["worker"]
                one, params = began[worker][done[worker]], own[worker]
                np.testing.assert_allclose(one.params, params.numpy(), atol=TOLERANCE)
                away = params - torch.as_tensor(task.targets(one.indices), dtype=torch.float64).mean(axis=0)
                step(steps[worker], params, away)
                done[worker] += 1
                samples[worker] += grads[grad_id]["samples"]
            case {"type": "Average", "workers": workers}:
                mean = torch.stack([own[worker] for worker in workers]).mean(axis=0)
                for worker in workers:
                    own[worker].copy_(mean)
                averages += 1
            case {"type": "Apply"}:
                parts = {worker: samples[worker] / samples.total() for worker in own}
                common = torch.stack([own[worker] * part for worker, part in parts.items()]).sum(axis=0)
                for params in own.values():
                    params.copy_(common)
                samples.clear()
                versions[len(versions)] = common.numpy().copy()
    return versions, averages


# ---- identities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [PLAIN, MOMENTUM], ids=["plain", "momentum"])
@pytest.mark.parametrize("workers", [2, 4])
def test_one_group_of_all_is_bsp_but_for_rounding(workers: int, optimizer: dict[str, Any]) -> None:
    """Beyond the paper: P-Reduce over all workers is all-reduce. The bound is that of local SGD with a period of 1."""
    size: dict[str, Any] = {"workers": workers, "global_batch_samples": workers}
    one, bsp = (train(strategy, optimizer, **size).model for strategy in (Prague(group_size=workers), BSP()))
    assert one.common.keys() == bsp.common.keys()
    unit = np.spacing(np.float32(1.0))
    for version, params in bsp.common.items():
        assert np.abs(one.common[version] - params).max() <= 2 * unit * version


@pytest.mark.parametrize("optimizer", [PLAIN, ADAMW], ids=["plain", "adamw"])
def test_one_group_of_all_is_local_sgd_to_the_bit(optimizer: dict[str, Any]) -> None:
    """Beyond the paper: with the same period, also at the ends of epochs, where workers have unequal samples."""
    size: dict[str, Any] = {"samples": 49, "workers": 3, "global_batch_samples": 7}
    one, local = (train(made, optimizer, **size) for made in (Prague(group_size=9, period=3), LocalSGD(period=3)))
    assert one.model.params.tobytes() == local.model.params.tobytes()
    assert one.tape.update_times() == local.tape.update_times()


# ---- what it is for --------------------------------------------------------------------------------------------------


def test_a_worker_that_is_always_slow_holds_up_few_groups() -> None:
    """Abstract, slowdowns are tolerated: BSP takes as long as a worker that is four times slower, Prague does not.

    16 workers, 40 iterations each: 640 samples at 15 + 1/4 per second take 42 s if nobody waits. Beyond that the
    first groups with the slow worker wait, until its C groups behind, and the last iterations of the epoch.
    """
    job = make_job(num_workers=16, num_servers=0, global_batch_samples=16, num_samples=640, epochs=1, max_time_s=1e6)
    seconds = [*[1.0] * 15, 4.0]
    run = HeapRun(Prague(group_size=4), job, seconds).run()
    assert HeapRun(BSP(), job, seconds).run().t == 160
    assert 640 / 15.25 < run.t < 1.5 * 640 / 15.25


def test_groups_mix_all_workers() -> None:
    """Abstract, randomness: groups change, so that every worker's update reaches all others soon."""
    job = make_job(num_workers=8, num_servers=0, global_batch_samples=8, num_samples=480, epochs=1, max_time_s=1e6)
    run = HeapRun(Prague(), job, [1.0] * 8).run()
    met: Counter[tuple[int, ...]] = Counter(workers for _, workers in run.averages)
    assert len(met) == 28, "every pair of eight"
    assert max(met.values()) < 25, "240 averages, 8.6 of each pair in the mean"


# ---- what is lost ----------------------------------------------------------------------------------------------------


def test_after_a_loss_all_begin_again_from_the_last_update() -> None:
    """Beyond the paper: every sample is in the parameters once, whoever dies between two updates of all."""
    strategy = Prague(common_every=4)
    trained = train(strategy, PLAIN, (1.3, 1, True), (4.1, 3, False), workers=4, global_batch_samples=4, samples=96)
    restored = trained.tape.received("Restored")
    assert [len(event["workers"]) for event in restored] == [4, 3]
    assert any(isinstance(one, Average) for line in trained.tape.lines for one in line.get("commands", ()))
