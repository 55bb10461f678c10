"""Types of devices from what was measured, and what is taken where nothing was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from strategies.antdt.profiling import DeviceSpec, cap_of, find_devices

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


def test_who_joined_after_types_were_given_is_taken_for_one_of_the_slowest() -> None:
    given = settings(types=("a fast one", "slow"), max_batch_samples=256)
    devices, kinds = find_devices(given, {0: FAST, 1: SLOW}, [0, 1, 2])
    assert [devices[kind].seconds(64) for kind in kinds] == [0.2, 0.8, 0.8]
    known = {
        "a fast one": DeviceSpec(samples_per_s=300.0),
        "slow": DeviceSpec(samples_per_s=100.0, max_batch_samples=8),
    }
    given = settings(types=("a fast one", "slow"), devices=known, max_batch_samples=256)
    devices, kinds = find_devices(given, {}, [2, 3])
    assert [devices[kind].seconds(100) for kind in kinds] == [1.0, 1.0], "nobody else is left"
    assert [cap_of(given, worker) for worker in (0, 1, 2)] == [256, 8, 8]
    assert cap_of(settings(), 5) is None
