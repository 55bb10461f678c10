"""``scheduler=quota`` from the command line: who is pending how long, who is denied, who is taken away; bad input."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.cli import ROOT, refusal, run_cli
from tests.support.invariants import problems
from tests.support.runs import RecordSink

BASE = ("runtime=virtual", "straggler=none", "view=none", "draw=false", "max_time_s=120", "eval_every_s=null")
DLROVER = (
    *("cluster=dlrover", "backend=none", "backend.num_parameters=1000000", "workload=criteo_scale"),
    *("strategy=dlrover", "strategy.sample_s=5", "strategy.decide_every_s=1", "cluster.num_workers=1"),
    *("topology.num_servers=1", "workload.global_batch_samples=512"),
)
WANDERING = (
    *("--config-dir", str(ROOT / "tests/live/conf"), "strategy=validated", "strategy.often=0.2", "workload=ledger"),
    *("backend=numpy", "workload.epochs=1", "workload.task.num_samples=1500", "topology.transport=tcp"),
)


def run(run_dir: Path, *words: str) -> RecordSink:
    """A job that must come to a good end."""
    found = run_cli(*BASE, "scheduler=quota", *words, f"hydra.run.dir={run_dir}")
    assert found.exit_code == 0, found.err
    record = RecordSink(run_dir)
    assert record.finished["status"] == "done"
    assert problems(record.lines()) == []
    return record


def test_a_job_keeps_its_quota_and_learns_who_does_not_come(tmp_path: Path) -> None:
    record = run(tmp_path / "run", *DLROVER, "scheduler.cores_total=20")
    denied = {event["node"]: event["reason"] for event in record.events("Denied")}
    assert denied
    assert all(reason.endswith("cores_total=20") for reason in denied.values())
    came = {f"server:{event['server']}" for event in record.events("ServerJoined")}
    came |= {f"worker:{event['worker']}" for event in record.events("Joined")}
    assert not came & denied.keys()


@pytest.mark.long(like="test_a_job_keeps_its_quota_and_learns_who_does_not_come")
def test_large_nodes_are_pending_longer_and_those_of_low_priority_are_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And every sample is still used once an epoch."""
    monkeypatch.setenv("STRAGGLAB_ALLOW_TARGETS", "tests")
    quota = ("scheduler.pending_s=0.05", "scheduler.pending_s_per_core=0.02", "scheduler.evict_after_s=0.5")
    record = run(tmp_path / "run", *WANDERING, *quota, "save_parameters=true")
    requested = record.notes("Requested")
    pending = {note["cpu_cores"]: note["pending_s"] for note in requested}
    assert pending == pytest.approx({None: 0.05, 1.0: 0.07, 2.0: 0.09})
    losses = [("worker", event) for event in record.events("Lost")]
    losses += [("server", event) for event in record.events("ServerLost")]
    evicted = Counter(f"{role}:{event[role]}" for role, event in losses if event["cause"] == "evicted")
    assert evicted
    assert evicted.keys() <= {note["node"] for note in requested if note["priority"] == "low"}
    assert {times for node, times in evicted.items() if node.startswith("worker:")} <= {1}, (
        "who holds parameters returns"
    )
    assert (record.parameters() == 1).all()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["scheduler.cores_max=9"], "scheduler.cores_max=9: needs cores_total"),
        (["scheduler.cores_total=15"], "scheduler: denies the nodes of the start (16 cores asked, 0 in use"),
        (["strategy.cores_total=15"], "strategy.cores_total=15: a worker of 8 and a server of 8 cores need 16"),
    ],
)
def test_what_no_job_can_keep_is_refused_before_it_starts(words: list[str], line: str) -> None:
    assert refusal(*BASE, *DLROVER, "scheduler=quota", *words).startswith(line)
