"""Which devices a disturbance reaches, and what it may not reach."""

from __future__ import annotations

import pytest

from runtime.cluster.gpu_hogs import DeviceUsers, hogs_of, refuse_hogs, turns_alike
from runtime.errors import ConfigError

PAIRS = DeviceUsers((0, 1), 4)
"""Workers 0 and 2 on device 0, 1 and 3 on device 1."""
ON_HOSTS = DeviceUsers((0, 1, 2), 3, {"worker:0": "host:0", "worker:1": "host:0", "worker:2": "host:1"}.get)


def test_targets_and_their_devices() -> None:
    assert PAIRS.workers_on(1) == [1, 3]
    assert [PAIRS.devices_of(target) for target in ("worker:2", "device:1", "device:5")] == [[0], [1], []]
    assert ON_HOSTS.devices_of("host:0") == [0, 1]
    assert ON_HOSTS.devices_of("host:1") == [2]
    levels = {"device:0": 0.3, "worker:0": 0.5, "device:1": 0.1}
    assert PAIRS.left(0, lambda target, _: levels[target], levels) == 0.3
    assert PAIRS.left(2, lambda target, _: levels[target], levels) == 1.0


def test_a_device_gets_as_many_hogs_as_its_smallest_rest_needs() -> None:
    asked = [("device:0", 0.5), ("device:0", 0.25), ("device:1", 0.5), ("device:1", 1.0)]
    assert hogs_of(asked, PAIRS, alike=False) == {0: 6, 1: 2}
    assert hogs_of(asked, PAIRS, alike=True) == {0: 3, 1: 1}
    assert hogs_of([("device:0", 1.0)], PAIRS, alike=True) == {}
    assert (turns_alike("cuda", mps=False), turns_alike("cuda", mps=True), turns_alike("fake", mps=False)) == (
        False,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("asked", "users", "words"),
    [
        (("worker:0", 0.5), PAIRS, "worker:0 would slow down worker:2, too.*name device:0"),
        (("host:0", 0.5), DeviceUsers((0,), 2, {"worker:0": "host:0"}.get), "would slow down worker:1"),
        (("device:0", 0.07), PAIRS, "to 2 processes takes 27 others, more than 24; leave 0.08 or more"),
        (("device:7", 0.5), PAIRS, "no worker computes there"),
    ],
)
def test_what_cannot_be_taken_is_refused(asked: tuple[str, float], users: DeviceUsers, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        refuse_hogs([asked], users, alike=False)
