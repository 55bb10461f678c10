"""AD-PSGD against its source: Lian, Zhang, Zhang and Liu, ICML 2018 (arXiv:1710.06952), and its published copy in
github.com/facebookresearch/stochastic_gradient_push."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch

import strategies.ad_psgd.gossip
from strategies.ad_psgd import ADPSGD
from strategies.ad_psgd.graphs import passive_neighbours
from strategies.basic.bsp import BSP
from strategies.local_sgd import LocalSGD
from strategies.protocol import Average, Strategy
from tests.paper.test_local_sgd import ADAMW, MOMENTUM, PLAIN, TOLERANCE, step, torch_optimizer
from tests.support.harness import HeapRun, make_job
from tests.support.own_steps import QUICK, Pull, Trained, Watched, train
from tests.unit.virtual.test_virtual_session import finish, session, slow, virtual_job

# ---- the graph -------------------------------------------------------------------------------------------------------

PUBLISHED: dict[int, dict[int, set[int]]] = {
    2: {1: {0}},
    4: {1: {0, 2}, 3: {0, 2}},
    8: {1: {0, 2, 4, 6}, 3: {0, 2, 4, 6}, 5: {0, 2, 4, 6}, 7: {0, 2, 4, 6}},
    12: {1: {0, 2, 4, 6, 8, 10}, 5: {0, 2, 4, 6, 8, 10}},
    32: {
        1: {0, 2, 4, 6, 10, 16, 18, 24, 28, 30},
        15: {0, 6, 10, 12, 14, 16, 18, 20, 24, 30},
    },
}
"""The peers of active ranks in ``DynamicBipartiteExponentialGraph`` of the published copy, by number of ranks."""


@pytest.mark.parametrize("size", PUBLISHED)
def test_neighbours_are_those_of_the_published_code(size: int) -> None:
    """Published code, and the paper's topology of 2^i + 1 hops. Even ranks are passive there, too."""
    found = {place: set(passive_neighbours("exponential", place, size)) for place in range(size)}
    assert {place: found[place] for place in PUBLISHED[size]} == PUBLISHED[size]
    assert not any(found[place] for place in range(0, size, 2)), "passive workers ask nobody"


@pytest.mark.parametrize("graph", ["exponential", "ring"])
@pytest.mark.parametrize("size", range(2, 40))
def test_graphs_are_bipartite_and_connected(graph: str, size: int) -> None:
    """Algorithm 1 with the paper's avoidance of deadlocks: an edge joins an active and a passive worker."""
    edges = {(place, other) for place in range(size) for other in passive_neighbours(graph, place, size)}
    assert all(place % 2 == 1 and other % 2 == 0 for place, other in edges)
    reached, more = {0}, True
    while more:
        found = {end for edge in edges if reached & set(edge) for end in edge}
        more = not found <= reached
        reached |= found
    assert reached == set(range(size))


# ---- worked numbers --------------------------------------------------------------------------------------------------


class Drawn:
    """In the place of random orders: the neighbour of the highest rank is drawn. ``near`` are the ones of each draw."""

    def __init__(self) -> None:
        self.near: list[tuple[int, ...]] = []

    def __call__(self, workers: Iterable[int], *key: int) -> list[int]:
        self.near.append(tuple(sorted(workers)))
        return sorted(workers, reverse=True)


def test_who_averages_when_one_of_four_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm 1 by hand. Workers 1 and 3 are active, each with 0 and 2 as neighbours; worker 3 takes 4 s, others 1 s.

    At 1 s worker 1 draws first when worker 2 has not stepped yet: worker 0. From 2 s on it draws worker 2, at 4 s and
    8 s worker 3 does, too. Nobody waits: of 20 samples four are begun at 0 s, then three a second and a fourth at 4 s,
    so the last ones at 5 s. Workers 0 to 2 have no data from 6 s on, worker 3 from 8 s. BSP would take 20 s.
    """
    drawn = Drawn()
    monkeypatch.setattr(strategies.ad_psgd.gossip, "shuffled", drawn)
    job = make_job(num_workers=4, num_servers=0, num_samples=20, epochs=1)
    run = HeapRun(ADPSGD(), job, [1, 1, 1, 4]).run()
    assert run.averages == [
        (1, (0, 1)),
        (2, (1, 2)),
        (3, (1, 2)),
        (4, (2, 3)),
        (4, (1, 2)),
        (5, (1, 2)),
        (6, (1, 2)),
        (8, (2, 3)),
    ]
    assert drawn.near == [(0,), *[(0, 2)] * 7]
    ((t, order, grads),) = run.applied
    assert (t, order.samples, len(grads)) == (8, 20, 20)
    assert order.moves == tuple((worker, pytest.approx(part)) for worker, part in enumerate((0.3, 0.3, 0.3, 0.1)))
    assert HeapRun(BSP(), job, [1, 1, 1, 4]).run().t == 20


# ---- the parameters --------------------------------------------------------------------------------------------------


def train_uneven(strategy: Strategy, inner: dict[str, Any]) -> Trained:
    """Five workers, of which two are slower."""
    size = {"num_servers": 0, "global_batch_samples": 13, "epochs": 2, "lr": inner["lr"]}
    job = virtual_job(5, 62, **size)
    model = Watched(Pull(num_samples=62), job, strategy, inner)
    run, tape = session(strategy, job, QUICK, model_state=model, actuator=slow(w1=1.0, w2=3.0))
    finish(run, tape)
    return Trained(model, tape, run)


@pytest.mark.parametrize("inner", [PLAIN, MOMENTUM, ADAMW], ids=["plain", "momentum", "adamw"])
@pytest.mark.parametrize(
    "strategy", [ADPSGD(), ADPSGD(graph="ring", pair_seed=3), ADPSGD(common_every=2)], ids=["own", "ring", "common"]
)
def test_it_is_the_algorithm(strategy: Strategy, inner: dict[str, Any]) -> None:
    """Algorithm 1: compute on x_i, average, step, with ``torch.optim`` in float64.

    The record says who averages when. Every gradient must have been computed on the parameters of when it was ordered,
    and move those of when it arrives.
    """
    trained = train_uneven(strategy, inner)
    versions, moved = by_the_algorithm(trained, inner)
    assert versions.keys() == trained.model.common.keys()
    assert moved > 5, "parameters have changed while a worker computed"
    for version, params in versions.items():
        np.testing.assert_allclose(trained.model.common[version], params, atol=TOLERANCE)


def by_the_algorithm(trained: Trained, inner: dict[str, Any]) -> tuple[dict[int, Any], int]:
    """The parameters of each version, and how many gradients were of other parameters than they have moved."""
    began, task = trained.model.began, trained.model.model.task  # type: ignore[attr-defined]
    common = torch.ones(3, dtype=torch.float64)
    own = {worker: common.clone() for worker in began}
    steps = {worker: torch_optimizer(params, inner) for worker, params in own.items()}
    grads = {event["grad"]["id"]: event["grad"] for event in trained.tape.received("Arrived")}
    read, moved = dict[int, torch.Tensor](), 0
    done, samples, versions = Counter[int](), Counter[int](), {0: common.numpy().copy()}
    for command in (command for line in trained.tape.plain() for command in line.get("commands", ())):
        match command:
            case {"type": "Compute", "worker": worker}:
                read[worker] = own[worker].clone()
            case {"type": "StepAlone", "grads": [grad_id]}:
                worker = grads[grad_id]["worker"]
                one, params = began[worker][done[worker]], own[worker]
                np.testing.assert_allclose(one.params, read[worker].numpy(), atol=TOLERANCE)
                moved += not torch.equal(read[worker], params)
                away = read[worker] - torch.as_tensor(task.targets(one.indices), dtype=torch.float64).mean(axis=0)
                step(steps[worker], params, away)
                done[worker] += 1
                samples[worker] += grads[grad_id]["samples"]
            case {"type": "Average", "workers": workers}:
                mean = torch.stack([own[worker] for worker in workers]).mean(axis=0)
                for worker in workers:
                    own[worker].copy_(mean)
            case {"type": "Apply"}:
                parts = {worker: samples[worker] / samples.total() for worker in own}
                common = torch.stack([own[worker] * part for worker, part in parts.items()]).sum(axis=0)
                for params in own.values():
                    params.copy_(common)
                samples.clear()
                versions[len(versions)] = common.numpy().copy()
    return versions, moved


def test_averages_keep_the_mean_of_all_workers() -> None:
    """Algorithm 1, line 5: W_k is doubly stochastic. Every gradient is 1: with any averages, the mean of workers that
    have made equally many steps falls by the rate at each step, as in BSP. All numbers are sums of powers of two."""
    size: dict[str, Any] = {"workers": 4, "samples": 32, "slope": 1.0, "epochs": 1}
    gossip, bsp = (train(strategy, PLAIN, **size) for strategy in (ADPSGD(data="even"), BSP()))
    assert averages_of(gossip) > 10
    assert gossip.model.params.tobytes() == bsp.model.params.tobytes() == np.full(3, -1, np.float32).tobytes()


def averages_of(trained: Trained) -> int:
    return sum(isinstance(one, Average) for line in trained.tape.lines for one in line.get("commands", ()))


@pytest.mark.parametrize("optimizer", [PLAIN, ADAMW], ids=["plain", "adamw"])
def test_one_worker_is_local_sgd_to_the_bit(optimizer: dict[str, Any]) -> None:
    """Beyond the paper: with an average of all at the ends of epochs alone."""
    size: dict[str, Any] = {"workers": 1, "global_batch_samples": 4}
    gossip, local = (train(made, optimizer, **size) for made in (ADPSGD(), LocalSGD(period=1000)))
    assert gossip.model.params.tobytes() == local.model.params.tobytes()
    assert len(gossip.model.common) == len(local.model.common) == 3


# ---- what it is for --------------------------------------------------------------------------------------------------


def test_nobody_waits_for_a_slow_worker() -> None:
    """Abstract: robust in heterogeneous environments. 640 samples at 15 + 1/4 per second take 42 s; by then the slow
    worker may have begun its last one, of 4 s. BSP takes 160 s."""
    job = make_job(num_workers=16, num_servers=0, global_batch_samples=16, num_samples=640, epochs=1, max_time_s=1e6)
    seconds = [*[1.0] * 15, 4.0]
    assert HeapRun(BSP(), job, seconds).run().t == 160
    assert 640 / 15.25 <= HeapRun(ADPSGD(), job, seconds).run().t <= 640 / 15.25 + 4 + 1


def test_a_neighbour_is_drawn_uniformly() -> None:
    """Algorithm 1, line 2. Of eight workers the active ones have four neighbours each: 16 pairs, 4 x 100 averages."""
    job = make_job(num_workers=8, num_servers=0, global_batch_samples=8, num_samples=800, epochs=1, max_time_s=1e6)
    run = HeapRun(ADPSGD(), job, [1.0] * 8).run()
    met: defaultdict[tuple[int, ...], int] = defaultdict(int)
    for _, pair in run.averages:
        met[pair] += 1
    assert len(met) == 16
    assert max(abs(times - 25) for times in met.values()) < 5 * np.sqrt(100 * 3 / 16)


# ---- what is lost ----------------------------------------------------------------------------------------------------


def test_after_a_loss_all_begin_again_from_the_last_update() -> None:
    """Beyond the paper: every sample is in the parameters once, whoever dies between two updates of all."""
    size: dict[str, Any] = {"workers": 4, "global_batch_samples": 4, "samples": 96}
    trained = train(ADPSGD(common_every=4), PLAIN, (1.3, 1, True), (4.1, 3, False), **size)
    assert [len(event["workers"]) for event in trained.tape.received("Restored")] == [4, 3]
    assert averages_of(trained) > 10
