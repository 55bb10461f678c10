"""Cores that tasks have at the start of a job without a strategy that allocates any (``cluster.worker_cores``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.errors import ConfigError
from runtime.record.recorder import Recorder
from runtime.virtual.runtime import VirtualRuntime
from strategies.basic.bsp import BSP
from tests.support.clusters import cluster_of
from tests.support.harness import make_job, make_run_spec

COSTS = "schema: 1\nvalues: {compute_base_s: 0.1, worker_cores: 4.0, update_base_s: 0.05, server_cores: 8.0}\n"
ROUNDS = 3
LATE = Disturbance(start_s=90.0, end_s=99.0, target="worker:0", kind="cpu", magnitude=0.5)
"""Long after the job, whose processors are modelled because of it."""


@pytest.mark.parametrize("windows", [[], [LATE]], ids=["times", "machines"])
@pytest.mark.parametrize(
    ("about", "compute_s", "update_s"),
    [
        ({}, 0.1, 0.05),
        ({"worker_cores": 16.0}, 0.1, 0.05),
        ({"worker_cores": 1.0, "server_cores": 2.0}, 0.4, 0.2),
    ],
)
def test_tasks_with_fewer_cores_than_they_can_use_are_slower_in_proportion(
    about: dict[str, Any], compute_s: float, update_s: float, windows: list[Disturbance], tmp_path: Path
) -> None:
    (tmp_path / "real.yaml").write_text(COSTS)
    runtime = VirtualRuntime(cluster=cluster_of(num_workers=2, costs=str(tmp_path / "real.yaml"), **about))
    recorder = Recorder(tmp_path)
    job = make_job(num_workers=2, num_servers=1, num_samples=2 * 4 * ROUNDS, global_batch_samples=8, epochs=1)
    outcome = runtime.run(
        make_run_spec(job, BSP(), recorder, tmp_path), Schedule(build_plan("none", 0, 100.0, windows))
    )
    recorder.close()
    assert outcome.t == pytest.approx(ROUNDS * compute_s + (ROUNDS - 1) * update_s), "nobody waits for the last update"
    assert runtime.base_iter_s(4) == pytest.approx(compute_s)


def test_on_hosts_they_have_those_of_their_host() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.server_cores=2: on hosts, tasks have the cores of theirs"):
        VirtualRuntime(cluster=cluster_of(num_workers=1, server_cores=2.0, device={"base_s": 1.0}, hosts={"count": 1}))
