"""Live workers whose devices differ, and batches in several passes: nobody is faster than its own device."""

from __future__ import annotations

from collections import defaultdict

import pytest

from runtime.cluster.device import DeviceProfile
from tests.support.leaks import Start
from tests.support.runs import DIGITS, Run

pytestmark = pytest.mark.live


def least_s(run: Run) -> dict[int, float]:
    """The shortest computation of every worker, among those of whole batches."""
    times = defaultdict(list)
    for line in run.lines():
        event = line.get("event", {})
        if event.get("type") == "Arrived" and event["grad"]["samples"] == event["grad"]["assigned_samples"]:
            times[event["grad"]["worker"]].append(event["timings"]["compute_s"])
    return {worker: min(own) for worker, own in times.items()}


def test_every_worker_is_paced_by_its_own_device(start: Start) -> None:
    run = start("mix", *DIGITS, "cluster=gpu_mix", "straggler=none", "workload.epochs=1").finish()
    devices = run.meta["job"]["devices"]
    assert [device.pop("type") for device in devices] == ["v100", "v100", "p100", "p100"]
    for worker, seconds in least_s(run).items():
        assert seconds >= DeviceProfile(**devices[worker]).seconds(32)
