"""Devices of workers: how long a batch takes, in one pass or several, and clusters whose devices differ."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.backends.base import micro_batches
from runtime.cluster.device import DeviceProfile, parse_devices, profiles_of, slowest_s
from runtime.errors import ConfigError
from runtime.live.runtime import LiveRuntime
from runtime.live.tasks.pacing import Pacer
from runtime.virtual import VirtualRuntime
from tests.support.clusters import cluster_of
from tests.unit.live.test_pacing import hold

FLAT = DeviceProfile(base_s=0.25, per_sample_s=0.125, saturation_s=1.0)
"""Flat up to six samples; binary fractions, so that sums are exact."""
MIX: dict[str, Any] = {
    "fast": {"workers": [0, 2], "base_s": 0.25},
    "slow": {"workers": [1, 3], "base_s": 0.25, "per_sample_s": 0.25},
}


@pytest.mark.parametrize(
    ("samples", "accum", "seconds"),
    [(8, 1, 1.25), (8, 2, 2.0), (16, 2, 2.5), (15, 2, 1.25 + 1.125), (7, 3, 3.0), (3, 3, 3.0)],
)
def test_passes_add_up(samples: int, accum: int, seconds: float) -> None:
    """15 samples are 8 and 7; below saturation every pass costs as much as a full one."""
    assert FLAT.seconds(samples, accum) == seconds


@given(st.integers(1, 500), st.integers(1, 20))
def test_passes_are_those_that_the_backends_make(samples: int, accum: int) -> None:
    accum = min(samples, accum)
    parts = [part.rows.stop - part.rows.start for part in micro_batches(samples, accum)]
    assert FLAT.seconds(samples, accum) == pytest.approx(sum(FLAT.seconds(part) for part in parts))


def test_a_live_worker_is_paced_by_the_passes() -> None:
    assert hold(Pacer(FLAT), 0.5, 8, accum=2) == pytest.approx((0.0, 0.0, 2.0))
    assert hold(Pacer(FLAT), 2.5, 8, accum=2) == pytest.approx((0.5, 0.0, 2.5))


def test_an_undisturbed_iteration_is_that_of_the_slowest() -> None:
    assert slowest_s(parse_devices(MIX, 4), 4) == 1.25
    assert slowest_s([None, None], 4) is None
    assert LiveRuntime(cluster=cluster_of(num_workers=4, devices=MIX)).base_iter_s(4) == 1.25
    assert VirtualRuntime(cluster=cluster_of(num_workers=4, devices=MIX)).base_iter_s(4) == 1.25


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"slow": {"workers": [1]}},
            "cluster.devices: worker 3 has no device; name every worker under one of its types",
        ),
        ({"slow": {"workers": [1, 3, 4]}}, "cluster.devices.slow.workers=[1, 3, 4]: there is no worker 4"),
        ({"slow": {"workers": [1, 2, 3]}}, "worker 2 has a fast already; name it once"),
        ({"slow": {"workers": [1, 3], "speed": 3}}, "cluster.devices.slow.speed: no such setting"),
        ({"slow": {"workers": [1, 3], "base_s": -1.0}}, "cluster.devices.slow.base_s=-1.0: must be at least 0"),
        ({"slow": {"base_s": 1.0}}, "cluster.devices.slow.workers: missing"),
    ],
)
@pytest.mark.parametrize("runtime", [LiveRuntime, VirtualRuntime])
def test_a_mix_that_says_too_little_or_too_much(runtime: Any, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        runtime(cluster=cluster_of(num_workers=4, devices={**MIX, **changes}))
    assert complaint in str(refused.value)


def test_one_device_for_all_and_a_mix_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.devices: .* set cluster\.device=null"):
        profiles_of({"base_s": 1.0}, MIX, 4)
    with pytest.raises(ConfigError, match=r"cluster\.devices: .*cluster\.hosts\.overrides"):
        profiles_of(None, MIX, 4, on_hosts=True)


def test_a_virtual_device_takes_time() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.devices\.slow: .*set base_s"):
        VirtualRuntime(cluster=cluster_of(num_workers=4, devices={**MIX, "slow": {"workers": [1, 3]}}))


def test_each_live_worker_is_told_its_own() -> None:
    fields = LiveRuntime(cluster=cluster_of(num_workers=4, devices=MIX)).device_fields()
    assert fields is not None
    assert [one["per_sample_s"] for one in fields] == [0.0, 0.25, 0.0, 0.25]
    assert LiveRuntime(cluster=cluster_of(num_workers=4)).device_fields() is None
