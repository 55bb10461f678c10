"""Vectors into the servers' host by the counter of its link, of jobs of which the number is known."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest

from analysis.experiments.measures import link_vectors_per_batch
from analysis.records.load import load_run
from tests.support.cli import run_cli

PLACES = "cluster.hosts.placement=[[server:0],[worker:0],[worker:1],[worker:2],[worker:3]]"
JOB = ("runtime=virtual", "cluster=hosts", "cluster.hosts.count=5", PLACES, "topology.num_servers=1", "straggler=none")
LENGTH = ("backend=none", "backend.num_parameters=10000", "workload.target=null", "workload.epochs=2")
LENGTH += ("eval_every_s=null", "draw=false", "view=none")


def measured(tmp_path: Path, *words: str) -> float:
    run_dir = tmp_path / str(len(words))
    done = run_cli(*JOB, *LENGTH, "cluster.device={base_s: 0.1}", *words, f"hydra.run.dir={run_dir}")
    assert done.exit_code == 0, done.err
    return link_vectors_per_batch(load_run(run_dir))


@pytest.mark.long(like="test_without_samples_it_is_unknown")
def test_a_tree_of_two_inner_nodes_halves_it(tmp_path: Path) -> None:
    """Four workers: a sum of three and a gradient, after a first round of four."""
    every = "runtime.telemetry_every_s=0.5"
    direct = measured(tmp_path, every)
    assert direct == pytest.approx(1.0, abs=0.1)
    summed = measured(tmp_path, every, "strategy=bsp", "strategy.tree_fanout=2", "strategy.tree_wait_s=1")
    assert summed == pytest.approx(0.5, abs=0.1)


def test_without_samples_it_is_unknown(tmp_path: Path) -> None:
    assert isnan(measured(tmp_path, "runtime.telemetry_every_s=null"))
