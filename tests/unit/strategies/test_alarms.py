"""A straggler predictor as a detector of nodes, and the watchdog that acts on it."""

from __future__ import annotations

from typing import Any

import pytest

from strategies.parts.monitoring.alarms import Alarms
from tests.contract.catalogue import make
from tests.support.harness import HeapRun, make_job


def restarts(seconds: list[float], min_slow_s: float = 2.0, **settings: Any) -> list[tuple[float, str]]:
    """When the watchdog restarts whom, in 30 s of workers that take so long; a restarted one is as slow as before."""
    given = {"detectors.alarms.predictor": "last_value", "detectors.alarms.warmup_iters": 0, **settings}
    given |= {"actions.kill_restart.min_slow_s": min_slow_s, "decide_every_s": 1.0}
    job = make_job(num_workers=len(seconds), global_batch_samples=2 * len(seconds), max_time_s=30.0)
    return [(t, node) for t, node, _ in HeapRun(make("watchdog", **given), job, seconds).run().restarts]


def test_who_is_tagged_for_long_enough_is_restarted_slowest_first() -> None:
    """Worker 1 takes twice as long; its first iteration ends at 1 s, its alarm is read from then on."""
    found = restarts([0.5, 1.0, 0.5])
    assert [node for _, node in found] == ["worker:1"] * len(found)
    assert 3.0 <= found[0][0] <= 4.0
    assert found[1][0] - found[0][0] >= 12.0, "cooldown_s"
    # Not the one with the lowest number
    assert restarts([0.1, 0.2, 0.4, 0.1], min_slow_s=0.0)[0][1] == "worker:2"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"predictor": "oracle"}, "predictor=oracle: reads the plan"),
        ({"predictor": "nvrx", "settings": {"treshold": 1}}, "predictor=nvrx:treshold=1: no such setting"),
        ({"warmup_iters": -1}, "warmup_iters=-1"),
    ],
)
def test_an_impossible_detector_is_refused_by_name(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Alarms(**settings)
