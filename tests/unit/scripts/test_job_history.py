"""What finished jobs needed, by hand-made records: peaks, means, and which records do not count."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runtime.config.instantiate import instantiate
from runtime.core.cluster.brain.administrator import MEMORY_BYTES
from scripts.fitting.job_history import NAME, main, read_jobs
from strategies.dlrover import DLRover
from tests.support.records import Story

CORES = {"worker:0": 2.0, "worker:1": 3.0, "server:0": 5.0, "server:1": 7.0}


def story(started_at: str = "2026-01-01T00:00:00+00:00", peak: float = 1.0, memory: int | None = None) -> Story:
    """Ten samples; in the first five servers use ``peak`` times as much."""
    made = Story(num_workers=2)
    made.meta["started_at"] = started_at
    made.started()
    for second in range(1, 11):
        factor = peak if second <= 5 else 1.0
        nodes = [
            {"node": node, "cpu_cores": cores * (factor if node.startswith("server") else 1.0), "memory_bytes": memory}
            for node, cores in CORES.items()
        ]
        made.event(float(second), "Observed", period_s=1.0, nodes=nodes)
    return made


@pytest.mark.parametrize("unit", [1.0, 0.25])
def test_peaks_of_servers_and_means_of_workers_at_the_end(tmp_path: Path, unit: float) -> None:
    """In the unit of the settings: of a quarter of a core four times as many. Workers are those of the end."""
    made = story(peak=2.0, memory=3 * 2**30)
    made.meta["job"]["strategy_fields"] = {"unit_cores": unit}
    made.finished(11.0)
    made.write(tmp_path / "one")
    [job] = read_jobs([tmp_path])
    assert (job.server_cores_used * unit, job.worker_cores_used * unit) == pytest.approx((24.0, 2.5))
    assert (job.workers, job.worker_bytes, job.server_bytes) == (2, 3 * 2**30, 3 * 2**30)
    nodes = [{"node": f"worker:{number}", "cpu_cores": 1.0, "memory_bytes": None} for number in range(3)]
    later = story()
    later.event(11.0, "Observed", period_s=1.0, nodes=nodes)
    later.finished(12.0)
    later.write(tmp_path / "later" / "one")
    assert [job.workers for job in read_jobs([tmp_path / "later"])] == [3]


def test_jobs_come_by_age_and_those_that_did_not_finish_do_not_count(tmp_path: Path) -> None:
    for name, year, peak, status in (("b", 2024, 3.0, "done"), ("a", 2025, 1.0, "done"), ("c", 2023, 9.0, "failed")):
        made = story(f"{year}-01-01T00:00:00+00:00", peak)
        made.finished(11.0, status)
        made.write(tmp_path / name)
    jobs = read_jobs([tmp_path])
    assert [job.server_cores_used for job in jobs] == [pytest.approx(36.0), pytest.approx(12.0)]
    assert {job.worker_bytes for job in jobs} == {MEMORY_BYTES}


def test_what_is_written_begins_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = story()
    made.finished(11.0)
    made.write(tmp_path / "runs" / "one")
    assert main([str(tmp_path / "runs"), "-o", str(tmp_path / "conf")]) == 0
    assert "strategy=dlrover_hot" in capsys.readouterr().out
    written = yaml.safe_load((tmp_path / "conf" / NAME).read_text())
    assert written.pop("defaults") == ["dlrover", "_self_"]
    strategy = instantiate({"_target_": "strategies.dlrover.DLRover", **written})
    assert isinstance(strategy, DLRover)
    [scaler] = strategy.parts.actions.values()
    plan = scaler.planner.initial  # type: ignore[attr-defined]
    assert (plan.workers, plan.worker_cores, plan.servers, plan.source) == (2, 3, 2, "dataset")


def test_without_a_sample_there_is_nothing_to_begin_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Story(num_workers=2)
    made.started()
    made.finished(1.0)
    made.write(tmp_path / "runs" / "one")
    assert main([str(tmp_path / "runs"), "-o", str(tmp_path / "conf")]) == 2
    assert "run with runtime.telemetry_every_s=1" in capsys.readouterr().err
    assert main([str(tmp_path / "nowhere"), "-o", str(tmp_path / "conf")]) == 2
    assert "no such directory" in capsys.readouterr().err
    assert not (tmp_path / "conf" / "strategy").exists()
