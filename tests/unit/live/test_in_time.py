"""An iteration that ends at the border of a micro-batch: a live worker on a clock of our own, and both virtual ones."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from runtime.backends.base import MicroBatch, Model, micro_batches
from runtime.backends.numpy import NumpyModel
from runtime.backends.torch import TorchModel
from runtime.cluster.device import DeviceProfile
from runtime.core.data.shards import Range
from runtime.core.job import ComputeOrder
from runtime.core.vectors import aligned_vector
from runtime.live.tasks import pacing, worker
from runtime.live.tasks.pacing import Pacer
from runtime.virtual.costs import Costs
from strategies.protocol import EVER_S
from tests.unit.backends.test_micro_batches import Normalised
from tests.unit.live.test_pacing import Clock
from tests.unit.virtual.test_virtual_host_tasks import HostModel
from tests.unit.virtual.test_virtual_machines import PlainModel
from workloads.ledger import SampleLedger

SAMPLES, ACCUM = 10, 4
"""Micro-batches of 3, 3, 2 and 2 samples."""
COSTS = Costs(compute_base_s=0.05, compute_per_sample_s=0.01)
DEVICE = DeviceProfile(base_s=0.1, per_sample_s=0.02)
"""0.16 s and 0.14 s; really 0.08 s and 0.07 s."""


class Slow:
    """Computes as long as ``COSTS`` say."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.rows = clock, list[tuple[int, int]]()

    def gradient(self, batch: Any, micro: Iterable[MicroBatch]) -> float:
        for one in micro:
            self.rows.append((one.rows.start, one.rows.stop))
            self.clock.now += COSTS.compute_s(one.rows.stop - one.rows.start)
        return 1.0


def order_of(**given: float) -> ComputeOrder:
    about: dict[str, Any] = {"delay_s": 0.0, "slowdown_frac": 0.0, **given}
    ranges = (Range(0, 0, 0, SAMPLES),)
    return ComputeOrder(grad_id=0, worker=0, incarnation=0, version=0, ranges=ranges, accum=ACCUM, **about)


def live(
    profile: DeviceProfile | None, monkeypatch: pytest.MonkeyPatch, **given: float
) -> tuple[list[float], int, float]:
    """(ends, computed samples, injected seconds)."""
    clock = Clock(100.0)
    for module in (pacing, worker):
        monkeypatch.setattr(module, "time", clock)
    own: Any = SimpleNamespace(model=Slow(clock), pacer=Pacer(profile))
    ends_s = list[float]()
    loss, samples, (_, injected_s) = worker.Worker._compute_in_time(own, order_of(**given), None, 100.0, ends_s)
    assert (loss, own.model.rows[-1][1]) == (1.0, samples)
    return ends_s, samples, injected_s


@pytest.mark.parametrize(
    ("within_s", "device", "ends_s", "samples"),
    [
        (EVER_S, False, [0.08, 0.16, 0.23, 0.30], 10),
        (0.16, False, [0.08, 0.16, 0.23], 8),
        (0.1, False, [0.08, 0.16], 6),
        (0.0, False, [0.08], 3),
        (0.31, True, [0.16, 0.32], 6),
        (0.33, True, [0.16, 0.32, 0.46], 8),
    ],
)
def test_a_live_worker_completes_what_it_has_in_hand(
    within_s: float, device: bool, ends_s: list[float], samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = live(DEVICE if device else None, monkeypatch, within_s=within_s + 1e-9)
    assert found[:2] == (pytest.approx(ends_s), samples)


@pytest.mark.parametrize("profile", [None, DEVICE])
@pytest.mark.parametrize(
    "given", [{}, {"delay_s": 1.0}, {"slowdown_frac": 0.5}, {"delay_s": 0.1, "slowdown_frac": 2.0}]
)
@pytest.mark.parametrize("within_s", [0.0, 0.2, 0.5, EVER_S])
def test_both_clocks_end_it_at_the_same_time(
    profile: DeviceProfile | None, given: dict[str, float], within_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delays are spread over the samples; a worker alone on its host is as fast as on a machine of its own."""
    about = {**given, "within_s": within_s}
    ends_s, _, injected_s = live(profile, monkeypatch, **about)
    for model in (PlainModel(COSTS, profile), HostModel(costs=COSTS, profile=profile, cuts=True)):
        model.begin(0.0, samples=SAMPLES, accum=ACCUM, **about)
        timings, _ = model.only()
        assert model.workers.ends_s[0] == pytest.approx(ends_s)
        assert (timings.compute_s, timings.injected_s) == pytest.approx((ends_s[-1], injected_s))


def test_without_a_limit_virtual_times_are_those_of_a_whole_batch() -> None:
    """To the bit, with jitter and delays."""
    costs = Costs(compute_base_s=0.05, compute_per_sample_s=0.01, jitter_sigma=0.3)
    for profile in (None, DEVICE):
        whole, timed = PlainModel(costs, profile), PlainModel(costs, profile)
        for model, within_s in ((whole, None), (timed, EVER_S)):
            for at_s in (0.0, 10.0, 20.0):
                model.begin(at_s, samples=SAMPLES, accum=ACCUM, delay_s=0.3, slowdown_frac=0.2, within_s=within_s)
                model.run()
        assert whole.arrived == timed.arrived


@pytest.mark.parametrize(
    "make", [lambda: TorchModel(Normalised(), 0, 1), lambda: NumpyModel(SampleLedger(num_samples=16), 0)]
)
def test_a_model_takes_each_micro_batch_when_the_one_before_is_computed(make: Any) -> None:
    """The gradient of those that were taken, to the bit, as if there were no others."""
    model: Model = make()
    params, grad, seen = aligned_vector(model.num_parameters), aligned_vector(model.num_parameters), list[Any]()
    params[:] = np.linspace(-0.5, 0.5, model.num_parameters)
    batch, micro = model.batch(np.arange(16)), micro_batches(16, 4)

    def computed(wanted: Any) -> tuple[float, Any]:
        model.attach(params, grad)
        return model.gradient(batch, wanted), grad.copy()

    def two() -> Any:
        for one in micro[:2]:
            yield one
            seen.append(grad.copy())

    loss, found = computed(two())
    for count in (1, 2):
        loss_of_some, of_some = computed(micro[:count])
        assert seen[count - 1].tobytes() == of_some.tobytes()
    assert (loss, found.tobytes()) == (loss_of_some, of_some.tobytes())
