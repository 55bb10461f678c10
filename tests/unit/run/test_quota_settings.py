"""``scheduler=quota`` from the command line: who is pending how long, who is denied, who is taken away; bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.run.preflight import preflight
from tests.support.cli import refusal, run_cli
from tests.support.invariants import problems
from tests.support.runs import RecordSink, read_lines

BASE = ("runtime=virtual", "straggler=none", "view=none", "draw=false", "max_time_s=120", "eval_every_s=null")
DLROVER = (
    *("cluster=dlrover", "backend=none", "backend.num_parameters=1000000", "workload=criteo_scale"),
    *("strategy=dlrover", "strategy.sample_s=5", "strategy.decide_every_s=1", "cluster.num_workers=1"),
    *("topology.num_servers=1", "workload.global_batch_samples=512"),
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


WORDS = ("workload=ledger", "backend=numpy", "runtime=virtual", "straggler=elastic", "straggler.leaves_per_hour=720")
"""A leave in five seconds, per worker."""


@pytest.mark.few(1)
@pytest.mark.parametrize("strategy", ["bsp", pytest.param("asp", marks=pytest.mark.long)])
@pytest.mark.parametrize("more", [(), ("topology=allreduce",)], ids=["ps", "allreduce"])
def test_workers_come_and_go_and_every_sample_is_used(strategy: str, more: tuple[str, ...], tmp_path: Path) -> None:
    if more and strategy != "bsp":
        strategy = "lb_bsp"  # a round of all workers, which is what replicas need
    found = run_cli(*WORDS, *more, f"strategy={strategy}", "draw=false", "view=none", f"hydra.run.dir={tmp_path}")
    assert found.exit_code == 0, found.err
    lines = read_lines(tmp_path)
    events = [line["event"] for line in lines if line["kind"] == "event"]
    left = [event["worker"] for event in events if event["type"] == "Lost" and event["cause"] == "retired"]
    joined = [event["worker"] for event in events if event["type"] in ("Joined",)]
    assert left
    assert min(joined) >= 4
    metrics = [event["metrics"] for event in events if event["type"] == "Evaluated"][-1]
    assert metrics["least_uses"] == metrics["most_uses"]


def test_where_nodes_cannot_change_it_is_refused_before_the_job() -> None:
    with pytest.raises(ConfigError, match=r"the shared buffers .*\(straggler=elastic lets workers join or leave\)"):
        preflight([*WORDS, "topology.transport=shm"])
