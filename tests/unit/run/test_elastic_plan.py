"""``straggler=elastic`` from the command line: carried out on the virtual clock, refused where nodes cannot change."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.run.preflight import preflight
from tests.support.cli import run_cli
from tests.support.runs import read_lines

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
