"""Local SGD (Stich, ICLR 2019), post-local SGD (Lin et al., ICLR 2020), DiLoCo (Douillard et al., arXiv:2311.08105)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from strategies.basic.bsp import BSP
from strategies.local_sgd import DiLoCo, LocalSGD, PostLocalSGD
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import AloneGate
from strategies.protocol import Strategy
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
        samples = {worker: 0 for worker in own}
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


def histories(trained: Trained) -> list[list[float]]:
    """The first parameter of each worker before each of its gradients, and at the end."""
    return [[*(float(one.params[0]) for one in began)] for began in trained.model.began.values()]


TORCHFT_LAYER_1 = [1, -1, -3, -5, -7, -9, -23, -25, -27, -29, -31, -33, -47, -49, -51, -53]
TORCHFT_LAYER_0 = [1, -1, -3, -11, -13, -15, -17, -19, -21, -35, -37, -39, -41, -43, -45, -59]
"""Parameters before each step in torchft's test_diloco_mocked_updates_0.json (BSD 3-Clause; meta-pytorch/torchft,
test_fixtures/torchft.diloco_regression_test.*): inner rate 1, gradient 2, outer SGD at rate 2, sync_every 6. Each of the
two layers is synchronised every 6 steps, layer 0 after 3 steps first."""


def test_torchft_expects_the_same_parameters() -> None:
    """Published code: the numbers that its own test expects, to the bit, as all are whole."""
    strategy = DiLoCo(period=6, outer_lr=2.0, outer_momentum=0.0, outer_nesterov=False)
    trained = train(strategy, {"name": "sgd", "lr": 1.0}, samples=32, slope=2.0, epochs=1)
    assert histories(trained) == [TORCHFT_LAYER_1] * 2


@dataclass(kw_only=True)
class FirstSooner(AloneGate):
    def waits(self, worker: int) -> bool:
        return self.steps[worker] >= (3 if self.version == 0 else 6)


@dataclass(kw_only=True)
class OfOwn(Composition):
    data: str = "dynamic"

    def compose(self) -> Parts:
        return Parts(gate=FirstSooner(outer_lr=2.0))


def test_a_layer_that_torchft_synchronises_sooner_is_as_expected() -> None:
    """Published code, by a gate that averages after 3 steps and then after 6."""
    trained = train(OfOwn(), {"name": "sgd", "lr": 1.0}, samples=32, slope=2.0, epochs=1)
    assert histories(trained) == [TORCHFT_LAYER_0] * 2


# ---- identities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [PLAIN, MOMENTUM], ids=["plain", "momentum"])
def test_with_a_period_of_1_it_is_bsp_but_for_rounding(optimizer: dict[str, Any]) -> None:
    """Stich, introduction: H = 1 is mini-batch SGD. Beyond the paper: here w - (w - w_k) is rounded twice an update, by half a unit in the
    last place each, and the step of BSP once; steps contract, so errors add up at most."""
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


@pytest.mark.parametrize("optimizer", [MOMENTUM, ADAMW], ids=["momentum", "adamw"])
@pytest.mark.parametrize(
    "strategy", [LocalSGD(period=4, data="even"), DiLoCo(period=4, data="even")], ids=["local", "diloco"]
)
@pytest.mark.few(4)
@pytest.mark.parametrize("at_s", [0.4, 1.1, 2.9, 6.0])
def test_a_worker_that_is_back_repeats_the_round_to_the_bit(
    strategy: Strategy, optimizer: dict[str, Any], at_s: float
) -> None:
    """Beyond the papers. The others go back, too, with the states of their optimizers; the worker that is new takes over
    the optimizer of worker 0, which is its own as long as both have had the same gradients."""
    calm = train(strategy, optimizer, slope=0.75).model
    hit = train(strategy, optimizer, (at_s, 1, True), slope=0.75)
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
