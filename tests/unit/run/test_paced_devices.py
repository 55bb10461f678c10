"""A strategy that predicts by received resources is refused where iterations sleep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import run_cli

JOB = (
    "runtime=virtual",
    "strategy=star_h",
    "straggler=none",
    "backend=none",
    "workload.target=null",
    "workload.epochs=1",
    "eval_every_s=null",
    "checkpoint_every_s=null",
    "draw=false",
    "view=none",
)

APART = (
    "cluster.num_workers=2",
    "cluster.hosts.count=3",
    "cluster.hosts.placement=[[server:0,server:1],[worker:0],[worker:1]]",
)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("strategy.predictor=star",), "cluster.device"),
        (
            ("strategy.predictor=star", "cluster=hosts", "cluster.hosts.device={base_s:0.02,per_sample_s:0.001}"),
            "cluster.hosts.device",
        ),
        (
            ("strategy.predictor=star", "cluster=hosts", "cluster.hosts.overrides={2:{device:{base_s:0.02}}}"),
            "cluster.hosts.overrides.2.device",
        ),
    ],
    ids=["all", "hosts", "one host"],
)
def test_sleeping_devices_show_no_resources(words: tuple[str, ...], named: str, tmp_path: Path) -> None:
    done = run_cli(*JOB, *words, f"hydra.run.dir={tmp_path}")
    assert done.exit_code != 0
    assert f"{named}: paces iterations by sleeping, and strategy=star_h predicts" in done.err


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "words",
    [
        ("strategy.predictor=ema",),
        ("strategy.predictor=star", "cluster=hosts"),
        ("strategy.predictor=star", "cluster=hosts", "cluster.hosts.overrides={0:{device:{base_s:0.02}}}", *APART),
    ],
    ids=["by times", "hosts", "a host of servers"],
)
def test_others_run(words: tuple[str, ...], tmp_path: Path) -> None:
    """By times, or on hosts whose tasks really compute; no worker comes to a host of servers."""
    done = run_cli(*JOB, *words, f"hydra.run.dir={tmp_path}")
    assert done.exit_code == 0, done.err
