"""SGP against its source: Assran, Loizou, Ballas and Rabbat, ICML 2019 (arXiv:1811.10792), and its published code,
github.com/facebookresearch/stochastic_gradient_push."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import count, pairwise
from typing import Any

import numpy as np
import pytest
import torch

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.core.job import ComputeOrder
from runtime.training.optimizers import make_optimizer
from runtime.training.own_steps import OwnSteps
from strategies.basic.bsp import BSP
from strategies.local_sgd import LocalSGD
from strategies.protocol import Strategy
from strategies.sgp import SGP
from strategies.sgp.pushing import places_on
from tests.paper.test_local_sgd import ADAMW, MOMENTUM, PLAIN, TOLERANCE, step, torch_optimizer
from tests.support.harness import HeapRun, make_job
from tests.support.own_steps import QUICK, Pull, Trained, Watched, train
from tests.unit.virtual.test_virtual_session import finish, session, slow, virtual_job

# ---- the graph -------------------------------------------------------------------------------------------------------

PUBLISHED: dict[int, list[int]] = {
    2: [1],
    3: [1, 2],
    4: [1, 2],
    5: [1, 2, 4],
    8: [1, 2, 4],
    9: [1, 2, 4, 8],
    12: [1, 2, 4, 8],
    33: [1, 2, 4, 8, 16, 32],
    64: [1, 2, 4, 8, 16, 32],
}
"""The peers of rank 0 in ``NPeerDynamicDirectedExponentialGraph`` of the published code, with one peer at a time, in
the order in which it uses them, by number of ranks."""


@pytest.mark.parametrize("size", range(2, 65))
def test_targets_are_those_of_the_paper_and_of_its_published_code(size: int) -> None:
    """Published code and appendix A: in iteration k to the node 2^(k mod (floor(log2(n - 1)) + 1)) hops away."""
    cycle = [2**power for power in range(math.floor(math.log2(size - 1)) + 1)]
    assert [places_on(number, size) for number in range(3 * len(cycle))] == 3 * cycle
    assert PUBLISHED.get(size, cycle) == cycle


@pytest.mark.parametrize("size", [2, 3, 8, 13])
def test_in_an_iteration_each_worker_sends_one_half_and_gets_one(size: int) -> None:
    """Section 3: each node sends and receives a single message in an iteration. Rank i sends to rank i + hops."""
    job = make_job(num_workers=size, num_servers=0, global_batch_samples=size, num_samples=6 * size, epochs=1)
    run = HeapRun(SGP(), job, [1.0] * size).run()
    for number in range(6):
        orders = [order for t, order in run.pushes if t == number + 1]
        sent = {(order.worker, order.to) for order in orders if order.to is not None}
        added = {(source, order.worker) for order in orders for source in order.adds}
        assert sent == added == {(rank, (rank + places_on(number, size)) % size) for rank in range(size)}


# ---- worked numbers --------------------------------------------------------------------------------------------------


def test_who_waits_when_one_of_four_is_slow() -> None:
    """Algorithm 1 by hand: halves go 1, 2 and 1 places on. Worker 3 takes 4 s, the others 1 s; three steps each.

    Worker 0 waits at 1 s for the half of worker 3, workers 1 and 2 wait a step later.
    """
    job = make_job(num_workers=4, num_servers=0, global_batch_samples=4, num_samples=12, epochs=1)
    run = HeapRun(SGP(), job, [1, 1, 1, 4]).run()
    sent = [(t, f"{order.worker}>{order.to}") for t, order in run.pushes if order.to is not None]
    added = [(t, order.worker, order.adds) for t, order in run.pushes if order.adds]
    assert sent == [
        *[(1, "0>1"), (1, "1>2"), (1, "2>3"), (2, "1>3"), (2, "2>0"), (4, "3>0"), (5, "0>2")],
        *[(6, "0>1"), (6, "2>3"), (8, "3>1"), (9, "1>2"), (12, "3>0")],
    ]
    assert added == [
        *[(1, 1, (0,)), (1, 2, (1,)), (4, 3, (2,)), (4, 0, (3,)), (5, 0, (2,)), (5, 2, (0,)), (8, 3, (1,))],
        *[(8, 1, (3,)), (9, 1, (0,)), (9, 2, (1,)), (12, 3, (2,)), (12, 0, (3,))],
    ]
    ((t, order, grads),) = run.applied
    assert (t, len(grads), order.moves) == (12, 12, tuple((worker, 0.25) for worker in range(4)))


def own(*numbers: float) -> list[OwnSteps]:
    """Workers that have such parameters."""

    def fresh() -> Any:
        return make_optimizer("sgd", 1)

    made = [OwnSteps(np.full(1, number, np.float32), fresh(), fresh) for number in numbers]
    return made


def push(workers: list[OwnSteps], source: int, target: int) -> None:
    workers[target].put_aside(source, workers[source].halve())


def test_halves_and_weights_by_hand() -> None:
    """Algorithm 1, lines 5 to 9, a message at a time: from 0 to 1, from 1 with what has come to 2, from 2 to 0.

    x_0 = 6 and w_0 = 1 become 3 and 1/2. Worker 1 has 0 + 3 and 3/2, so z_1 = 2; it keeps 3/2 and 3/4. Worker 2 has
    3 + 3/2 and 7/4, keeps 9/4 and 7/8. Worker 0 has 3 + 9/4 and 1/2 + 7/8, so z_0 = 42/11.
    """
    workers = own(6.0, 0.0, 3.0)
    read = []
    for source, target in ((0, 1), (1, 2), (2, 0)):
        push(workers, source, target)
        workers[target].add(source)
        read.append(float(workers[target].debiased[0]))
    assert [(float(one.params[0]), one.weight) for one in workers] == [(5.25, 1.375), (1.5, 0.75), (2.25, 0.875)]
    assert read == pytest.approx([2.0, 18 / 7, 42 / 11])


def test_parameters_that_stay_become_their_mean() -> None:
    """Section 2: push-sum. With 2^m workers this graph has the mean after m iterations, here to the bit; with others
    the de-biased parameters approach it, at least by half in each cycle."""
    workers = own(*(float(number**2) for number in range(8)))
    for number in range(3):
        iterate(workers, number)
    assert {(float(one.params[0]), one.weight) for one in workers} == {(17.5, 1.0)}
    workers = own(*(float(number**2) for number in range(6)))
    spreads = []
    for cycle in range(8):
        for number in range(3):
            iterate(workers, 3 * cycle + number)
        read = [float(one.debiased[0]) for one in workers]
        spreads.append(max(read) - min(read))
        assert np.mean(read) == pytest.approx(55 / 6)
    assert all(later <= earlier / 2 for earlier, later in pairwise(spreads) if later > 1e-5)


def iterate(workers: list[OwnSteps], number: int) -> None:
    """All send, then all add."""
    hops, size = places_on(number, len(workers)), len(workers)
    for source in range(size):
        push(workers, source, (source + hops) % size)
    for target in range(size):
        workers[target].add((target - hops) % size)


# ---- the parameters --------------------------------------------------------------------------------------------------


def train_uneven(strategy: Strategy, inner: dict[str, Any]) -> Trained:
    """Five workers, of which two are slower."""
    size = {"num_servers": 0, "global_batch_samples": 13, "epochs": 2, "lr": inner["lr"]}
    job = virtual_job(5, 62, **size)
    model = Watched(Pull(num_samples=62), job, strategy, inner)
    run, tape = session(strategy, job, QUICK, model_state=model, actuator=slow(w1=1.0, w2=3.0))
    finish(run, tape)
    return Trained(model, tape, run)


def towards(trained: Trained, params: torch.Tensor, indices: Any) -> torch.Tensor:
    """The mean gradient of the samples at ``params``."""
    targets = trained.model.model.task.targets(indices)  # type: ignore[attr-defined]
    return params - torch.as_tensor(targets, dtype=torch.float64).mean(axis=0)


def test_without_overlap_it_is_the_papers_matrix_form() -> None:
    """Section 3: X <- (X - gamma G) P^T, in which P has 1/2 on the diagonal and at the targets; all weights stay 1.

    Whoever is faster: every gradient must have been computed on a row of X of its iteration.
    """
    trained, compared = train_uneven(SGP(common_every=4), PLAIN), 0
    for version, common in trained.model.common.items():
        began = [[one for one in ones if one.version == version] for _, ones in sorted(trained.model.began.items())]
        x = [torch.as_tensor(common, dtype=torch.float64) for _ in range(5)]
        whole = min(map(len, began))
        for number in range(whole + 1):
            for worker, ones in enumerate(began):
                if number < len(ones):
                    np.testing.assert_allclose(ones[number].params, x[worker].numpy(), atol=TOLERANCE)
                    x[worker] = x[worker] - PLAIN["lr"] * towards(trained, x[worker], ones[number].indices)
                    compared += number > 0
            if number < min(whole, 3):
                hops = places_on(number, 5)
                x = [(x[worker] + x[(worker - hops) % 5]) / 2 for worker in range(5)]
        if whole == 4:
            mean = torch.stack(x).mean(axis=0)
            np.testing.assert_allclose(trained.model.common[version + 1], mean, atol=TOLERANCE)
    assert compared > 20


@pytest.mark.parametrize("inner", [PLAIN, MOMENTUM, ADAMW], ids=["plain", "momentum", "adamw"])
@pytest.mark.parametrize(
    "strategy", [SGP(), SGP(overlap_iters=2), SGP(overlap_iters=1, common_every=3)], ids=["sgp", "overlap", "common"]
)
def test_it_is_the_algorithm(strategy: SGP, inner: dict[str, Any]) -> None:
    """Algorithms 1 and 2: compute at z_i = x_i / w_i, step x_i, send and add halves, with ``torch.optim`` in float64.

    The record says who sends and adds when.
    """
    trained = train_uneven(strategy, inner)
    versions, biased = by_the_algorithm(trained, inner)
    assert versions.keys() == trained.model.common.keys()
    assert biased > 5 if strategy.overlap_iters else biased < 5
    for version, params in versions.items():
        np.testing.assert_allclose(trained.model.common[version], params, atol=TOLERANCE)


def by_the_algorithm(trained: Trained, inner: dict[str, Any]) -> tuple[dict[int, Any], int]:
    """The parameters of each version, and how many gradients were of parameters whose weight is not 1."""
    began = trained.model.began
    common = torch.ones(3, dtype=torch.float64)
    x = {worker: common.clone() for worker in began}
    w = dict.fromkeys(x, 1.0)
    sent: defaultdict[tuple[int, int], list[tuple[torch.Tensor, float]]] = defaultdict(list)
    steps = {worker: torch_optimizer(params, inner) for worker, params in x.items()}
    grads = {event["grad"]["id"]: event["grad"] for event in trained.tape.received("Arrived")}
    done, biased, versions = Counter[int](), 0, {0: common.numpy().copy()}
    for command in (command for line in trained.tape.plain() for command in line.get("commands", ())):
        match command:
            case {"type": "StepAlone", "grads": [grad_id]}:
                worker = grads[grad_id]["worker"]
                one, z = began[worker][done[worker]], x[worker] / w[worker]
                np.testing.assert_allclose(one.params, z.numpy(), atol=TOLERANCE)
                step(steps[worker], x[worker], towards(trained, z, one.indices))
                done[worker] += 1
                biased += w[worker] != 1.0
            case {"type": "PushHalf", "worker": worker, **half}:
                if "to" in half:
                    x[worker] /= 2
                    w[worker] /= 2
                    sent[worker, half["to"]].append((x[worker].clone(), w[worker]))
                for source in half.get("adds", ()):
                    params, weight = sent[source, worker].pop(0)
                    x[worker] += params
                    w[worker] += weight
            case {"type": "Apply"}:
                assert not any(sent.values())
                assert sum(w.values()) == 5
                common = torch.stack([*x.values()]).mean(axis=0)
                for worker, params in x.items():
                    params.copy_(common)
                    w[worker] = 1.0
                versions[len(versions)] = common.numpy().copy()
    return versions, biased


@pytest.mark.parametrize("overlap_iters", [0, 2])
def test_halves_keep_the_mean_of_all_workers(overlap_iters: int) -> None:
    """Section 3: P is column-stochastic, so the mean of all x_i moves by steps alone. Every gradient is 1: however
    late halves are, the mean of workers that have made equally many steps falls by the rate at each, as in BSP, to the
    bit: all numbers are sums of powers of two."""
    size: dict[str, Any] = {"workers": 4, "samples": 32, "slope": 1.0, "epochs": 1, "slowed": {"w1": 1.0, "w2": 3.0}}
    made = SGP(data="even", overlap_iters=overlap_iters)
    sgp, bsp = (train(strategy, PLAIN, **size) for strategy in (made, BSP()))
    assert sgp.model.params.tobytes() == bsp.model.params.tobytes() == np.full(3, -1, np.float32).tobytes()
    halves = [one for line in sgp.tape.plain() for one in line.get("commands", ()) if one["type"] == "PushHalf"]
    assert len(halves) > 20


@pytest.mark.parametrize("optimizer", [PLAIN, ADAMW], ids=["plain", "adamw"])
def test_one_worker_is_local_sgd_to_the_bit(optimizer: dict[str, Any]) -> None:
    """Beyond the paper: with an average of all at the ends of epochs alone."""
    size: dict[str, Any] = {"workers": 1, "global_batch_samples": 4}
    sgp, local = (train(made, optimizer, **size) for made in (SGP(), LocalSGD(period=1000)))
    assert sgp.model.params.tobytes() == local.model.params.tobytes()
    assert len(sgp.model.common) == len(local.model.common) == 3


# ---- what it is for --------------------------------------------------------------------------------------------------

WORKERS, STEPS = 8, 24


def hesitates(worker: int, number: int) -> float:
    """Seconds of an iteration: in each another worker takes 3 s instead of 1 s."""
    return 3.0 if number % WORKERS == worker else 1.0


@pytest.mark.parametrize("overlap_iters", [0, 1, 3])
def test_a_short_delay_reaches_others_step_by_step(overlap_iters: int) -> None:
    """Algorithm 1 as times: worker i begins its iteration k + 1 when it and, tau iterations before, the worker that
    sends to it have ended theirs. BSP adds every delay: 24 times 3 s."""
    numbers: defaultdict[int, count[int]] = defaultdict(count)

    def seconds(worker: int, order: ComputeOrder) -> float:
        return hesitates(worker, next(numbers[worker]))

    size: dict[str, Any] = {"num_workers": WORKERS, "num_servers": 0, "global_batch_samples": WORKERS}
    job = make_job(**size, num_samples=WORKERS * STEPS, epochs=1, max_time_s=1e6)
    ran_s = HeapRun(SGP(overlap_iters=overlap_iters, data="even"), job, seconds).run().applied[-1][0]
    numbers.clear()
    assert HeapRun(BSP(), job, seconds).run().applied[-1][0] == 3 * STEPS
    ends = np.zeros((STEPS + 1, WORKERS))
    for number in range(STEPS):
        begins = ends[number].copy()
        if number > overlap_iters:
            last = number - overlap_iters
            hops = places_on(last - 1, WORKERS)
            begins = np.maximum(begins, np.roll(ends[last], hops))
        ends[number + 1] = begins + [hesitates(worker, number) for worker in range(WORKERS)]
    assert ran_s == ends[-1].max() < 3 * STEPS


def test_a_transient_straggler_costs_less_than_in_bsp() -> None:
    """Section 5: on the virtual clock, where messages take time, too. Each worker is nine times slower for 1 s in 8."""
    windows = [
        Disturbance(target=f"worker:{worker}", start_s=start_s, end_s=start_s + 1.0, kind="slowdown", magnitude=8.0)
        for worker in range(8)
        for start_s in np.arange(worker, 400.0, 8.0).tolist()
    ]
    took_s = []
    for strategy in (SGP(), BSP()):
        plan = Schedule(build_plan("test", 0, 1e6, windows))
        run, tape = session(strategy, virtual_job(8, 480, num_servers=0), QUICK, actuator=plan)
        took_s.append(finish(run, tape).t)
    assert took_s[0] < 0.8 * took_s[1]


# ---- what is lost ----------------------------------------------------------------------------------------------------


def test_after_a_loss_all_begin_again_from_the_last_update() -> None:
    """Beyond the paper: every sample is in the parameters once, whoever dies between two updates of all."""
    size: dict[str, Any] = {"workers": 4, "global_batch_samples": 4, "samples": 96}
    trained = train(SGP(common_every=4), PLAIN, (1.3, 1, True), (4.1, 3, False), **size)
    assert [len(event["workers"]) for event in trained.tape.received("Restored")] == [4, 3]
