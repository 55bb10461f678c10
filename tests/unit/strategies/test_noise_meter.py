"""The noise meter, and the noise scale from a number or a profiled table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reading.ranges import check_settings
from strategies.parts.monitoring.base import MeasuresNoise
from strategies.protocol import Apply, Arrived, Drop, Measured, Ready, Restored, Started, Timings
from strategies.star import Star
from strategies.star.noise import FixedNoise, NoiseMeter, TabledNoise
from tests.support.grads import make_grad
from tests.support.harness import HeapRun, make_job

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


def test_dropped_gradients_are_not_kept() -> None:
    noise = meter()
    noise.observe_event(arrived(0))
    drop = Drop(grads=(0,))
    assert noise.settle(arrived(0), [drop], None) == [drop]  # type: ignore[arg-type]
    assert not noise._fresh


def test_a_number_is_a_source_too() -> None:
    assert FixedNoise(phi=300.0).phi_of(128) == (300.0, 0.0)
    assert FixedNoise(phi=0.0).phi_of(128) == (0.0, 0.0), "no noise: every update makes the same progress"
    for phi in (-1.0, float("nan")):
        with pytest.raises(ValueError, match=r"phi="):
            check_settings(FixedNoise(phi=phi))


HEAD = "model,batch_samples,step,sqr,var"
TABLE = f"{HEAD}\ndigits,32,0,1.0,100.0\ndigits,32,2,1.0,300.0\ndigits,32,4,1.0,800.0\nother,32,0,1.0,7.0\n"


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "noise.csv").write_text(TABLE)
    return str(tmp_path / "noise.csv")


def applied(noise: TabledNoise, samples: int) -> None:
    noise.applied((make_grad(samples=samples),))


def test_the_row_of_the_step_that_has_been_reached(path: str) -> None:
    """A step is an update of the global batch of 12: two updates of half of it are one. Means of up to three rows."""
    noise = TabledNoise(phi_table=path, phi_model="digits")
    assert isinstance(noise, MeasuresNoise)
    noise.start(Started(t=0.0, workers=(0, 1), batch_samples=(6, 6), num_servers=1))
    found = [noise.phi_of(12)]
    for _ in range(9):
        applied(noise, 6)
        found.append(noise.phi_of(12))
    expected = [(100.0, 0), (100.0, 0), (100.0, 1), (100.0, 1), (200.0, 0), (200.0, 0), (200.0, 1), (200.0, 1)]
    assert found == [*expected, (400.0, 0), (400.0, 0)]
    noise.observe_event(Restored(t=1.0, version=4, workers=(0, 1)))
    assert noise.phi_of(12) == (200.0, 0), "a rollback"
    applied(noise, 24)
    assert noise.phi_of(12) == (400.0, 0)
    noise.start(Started(t=0.0, workers=(0, 1), batch_samples=(6, 6), num_servers=1))
    assert noise.phi_of(12) == (100.0, 0)


def test_star_decides_by_the_table(path: str) -> None:
    """With three times the noise from the second round on."""
    star = Star(predictor="last_value", warmup_iters=0, decision_s=0.0, phi_table=path, phi_model="digits")
    assert not star.measures
    run = HeapRun(star, make_job(global_batch_samples=512, max_time_s=20.0), [1.0, 1.0, 1.0, 4.0]).run()
    assert "phi 400 samples" in str(run.core.strategy.log_state()["decision"])


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        (TABLE, {"phi_model": "vgg"}, "phi_model=vgg: is not in the table of the noise scale, which has digits, other"),
        (TABLE, {"phi": 300.0, "phi_model": "digits"}, "phi=300 is given, too; set phi=null for the table"),
        (None, {"phi_model": "digits"}, r"cannot be read \(no such file or directory\); make one with scripts/"),
        ("", {"phi_model": "digits"}, "has no rows; make one with scripts/fitting/profile_noise.py"),
        (f"{HEAD}\ndigits,32,0,nan,1\n", {"phi_model": "digits"}, "line 2 is not model"),
    ],
)
def test_what_is_no_table_is_refused(text: Any, settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "noise.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        Star(phi_table=str(path), **settings)
    assert str(caught.value).startswith(("phi_table=", "phi_model="))
    assert "\n" not in str(caught.value)
