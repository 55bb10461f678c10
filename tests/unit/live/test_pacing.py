"""Device pacing on a clock of our own: how long a worker sleeps, and what counts as injected."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.device import DeviceProfile
from runtime.live.tasks import pacing
from runtime.live.tasks.pacing import Pacer

TIMES = st.floats(0, 10)


class Clock:
    """Passes only while somebody sleeps."""

    def __init__(self, now: float) -> None:
        self.now, self.naps = now, []  # type: float, list[float]

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.naps.append(seconds)
        self.now += seconds


def hold(
    pacer: Pacer, computed_s: float, samples: int, delay_s: float = 0.0, slowdown: float = 0.0, accum: int = 1
) -> tuple[float, float, float]:
    """(overrun, injected, time of the whole iteration) when the real computation took ``computed_s``."""
    clock = Clock(100.0 + computed_s)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pacing, "time", clock)
        overrun_s, injected_s = pacer.hold(100.0, samples, delay_s, slowdown, accum=accum)
    return overrun_s, injected_s, clock.now - 100.0


PROFILE = DeviceProfile(base_s=0.02, per_sample_s=0.001, saturation_s=0.03)


@pytest.mark.parametrize(("samples", "seconds"), [(1, 0.03), (10, 0.03), (11, 0.031), (32, 0.052)])
def test_a_device_is_flat_below_its_saturation(samples: int, seconds: float) -> None:
    assert PROFILE.seconds(samples) == pytest.approx(seconds)
    assert hold(Pacer(PROFILE), 0.001, samples) == pytest.approx((0.0, 0.0, seconds))


@pytest.mark.parametrize(
    ("profile", "computed_s", "injected", "overrun_injected_whole_s"),
    [
        (PROFILE, 0.08, {}, (0.028, 0.0, 0.08)),  # what cannot be held is an overrun
        (None, 0.08, {}, (0.0, 0.0, 0.08)),
        (None, 0.08, {"delay_s": 0.5}, (0.0, 0.5, 0.58)),
        (PROFILE, 0.01, {"delay_s": 0.1, "slowdown": 2.0}, (0.0, 0.204, 0.256)),  # relative to all that is not injected
        (PROFILE, 0.08, {"slowdown": 0.5}, (0.028, 0.04, 0.12)),
    ],
)
def test_injections_come_on_top(
    profile: DeviceProfile | None, computed_s: float, injected: dict[str, float], overrun_injected_whole_s: Any
) -> None:
    assert hold(Pacer(profile), computed_s, 32, **injected) == pytest.approx(overrun_injected_whole_s)  # type: ignore[arg-type]


@given(TIMES, st.integers(1, 1000), TIMES, TIMES)
def test_the_parts_make_up_the_whole(computed_s: float, samples: int, delay_s: float, slowdown: float) -> None:
    overrun_s, injected_s, whole_s = hold(Pacer(PROFILE), computed_s, samples, delay_s, slowdown)
    assert overrun_s >= 0
    assert whole_s == pytest.approx(PROFILE.seconds(samples) + overrun_s + injected_s)
    assert injected_s == pytest.approx(delay_s + slowdown * (whole_s - injected_s))
