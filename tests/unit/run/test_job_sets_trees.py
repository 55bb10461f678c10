"""Sets of jobs whose gradients are summed on their way: aggregators are where a job's workers are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from runtime.errors import ConfigError
from tests.support.job_sets import checked_set, row, run_rows
from tests.unit.run.test_job_sets_run import MIXED, PACKED, TREE


def events_of(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    lines = [msgspec.json.decode(line) for line in (run_dir / "events.jsonl").read_bytes().splitlines()]
    return [line["event"] for line in lines if line["kind"] == "event" and line["event"]["type"] == kind]


def test_every_job_has_its_aggregators_on_the_hosts_of_its_workers(tmp_path: Path) -> None:
    table = run_rows(tmp_path / "run", MIXED, *PACKED, *TREE)
    assert set(table.status) == {"done"}
    for job, found in table.iterrows():
        (started,) = events_of(tmp_path / "run" / "jobs" / str(job), "Started")
        hosts = {name: int(place.removeprefix("host:")) for name, place in started["places"].items()}
        summing = [hosts[name] for name in hosts if name.startswith("aggregator:")]
        assert len(summing) == 3
        assert set(summing) <= set(found.worker_hosts)
        arrived = events_of(tmp_path / "run" / "jobs" / str(job), "Arrived")
        assert any(event["grad"].get("members") for event in arrived)


def test_where_jobs_are_preempted_their_aggregators_would_stay(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^policy=las: preempts, and strategy=star_h has aggregators on hosts"):
        checked_set([row("a", gpus=8)], "policy=las", *TREE)
