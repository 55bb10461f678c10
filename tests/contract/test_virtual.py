"""What every strategy of ``conf/strategy`` owes on the virtual clock, and what the clock owes to it.

Worlds are drawn at random (:mod:`tests.support.virtual_runs`): costs that make queues, networks that are shared, plans
that disturb workers and servers, crashes, departures, returns, and servers that are lost one after another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from analysis.records.integrity import integrity
from analysis.records.load import load_run
from injectors.schedule import Schedule
from runtime.core.recovery.automaton import RESTARTED
from runtime.virtual.tasks.workers import Workers
from stragglab.vouching.replaying import build_strategy
from strategies.protocol import NodeId, Strategy
from tests.contract.catalogue import (
    NAMES,
    NUM_WORKERS,
    USERS,
    fits,
    has_servers,
    hurried,
    is_variant,
    marked,
    sample,
)
from tests.support.cli import run_cli
from tests.support.invariants import problems, replay
from tests.support.laws import Complaints
from tests.support.runs import ROOT, read_lines
from tests.support.virtual_runs import (
    EPOCHS,
    Line,
    VirtualRun,
    World,
    draw_host_world,
    draw_world,
    still_world,
)


class Case(msgspec.Struct, frozen=True):
    """One strategy among so many workers."""

    name: str
    num_workers: int
    seeds: tuple[int, ...]
    host_seeds: tuple[int, ...]
    long: bool = False
    """More of the same: not for every commit."""

    def __str__(self) -> str:
        return f"{self.name}-{self.num_workers}{'-more' if self.long else ''}"

    def make(self) -> Strategy:
        return hurried(self.name)


RECORDED = NAMES if USERS else ["sync_switch_restart", "zeno_pp"]
"""Whose records ``run.py`` writes twice for every commit."""


def cases_of(name: str, num_workers: int) -> list[Case]:
    """For every commit each strategy is played by 4 workers once, on hosts or without; the rest is long."""
    seeds = (0, 1) if num_workers > 4 else tuple(range(5))
    if num_workers != 4:
        return [Case(name, num_workers, seeds, seeds, long=True)]
    first = ((0,), ()) if NAMES.index(name) % 2 else ((), (1,))
    more = [tuple(seed for seed in seeds if seed not in own) for own in first]
    return [Case(name, num_workers, *first), Case(name, num_workers, more[0], more[1], long=True)]


CASES = [
    case
    for name in NAMES
    for num_workers in ((4,) if is_variant(name) else NUM_WORKERS)
    if fits(name, num_workers) and has_servers(name)
    for case in cases_of(name, num_workers)
]
WITNESSES = [case for case in CASES if case.name in ("asp", "backup_workers", "bsp") and case.num_workers <= 4]
"""Of what is in the worlds, which are the same for every strategy."""
every_case = pytest.mark.parametrize("case", marked(CASES), scope="module")


@cache
def world_of(num_workers: int, seed: int) -> World:
    return draw_world(num_workers, seed)


@cache
def host_world_of(num_workers: int, seed: int) -> World:
    return draw_host_world(num_workers, seed)


@cache
def run_of(case: Case, seed: int) -> VirtualRun:
    """A finished run that trains the ledger of uses."""
    return VirtualRun(world_of(case.num_workers, seed), case.make())


@cache
def host_run_of(case: Case, seed: int) -> VirtualRun:
    """Likewise, where machines are shared and disturbed by all kinds of windows."""
    return VirtualRun(host_world_of(case.num_workers, seed), case.make())


def runs(case: Case) -> Iterator[VirtualRun]:
    yield from (run_of(case, seed) for seed in case.seeds)
    yield from (host_run_of(case, seed) for seed in case.host_seeds)


def unlawful(run: VirtualRun) -> Complaints:
    """Refused by the ledger, or wrong in the record: lives of Computes and gradients, versions, time."""
    return problems(run.lines) + ([run.refused] if run.refused else [])


def dead(run: VirtualRun) -> Complaints:
    """It must come to the end of its epochs."""
    end = run.end.get("note", {})
    done = end.get("status") == "done" and end["epochs_done"] == EPOCHS and end["shards_done"] == end["shards_total"]
    return [] if done else [f"{run.end}"[:300]]


def unconserved(run: VirtualRun) -> Complaints:
    """Every sample must be in the final parameters once per epoch: to rounding where weighted sums are decoded."""
    decoded = any(line["kind"] == "note" and line["note"]["type"] == "Partitioned" for line in run.lines)
    allowed = 1e-5 * EPOCHS if decoded else 0.0
    wrong = {sample: times for sample, times in enumerate(run.uses()) if abs(times - EPOCHS) > allowed}
    shown = dict(list(wrong.items())[:5])
    complaints = [f"{len(wrong)} samples were not used {EPOCHS} times: {shown}"] if wrong else []
    return complaints + [f"sample {sample} is held out and was trained on" for sample in run.misused()]


def different(run: VirtualRun, again: VirtualRun) -> Complaints:
    pairs = zip(run.data.splitlines(), again.data.splitlines(), strict=False)
    parted = next((f"{one!r} is not {other!r}" for one, other in pairs if one != other), "one of them is shorter")
    return [] if run.data == again.data else [parted]


def otherwise_disturbed(run: VirtualRun) -> Complaints:
    """The open windows must be those of the plan, to the second, whatever the strategy does but restart elsewhere."""
    noted = [(line["t"], tuple(line["note"]["active"])) for line in run.notes("Injecting")]
    exits = [(line["t"], line["note"]) for line in run.notes("Exited") if line["note"]["reason"] == RESTARTED]
    actuator, t, planned = Schedule(run.world.plan), 0.0, []
    while t < run.end["t"]:
        while exits and exits[0][0] <= t:
            at_s, note = exits.pop(0)
            actuator.moved(f"{note['role']}:{note['id']}", at_s)
        planned.append((t, actuator.active(t)))
        t = actuator.next_change(t)
    return [] if noted[: len(planned)] == planned else [f"{noted[: len(planned)]} is not {planned}"]


def too_early(lines: list[Line], world: World) -> Complaints:
    """Nobody may be back before that is possible, or uncalled, or with other parameters than were stored last.

    What a server had not stored to the end when it was lost is not stored.
    """
    wrong: Complaints = []
    away: dict[int, float] = {}
    due_s, stored, whole = 0.0, 0, True
    for line in lines:
        match line.get("event") or line["note"]:
            case {"type": "Exited", "role": "server"}:
                due_s, whole = max(due_s, soonest_s(line, world)), False
            case {"type": "Exited", "id": worker}:
                away[worker] = soonest_s(line, world)
            case {"type": "Requested", "node": name, "pending_s": pending_s} if name.startswith("worker:"):
                away[NodeId.parse(name).number] = line["t"] + pending_s + world.costs.launch_s - 1e-9
            case {"type": "Checkpointed", "version": version}:
                stored = version
                wrong += [] if whole else [f"{line}: without all servers"]
            case {"type": "Restored", "version": version}:
                due_s = max([due_s, *(away[worker] for worker in line["event"]["workers"] if worker in away)])
                wrong += [f"{line}: not before {due_s}"] if line["t"] < due_s else []
                wrong += [f"{line}: not version {stored}"] if version != stored else []
                away, whole, due_s = {}, True, 0.0
            case {"type": "Joined", "worker": worker}:
                due = away.pop(worker, math.inf)
                wrong += [f"{line}: not before {due}"] if line["t"] < due else []
    return wrong


def soonest_s(line: Line, world: World) -> float:
    """When who has exited may be back; a plan says itself how long who is killed by it waits, the scheduler is idle."""
    costs, note = world.costs, line["note"]
    until_s = world.dead_until(f"{note['role']}:{note['id']}", line["t"])
    by_plan = line["t"] < until_s or note["reason"] in ("killed by the plan", RESTARTED)
    since_s = max(line["t"], until_s) + costs.launch_s if by_plan else line["t"] + costs.restart_s
    return since_s + costs.control_s - 1e-9  # of rounding


def unfair(run: VirtualRun) -> Complaints:
    """In a still world whoever began first arrives first, when both arrive at the same time (ids count beginnings)."""
    arrived = [(line["t"], line["event"]["grad"]["id"]) for line in run.events("Arrived")]
    return [f"t={t}: {first} before {then}" for (t, first), (at, then) in pairwise(arrived) if t == at and first > then]


@every_case
def test_it_is_lawful_and_reaches_the_end_and_uses_every_sample_once_an_epoch(case: Case) -> None:
    for run in runs(case):
        assert unlawful(run) + dead(run) + unconserved(run) == []


@every_case
def test_it_faces_the_plan_that_all_face_and_who_returns_has_been_away_for_long_enough(case: Case) -> None:
    for run in runs(case):
        assert otherwise_disturbed(run) + too_early(run.lines, run.world) == []


@pytest.mark.few(6)
@every_case
def test_it_does_the_same_again_to_the_byte(case: Case) -> None:
    for run in runs(case):
        assert different(run, VirtualRun(run.world, case.make())) == []


@pytest.mark.few(6)
@every_case
def test_a_fresh_strategy_decides_the_same(case: Case) -> None:
    for run in runs(case):
        assert replay(run.lines, case.make()) == []


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "case", marked(case for case in CASES if not sample(case.name).validation_samples), scope="module"
)
def test_without_gradients_the_same_happens_at_the_same_time(case: Case) -> None:
    """Scores apart: nothing is decided by them here, and only the ledger has any."""

    def received(run: VirtualRun) -> list[Any]:
        lines = [line for line in run.lines if line.get("event", {}).get("type") not in (None, "Evaluated")]
        return [(line["t"], line["event"]["type"], line["commands"]) for line in lines]

    for run in runs(case):
        timed = VirtualRun(run.world, case.make(), learning="none")
        assert unlawful(timed) + dead(timed) == []
        assert timed.end["note"]["samples_applied"] == EPOCHS * run.world.job.num_samples
        assert received(timed) == received(run)


@pytest.mark.few(4)
@pytest.mark.parametrize("case", marked(CASES, lambda case: case.num_workers == 4), scope="module")
def test_among_equals_the_first_to_begin_is_the_first_to_arrive(case: Case) -> None:
    run = VirtualRun(still_world(case.num_workers, 0), case.make())
    assert unlawful(run) + dead(run) + unfair(run) == []


@pytest.mark.long(like="test_it_is_lawful_and_reaches_the_end_and_uses_every_sample_once_an_epoch")
def test_the_worlds_have_in_them_what_they_are_for() -> None:
    seen = [run_of(case, seed) for case in WITNESSES for seed in case.seeds]
    costs, worlds = [run.world.costs for run in seen], [run.world for run in seen]
    for name in ("control_s", "decision_s", "update_base_s", "jitter_sigma", "jitter_rho", "link_bytes_per_s"):
        assert {bool(getattr(cost, name)) for cost in costs} == {True, False}, name
    assert {world.transport for world in worlds} == {"tcp", "shm"}
    plain = [run.session.workers for run in seen]
    assert {workers.network is None for workers in plain if isinstance(workers, Workers)} == {True, False}
    assert {world.profile is None for world in worlds} == {True, False}
    assert any(run.events("Joined") for run in seen)
    assert {line["event"]["restarting"] for run in seen for line in run.events("Lost")} == {True, False}
    halts = [[line["event"]["type"] for line in run.events("ServerLost", "Restored")] for run in seen]
    assert any(received[:2] == ["ServerLost", "ServerLost"] for received in halts), (
        "a server is lost while another is away"
    )
    assert any(received.count("Restored") > 1 for received in halts)
    assert any(line["event"]["version"] > 0 for run in seen for line in run.events("Restored"))
    struck = {one.at_s for world in worlds for one in world.accidents}
    assert any(line["t"] not in struck for run in seen for line in run.notes("Exited")), "it strikes during a decision"


@pytest.mark.few(5)
@every_case
def test_the_analysis_reads_the_record_and_has_no_complaint(case: Case, tmp_path: Path) -> None:
    for run in runs(case):
        loaded = load_run(run.write(tmp_path / f"run{len(list(tmp_path.iterdir()))}"))
        assert (loaded.status, loaded.torn) == ("done", False)
        assert integrity(loaded).problems == ()


def test_every_note_is_described_with_its_fields() -> None:
    text = (ROOT / "docs" / "record.md").read_text().replace("\n", " ")
    plain = re.sub(r"\[.*?\]|\{\.\.\.\}", "", text)
    described = {kind: set(re.findall(r"\w+", fields)) for kind, fields in re.findall(r"`(\w+) \{([^}]*)\}", plain)}
    for line in (line for case in CASES if not case.long for run in runs(case) for line in run.lines):
        if line["kind"] == "note":
            assert described[line["note"]["type"]] <= set(line["note"]), line


@pytest.fixture(scope="module")
def plans() -> dict[str, bytes]:
    """Of each run of ``run.py``."""
    return {}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name not in RECORDED else []) for name in NAMES]
)
def test_run_py_writes_the_same_record_again(name: str, tmp_path: Path, plans: dict[str, bytes]) -> None:
    records = []
    for run_dir in (tmp_path / "one", tmp_path / "other"):
        words = ["runtime=virtual", "draw=false", "view=none"]
        trains = bool(sample(name).validation_samples)
        words += ["workload.epochs=1"] if trains else ["backend=none", "workload.target=null"]
        words += [] if has_servers(name) else ["topology=allreduce"]
        done = run_cli(f"strategy={name}", *words, f"hydra.run.dir={run_dir}", cwd=tmp_path if USERS else ROOT)
        assert done.exit_code == 0, done.err
        records.append((run_dir / "events.jsonl").read_bytes())
        plans[str(run_dir)] = (run_dir / "plan.json").read_bytes()
    assert records[0] == records[1]
    lines = read_lines(tmp_path / "one")
    assert problems(lines) == []
    assert replay(lines, build_strategy(tmp_path / "one")) == []
    assert integrity(load_run(tmp_path / "one")).problems == ()
    assert lines[-1]["note"]["reason"] == ("1 epochs done" if trains else "16 epochs done")
    assert len(set(plans.values())) == 1, "every strategy faces the same plan"
