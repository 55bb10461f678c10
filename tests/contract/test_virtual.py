"""What every strategy of ``conf/strategy`` owes on the virtual clock, and what the clock owes to it.

Worlds are drawn at random (:mod:`tests.virtual_runs`): costs that make queues, networks that are shared, plans that
disturb workers and servers, crashes, departures, returns, and servers that are lost one after another.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from analysis.integrity import integrity
from analysis.load import load_run
from injectors.sleep import SleepActuator
from runtime.virtual.clock import Clock
from runtime.virtual.costs import Costs
from runtime.virtual.workers import Iteration
from strategies.protocol import Strategy
from tests.cli import run_cli
from tests.contract.catalogue import NAMES, NUM_WORKERS, fits, make
from tests.contract.test_checkers import AppliesTwice, ForgetsLostInItsMin, LosesASample, Sound, ThrowsDice
from tests.invariants import problems, replay, strategy_of
from tests.laws import Complaints
from tests.runs import ROOT, read_lines
from tests.virtual_runs import EPOCHS, Line, VirtualRun, World, draw_world, still_world

Make = Callable[[], Strategy]


class Case(msgspec.Struct, frozen=True):
    """One strategy among so many workers."""

    name: str
    num_workers: int

    def __str__(self) -> str:
        return f"{self.name}-{self.num_workers}"

    @property
    def seeds(self) -> range:
        return range(2 if self.num_workers > 4 else 5)

    def make(self) -> Strategy:
        return make(self.name)


CASES = [Case(name, num_workers) for name in NAMES for num_workers in NUM_WORKERS if fits(name, num_workers)]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_name = pytest.mark.parametrize("name", NAMES)


@cache
def world_of(num_workers: int, seed: int) -> World:
    return draw_world(num_workers, seed)


@cache
def run_of(case: Case, seed: int) -> VirtualRun:
    """A finished run that trains the ledger of uses."""
    return VirtualRun(world_of(case.num_workers, seed), case.make())


def runs(case: Case) -> Iterator[VirtualRun]:
    for seed in case.seeds:
        yield run_of(case, seed)


# ---- checkers: complaints, none when all is well --------------------------------------------------------------------


def unlawful(run: VirtualRun) -> Complaints:
    """Refused by the ledger, or wrong in the record: lives of Computes and gradients, versions, time."""
    return problems(run.lines) + ([run.refused] if run.refused else [])


def dead(run: VirtualRun) -> Complaints:
    """It must come to the end of its epochs."""
    end = run.end.get("note", {})
    done = end.get("status") == "done" and end["epochs_done"] == EPOCHS and end["shards_done"] == end["shards_total"]
    return [] if done else [f"{run.end}"[:300]]


def unconserved(run: VirtualRun) -> Complaints:
    """Every sample must be in the final parameters once per epoch."""
    wrong = {sample: times for sample, times in enumerate(run.uses()) if times != EPOCHS}
    return [f"{len(wrong)} samples were not used {EPOCHS} times: {dict(list(wrong.items())[:5])}"] if wrong else []


def different(run: VirtualRun, again: VirtualRun) -> Complaints:
    """The same bytes."""
    pairs = zip(run.data.splitlines(), again.data.splitlines(), strict=False)
    parted = next((f"{one!r} is not {other!r}" for one, other in pairs if one != other), "one of them is shorter")
    return [] if run.data == again.data else [parted]


def otherwise_disturbed(run: VirtualRun) -> Complaints:
    """The open windows must be those of the plan, to the second, whatever the strategy does."""
    noted = [(line["t"], tuple(line["note"]["active"])) for line in run.notes("Injecting")]
    actuator, t, planned = SleepActuator(run.world.plan), 0.0, []
    while t < run.end["t"]:
        planned.append((t, actuator.active(t)))
        t = actuator.next_change(t)
    return [] if noted[: len(planned)] == planned else [f"{noted[: len(planned)]} is not {planned}"]


def too_early(lines: list[Line], costs: Costs) -> Complaints:
    """Nobody may be back before that is possible, or uncalled, or with other parameters than were stored last.

    What a server had not stored to the end when it was lost is not stored.
    """
    wrong, soonest_s = [], costs.restart_s + costs.control_s - 1e-9  # of rounding
    away: dict[int, float] = {}
    lost_s, stored, whole = 0.0, 0, True
    for line in lines:
        match line.get("event") or line["note"]:
            case {"type": "Exited", "role": "server"}:
                lost_s, whole = line["t"], False
            case {"type": "Exited", "id": worker}:
                away[worker] = line["t"]
            case {"type": "Checkpointed", "version": version}:
                stored = version
                wrong += [] if whole else [f"{line}: without all servers"]
            case {"type": "Restored", "version": version}:
                since_s = max([lost_s, *(away[worker] for worker in line["event"]["workers"] if worker in away)])
                wrong += [f"{line}: not {soonest_s} s after {since_s}"] if line["t"] < since_s + soonest_s else []
                wrong += [f"{line}: not version {stored}"] if version != stored else []
                away, whole = {}, True
            case {"type": "Joined", "worker": worker}:
                due_s = away.pop(worker, math.inf) + soonest_s
                wrong += [f"{line}: not before {due_s}"] if line["t"] < due_s else []
    return wrong


def unfair(run: VirtualRun) -> Complaints:
    """In a still world whoever began first arrives first, when both arrive at the same time (ids count beginnings)."""
    arrived = [(line["t"], line["event"]["grad"]["id"]) for line in run.events("Arrived")]
    return [f"t={t}: {first} before {then}" for (t, first), (at, then) in pairwise(arrived) if t == at and first > then]


# ---- in every world -------------------------------------------------------------------------------------------------


@every_case
def test_it_is_lawful_and_time_never_goes_back(case: Case) -> None:
    for run in runs(case):
        assert unlawful(run) == []


@every_case
def test_who_returns_has_been_away_for_long_enough(case: Case) -> None:
    for run in runs(case):
        assert too_early(run.lines, run.world.costs) == []


@every_case
def test_it_reaches_the_end(case: Case) -> None:
    for run in runs(case):
        assert dead(run) == []


@every_case
def test_it_uses_every_sample_once_an_epoch(case: Case) -> None:
    for run in runs(case):
        assert unconserved(run) == []


@every_case
def test_it_does_the_same_again_to_the_byte(case: Case) -> None:
    for run in runs(case):
        assert different(run, VirtualRun(run.world, case.make())) == []


@every_case
def test_a_fresh_strategy_decides_the_same(case: Case) -> None:
    for run in runs(case):
        assert replay(run.lines, case.make()) == []


@every_case
def test_it_faces_the_plan_that_all_face(case: Case) -> None:
    for run in runs(case):
        assert otherwise_disturbed(run) == []


@every_case
def test_without_gradients_the_same_happens_at_the_same_time(case: Case) -> None:
    """Scores apart: nothing is decided by them here, and only the ledger has any."""

    def told(run: VirtualRun) -> list[Any]:
        lines = [line for line in run.lines if line.get("event", {}).get("type") not in (None, "Evaluated")]
        return [(line["t"], line["event"]["type"], line["commands"]) for line in lines]

    for run in runs(case):
        timed = VirtualRun(run.world, case.make(), learning="none")
        assert unlawful(timed) + dead(timed) == []
        assert timed.end["note"]["samples_applied"] == EPOCHS * run.world.job.num_samples
        assert told(timed) == told(run)


@every_case
def test_among_equals_the_first_to_begin_is_the_first_to_arrive(case: Case) -> None:
    run = VirtualRun(still_world(case.num_workers, 0), case.make())
    assert unlawful(run) + dead(run) + unfair(run) == []


def test_the_worlds_have_in_them_what_they_are_for() -> None:
    seen = [run for case in CASES for run in runs(case)]
    costs, worlds = [run.world.costs for run in seen], [run.world for run in seen]
    for name in ("control_s", "decision_s", "update_base_s", "jitter_sigma", "jitter_rho", "link_bytes_per_s"):
        assert {bool(getattr(cost, name)) for cost in costs} == {True, False}, name
    assert {world.transport for world in worlds} == {"tcp", "shm"}
    assert {run.session.workers.network is None for run in seen} == {True, False}
    assert {world.profile is None for world in worlds} == {True, False}
    assert any(run.events("Joined") for run in seen)
    assert {line["event"]["restarting"] for run in seen for line in run.events("Lost")} == {True, False}
    halts = [[line["event"]["type"] for line in run.events("ServerLost", "Restored")] for run in seen]
    assert any(told[:2] == ["ServerLost", "ServerLost"] for told in halts), "a server is lost while another is away"
    assert any(told.count("Restored") > 1 for told in halts)
    assert any(line["event"]["version"] > 0 for run in seen for line in run.events("Restored"))
    struck = {one.at_s for world in worlds for one in world.accidents}
    assert any(line["t"] not in struck for run in seen for line in run.notes("Exited")), "it strikes during a decision"


# ---- the record is like that of a live run --------------------------------------------------------------------------


@every_case
def test_the_analysis_reads_the_record_and_has_no_complaint(case: Case, tmp_path: Path) -> None:
    for run in runs(case):
        loaded = load_run(run.write(tmp_path / f"run{run.world.job.seed}"))
        assert (loaded.status, loaded.torn) == ("done", False)
        assert integrity(loaded).problems == ()


def test_every_note_is_described_with_its_fields() -> None:
    text = (ROOT / "docs" / "record.md").read_text().replace("\n", " ")
    plain = re.sub(r"\[.*?\]|\{\.\.\.\}", "", text)
    described = {kind: set(re.findall(r"\w+", fields)) for kind, fields in re.findall(r"`(\w+) \{([^}]*)\}", plain)}
    for case in CASES:
        for line in run_of(case, 0).lines:
            if line["kind"] == "note":
                assert described[line["note"]["type"]] <= set(line["note"]), line


@pytest.fixture(scope="module")
def plans() -> dict[str, bytes]:
    """Of each run of ``run.py``."""
    return {}


@every_name
def test_run_py_writes_the_same_record_again(name: str, tmp_path: Path, plans: dict[str, bytes]) -> None:
    records = []
    for run_dir in (tmp_path / "one", tmp_path / "other"):
        words = ("cluster=virtual", "backend=none", "workload.target=null", "draw=false", "view=none")
        done = run_cli(f"strategy={name}", *words, f"hydra.run.dir={run_dir}")
        assert done.exit_code == 0, done.err
        records.append((run_dir / "events.jsonl").read_bytes())
        plans[str(run_dir)] = (run_dir / "plan.json").read_bytes()
    assert records[0] == records[1]
    lines = read_lines(tmp_path / "one")
    assert problems(lines) == []
    assert replay(lines, strategy_of(tmp_path / "one")) == []
    assert integrity(load_run(tmp_path / "one")).problems == ()
    assert lines[-1]["note"]["reason"] == "16 epochs done"
    assert len(set(plans.values())) == 1, "every strategy faces the same plan"


# ---- negative controls ----------------------------------------------------------------------------------------------


class ClockByWorker(Clock):
    """Ties go to the lowest worker."""

    def at(self, when_s: float, priority: int, action: Callable[..., None], *args: Any) -> None:
        worker = next((arg.order.worker for arg in args if isinstance(arg, Iteration)), 0)
        self._sequence += 1
        heapq.heappush(self._heap, (max(when_s, self.now), priority, (worker << 40) + self._sequence, action, args))


class ClockOutOfOrder(Clock):
    """Now and then the second comes before the first."""

    def step(self) -> None:
        first = heapq.heappop(self._heap) if self._sequence % 5 == 0 and len(self._heap) > 1 else None
        super().step()
        if first is not None:
            heapq.heappush(self._heap, first)


def found(cls: Make, *, still: bool = False) -> set[str]:
    """The checkers that complain about a strategy."""
    complaining = set()
    for seed in range(4):
        world = still_world(4, seed) if still else world_of(4, seed)
        run, again = VirtualRun(world, cls()), VirtualRun(world, cls())
        results = {
            "lawful": unlawful(run),
            "alive": dead(run),
            "conserving": unconserved(run),
            "deterministic": different(run, again),
            "replayable": replay(run.lines, cls()),
            "disturbed": otherwise_disturbed(run),
            "fair": unfair(run) if still else [],
        }
        complaining |= {name for name, complaints in results.items() if complaints}
    return complaining


@pytest.mark.parametrize("still", [True, False])
def test_nothing_is_found_where_nothing_is_wrong(still: bool) -> None:
    assert found(Sound, still=still) == set()


@pytest.mark.parametrize(
    ("cls", "checkers"),
    [
        (ThrowsDice, {"deterministic", "replayable"}),
        (AppliesTwice, {"lawful", "alive"}),
        (LosesASample, {"conserving"}),
        (ForgetsLostInItsMin, {"alive"}),
    ],
)
def test_a_planted_fault_is_found(cls: Make, checkers: set[str]) -> None:
    assert found(cls) >= checkers


@pytest.mark.parametrize(
    ("cls", "draw", "check"), [(ClockByWorker, still_world, unfair), (ClockOutOfOrder, draw_world, unlawful)]
)
def test_a_wrong_clock_is_found(
    cls: type[Clock],
    draw: Callable[[int, int], World],
    check: Callable[[VirtualRun], Complaints],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert [check(VirtualRun(draw(4, seed), Sound())) for seed in range(4)] == [[]] * 4
    monkeypatch.setattr("runtime.virtual.session.Clock", cls)
    assert any(check(VirtualRun(draw(4, seed), Sound())) for seed in range(4))


@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        ("Restored", lambda lines, at: lines[at]["event"].update(version=lines[at]["version"] + 1)),
        ("Restored", lambda lines, at: lines[at].update(t=lines[at]["t"] - 6.0)),
        ("Joined", lambda lines, at: lines[at].update(t=lines[at]["t"] - 0.001)),
        ("Joined", lambda lines, at: lines.insert(at, lines[at])),
        ("Restored", lambda lines, at: lines.insert(at, next(line for line in lines if "Checkpointed" in str(line)))),
    ],
)
def test_an_impossible_return_is_found(kind: str, spoil: Callable[[list[Line], int], None]) -> None:
    """Without delays of decisions, whoever is away is back at the first possible moment."""
    drawn = (VirtualRun(draw_world(2, seed), Sound()) for seed in range(99))
    run = next(run for run in drawn if run.events(kind) and run.world.costs.decision_s == 0)
    lines = run.lines
    spoil(lines, next(at for at, line in enumerate(lines) if line.get("event", {}).get("type") == kind))
    assert too_early(lines, run.world.costs)


def test_another_plan_is_found() -> None:
    world = world_of(4, 0)
    assert otherwise_disturbed(VirtualRun(world, Sound(), plan=world_of(4, 1).plan))
