"""Costs of hosts are found again in records that were made with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.fitting.calibration import calibrate
from analysis.records.load import RecordError
from tests.support.as_live import PARAMETERS, run_as_live, set_as_live


@pytest.mark.long(like="test_what_neighbours_cost_is_found_in_the_jobs_of_a_set")
def test_messages_within_a_host_and_between_hosts_have_their_own_prices(tmp_path: Path) -> None:
    apart, together = run_as_live(tmp_path / "a"), run_as_live(tmp_path / "b", "cluster.hosts.count=1")
    both = calibrate([apart, together], [PARAMETERS] * 2).estimates
    assert both["carry_per_byte_s"].value == pytest.approx(2e-9, rel=0.03)
    assert both["carry_within_per_byte_s"].value == pytest.approx(3e-10, rel=0.03)
    alone = calibrate([apart], [PARAMETERS])
    assert "cluster.hosts.count=1" in alone.missing["carry_within_per_byte_s"]
    assert alone.estimates["carry_per_byte_s"].value == pytest.approx(0.75 * 2e-9 + 0.25 * 3e-10, rel=0.03), (
        "of eight ways between four workers and two servers, six leave a host"
    )


@pytest.mark.long(like="test_what_neighbours_cost_is_found_in_the_jobs_of_a_set")
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


def test_what_neighbours_cost_is_found_in_the_jobs_of_a_set(tmp_path: Path) -> None:
    """Carrying, interruptions and control messages are those of the set, whatever they were of jobs alone."""
    alone = {"carry_per_byte_s": 4e-9, "control_s": 1e-4}
    costs = {"interrupt_per_byte_s": 2e-9, "control_s": 1e-3, "jitter_sigma": 0.1}
    apart = run_as_live(tmp_path / "a", more=alone)
    together = run_as_live(tmp_path / "b", "cluster.hosts.count=1", "cluster.hosts.cpu_cores=16")
    sizes = {"p": 1, "q": 3, "r": 2, "s": 2}
    entries = [
        f"{{job: {job}, submit_s: 0.0, gpus: {gpus}, servers: 1, iterations: 250}}" for job, gpus in sizes.items()
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
