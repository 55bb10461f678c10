"""However a run is ended, and whenever: a second later nothing of it is left, and its record still loads."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.exact import ALLOW
from tests.support.invariants import problems
from tests.support.leaks import Oracle, Start, listening_sockets, open_files
from tests.support.long_tests import long_after, rows_long_after
from tests.support.runs import CONF, DIGITS, LEDGER, RecordSink, Run, processes_of, read_lines

SEED = int(os.environ.get("STRAGGLAB_CHAOS_SEED", "0"))
DRAWN = tuple(option for option in LEDGER if option != "draw=false")
JOBS: dict[str, tuple[tuple[str, ...], bool]] = {
    "ledger, with figures": (DRAWN, False),
    "digits": ((*DIGITS, "topology.transport=shm", "workload.epochs=10"), False),
    "a sweep": ((*LEDGER, "strategy=bsp,asp", "eval_every_s=0.1"), True),
}
TIMES = 30
SAMPLES = 2000
DAWDLING = (
    *(*CONF, "workload=faulty", "workload.task.fault=dawdle"),
    f"workload.task.num_samples={SAMPLES}",
)
TRIES = 5
"""To come before the end of a run; each that comes too late has a better estimate of when that is."""
MOMENTS = [(job, moment) for job in JOBS for moment in range(TIMES // len(JOBS))]

Moment = Callable[[Run], None]


def begin(start: Start, job: str, name: str = "run") -> Run:
    options, sweep = JOBS[job]
    return start(name, *options, sweep=sweep)


def sockets_of(run: Run) -> set[str]:
    """Those on which its processes listen, by inode: another run may get their addresses next."""
    links = (link for pid in processes_of(run.run_dir) for link in open_files(pid) if link.startswith("socket:["))
    return {link[8:-1] for link in links} & listening_sockets().keys()


def assert_record_loads(run_dir: Path) -> int:
    """Every record below a directory; returns how many there were."""
    from analysis.records.load import load_run

    found = list(run_dir.rglob("events.jsonl"))
    for path in found:
        lines = read_lines(path.parent)
        assert problems(lines) == []
        if (path.parent / "meta.json").exists():
            assert len(load_run(path.parent).lines) == len(lines)
        else:
            assert lines == [], "nothing happens before it is written down what runs"
    return len(found)


def assert_gone(oracle: Oracle, sockets: set[str]) -> None:
    left = oracle.settle()
    assert not left, "left behind:\n" + "\n".join(left)
    assert not sockets & listening_sockets().keys()


def end_by_kill(run: Run, oracle: Oracle) -> None:
    sockets = sockets_of(run)
    run.process.kill()
    run.process.wait(60)
    assert_gone(oracle, sockets)
    _, err = run.process.communicate(timeout=60)
    assert "Traceback" not in err
    assert_record_loads(run.run_dir)


def end_by(run: Run, oracle: Oracle, *signals: int, group: bool = False) -> None:
    """The exit code says which signal it was.

    One that comes when all is done may find nobody to stop, or an interpreter that has put its handlers away; a shell
    calls that 128 + signal, too.
    """
    sockets = sockets_of(run)
    for number in signals:
        if run.process.poll() is None:
            run.send(number, group=group)
    code, out, err = run.wait(30)
    assert_gone(oracle, sockets)
    assert "Traceback" not in err, err
    done = [lines[-1] for path in run.run_dir.rglob("events.jsonl") if (lines := read_lines(path.parent))]
    completed = bool(done) and all(line.get("note", {}).get("status") == "done" for line in done)
    assert code in ({128 + signals[0], -signals[0], 0} if completed else {128 + signals[0]}), (code, out, err)
    assert_record_loads(run.run_dir)


@pytest.fixture(scope="module")
def lengths(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], float]:
    """How long each job takes when nobody ends it, in seconds, by what is to end it."""
    found = {}
    for job, (options, sweep) in JOBS.items():
        begun = time.monotonic()
        run = Run(tmp_path_factory.mktemp("lengths") / "run", *options, sweep=sweep)
        run.wait(120)
        found |= dict.fromkeys([("kill", job), ("interrupt", job)], time.monotonic() - begun)
        assert assert_record_loads(run.run_dir) == (2 if sweep else 1)
    return found


@pytest.fixture(scope="module")
def tally() -> Iterator[dict[str, int]]:
    tally = {"kill": 0, "interrupt": 0}
    yield tally
    print(f"\nruns that were really cut short, seed {SEED}: {tally}")


def at_its_moment(start: Start, lengths: dict[tuple[str, str], float], how: str, job: str, moment: int) -> Run:
    """A run, at a moment that chance has chosen between its beginning and its end.

    One that is over before shows that the machine has become quicker since the length was measured: the moment of the
    next is a part of the new length.
    """
    part = random.Random(f"{SEED}/{how}/{job}/{moment}").random()
    for number in range(TRIES):
        run = begin(start, job, f"run{number}")
        if how == "interrupt":
            run.await_handlers()
        begun = time.monotonic()
        try:
            run.process.wait(part * lengths[how, job])
        except subprocess.TimeoutExpired:
            break
        lengths[how, job] = time.monotonic() - begun
    return run


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.parametrize(("job", "moment"), MOMENTS)
def test_killed_at_a_random_moment(
    start: Start, tmp_path: Path, lengths: dict[tuple[str, str], float], tally: dict[str, int], job: str, moment: int
) -> None:
    oracle = Oracle(tmp_path)
    run = at_its_moment(start, lengths, "kill", job, moment)
    tally["kill"] += run.process.poll() is None
    end_by_kill(run, oracle)


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.parametrize(("job", "moment"), MOMENTS)
def test_interrupted_at_a_random_moment(
    start: Start, tmp_path: Path, lengths: dict[tuple[str, str], float], tally: dict[str, int], job: str, moment: int
) -> None:
    """As a terminal does it, which reaches all of the foreground, and ``run.py`` alone; from its first line on."""
    oracle = Oracle(tmp_path)
    run = at_its_moment(start, lengths, "interrupt", job, moment)
    if run.process.poll() is None:
        tally["interrupt"] += 1
        end_by(run, oracle, signal.SIGINT, group=moment % 2 == 0)


@pytest.mark.chaos
@pytest.mark.slow
def test_most_moments_were_in_time(tally: dict[str, int]) -> None:
    assert min(tally.values()) >= TIMES * 3 // 4, tally


def while_importing(run: Run) -> None:
    run.await_that((run.run_dir / "logs").exists, "the agent")


def while_training(run: Run) -> None:
    run.await_training(10)


def while_starting(run: Run) -> None:
    run.await_handlers()


def while_drawing(run: Run) -> None:
    run.await_that(lambda: run.notes("Finished"), "the end of the training")


@pytest.mark.live
@pytest.mark.parametrize("moment", long_after([while_training, while_importing, while_drawing], always=1))
def test_killed(start: Start, tmp_path: Path, moment: Moment) -> None:
    oracle, run = Oracle(tmp_path), begin(start, "ledger, with figures")
    moment(run)
    end_by_kill(run, oracle)


@pytest.mark.live
@pytest.mark.parametrize(
    ("moment", "group"),
    rows_long_after(
        [(while_training, True), (while_starting, True), (while_importing, False), (while_drawing, True)], always=1
    ),
)
def test_interrupted(start: Start, tmp_path: Path, moment: Moment, group: bool) -> None:
    """``group``: from a terminal; otherwise to ``run.py`` alone."""
    # whom training must still find training has no end: the job of a second may be done before the signal is sent
    endless = ("workload.epochs=null",) if moment is while_training else ()
    oracle, run = Oracle(tmp_path), start("run", *DRAWN, *endless)
    moment(run)
    end_by(run, oracle, signal.SIGINT, group=group)
    if moment is while_training:
        assert run.finished["status"] == "interrupted"
        assert not (run.run_dir / "checkpoints").exists()


@pytest.mark.long(like="test_interrupted")
@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_told_to_end(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    oracle, run = Oracle(tmp_path), start("run", *LEDGER, "workload.epochs=null")
    run.await_training(10)
    end_by(run, oracle, number)
    assert (run.finished["status"], run.finished["reason"]) == ("interrupted", f"signal {number.name}")


@pytest.mark.long(like="test_interrupted")
@pytest.mark.live
def test_interrupted_twice(start: Start, tmp_path: Path) -> None:
    """The second time at once: nothing is waited for."""
    oracle, run = Oracle(tmp_path), start("run", *LEDGER, "workload.epochs=null")
    run.await_training(10)
    os.kill(run.pid_of("evaluator"), signal.SIGSTOP)
    run.send(signal.SIGINT, group=True)
    run.await_that(lambda: run.process.poll() is None, "the first to be heard")
    time.sleep(0.2)
    assert run.process.poll() is None, "it waits for the last score"
    end_by(run, oracle, signal.SIGINT, group=True)


def dawdling(start: Start, *words: str) -> Run:
    """A run whose evaluations do not end."""
    return start("run", *LEDGER, *DAWDLING, *words, env=ALLOW)


@pytest.mark.long(like="test_interrupted")
@pytest.mark.live
def test_an_interrupted_run_does_not_wait_for_a_score_that_takes_long(start: Start, tmp_path: Path) -> None:
    oracle, run = Oracle(tmp_path), dawdling(start, "workload.epochs=null")
    run.await_training(10)
    end_by(run, oracle, signal.SIGTERM)
    assert (run.finished["status"], run.finished["parameters_sha256"]) == ("interrupted", "")
    assert run.events("Evaluated") == []


@pytest.mark.long(like="test_interrupted")
@pytest.mark.live
def test_a_job_whose_last_score_is_given_up_for_a_signal_is_interrupted_in_good_order(
    start: Start, tmp_path: Path
) -> None:
    oracle, run = Oracle(tmp_path), dawdling(start, "workload.epochs=1")
    run.await_that(lambda: sum(event["grad"]["samples"] for event in run.events("Arrived")) >= SAMPLES, "all gradients")
    time.sleep(0.5)
    end_by(run, oracle, signal.SIGTERM)
    assert run.finished["status"] == "interrupted"
    assert run.finished["reason"].endswith("epochs done; the final parameters were not evaluated")
    assert run.finished["samples_applied"] == SAMPLES
    assert (run.run_dir / "SHA256SUMS").exists()


@pytest.mark.long(like="test_interrupted")
@pytest.mark.live
def test_a_job_whose_evaluator_is_lost_before_it_has_saved_the_parameters_fails_and_keeps_its_record(
    start: Start,
) -> None:
    """A user who asked for the file counts on it, so exit code 0 and a warning would mislead."""
    run = dawdling(start, "workload.epochs=1", "save_parameters=true")
    run.await_that(lambda: sum(event["grad"]["samples"] for event in run.events("Arrived")) >= SAMPLES, "all gradients")
    time.sleep(0.5)
    assert run.unregister(("evaluator", 0))
    exit_code, _, said = run.wait()
    assert (exit_code, run.finished["status"]) == (1, "failed")
    assert "save_parameters=true: the final parameters were not saved" in said
    assert run.finished["samples_applied"] == SAMPLES
    assert (run.run_dir / "SHA256SUMS").exists()
    assert not (run.run_dir / "parameters.npy").exists()


@pytest.mark.long(like="test_interrupted")
@pytest.mark.live
def test_an_interrupted_sweep_begins_no_other_job(start: Start, tmp_path: Path) -> None:
    oracle = Oracle(tmp_path)
    run = start("run", *LEDGER, "strategy=bsp,asp", "workload.epochs=null", "max_time_s=60", sweep=True)
    run.await_that(lambda: any(run.run_dir.rglob("events.jsonl")), "a job")
    first = RecordSink(next(run.run_dir.rglob("events.jsonl")).parent)
    run.await_that(lambda: first.version >= 10, "some training")
    end_by(run, oracle, signal.SIGINT, group=True)
    assert len(list(run.run_dir.rglob("events.jsonl"))) == 1
