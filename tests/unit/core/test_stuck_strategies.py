"""A strategy that waits for nothing and orders nothing: named as stuck, and nobody else is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from analysis.records.load import load_run
from injectors.plan import Disturbance, Plan
from injectors.schedule import Schedule
from runtime.core import inputs
from runtime.core.scheduling import ConstantPending
from runtime.core.stuck import Vigil
from runtime.record.recorder import Recorder
from runtime.record.replay import RecordedEvent, replay
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import load_costs
from strategies.protocol import Compute, Evaluate, Joined, Lost, ProtocolError, Restart, Started, Strategy, Wake
from tests.support.cli import run_cli
from tests.support.harness import Puppet, Rig, compute, make_job, puppet_rig
from tests.support.labs import run_alone
from tests.support.runs import read_lines

STARTED = Started(t=0.0, workers=(0,), batch_samples=(1,), num_servers=1)


def to_all(event: Any) -> Sequence[Any]:
    """One gradient of each worker, and nothing ever after."""
    return compute(*event.workers) if isinstance(event, Started) else ()


@pytest.fixture
def rig() -> Rig:
    """Two workers without any order."""
    return puppet_rig(num_workers=2, num_samples=100, eval_every_s=None)


def settle(rig: Rig) -> None:
    """The first evaluation, with which every job begins, is notified."""
    rig.core.receive(rig.at(None), inputs.Evaluated(rig.core.version, 0.0, {"accuracy": 0.5}))


def test_the_score_of_new_parameters_is_to_come_and_that_of_known_ones_is_not(rig: Rig) -> None:
    assert rig.core.watch.awaits()
    settle(rig)
    assert not rig.core.watch.awaits()
    rig.say(Evaluate())
    assert not rig.core.watch.awaits()


def test_who_restarts_or_waits_for_a_place_is_to_come(rig: Rig) -> None:
    settle(rig)
    rig.lose(0)
    assert rig.core.watch.awaits()
    rig.join(0)
    assert not rig.core.watch.awaits()
    rig.say(Restart(node="worker:1"))
    assert rig.core.watch.awaits()
    rig.join(1)
    assert not rig.core.watch.awaits()
    rig.lose(1, restarting=False)
    assert not rig.core.watch.awaits()


def test_idleness_is_borne_for_a_while(rig: Rig) -> None:
    settle(rig)
    vigil = Vigil(rig.core.watch, 10.0)
    for t in (5.0, 14.9):
        vigil.look(t)
    assert rig.core.status is None
    vigil.look(15.0)
    assert rig.core.status == "stuck"
    ((_, kind, about),) = [note for note in rig.notes if note[1] == "Stuck"]
    assert (kind, about["strategy"], about["workers"]) == ("Stuck", "Puppet", {"0": [], "1": []})


@pytest.mark.parametrize(
    ("after_s", "computes", "status"), [(30.0, False, "stuck"), (None, False, "done"), (30.0, True, "done")]
)
def test_time_that_runs_out_while_nothing_is_to_come_is_no_success(
    after_s: float | None, computes: bool, status: str
) -> None:
    rig = Rig(Puppet(), make_job(stuck_after_s=after_s)).start()
    settle(rig)
    rig.say(*compute(0)) if computes else None
    rig.core.receive(40.0, inputs.TimerFired("runtime:limit"))
    assert (rig.core.status, rig.core.finished_s) == (status, 40.0)
    assert rig.core.reason == "max_time_s=40 reached" or status == "stuck"


def virtual(
    tmp_path: Path, reply: Callable[[Any], Sequence[Any]], plan: Sequence[Disturbance] = (), **changes: Any
) -> VirtualSession:
    from runtime.cluster.device import DeviceProfile
    from runtime.virtual.tasks.model_state import NoModelState
    from tests.support.harness import make_run_spec

    class Told(Puppet):
        needs = frozenset({Compute, Restart})

    job = make_job(**{"max_time_s": 900.0, "stuck_after_s": 30.0, "num_workers": 2, **changes})
    spec = make_run_spec(
        job, Told(reply=reply), Recorder(tmp_path), tmp_path, scheduler=ConstantPending(pending_s=50.0)
    )
    schedule = Schedule(Plan(pattern="test", seed=0, horizon_s=900.0, disturbances=tuple(plan)))
    device = DeviceProfile(base_s=1.0, per_sample_s=0.0)
    return VirtualSession(spec, schedule, NoModelState(100, None), load_costs("ideal").values, device)


def later(event: Any) -> Sequence[Any]:
    return [Wake(at_s=500.0, tag="on")] if isinstance(event, Started) else ()


def restarts(event: Any) -> Sequence[Any]:
    """It returns after 50 s, and computes one more gradient."""
    if isinstance(event, Started):
        return [Restart(node="worker:0")]
    return compute(0) if isinstance(event, Joined) else ()


def after_a_loss(event: Any) -> Sequence[Any]:
    return compute(1) if isinstance(event, Lost) else ()


@pytest.mark.parametrize(
    ("reply", "kill_s", "changes", "status", "end_s"),
    [
        (lambda event: (), None, {}, "stuck", 0.0),
        (later, None, {}, "stuck", 500.0),
        (restarts, None, {}, "stuck", 51.0),
        (after_a_loss, (300.0, 310.0), {}, "stuck", 310.0),
        (to_all, (300.0, 310.0), {}, "stuck", 310.0),
        (to_all, (300.0, 1000.0), {}, "failed", 900.0),  # who waits to the end for somebody lost has failed
        (to_all, None, {"stuck_after_s": None}, "done", 900.0),
    ],
    ids=["no answer", "a timer", "a place", "a kill", "a return", "no return", "switched off"],
)
def test_a_job_is_stuck_when_nothing_is_to_come_any_more(
    reply: Any, kill_s: tuple[float, float] | None, changes: Any, status: str, end_s: float, tmp_path: Path
) -> None:
    plan = []
    if kill_s is not None:
        about = {"start_s": kill_s[0], "end_s": kill_s[1], "target": "worker:0", "magnitude": 1.0}
        plan.append(Disturbance(kind="kill", **about))  # type: ignore[arg-type]
    outcome = run_alone(virtual(tmp_path, reply, plan, **changes))
    assert (outcome.status, outcome.t) == (status, end_s)


def test_run_py_says_it_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRAGGLAB_ALLOW_TARGETS", "tests")
    words = ("workload=ledger", "backend=numpy", "runtime=virtual", "draw=false", "view=none", "straggler=none")
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy" / "mute.yaml").write_text(
        "_target_: tests.unit.core.test_stuck_strategies.Mute\nanswer: []\n"
    )
    ended = run_cli("--config-dir", str(tmp_path), "strategy=mute", *words, f"hydra.run.dir={tmp_path / 'run'}")
    line, _ = ended.err.strip().splitlines()
    assert (ended.exit_code, "Mute is stuck at 0.0 s" in line) == (1, True), ended.err
    assert load_run(tmp_path / "run").status == "stuck"


@dataclass
class Mute(Strategy):
    """Answers with whatever it was given."""

    answer: Any = None

    def handle(self, event: Any) -> Any:
        return self.answer


NOT_ANSWERS = [
    (None, "with None"),
    ("Compute", "with 'Compute' (a str)"),
    (Compute(worker=0, num_samples=1), "(a Compute)"),
    ([Compute(worker=0, num_samples=1), "Compute"], "with 'Compute' (a str) among its commands"),
]


@pytest.mark.parametrize(("answer", "words"), NOT_ANSWERS)
def test_what_is_no_answer_is_named_with_class_and_event(answer: Any, words: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        Rig(Mute(answer)).start()
    assert str(caught.value).startswith("Mute.handle answered Started(t=0.0, ")
    assert words in str(caught.value)
    assert str(caught.value).endswith("it must return a list of commands, [] for none")
    assert "\n" not in str(caught.value)


def test_the_event_is_in_the_record_and_replay_says_the_same(tmp_path: Path) -> None:
    answer, words = NOT_ANSWERS[-1]
    session = virtual(tmp_path, lambda event: ())
    session.coordinator.dialogue.strategy = Mute(answer)
    outcome = run_alone(session)
    assert (outcome.status, words in outcome.reason) == ("failed", True)
    (event,) = [line for line in read_lines(tmp_path) if line["kind"] == "event"][:1]
    assert (event["event"]["type"], event["commands"]) == ("Started", [])
    (step,) = replay([RecordedEvent(seq=0, event=STARTED, commands=(), state=None)], Mute(answer))
    assert words in step.raised


def test_work_in_between_begins_the_time_anew(rig: Rig) -> None:
    """Even such as has come and gone between two looks."""
    settle(rig)
    vigil = Vigil(rig.core.watch, 10.0)
    vigil.look(5.0)
    rig.say(*compute(0))
    rig.arrive(0)
    vigil.look(16.0)
    vigil.look(25.0)
    assert rig.core.status is None
    vigil.look(30.0)
    assert rig.core.status is None
    vigil.look(40.0)
    assert rig.core.status == "stuck"
