"""Local SGD (Stich, ICLR 2019), post-local SGD (Lin et al., ICLR 2020), DiLoCo (Douillard et al., arXiv:2311.08105)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from runtime.training.optimizers import make_optimizer
from runtime.training.own_steps import Outer
from strategies.basic.bsp import BSP
from strategies.local_sgd import AsyncLocalSGD, DiLoCo, LocalSGD, PostLocalSGD
from strategies.local_sgd.streaming import StreamingGate
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.protocol import Strategy
from tests.support.harness import HeapRun, make_job
from tests.support.own_steps import Began, Trained, train

PLAIN: dict[str, Any] = {"name": "sgd", "lr": 0.25}
MOMENTUM: dict[str, Any] = {"name": "sgd", "lr": 0.0625, "momentum": 0.5}
ADAMW: dict[str, Any] = {"name": "adamw", "lr": 0.03125, "weight_decay": 0.125}
TOLERANCE = 2e-6
"""Absolute, of parameters below 1 in float32; the reference computes in float64."""


def torch_optimizer(params: torch.Tensor, fields: dict[str, Any]) -> torch.optim.Optimizer:
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[fields["name"]]
    found: torch.optim.Optimizer = kind([params], **{name: fields[name] for name in fields if name != "name"})
    return found


def step(optimizer: torch.optim.Optimizer, params: torch.Tensor, grad: torch.Tensor) -> None:
    params.grad = grad
    optimizer.step()


def by_the_algorithm(trained: Trained, inner: dict[str, Any], outer: dict[str, Any]) -> dict[int, np.ndarray[Any, Any]]:
    """Algorithm 1 of DiLoCo, with ``torch.optim``, on the samples that each worker had: the parameters of each version.

    Its line 12 averages w - w_k; with outer SGD at rate 1 this is the average of Stich's algorithm 1, line 6. Every
    gradient must have been computed on the parameters that the algorithm has for it.
    """
    common = torch.ones(3, dtype=torch.float64)
    outer_step = torch_optimizer(common, {"name": "sgd", **outer})
    own = {worker: torch.ones(3, dtype=torch.float64) for worker in trained.model.began}
    inner_step = {worker: torch_optimizer(params, inner) for worker, params in own.items()}
    versions = {0: common.numpy().copy()}
    task = trained.model.model.task  # type: ignore[attr-defined]
    for version in range(max(trained.model.common)):
        samples = dict.fromkeys(own, 0)
        for worker, params in own.items():
            params.copy_(common)
            began: list[Began] = [one for one in trained.model.began[worker] if one.version == version]
            for one in began:
                np.testing.assert_allclose(one.params, params.numpy(), atol=TOLERANCE)
                away = params - torch.as_tensor(task.targets(one.indices), dtype=torch.float64).mean(axis=0)
                step(inner_step[worker], params, away)
                samples[worker] += len(one.indices)
        moves = [(common - params) * samples[worker] / sum(samples.values()) for worker, params in own.items()]
        step(outer_step, common, torch.stack(moves).sum(axis=0))
        versions[version + 1] = common.numpy().copy()
    return versions


@pytest.mark.parametrize("inner", [PLAIN, MOMENTUM, ADAMW], ids=["plain", "momentum", "adamw"])
@pytest.mark.parametrize(
    ("strategy", "outer"),
    [
        (LocalSGD(period=3), {"lr": 1.0}),
        (DiLoCo(period=4), {"lr": 0.7, "momentum": 0.9, "nesterov": True}),
        (DiLoCo(period=4, outer_momentum=0.5, outer_nesterov=False), {"lr": 0.7, "momentum": 0.5}),
    ],
    ids=["local", "diloco", "usual"],
)
def test_it_is_the_algorithm(strategy: Strategy, outer: dict[str, Any], inner: dict[str, Any]) -> None:
    """Algorithm 1 of Stich, and of Douillard et al.: also at the ends of epochs, where a worker has fewer samples."""
    trained = train(strategy, inner, samples=49, workers=3, global_batch_samples=7)
    wanted = by_the_algorithm(trained, inner, outer)
    assert wanted.keys() == trained.model.common.keys()
    assert len(wanted) > 4
    for version, params in wanted.items():
        np.testing.assert_allclose(trained.model.common[version], params, atol=TOLERANCE)


TORCHFT: dict[tuple[int, float], tuple[list[float], list[float], list[float]]] = {
    (0, 0.0): (
        [1, -1, -3, -11, -13, -15, -17, -19, -21, -35, -37, -39, -41, -43, -45, -59],
        [1, -1, -3, -5, -7, -9, -23, -25, -27, -29, -31, -33, -47, -49, -51, -53],
        [-11, -23, -35, -47],
    ),
    (0, 0.5): (
        [1, -1, -3, -8, -10, -12, -14, -16, -18, -24.5, -26.5, -28.5, -30.5, -32.5, -34.5, -40.25],
        [1, -1, -3, -5, -7, -9, -17, -19, -21, -23, -25, -27, -32, -34, -36, -38],
        [-11, -23, -29, -35],
    ),
    (0, 1.0): ([*range(1, -31, -2)], [*range(1, -31, -2)], [-11, -23, -23, -23]),
    (1, 0.0): (
        [1, -1, -3, -7, -9, -11, -13, -15, -17, -27, -29, -31, -33, -35, -37, -47],
        [1, -1, -3, -5, -7, -9, -19, -21, -23, -25, -27, -29, -39, -41, -43, -45],
        [-7, -19, -27, -39],
    ),
    (1, 0.5): (
        [1, -1, -3, -6, -8, -10, -12, -14, -16, -21.5, -23.5, -25.5, -27.5, -29.5, -31.5, -35.75],
        [1, -1, -3, -5, -7, -9, -15, -17, -19, -21, -23, -25, -29, -31, -33, -35],
        [-7, -19, -25, -31],
    ),
    (1, 1.0): ([*range(1, -31, -2)], [*range(1, -31, -2)], [-7, -19, -23, -23]),
}
"""By delay and mixing: two layers' parameters before each step, and the global ones of the layer that is summed.

From torchft's ``test_diloco_mocked_updates_0.json`` to ``_5.json`` (meta-pytorch/torchft, BSD 3-Clause). Inner rate 1,
gradient 2, outer SGD at rate 2, ``sync_every`` 6, two fragments, which are synchronised in turn."""
TORCHFT_RECOVERY = (
    [*TORCHFT[0, 0.0][0], -61, -63, -65, -67, -69, -83],
    [*TORCHFT[0, 0.0][1], -55, -57, -71, -73, -75, -77],
)
"""Of ``test_diloco_mocked_failure_recovery_0.json``: the replica that survives, by layer. The one that fails after two
sums has these numbers again from where it takes the state over."""
LAYERS = 32
"""Parameters of two fragments, since each has a multiple of 16."""


def torchft(steps: int, *strikes: tuple[float, int, bool], **settings: Any) -> Trained:
    strategy = DiLoCo(period=6, fragments=2, outer_lr=2.0, outer_momentum=0.0, outer_nesterov=False, **settings)
    size = {"samples": 2 * steps, "parameters": LAYERS, "slope": 2.0, "epochs": 1}
    return train(strategy, {"name": "sgd", "lr": 1.0}, *strikes, **size)


def of_layers(trained: Trained) -> list[tuple[list[float], list[float]]]:
    """The parameters of both layers before each of a worker's gradients."""
    found = []
    for began in trained.model.began.values():
        found.append(tuple([float(one.params[place]) for one in began] for place in (0, LAYERS // 2)))
    return found  # type: ignore[return-value]


@pytest.mark.parametrize(("delay", "mixing"), TORCHFT)
def test_torchft_expects_the_same_parameters_of_fragments(delay: int, mixing: float) -> None:
    """Published code: the numbers that its own tests expect, to the bit, as all are sums of halves and quarters."""
    *layers, common = TORCHFT[delay, mixing]
    trained = torchft(16, delay=delay, mixing=mixing)
    assert of_layers(trained) == [tuple(layers)] * 2
    assert trained.model.summed[:4] == [(number % 2, value) for number, value in enumerate(common)]


def test_torchft_expects_the_same_parameters_after_a_failure() -> None:
    """Published code: whoever fails has the survivor's numbers. Here both begin again from the last update of all."""
    assert of_layers(torchft(22)) == [TORCHFT_RECOVERY] * 2
    hit = torchft(22, (5.0, 1, True))
    (restored,) = hit.tape.received("Restored")
    assert restored["version"] == 0
    for layers in of_layers(hit):
        lost = len(layers[0]) - 22
        assert 6 < lost < 22, "two fragments were summed before"
        for layer, wanted in zip(layers, TORCHFT_RECOVERY, strict=True):
            assert layer[lost:] == wanted


# ---- fragments -------------------------------------------------------------------------------------------------------


def in_fragments(  # noqa: C901  (an algorithm)
    trained: Trained, strategy: DiLoCo, inner: dict[str, Any], outer: dict[str, Any]
) -> dict[int, np.ndarray[Any, Any]]:
    """Algorithm 2 of Streaming DiLoCo with ``torch.optim``: the parameters of each version, in float64.

    Each fragment has an outer optimizer of its own. At the end of an epoch every fragment takes what is left.
    """
    workers, interval = sorted(trained.model.began), strategy.period // strategy.fragments
    common = torch.ones(LAYERS, dtype=torch.float64)
    cuts = [slice(lo, lo + LAYERS // strategy.fragments) for lo in range(0, LAYERS, LAYERS // strategy.fragments)]
    outers = [torch_optimizer(common[cut], {"name": "sgd", **outer}) for cut in cuts]
    own = {worker: torch.ones(LAYERS, dtype=torch.float64) for worker in workers}
    inners = {worker: torch_optimizer(params, inner) for worker, params in own.items()}
    versions, task = {0: common.numpy().copy()}, trained.model.model.task  # type: ignore[attr-defined]

    def summed(fragment: int, shares: dict[int, torch.Tensor], samples: dict[int, int]) -> None:
        cut, total = cuts[fragment], sum(samples.values())
        moves = [(common[cut] - params[cut]) * samples[worker] / total for worker, params in shares.items()]
        step(outers[fragment], outers[fragment].param_groups[0]["params"][0], torch.stack(moves).sum(axis=0))

    def mix(fragment: int) -> None:
        for params in own.values():
            kept, cut = strategy.mixing, cuts[fragment]
            params[cut] = kept * params[cut] + (1 - kept) * common[cut]

    for version in range(max(trained.model.common)):
        rounds = {worker: [one for one in trained.model.began[worker] if one.version == version] for worker in workers}
        taken = [dict.fromkeys(workers, 0) for _ in cuts]
        samples, offers, offered = dict.fromkeys(workers, 0), dict[int, torch.Tensor](), 0
        for worker in workers:
            own[worker].copy_(common)
        for number in range(1, max(map(len, rounds.values())) + 1):
            here = [worker for worker in workers if len(rounds[worker]) >= number]
            for worker in here:
                one = rounds[worker][number - 1]
                np.testing.assert_allclose(one.params, own[worker].numpy(), atol=TOLERANCE)
                away = own[worker] - torch.as_tensor(task.targets(one.indices), dtype=torch.float64).mean(axis=0)
                step(inners[worker], own[worker], away)
                samples[worker] += len(one.indices)
            if here != workers:  # somebody has no more data
                continue
            if (number + strategy.delay) % interval == 0:
                fragment = ((number + strategy.delay) // interval - 1) % strategy.fragments
                offers = {worker: params.clone() for worker, params in own.items()}
                summed(fragment, offers, {worker: samples[worker] - taken[fragment][worker] for worker in workers})
                taken[fragment], offered = dict(samples), fragment
            if offers and number % interval == 0:
                mix(offered)
                offers = {}
        if offers:
            mix(offered)
        for fragment in range(strategy.fragments):
            left = {worker: samples[worker] - taken[fragment][worker] for worker in workers}
            if sum(left.values()):
                summed(fragment, own, left)
        versions[version + 1] = common.numpy().copy()
    return versions


@pytest.mark.parametrize("inner", [PLAIN, MOMENTUM, ADAMW], ids=["plain", "momentum", "adamw"])
@pytest.mark.parametrize(
    "settings",
    [
        {"period": 4, "fragments": 2},
        {"period": 4, "fragments": 2, "delay": 1, "mixing": 0.5},
        {"period": 3, "delay": 2, "mixing": 0.25},
        {"period": 6, "fragments": 2, "delay": 2},
    ],
    ids=["turns", "mixed", "one", "late"],
)
def test_it_is_the_algorithm_of_fragments(settings: dict[str, Any], inner: dict[str, Any]) -> None:
    """Douillard et al. 2025, Algorithm 2: also at the ends of epochs, where a worker has fewer samples."""
    strategy = DiLoCo(**settings)
    trained = train(strategy, inner, samples=49, workers=3, global_batch_samples=7, parameters=LAYERS)
    wanted = in_fragments(trained, strategy, inner, {"lr": 0.7, "momentum": 0.9, "nesterov": True})
    assert wanted.keys() == trained.model.common.keys()
    assert len(trained.model.summed) > 4
    for version, params in wanted.items():
        np.testing.assert_allclose(trained.model.common[version], params, atol=TOLERANCE)


@dataclass(kw_only=True)
class OfOne(Composition):
    """The gate of fragments with one fragment, which plain DiLoCo does not have."""

    data: str = "dynamic"

    def compose(self) -> Parts:
        return Parts(gate=StreamingGate(period=4, outer_lr=0.7, outer_momentum=0.9, outer_nesterov=True))


@pytest.mark.parametrize("samples", [48, 44], ids=["whole", "rest"])
@pytest.mark.parametrize("optimizer", [PLAIN, MOMENTUM, ADAMW], ids=["plain", "momentum", "adamw"])
def test_one_fragment_without_delay_is_diloco_to_the_bit(optimizer: dict[str, Any], samples: int) -> None:
    """Douillard et al. 2025, Algorithm 2, with P = 1, tau = 0, alpha = 0: every worker's parameters at every step.

    The epochs end with a round, or in the middle of one."""
    one, plain = train(OfOne(), optimizer, samples=samples), train(DiLoCo(period=4), optimizer, samples=samples)
    assert one.model.params.tobytes() == plain.model.params.tobytes()
    for worker, began in plain.model.began.items():
        assert [step.params.tobytes() for step in one.model.began[worker]] == [step.params.tobytes() for step in began]
    assert len(one.model.summed) == 2 * (samples // 8)


def test_a_delay_hides_workers_that_are_late_in_turns() -> None:
    """Beyond the papers, by hand: steps of 1 s, but the last before a sum takes 2 s, of each worker in turns.

    Sums are two steps apart. Without a delay each waits for the worker that is late: 3 s for two steps, 12 s for eight.
    With one of 1 step the late worker has offered in time, and nobody waits: 3 + 2 + 3 + 2 s.
    """
    ends = []
    for more in ({}, {"delay": 1, "mixing": 0.5}):
        job = make_job(num_workers=2, num_servers=0, global_batch_samples=2, num_samples=16, epochs=1)
        made: Counter[int] = Counter()

        def seconds(worker: int, order: object, made: Counter[int] = made) -> float:
            made[worker] += 1
            return 2.0 if made[worker] % 4 == (2, 0)[worker] else 1.0

        ends.append(HeapRun(DiLoCo(period=2, data="even", **more), job, seconds).run().t)
    assert ends == [12.0, 10.0]


# ---- a quorum --------------------------------------------------------------------------------------------------------


class DelayedNesterov:
    """Liu et al., algorithm 3, with c = 0, in float64; ``step`` receives the outer gradient of one worker."""

    def __init__(self, params: torch.Tensor, lr: float, momentum: float, every: int) -> None:
        self.params, self.lr, self.momentum, self.every = params, lr, momentum, every
        self.updates, self.velocity, self.summed = 0, torch.zeros_like(params), torch.zeros_like(params)

    def step(self, grad: torch.Tensor) -> None:
        self.updates += 1
        self.summed += grad
        if self.updates % self.every:
            self.params -= self.lr * grad / self.every
            return
        self.velocity = self.momentum * self.velocity + self.summed / self.every
        self.params -= self.lr * (self.momentum * self.velocity + grad / self.every)
        self.summed.zero_()


def update_by_update(trained: Trained, inner: dict[str, Any], outer: dict[str, Any]) -> list[int]:
    """Check each update of some workers' moves from what was common when they began; returns how many it had.

    The outer gradient is the mean of w - w_k by samples, where w are the parameters of the version that worker k began
    with; other workers keep theirs.
    """
    common = torch.ones(3, dtype=torch.float64)
    if "every" in outer:
        outer_step = DelayedNesterov(common, **outer).step
    else:
        optimizer = torch_optimizer(common, {"name": "sgd", **outer})
        outer_step = lambda grad: step(optimizer, common, grad)  # noqa: E731
    began = {worker: {one.grad_id: one for one in steps} for worker, steps in trained.model.began.items()}
    own = {worker: torch.ones(3, dtype=torch.float64) for worker in began}
    inner_step = {worker: torch_optimizer(params, inner) for worker, params in own.items()}
    versions, task = {0: common.clone()}, trained.model.model.task  # type: ignore[attr-defined]
    for version, order in sorted(trained.model.orders.items()):
        moves, samples = [], []
        for worker, _ in order.moves:
            steps = [began[worker][grad] for grad in order.grads if grad in began[worker]]
            params, base = own[worker], versions[steps[0].version]
            params.copy_(base)
            for one in steps:
                np.testing.assert_allclose(one.params, params.numpy(), atol=TOLERANCE)
                away = params - torch.as_tensor(task.targets(one.indices), dtype=torch.float64).mean(axis=0)
                step(inner_step[worker], params, away)
            samples.append(sum(len(one.indices) for one in steps))
            moves.append((base - params) * samples[-1])
        outer_step(torch.stack(moves).sum(axis=0) / sum(samples))
        versions[version] = common.clone()
        np.testing.assert_allclose(trained.model.common[version], common.numpy(), rtol=TOLERANCE, atol=TOLERANCE)
    return [len(order.moves) for order in trained.model.orders.values()]


SLOW: dict[str, Any] = {"slowed": {"w2": 1.5}}


@pytest.mark.parametrize("inner", [PLAIN, MOMENTUM, ADAMW], ids=["plain", "momentum", "adamw"])
def test_an_outer_step_of_a_quorum_is_by_what_its_workers_have_moved(inner: dict[str, Any]) -> None:
    """Decoupled DiLoCo, abstract: two of three workers, and the third when it comes; each sample counts once."""
    strategy = DiLoCo(period=3, quorum=2)
    trained = train(strategy, inner, samples=49, workers=3, global_batch_samples=7, **SLOW)
    sizes = update_by_update(trained, inner, {"lr": 0.7, "momentum": 0.9, "nesterov": True})
    assert 2 in sizes
    assert trained.run.coordinator.shards.samples_applied == 98


@pytest.mark.parametrize("optimizer", [PLAIN, MOMENTUM, ADAMW], ids=["plain", "momentum", "adamw"])
def test_a_quorum_of_all_is_diloco_to_the_bit(optimizer: dict[str, Any]) -> None:
    """Decoupled DiLoCo, abstract, with a minimum quorum of all: the same parameters at the same times."""
    size = {"samples": 49, "workers": 3, "global_batch_samples": 7, **SLOW}
    plain, quorum = (train(DiLoCo(period=3, **more), optimizer, **size) for more in ({}, {"quorum": 3}))
    assert quorum.model.params.tobytes() == plain.model.params.tobytes()
    assert quorum.tape.update_times() == plain.tape.update_times()


def test_an_outer_step_waits_for_the_quorum_and_then_for_the_grace() -> None:
    """Beyond the paper, by hand: two steps a round, of 1, 1.25 and 4 s.

    A quorum of one: worker 0 makes an update every 2 s, worker 1 every 2.5 s, worker 2 every 8 s. A grace of 0.75 s is
    long enough for worker 1: they make one together every 2.75 s. Two of three: every 2.5 s.
    """
    found = []
    for more in ({"quorum": 1}, {"quorum": 1, "grace_s": 0.75}, {"quorum": 2}):
        job = make_job(num_workers=3, num_servers=0, global_batch_samples=3, num_samples=300, epochs=1)
        run = HeapRun(DiLoCo(period=2, **more), job, [1.0, 1.25, 4.0]).run()
        found.append([(t, sorted({grad.worker for grad in grads})) for t, _, grads in run.applied if t < 8.0])
    assert found == [
        [(2.0, [0]), (2.5, [1]), (4.0, [0]), (5.0, [1]), (6.0, [0]), (7.5, [1])],
        [(2.75, [0, 1]), (5.5, [0, 1])],
        [(2.5, [0, 1]), (5.0, [0, 1]), (7.5, [0, 1])],
    ]


# ---- asynchronous local SGD ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [PLAIN, MOMENTUM, ADAMW], ids=["plain", "momentum", "adamw"])
@pytest.mark.parametrize("every", [1, 3])
def test_it_is_the_algorithm_of_asynchronous_local_sgd(every: int, inner: dict[str, Any]) -> None:
    """Liu et al., Algorithms 1 and 3: an update of one worker at a time, with momentum in every third."""
    strategy = AsyncLocalSGD(period=3, momentum_every=every, dynamic_steps=False)
    trained = train(strategy, inner, samples=49, workers=3, global_batch_samples=7, **SLOW)
    sizes = update_by_update(trained, inner, {"lr": 0.7, "momentum": 0.9, "every": every})
    assert {*sizes} == {1}
    assert trained.run.coordinator.shards.samples_applied == 98


def test_delayed_momentum_is_nesterovs_by_the_mean_of_n_updates() -> None:
    """Liu et al., Section 5: over N updates both move the parameters alike; by hand, of gradients 1, 2 and 6."""
    fields = {"lr": 0.5, "momentum": 0.5}
    inner = make_optimizer("sgd", 1)
    late, plain = Outer({**fields, "every": 3}, inner), Outer({**fields, "nesterov": True}, inner)
    one, other = np.zeros(1, np.float32), np.zeros(1, np.float32)
    for _ in range(3):
        for grad in (1.0, 2.0, 6.0):
            late.step(one, [np.array([grad], np.float32)], 0.5, 1)
        plain.step(other, [np.array([3.0], np.float32)], 0.5, 1)
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert other[0] == -0.5 * (3 + 1.5) - 0.5 * (3 + 2.25) - 0.5 * (3 + 2.625)


@pytest.mark.parametrize("optimizer", [PLAIN, ADAMW], ids=["plain", "adamw"])
def test_a_single_worker_with_momentum_in_each_update_is_diloco_to_the_bit(optimizer: dict[str, Any]) -> None:
    """Liu et al., Algorithm 3, with one worker: there is nobody else, and N = 1."""
    size = {"workers": 1, "global_batch_samples": 2}
    one = train(AsyncLocalSGD(period=4, momentum_every=1), optimizer, **size)
    assert one.model.params.tobytes() == train(DiLoCo(period=4), optimizer, **size).model.params.tobytes()


def test_a_slow_worker_makes_fewer_steps() -> None:
    """Liu et al., Section 5, dynamic local updates: 12 steps of 1 s, 6 of 2 s, 3 of 4 s: all come every 12 s."""
    job = make_job(num_workers=3, num_servers=0, global_batch_samples=3, num_samples=900, epochs=1, max_time_s=1e4)
    run = HeapRun(AsyncLocalSGD(period=12), job, [1.0, 2.0, 4.0]).run()
    updates = [(t, grads[0].worker, len(grads)) for t, _, grads in run.applied]
    found = {worker: [(t, steps) for t, one, steps in updates if one == worker and t <= 60.0] for worker in range(3)}
    assert found == {
        0: [(12.0, 12), (24.0, 12), (36.0, 12), (48.0, 12), (60.0, 12)],
        1: [(24.0, 12), (36.0, 6), (48.0, 6), (60.0, 6)],
        2: [(48.0, 12), (60.0, 3)],
    }


# ---- identities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [PLAIN, MOMENTUM], ids=["plain", "momentum"])
def test_with_a_period_of_1_it_is_bsp_but_for_rounding(optimizer: dict[str, Any]) -> None:
    """Stich, introduction: H = 1 is mini-batch SGD. Beyond the paper, the bound.

    w - (w - w_k) is rounded twice an update, by half a unit in the last place each, and the step of BSP once; steps
    contract, so errors add up at most.
    """
    one, bsp = train(LocalSGD(period=1), optimizer).model, train(BSP(), optimizer).model
    assert one.common.keys() == bsp.common.keys()
    unit = np.spacing(np.float32(1.0))
    for version, params in bsp.common.items():
        assert np.abs(one.common[version] - params).max() <= 2 * unit * version


def test_with_a_period_of_1_it_is_bsp_to_the_bit_where_nothing_is_rounded() -> None:
    """Beyond the paper, as above: all steps are multiples of a half."""
    one, bsp = (train(one, {"name": "sgd", "lr": 0.5}, slope=3.0).model for one in (LocalSGD(period=1), BSP()))
    assert one.params.tobytes() == bsp.params.tobytes()
    assert one.params[0] == 1 - 48 * 1.5


@pytest.mark.parametrize("optimizer", [PLAIN, MOMENTUM, ADAMW], ids=["plain", "momentum", "adamw"])
def test_with_all_samples_in_the_first_phase_it_is_bsp_to_the_bit(optimizer: dict[str, Any]) -> None:
    """Lin et al., Eq. 2, with t' at the end."""
    post, bsp = train(PostLocalSGD(bsp_frac=1.0), optimizer), train(BSP(), optimizer)
    assert post.model.params.tobytes() == bsp.model.params.tobytes()
    assert post.tape.update_times() == bsp.tape.update_times()


def test_the_first_phase_is_bsp_and_the_second_local_sgd() -> None:
    """Lin et al., Eq. 2: H_t = 1 until t', a quarter of 96 samples in batches of 2, then H = 4 for 72 samples."""
    post, bsp = train(PostLocalSGD(bsp_frac=0.25, period=4), MOMENTUM), train(BSP(), MOMENTUM)
    for version in range(13):
        assert post.model.common[version].tobytes() == bsp.model.common[version].tobytes()
    assert max(post.model.common) == 12 + 72 // (2 * 4)
    steps = [sum(one.version == version for one in post.model.began[0]) for version in range(21)]
    assert steps == [1] * 12 + [4] * 9


def test_the_second_phase_begins_with_the_momentum_of_the_first() -> None:
    """Beyond the paper: local momentum goes on. The step after the switch is as long as BSP's, not a first one."""
    post, bsp = train(PostLocalSGD(bsp_frac=0.25, period=1), MOMENTUM), train(BSP(), MOMENTUM)
    np.testing.assert_allclose(post.model.common[13], bsp.model.common[13], atol=TOLERANCE)


# ---- what is lost ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizer", "slope"), [(PLAIN, None), (MOMENTUM, 0.75), (ADAMW, 0.75)], ids=["plain", "momentum", "adamw"]
)
@pytest.mark.parametrize(
    "strategy", [LocalSGD(period=4, data="even"), DiLoCo(period=4, data="even")], ids=["local", "diloco"]
)
@pytest.mark.few(6)
@pytest.mark.parametrize("at_s", [0.4, 1.1, 2.9, 6.0])
def test_a_worker_that_is_back_repeats_the_round_to_the_bit(
    strategy: Strategy, optimizer: dict[str, Any], slope: float | None, at_s: float
) -> None:
    """Beyond the papers: the others go back, too, with the states of their optimizers. The new worker takes over the
    optimizer of worker 0, which is its own as long as both have had the same gradients."""
    calm = train(strategy, optimizer, slope=slope).model
    hit = train(strategy, optimizer, (at_s, 1, True), slope=slope)
    assert len(hit.tape.received("Restored")) == 1
    assert hit.model.params.tobytes() == calm.params.tobytes()


def test_a_worker_that_lost_no_state_has_its_own_again() -> None:
    """Beyond the papers: worker 1 is lost for good in the second round, and worker 0 repeats its steps to the bit."""
    trained = train(LocalSGD(period=4, data="even"), ADAMW, (2.0, 1, False))
    (restored,) = trained.tape.received("Restored")
    again = [one for one in trained.model.began[0] if one.version == restored["version"]]
    lost = len(again) - 4
    assert 0 < lost <= 4
    for first, second in zip(again[:lost], again[lost:], strict=False):
        assert (first.params.tobytes(), first.indices.tolist()) == (second.params.tobytes(), second.indices.tolist())
