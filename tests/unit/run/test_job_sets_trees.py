"""Sets of jobs whose gradients are summed on their way: aggregators are where a job's workers are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from runtime.errors import ConfigError
from runtime.run.job import run_job
from runtime.run.jobs.replay import run_set
from runtime.run.jobs.running import placed_job
from strategies.protocol import Places
from tests.support.job_sets import checked_set, row, run_rows, table_of
from tests.unit.run.test_job_sets_run import MIXED, PACKED

TREE = ("strategy=star_h", "strategy.tree_fanout=3", "strategy.warmup_iters=0", "straggler=transient", "record=events")


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


@pytest.mark.few(1)
def test_one_job_of_a_set_leaves_the_bytes_of_that_job_alone(tmp_path: Path) -> None:
    only = [row("only", gpus=9, servers=2)]
    assert run_set(checked_set(only, *TREE), tmp_path / "set").exit_code == 0
    job = checked_set(only, *TREE).jobs[0]
    found = table_of(tmp_path / "set").loc["only"]
    places = Places(workers=tuple(found.worker_hosts), servers=tuple(found.server_hosts))
    assert run_job(placed_job(job.checked, places, 8), tmp_path / "only").exit_code == 0
    own, alone = tmp_path / "set" / "jobs" / "only", tmp_path / "only"
    assert (own / "events.jsonl").read_bytes() == (alone / "events.jsonl").read_bytes()


def test_where_jobs_are_preempted_their_aggregators_would_stay(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^policy=las: preempts, and strategy=star_h has aggregators on hosts"):
        checked_set([row("a", gpus=8)], "policy=las", *TREE)
