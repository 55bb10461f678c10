"""The record of every strategy is verified, with what rarely happens in it: losses, replicas, scores, newcomers, modes.

A record that its own checks cannot read is found by nobody until somebody has run that very job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from _pytest.mark import ParameterSet
from omegaconf import OmegaConf

from analysis.reports.report import finish_run
from stragglab.vouching.record import verify
from strategies.protocol import AnyCommand, AnyEvent
from tests.contract.catalogue import HURRIES, NAMES, USERS, fits, has_servers, hurried, spec
from tests.support.cli import run_cli
from tests.support.runs import ROOT, read_lines
from tests.support.virtual_runs import VirtualRun, World, draw_host_world, draw_world

WORLDS: dict[str, Callable[[int, int], World]] = {"crashes": draw_world, "hosts": draw_host_world}
"""Workers and servers are lost, come back, or do not; and machines that are shared and disturbed in every way."""
SEED = 1
COMMON = "runtime=virtual backend=none workload.target=null workload.epochs=2 view=none draw=false"
TRAINED = "runtime=virtual backend=numpy workload=ledger workload.epochs=1 view=none draw=false"
HURRIED_STAR = "strategy=star_h strategy.warmup_iters=0 strategy.redecide_iters=2 strategy.decision_s=0.5"
JOBS = {
    "replica": f"{TRAINED} strategy=mlfabric topology.num_servers=1 strategy.num_replicas=1 "
    "strategy.divergence_max=0.05",
    "aggregator": f"{COMMON} strategy=mlfabric strategy.lr_rule=unit strategy.num_aggregators=1 cluster=hosts",
    "reservation": f"{COMMON} {HURRIED_STAR} strategy.prevent=true cluster=star_servers straggler=on_off "
    "strategy.when_calm=ssgd strategy.max_pause_frac=1.0",
    "noise": f"{TRAINED} {HURRIED_STAR} strategy.phi=null",
    "rings": f"{COMMON} {HURRIED_STAR} topology=allreduce strategy.topology=allreduce",
    "telemetry": f"{COMMON} strategy=dlrover cluster=dlrover strategy.sample_s=1 runtime.telemetry_every_s=0.5",
    "own_steps": f"{COMMON} strategy=local_sgd topology=allreduce",
    "groups": f"{COMMON} strategy=prague topology=allreduce",
    "halves": f"{COMMON} strategy=sgp topology=allreduce",
    "fragments": f"{COMMON} strategy=diloco topology=allreduce strategy.period=2 strategy.fragments=2",
    "rows": f"{COMMON} strategy=asp record=iterations",
}
"""Modes that no world has."""
RARE = {
    "replica": {"Drop", "Evaluated", "Ready", "Replicate", "Replicated", "Send"},
    "own_steps": {"StepAlone"},
    "groups": {"Average"},
    "halves": {"PushHalf"},
    "fragments": {"SumFragment"},
    "reservation": {"Observed", "Reserve", "Reserved"},
    "noise": {"Measured"},
    "telemetry": {"Allocate", "Observed", "Scheduling"},
    "antdt_nd-crashes": {"Joined", "Lost", "Restart", "Restored", "ServerLost", "Updated"},
    "coding_cyclic-crashes": {"Partition"},
    "optimus-crashes": {"Checkpoint", "Launch", "Repartition", "Retire", "ServerJoined"},
    "or_autoscale-hosts": {"Denied"},
    "zeno_pp-hosts": {"Score", "Scored"},
}
"""Which events and commands have to be in which record; each is in one for every commit."""
COMMON_TYPES = {"Apply", "Arrived", "Compute", "Started", "Wake", "Woke"}
"""What most records have."""
UNSEEN = {
    "Failed": "a Compute fails where a backend raises, and none does on the virtual clock",
    "Stop": "answers a Compute that has failed for good",
    "Evaluate": "no strategy of ours commands it",
}
"""What is in none of these records, and why."""


def cases() -> Iterator[ParameterSet]:
    """For every commit those in whose record something rare is, and all of a user's project."""
    for name, world in product(NAMES, WORLDS):
        if fits(name, 4) and has_servers(name):
            marks = [] if USERS or f"{name}-{world}" in RARE else [pytest.mark.long]
            yield pytest.param(name, world, id=f"{name}-{world}", marks=marks)


def written(run: VirtualRun, named: dict[str, object], folder: Path) -> Path:
    """The whole record of a run, its settings included."""
    assert not run.refused
    run.write(folder)
    (folder / ".hydra").mkdir()
    (folder / ".hydra" / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create({"strategy": named})))
    return folder


def verified(folder: Path) -> list[str]:
    """What fails of a record and of what an analysis has made of it."""
    finish_run(folder, draw=False)
    return [f"{check.question}: {check.found}" for check in verify(folder) if check.verdict == "failed"]


def vocabulary(folder: Path) -> set[str]:
    """The types of events and commands in a record."""
    events = [line for line in read_lines(folder) if line["kind"] == "event"]
    return {one["type"] for line in events for one in (line["event"], *line["commands"])}


@pytest.mark.parametrize(("name", "world"), list(cases()))
def test_every_strategy_leaves_a_record_that_verifies(name: str, world: str, tmp_path: Path) -> None:
    run = VirtualRun(WORLDS[world](4, SEED), hurried(name))
    folder = written(run, spec(name, **HURRIES.get(name, {})), tmp_path / "run")
    assert verified(folder) == []
    assert RARE.get(f"{name}-{world}", set()) <= vocabulary(folder)


@pytest.mark.skipif(bool(USERS), reason="of our own strategies")
@pytest.mark.parametrize("mode", [pytest.param(mode, marks=[] if mode in RARE else pytest.mark.long) for mode in JOBS])
def test_so_does_every_mode(mode: str, tmp_path: Path) -> None:
    done = run_cli(*JOBS[mode].split(), f"hydra.run.dir={tmp_path / 'run'}", cwd=ROOT)
    assert done.exit_code == 0, done.err
    assert verified(tmp_path / "run") == []
    assert RARE.get(mode, set()) <= vocabulary(tmp_path / "run")


@pytest.mark.skipif(bool(USERS), reason="of our own strategies")
def test_every_event_and_command_is_in_one_of_them() -> None:
    made = {str(case.id) for case in cases() if not case.marks} | set(JOBS)
    assert set(RARE) <= made
    known = {kind.__name__ for union in (AnyEvent, AnyCommand) for kind in get_args(union)}
    assert known - COMMON_TYPES - set().union(*RARE.values()) == set(UNSEEN)
