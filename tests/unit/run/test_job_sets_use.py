"""What hosts were used for while jobs, or single tasks, changed hosts: each host has the work that was done on it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.records.cluster import load_cluster
from analysis.records.load import load_run
from tests.support.job_sets import run_rows
from tests.unit.run.test_job_sets_preempted import HOSTS, moving, plain
from tests.unit.run.test_job_sets_restarted import fifo, slow_one

SAMPLES_S = 5.0
"""One sample within each run, and the one at its end: whoever moves does so between two of them."""
ROUNDING_S = 1e-6


def working(tmp_path: Path) -> tuple[str, ...]:
    """Workers prepare 8 samples in 0.008 s on 4 cores, and nothing else is work."""
    path = tmp_path / "work.yaml"
    path.write_text("schema: 1\nvalues: {data_per_sample_s: 0.001, worker_cores: 4}\n")
    return (f"cluster.costs={path}", f"replay.use_every_s={SAMPLES_S}")


def on_hosts(run_dir: Path) -> dict[int, float]:
    """Core-seconds by host, as the samples say."""
    hosts = pd.read_parquet(run_dir / "hosts.parquet")
    period_s = hosts.groupby("host").t_s.diff().fillna(hosts.t_s)
    worked_s = (hosts.cpu_cores * period_s).groupby(hosts.host).sum()
    return {int(host): float(seconds) for host, seconds in worked_s.items()}


def by_tasks(run_dir: Path) -> dict[int, float]:
    """Core-seconds by host, as the records of the jobs say: every iteration is work where its worker was then."""
    found = dict.fromkeys(range(HOSTS), 0.0)
    spans = load_cluster(run_dir).spans
    first_s = spans.groupby("job").start_s.min()
    for span in spans.itertuples():
        rows = load_run(run_dir / "jobs" / span.job).tables.iterations
        t_s = rows.t + first_s[span.job]  # a job's own time begins with its first start
        then = rows[(t_s > span.start_s + ROUNDING_S) & (t_s <= span.end_s + ROUNDING_S)]
        for worker, host in enumerate(span.workers):
            found[host] += then[then.worker == worker].cpu_s.sum()
    return found


def test_a_preempted_job_has_worked_where_it_was(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    table = run_rows(run_dir, moving(), *plain(tmp_path), *working(tmp_path))
    assert table.preemptions.to_dict() == {"long": 1, "other": 0, "short": 0}
    assert on_hosts(run_dir) == pytest.approx(by_tasks(run_dir), rel=1e-6)


def test_a_task_that_is_restarted_elsewhere_has_worked_where_it_was(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_rows(run_dir, [slow_one()], *fifo(tmp_path), *working(tmp_path), "straggler.intensity=1")
    spans = load_cluster(run_dir).spans
    assert spans.ended.tolist() == ["moved", "ended"]
    rows = load_run(run_dir / "jobs" / "slow").tables.iterations
    before = rows[(rows.worker == 0) & (rows.t < spans.end_s[0])].cpu_s
    assert before[-5:].sum() > 3 * before.iloc[-1], "since the last sample"
    # the iteration in which it was killed is in no record, and no longer than the one before
    assert on_hosts(run_dir) == pytest.approx(by_tasks(run_dir), abs=1.01 * before.iloc[-1])
