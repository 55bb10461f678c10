"""Processes that die, stop or fail while a job trains. The ledger proves what each sample went through."""

from __future__ import annotations

import itertools
import os
import signal

import pytest

from analysis.records.integrity import integrity
from analysis.records.load import load_run
from analysis.reports.story.lines import read_lines
from analysis.reports.story.subjects import parse_subject
from analysis.reports.story.telling import tell
from tests.support.exact import ALLOW, assert_sound, assert_uses_are_exact, end_exactly
from tests.support.invariants import problems
from tests.support.leaks import Start
from tests.support.long_tests import rows_long_after
from tests.support.runs import CONF, DIGITS, LEDGER

pytestmark = pytest.mark.live

LEASE_S = 1.0
PACED = (
    "cluster.device={base_s: 0.01}",
    f"runtime.lease_s={LEASE_S}",
    "runtime.heartbeat_s=0.2",
    "checkpoint_every_s=0.3",
)
ENDLESS = (*LEDGER, *PACED, "workload.epochs=null", "save_parameters=true")
"""Ends by Ctrl-C; then every sample was used as often as there are whole epochs, or once more."""
FAULTY = (*LEDGER, *PACED, *CONF, "workload=faulty")


@pytest.mark.parametrize(("strategy", "transport"), rows_long_after([("bsp", "tcp"), ("asp", "shm")], always=1))
def test_workers_that_die_or_stop(start: Start, strategy: str, transport: str) -> None:
    run = start("run", *ENDLESS, f"strategy={strategy}", f"topology.transport={transport}")
    run.await_training(5)

    assert run.unregister(("worker", 1))
    (lost,) = run.await_events("Lost")
    assert (lost["worker"], lost["restarting"], lost["reason"]) == (1, True, "killed by signal 9")
    (joined,) = run.await_events("Joined")
    assert (joined["worker"], joined["incarnation"]) == (1, 1)

    pause = run.pid_of("worker", 0)
    os.kill(pause, signal.SIGSTOP)
    run.await_notes("Checkpointed", len(run.notes("Checkpointed")) + 1)  # a part of the lease
    os.kill(pause, signal.SIGCONT)
    run.await_progress(20)
    assert len(run.events("Lost")) == 1, "a pause shorter than the lease is nobody's death"

    os.kill(pause, signal.SIGSTOP)
    lost = run.await_events("Lost", 2)[1]
    assert lost["worker"] == 0
    assert lost["reason"].startswith("no heartbeat for ")
    assert run.await_events("Joined", 2)[1]["incarnation"] == 1

    assert run.unregister(("evaluator", 0))
    run.await_that(lambda: len([n for n in run.notes("Launched") if n["role"] == "evaluator"]) == 2, "a new evaluator")
    run.await_progress(20)
    run.interrupt()
    assert len(run.events("Lost")) == 2
    assert not run.events("ServerLost")
    assert_uses_are_exact(run)
    assert_sound(run)


@pytest.mark.long(like="test_workers_that_die_or_stop")
def test_who_dies_before_the_job_begins_is_in_it_all_the_same(start: Start) -> None:
    """Orders go to the incarnation that lives, not to the first. A wide network takes its time to be built."""
    wide = ("workload.task.hidden_units=200000", "workload.global_batch_samples=512", "workload.epochs=1")
    run = start("run", *DIGITS, *wide, "cluster.num_workers=2", "runtime.iteration_deadline_s=30")
    run.await_that(lambda: ("worker", 0) in run.pids(), "worker 0")
    assert run.unregister(("worker", 0))
    run.finish()
    kinds = [line["event"]["type"] if line["kind"] == "event" else line["note"]["type"] for line in run.lines()]
    assert kinds.index("Exited") < kinds.index("Started"), "it died too late to show anything"
    assert {event["grad"]["incarnation"] for event in run.events("Arrived") if not event["grad"]["worker"]} == {1}
    assert run.finished["epochs_done"] == 1
    assert_sound(run)
    assert integrity(load_run(run.run_dir)).problems == ()


@pytest.mark.long(like="test_workers_that_die_or_stop")
def test_without_restarts_a_dead_worker_leaves_and_the_rest_goes_on(start: Start) -> None:
    run = start("run", *LEDGER, *PACED, "runtime.max_restarts=0", "workload.epochs=2", "save_parameters=true")
    run.await_training(5)
    assert run.unregister(("worker", 2))
    run.finish()
    (lost,) = run.events("Lost")
    assert (lost["worker"], lost["restarting"]) == (2, False)
    assert not run.events("Joined")
    assert run.parameters().tolist() == [2.0] * 2000
    assert_sound(run)


@pytest.mark.parametrize(
    ("strategy", "transport"), [pytest.param("asp", "tcp", marks=pytest.mark.long), ("bsp", "shm")]
)
def test_servers_that_die_or_stop(start: Start, strategy: str, transport: str) -> None:
    run = start("run", *ENDLESS, f"strategy={strategy}", f"topology.transport={transport}", "topology.num_servers=3")
    run.await_notes("Checkpointed", 2)

    assert run.unregister(("server", 1))
    (lost,) = run.await_events("ServerLost")
    assert (lost["server"], lost["reason"]) == (1, "killed by signal 9")
    (restored,) = run.await_events("Restored")
    assert restored["version"] > 0
    assert restored["workers"] == [0, 1, 2, 3]
    run.await_progress(20)

    assert run.unregister(("server", 0), signal.SIGSTOP)
    lost = run.await_events("ServerLost", 2)[1]
    assert lost["server"] == 0
    assert lost["reason"].startswith("no heartbeat for ")
    run.await_events("Restored", 2)
    run.await_progress(20)

    assert run.unregister(("server", 2))
    assert run.unregister(("worker", 3))
    run.await_events("Restored", 3)
    run.await_progress(20)
    end_exactly(run)
    assert_sound(run)
    before = itertools.takewhile(lambda line: (line.get("event") or {}).get("type") != "Restored", run.lines())
    reached = max(line["version"] for line in before if line["kind"] == "event")
    lines = list(read_lines(run.run_dir / "events.jsonl"))
    for version in range(restored["version"] + 1, reached + 1):  # none, if the server died right after a checkpoint
        entries = tell(lines, (), parse_subject(f"update:{version}")).entries
        assert "server:1 was lost (killed by signal 9)" in {one.why for one in entries if "is rolled back" in one.what}


@pytest.mark.long(like="test_servers_that_die_or_stop")
def test_a_damaged_checkpoint_ends_the_run_with_its_name(start: Start) -> None:
    run = start("run", *ENDLESS, "checkpoint_every_s=1.0")
    run.await_notes("Checkpointed", 2)
    files = list((run.run_dir / "checkpoints").glob("*-server0.ckpt"))
    assert files
    for path in files:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    assert run.unregister(("server", 0))
    line = run.fail()
    assert "checkpoints/" in line
    assert "damaged" in line
    assert run.finished["status"] == "failed"


@pytest.mark.long(like="test_code_that_raises_ends_the_run_with_its_reason")
def test_a_decision_that_is_interrupted_is_carried_out_as_recorded(start: Start) -> None:
    conf = (*CONF, "strategy=interrupting")
    run = start("run", *ENDLESS, *conf, env=ALLOW)
    code, _, err = run.wait()
    assert (code, run.finished["status"]) == (130, "interrupted"), err
    assert problems(run.lines()) == []
    assert_uses_are_exact(run)


def test_code_that_raises_ends_the_run_with_its_reason(start: Start) -> None:
    run = start("run", *FAULTY, "workload.task.fault=raise", env=ALLOW)
    line = run.fail()
    assert "ZeroDivisionError: the sample has no pixels" in line
    assert "worker " in line
    logs = [path.read_text() for path in (run.run_dir / "logs").glob("worker-*.log")]
    assert any("Traceback" in text for text in logs), "the whole story is in the log"
    assert run.finished["status"] == "failed"


@pytest.mark.long(like="test_code_that_raises_ends_the_run_with_its_reason")
def test_a_gradient_that_is_not_a_number_is_computed_again(start: Start) -> None:
    run = start(
        "run", *FAULTY, "workload.task.fault=spike", "workload.epochs=2", "save_parameters=true", env=ALLOW
    ).finish()
    assert sorted(note["worker"] for note in run.notes("Nonfinite")) == [0, 1, 2, 3]
    assert len(run.events("Failed")) == 4
    assert run.parameters().tolist() == [2.0] * 2000
    assert_sound(run)


RESTARTING = (*LEDGER, *PACED, *CONF, "strategy=restarting", "save_parameters=true")
RESTARTING_FOR_EVER = (*RESTARTING, "workload.epochs=null")


def restarts(*orders: str) -> str:
    return f"strategy.orders=[{','.join(repr(order) for order in orders)}]"


@pytest.mark.long(like="test_workers_that_die_or_stop")
@pytest.mark.parametrize(("rule", "transport"), [("bsp", "tcp"), pytest.param("asp", "shm", marks=pytest.mark.long)])
def test_a_worker_is_restarted_elsewhere_while_the_others_go_on(start: Start, rule: str, transport: str) -> None:
    where = (f"strategy.rule={rule}", f"topology.transport={transport}", "scheduler.pending_s=0.5")
    run = start("run", *RESTARTING_FOR_EVER, *where, restarts("worker:1@0.5"), env=ALLOW)
    (joined,) = run.await_events("Joined")
    (lost,) = run.events("Lost")
    assert (lost["worker"], lost["restarting"], lost["reason"]) == (1, False, "restarted by the strategy")
    assert (joined["worker"], joined["incarnation"]) == (1, 1)
    assert joined["t"] - lost["t"] >= 0.5
    between = [event for event in run.events("Arrived") if lost["t"] < event["t"] < joined["t"]]
    assert {event["grad"]["worker"] for event in between} == {0, 2, 3}
    run.await_progress(20)
    late = [event["grad"]["worker"] for event in run.events("Arrived") if event["t"] > joined["t"]]
    assert 1 in late
    run.interrupt()
    assert not run.events("ServerLost")
    assert_uses_are_exact(run)
    assert problems(run.lines()) == []


@pytest.mark.long(like="test_servers_that_die_or_stop")
def test_a_restarted_server_loses_nothing_that_was_applied(start: Start) -> None:
    """No periodic checkpoint but the first: what it comes back with was stored for it."""
    more = ("strategy.rule=asp", "checkpoint_every_s=null", "topology.num_servers=3", "scheduler.pending_s=0.2")
    run = start("run", *RESTARTING_FOR_EVER, *more, restarts("server:1@0.8"), env=ALLOW)
    (restored,) = run.await_events("Restored")
    (lost,) = run.events("ServerLost")
    before = max(line["version"] for line in run.lines() if line["kind"] == "event" and line["t"] < lost["t"])
    assert restored["version"] == before > 0
    assert restored["t"] - lost["t"] >= 0.2
    run.await_progress(20)
    end_exactly(run)
