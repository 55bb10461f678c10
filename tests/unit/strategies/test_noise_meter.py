"""The noise meter: which updates it has measured, and what it makes of the answers."""

from __future__ import annotations

import pytest

from reading.ranges import check_settings
from strategies.protocol import Apply, Arrived, Measured, Ready, Restored, Started, Timings
from strategies.star.noise import FixedNoise, NoiseMeter
from tests.support.grads import make_grad

SUMS = ((4.0, 0.0), (0.0, 4.0), (4.0, 4.0))


def arrived(number: int, samples: int = 4, sqr_norm: float | None = 16.0, version: int = 0) -> Arrived:
    return Arrived(t=0.0, grad=make_grad(number, samples, version=version), timings=Timings(), sqr_norm=sqr_norm)


def meter(every: int = 1) -> NoiseMeter:
    noise = NoiseMeter(every_updates=every)
    noise.start(Started(t=0.0, workers=(0, 1, 2), batch_samples=(4, 4, 4), num_servers=1))
    return noise


def measures(noise: NoiseMeter, *events: Arrived, weight: float | None = None) -> bool:
    """Whether an update of these gradients is measured."""
    for event in events:
        noise.observe_event(event)
    samples = sum(event.grad.samples for event in events)
    weights = (1.0 / samples if weight is None else weight,) * len(events)
    (command,) = noise.settle(events[-1], [Apply(grads=tuple(e.grad.id for e in events), weights=weights)], None)  # type: ignore[arg-type]
    assert isinstance(command, Apply)
    return command.measure


def test_the_worked_number() -> None:
    """g = (1, 0), (0, 1), (1, 1) of four samples each: phi 4."""
    noise = meter()
    assert measures(noise, *(arrived(n, sqr_norm=x * x + y * y) for n, (x, y) in enumerate(SUMS)))
    assert noise.phi_of(4) is None
    noise.observe_event(Measured(t=1.0, version=1, sqr_norm=8 / 9))
    assert noise.phi_of(4) == (pytest.approx(4.0), 0.0)
    assert noise.log_state()["noise_scale_samples"] == pytest.approx(4.0)


def test_norms_of_summed_gradients_are_those_of_when_they_were_ready() -> None:
    """The worked number, with the first two gradients in a sum, of which nobody knows a norm."""
    noise = meter()
    parts = [arrived(n, sqr_norm=x * x + y * y) for n, (x, y) in enumerate(SUMS)]
    for one in parts[:2]:
        ready = Ready(t=0.0, grad=one.grad, timings=one.timings, num_bytes=8, sqr_norm=one.sqr_norm)
        noise.observe_event(ready)
    both = make_grad(samples=8, id=9, members=(0, 1))
    assert measures(noise, Arrived(t=0.0, grad=both, timings=Timings()), parts[2])
    noise.observe_event(Measured(t=1.0, version=1, sqr_norm=8 / 9))
    assert noise.phi_of(4) == (pytest.approx(4.0), 0.0)


@pytest.mark.parametrize(
    "events",
    [(arrived(0),), (arrived(0), arrived(1, version=1)), (arrived(0), arrived(1, sqr_norm=None))],
    ids=["single", "two versions", "unknown norm"],
)
def test_what_cannot_be_used_is_not_measured(events: tuple[Arrived, ...]) -> None:
    noise = meter()
    assert not measures(noise, *events)
    assert noise.noise.skipped == 1
    assert measures(noise, arrived(7), arrived(8)), "the next one is"


def test_every_so_many_updates() -> None:
    noise = meter(every=3)
    asked = [measures(noise, arrived(2 * n), arrived(2 * n + 1)) for n in range(8)]
    assert asked == [True, False, False, True, False, False, True, False]
    noise.observe_event(Measured(t=1.0, version=7, sqr_norm=1.0))
    assert noise.phi_of(4) == (pytest.approx(noise.noise.terms.phi), 1.0)  # type: ignore[union-attr]


def test_a_rollback_forgets_what_was_to_come() -> None:
    noise = meter()
    assert measures(noise, arrived(0), arrived(1))
    noise.observe_event(Restored(t=2.0, version=0, workers=(0, 1, 2)))
    noise.observe_event(Measured(t=3.0, version=1, sqr_norm=1.0))
    assert noise.phi_of(4) is None
    assert measures(noise, arrived(5), arrived(6))


def test_a_number_is_a_source_too() -> None:
    assert FixedNoise(phi=300.0).phi_of(128) == (300.0, 0.0)
    assert FixedNoise(phi=0.0).phi_of(128) == (0.0, 0.0), "no noise: every update makes the same progress"
    for phi in (-1.0, float("nan")):
        with pytest.raises(ValueError, match=r"phi="):
            check_settings(FixedNoise(phi=phi))
