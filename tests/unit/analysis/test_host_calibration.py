"""Costs of hosts are found again in records that were made with them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from analysis.fitting.calibration import calibrate
from analysis.fitting.ring_costs import updates_of
from analysis.records.load import RecordError
from tests.support.as_live import PARAMETERS, run_as_live, set_as_live


@pytest.mark.long(like="test_rings_of_two_and_of_five_tell_a_step_from_its_bytes")
def test_interruptions_are_what_computing_takes_longer_while_others_send(tmp_path: Path) -> None:
    """Each of them is found within 10 %: workers and servers are interrupted in bursts, and counted on average."""
    costs = {"interrupt_per_byte_s": 2e-9, "jitter_sigma": 0.1}
    apart = run_as_live(tmp_path / "a", strategy="asp_even", more=costs)
    together = run_as_live(
        tmp_path / "b", "cluster.hosts.count=1", "cluster.hosts.cpu_cores=16", strategy="asp_even", more=costs
    )
    both = calibrate([apart, together], [PARAMETERS] * 2)
    found = {name: estimate.value for name, estimate in both.estimates.items()}
    assert found["interrupt_per_byte_s"] == pytest.approx(2e-9, rel=0.1)
    assert found["carry_per_byte_s"] == pytest.approx(2e-9, rel=0.1)
    assert found["carry_within_per_byte_s"] == pytest.approx(3e-10, rel=0.1)
    assert found["compute_base_s"] == pytest.approx(32 * 1e-4, rel=0.05), "at one batch size"
    in_step = calibrate([run_as_live(tmp_path / "c", more=costs), together], [PARAMETERS] * 2)
    assert "asynchronous" in in_step.missing["interrupt_per_byte_s"], "nobody sends while workers compute"
    without = calibrate(
        [run_as_live(tmp_path / "d", strategy="asp_even", more={"jitter_sigma": 0.1}), together], [PARAMETERS] * 2
    )
    assert without.estimates["interrupt_per_byte_s"].value < 2e-10


@pytest.mark.long(like="test_rings_of_two_and_of_five_tell_a_step_from_its_bytes")
def test_what_neighbours_cost_is_found_in_the_jobs_of_a_set(tmp_path: Path) -> None:
    """Carrying, interruptions and control messages are those of the set, whatever they were of jobs alone."""
    alone = {"carry_per_byte_s": 4e-9, "control_s": 1e-4}
    costs = {"interrupt_per_byte_s": 2e-9, "control_s": 1e-3, "jitter_sigma": 0.1}
    apart = run_as_live(tmp_path / "a", more=alone)
    together = run_as_live(tmp_path / "b", "cluster.hosts.count=1", "cluster.hosts.cpu_cores=16")
    sizes = {"p": 1, "q": 3, "r": 2, "s": 2}
    entries = [
        f"{{job: {job}, submit_s: 0.0, gpus: {gpus}, servers: 1, iterations: 150}}" for job, gpus in sizes.items()
    ]
    jobs = set_as_live(tmp_path / "c", "placement=spread", entries=",".join(entries), more=costs)
    runs = [apart, together, *jobs]
    found = {name: each.value for name, each in calibrate(runs, [PARAMETERS] * len(runs)).estimates.items()}
    assert found["interrupt_per_byte_s"] == pytest.approx(2e-9, rel=0.15)
    assert found["carry_per_byte_s"] == pytest.approx(2e-9, rel=0.1)
    assert found["carry_within_per_byte_s"] == pytest.approx(3e-10, rel=0.1)
    assert found["control_s"] == pytest.approx(1e-3, rel=0.1)
    assert "cluster.hosts.count=1" in calibrate([apart], [PARAMETERS]).missing["carry_within_per_byte_s"]
    with pytest.raises(RecordError, match="job q shared its hosts and is not among the runs"):
        calibrate([together, jobs[0]], [PARAMETERS] * 2)


RING = ("topology=allreduce", "workload.epochs=10")
TWO = ("cluster.hosts.count=2", "cluster.hosts.cpu_cores=null", "cluster.num_workers=2", *RING)


def test_the_member_that_comes_last_shows_what_a_sum_took() -> None:
    """An update that one of two workers began with alone shows nothing, nor does the start."""
    run: Any = SimpleNamespace(job={"num_workers": 2}, meta={})
    pulls = [(0, 0, 0.001), (0, 1, 0.001), (1, 0, 0.009), (1, 1, 0.005), (2, 0, 0.007)]
    rows = pd.DataFrame(pulls, columns=["version_read", "worker", "pull_s"]).assign(run=0, block=0, disturbed=False)
    updates = updates_of(run, rows, num_parameters=1001)
    assert updates["reduce_s"].tolist() == [0.005]
    assert updates[["steps", "part_bytes", "num_bytes", "wire_s"]].to_numpy().tolist() == [[2, 2004, 4004, 0.0]]


@pytest.mark.long(like="test_rings_of_two_and_of_five_tell_a_step_from_its_bytes")
def test_a_step_between_hosts_is_what_its_message_does_not_explain(tmp_path: Path) -> None:
    """Of two workers that keep each other waiting, with a core each; what carries a message is known from servers."""
    served = run_as_live(tmp_path / "a")
    costs = {"ring_step_s": 7e-4, "jitter_sigma": 0.1}
    ring = run_as_live(tmp_path / "b", *TWO, more=costs)
    found = calibrate([served, ring], [PARAMETERS] * 2)
    assert found.estimates["ring_step_s"].value == pytest.approx(7e-4, rel=0.1)
    assert "carry_per_byte_s" in found.missing["ring_per_byte_s"]
    without = calibrate([served, run_as_live(tmp_path / "c", *TWO, more={"jitter_sigma": 0.1})], [PARAMETERS] * 2)
    assert without.estimates["ring_step_s"].value < 7e-5
    throttled = calibrate([served, run_as_live(tmp_path / "d", *RING, more=costs)], [PARAMETERS] * 2)
    assert throttled.estimates["ring_step_s"].value == pytest.approx(7e-4, rel=0.25), "with what quotas add to messages"
    assert "topology=allreduce" in calibrate([served], [PARAMETERS]).missing["ring_step_s"]


def test_rings_of_two_and_of_five_tell_a_step_from_its_bytes(tmp_path: Path) -> None:
    """Without hosts; the update itself is known from servers, whose costs the rings do not change."""
    costs = {"ring_step_s": 5e-4, "ring_per_byte_s": 4e-9, "update_base_s": 1e-3, "latency_s": 2e-4}
    costs["jitter_sigma"] = 0.1
    local = ("cluster=local", "cluster.device=null")
    served = run_as_live(tmp_path / "a", *local, more=costs)
    rings = [
        run_as_live(tmp_path / str(workers), *local, f"cluster.num_workers={workers}", *RING, more=costs)
        for workers in (2, 5)
    ]
    assert "topology=allreduce" in calibrate([served], [PARAMETERS]).missing["ring_step_s"]
    found = calibrate([served, *rings], [PARAMETERS] * 3).estimates
    assert found["ring_step_s"].value == pytest.approx(5e-4, rel=0.1)
    assert found["ring_per_byte_s"].value == pytest.approx(4e-9, rel=0.05)
    assert found["update_base_s"].value == pytest.approx(1e-3, rel=0.05)
    assert found["latency_s"].value == pytest.approx(2e-4, rel=0.05), "of messages to servers: replicas push nothing"
