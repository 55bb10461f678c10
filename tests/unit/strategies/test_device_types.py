"""Types of devices from what was measured, and what is taken where nothing was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from strategies.antdt.profiling import find_devices

FAST, SLOW = [(32.0, 0.1), (64.0, 0.2)], [(32.0, 0.4), (64.0, 0.8)]


def settings(**given: Any) -> Any:
    about = {"types": None, "devices": None, "type_ratio": 1.2, "curve": "measured", "max_batch_samples": None}
    return SimpleNamespace(**about | given)


def test_who_was_not_measured_is_taken_for_one_of_the_slowest() -> None:
    devices, kinds = find_devices(settings(), {0: FAST, 1: SLOW}, [0, 1, 2])
    assert kinds[2] == kinds[1] != kinds[0]
    assert [devices[kind].seconds(64) for kind in kinds] == [0.2, 0.8, 0.8]


def test_a_saturation_point_beyond_the_memory_asks_for_no_more_than_that_holds() -> None:
    saturated = [(8.0, 0.1), (64.0, 0.1)]
    [device], _ = find_devices(settings(), {0: saturated}, [0])
    assert device.low_samples == 64
    [device], _ = find_devices(settings(max_batch_samples=16), {0: saturated}, [0])
    assert (device.low_samples, device.high_samples) == (16, 16)
