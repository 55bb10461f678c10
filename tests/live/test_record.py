"""The record of a live run is what docs/record.md says it is, and says what really happened."""

from __future__ import annotations

import hashlib
import os
import re
import signal
from collections import defaultdict
from itertools import pairwise

import pytest

from injectors.plan import parse_plan
from injectors.schedule import Schedule
from runtime.run.checks.resources import TASK_BYTES
from stragglab.commands.replay import main as replay_script
from tests.support.invariants import problems
from tests.support.leaks import Start
from tests.support.runs import LEDGER, ROOT, Run

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("record")]  # they share a run

TRANSIENT = ("period_s=0.4", "duration_s=0.2", "probability=0.5", "sleep_iters=null", "sleep_s=0.02", "intensity=1.0")
STRAGGLERS = ("straggler=transient", *(f"straggler.{one}" for one in (*TRANSIENT, "targets=['worker:*','server:0']")))
WORKERS = 3
EPOCHS = 3


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run for all tests: disturbed, with checkpoints and evaluations."""
    run_dir = tmp_path_factory.mktemp("record") / "run"
    options = ("cluster.device={base_s: 0.01}", f"cluster.num_workers={WORKERS}", f"workload.epochs={EPOCHS}")
    run = Run(run_dir, *LEDGER, *STRAGGLERS, *options, "eval_every_s=0.3", "checkpoint_every_s=0.5", "max_time_s=60")
    try:
        run.await_that(run.lines, "a record")
        assert (run_dir / "plan.json").exists()
        assert (run_dir / "meta.json").exists()
        return run.finish()
    finally:
        run.kill()


def test_lines_are_numbered_and_ordered_and_lawful(run: Run) -> None:
    """The start is dated 0; a server's delays are noted with it."""
    assert problems(run.lines()) == []
    begun = next(number for number, line in enumerate(run.lines()) if line["kind"] == "event")
    assert {line["t"] for line in run.lines()[: begun + 1]} == {0.0}
    updated = run.notes("Updated")
    assert sum(note["injected_s"] for note in updated if note["server"] == 0) > 0
    assert sum(note["injected_s"] for note in updated if note["server"] == 1) == 0
    assert all(0 <= note["injected_s"] <= note["busy_s"] and note["updates"] > 0 for note in updated)


def test_the_replay_script_says_so(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """All received events are replayed; the final score was not one."""
    assert replay_script([str(run.run_dir)]) == 0
    out, err = capsys.readouterr()
    events = [line for line in run.lines() if line["kind"] == "event"]
    final = events[-1]["event"]
    assert (final["type"], final["asked_s"]) == ("Evaluated", final["t"])
    assert f"replayed  {len(events) - 1} events, " in out
    assert (out.splitlines()[-1], err) == ("result    identical", "")


def test_timings_add_up_to_the_iterations(run: Run) -> None:
    """By the worker's own stopwatch against the coordinator's clock."""
    by_worker = defaultdict(list)
    for event in run.events("Arrived"):
        by_worker[event["grad"]["worker"]].append(event)
    for events in by_worker.values():
        real = [event for event in events if event["grad"]["samples"]]
        spans = [(after["t"] - before["t"], after["timings"]) for before, after in pairwise(real)]
        parts = [
            sum(timings[part] for part in ("wait_s", "pull_s", "data_s", "compute_s", "send_s")) for _, timings in spans
        ]
        assert sum(parts) == pytest.approx(sum(span for span, _ in spans), rel=0.1, abs=0.25), "on a busy machine, too"
        for timings in (timings for _, timings in spans):
            assert timings["injected_s"] <= timings["compute_s"]
            assert min(timings.values()) >= 0


def test_a_delay_is_achieved_exactly_where_planned(run: Run) -> None:
    """``injected_s`` > 0 for the iterations whose Compute was issued in a window, and for no other."""
    actuator = Schedule(parse_plan((run.run_dir / "plan.json").read_bytes()))
    issued: dict[int, float] = {}
    seen = {True: 0, False: 0}
    for line in run.lines():
        if line["kind"] == "note":
            continue
        event = line["event"]
        if event["type"] == "Arrived" and event["grad"]["samples"]:
            worker = event["grad"]["worker"]
            delay_s, _ = actuator.delay_for(f"worker:{worker}", issued[worker])
            assert (event["timings"]["injected_s"] > 0) == (delay_s > 0), line
            assert event["timings"]["injected_s"] >= delay_s
            seen[delay_s > 0] += 1
        issued |= {command["worker"]: line["t"] for command in line["commands"] if command["type"] == "Compute"}
    assert min(seen.values()) > 10, seen


def test_notes_tell_the_life_of_the_run(run: Run) -> None:
    launched = {(note["role"], note["id"], note["incarnation"]) for note in run.notes("Launched")}
    workers = {("worker", worker, 0) for worker in range(WORKERS)}
    assert launched == {*workers, ("server", 0, 0), ("server", 1, 0), ("evaluator", 0, 0)}
    assert [note["epoch"] for note in run.notes("EpochStarted")] == list(range(EPOCHS))
    ids = [note["id"] for note in run.notes("Checkpointed")]
    assert len(ids) >= 2
    assert ids == sorted(set(ids))
    finished = run.finished
    assert run.lines()[-1]["note"] == finished
    assert (finished["status"], finished["epochs_done"]) == ("done", EPOCHS)
    assert finished["samples_applied"] == EPOCHS * run.meta["job"]["num_samples"]
    assert finished["shards_done"] == finished["shards_total"] == EPOCHS * run.meta["job"]["num_shards"]
    assert finished["version"] == run.version
    assert set(finished["memory"]) == {*(f"worker {n}" for n in range(WORKERS)), "server 0", "server 1", "evaluator"}
    assert min(finished["memory"].values()) >= TASK_BYTES, "what is refused by this estimate would not have had room"


def test_scores_are_of_the_version_that_was_asked_for(run: Run) -> None:
    """The ledger's mean use counts the samples that were in the parameters."""
    samples = {0: 0}
    for line in run.lines():
        for command in line.get("commands", ()):
            if command["type"] == "Apply":
                samples[len(samples)] = samples[len(samples) - 1] + sum(
                    event["grad"]["samples"]
                    for event in run.events("Arrived")
                    if event["grad"]["id"] in command["grads"]
                )
    assert len(run.events("Evaluated")) >= 3
    for event in run.events("Evaluated"):
        used = event["metrics"]["mean_uses"] * run.meta["job"]["num_samples"]
        assert used == pytest.approx(samples[event["version"]], rel=1e-5)
        assert event["asked_s"] <= event["t"]


def test_open_windows_are_noted(run: Run) -> None:
    """What the plan says one after the other, none before its time; changes that come together are one note."""
    schedule, t = Schedule(parse_plan((run.run_dir / "plan.json").read_bytes())), 0.0
    planned = [(t, schedule.active(t))]
    end_s = run.lines()[-1]["t"]
    while (t := schedule.next_change(t)) <= end_s:
        planned.append((t, schedule.active(t)))
    place, changes = 0, 0
    for line in run.lines():
        if line["kind"] == "note" and line["note"]["type"] == "Injecting":
            noted = tuple(line["note"]["active"])
            found = next(number for number in range(place, len(planned)) if planned[number][1] == noted)
            place, changes = found, changes + (found > place)
            assert planned[place][0] <= line["t"]
    assert changes > 3


def test_every_note_is_described(run: Run) -> None:
    described = set(re.findall(r"`(\w+) \{", (ROOT / "docs" / "record.md").read_text()))
    written = {line["note"]["type"] for line in run.lines() if line["kind"] == "note"}
    assert written - described - {"Finished"} == set()


def test_the_plan_is_written_before_the_start_and_never_again_and_nothing_but_the_record_is_left(run: Run) -> None:
    plan, meta, events = (run.run_dir / name for name in ("plan.json", "meta.json", "events.jsonl"))
    assert plan.stat().st_mtime_ns <= events.stat().st_mtime_ns
    assert meta.stat().st_mtime_ns <= events.stat().st_mtime_ns
    first = next(line for line in run.lines() if line["kind"] == "event")
    assert first["event"]["type"] == "Started"
    assert run.meta["plan_sha256"] == hashlib.sha256(plan.read_bytes()).hexdigest()
    names = {path.name for path in run.run_dir.iterdir()}
    assert names == {".hydra", "meta.json", "plan.json", "events.jsonl", "SHA256SUMS", "logs"}
    assert list((run.run_dir / "logs").iterdir()) == [], "nobody had anything to complain about"


def test_meta_has_what_the_record_promises(run: Run) -> None:
    text = (ROOT / "docs" / "record.md").read_text()
    example = re.search(r"## meta\.json.*?```\n(.*?)```", text, re.S)
    assert example
    promised = set(re.findall(r'"(\w+)": ', example[1]))
    assert promised - {"bound", "torch", "engine"} <= {  # engine: of virtual jobs
        *run.meta,
        *run.meta["machine"],
        *run.meta["versions"],
        *run.meta["job"],
    }
    job = run.meta["job"]
    assert (job["num_workers"], job["num_servers"], job["strategy"], job["epochs"]) == (WORKERS, 2, "bsp", EPOCHS)


@pytest.mark.long(like="test_lines_are_numbered_and_ordered_and_lawful")
def test_time_does_not_go_back_at_the_end(start: Start) -> None:
    """What tasks still say while the final parameters are scored is dated no later than the job's end."""
    run = start("run", *LEDGER, "cluster.device={base_s: 0.01}", "workload.epochs=4", "runtime.lease_s=20")
    run.await_training(3)
    evaluator = run.pid_of("evaluator")
    os.kill(evaluator, signal.SIGSTOP)
    run.await_training(4 * 32)
    before = len(run.notes("Updated"))
    run.await_notes("Updated", before + 1)
    os.kill(evaluator, signal.SIGCONT)
    run.finish()
    assert problems(run.lines()) == []
