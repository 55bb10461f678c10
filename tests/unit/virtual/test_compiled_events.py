"""The compiled event loop: the same files, to the byte, as by Python alone, whatever a strategy answers."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

import runtime.virtual.event_loop.loop as loop_module
import runtime.virtual.lab as lab_module
from injectors.plan import build_plan
from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.cluster.device import DeviceProfile
from runtime.core.job import Job
from runtime.native import EVENTS, OFF, SWITCH, native
from runtime.record.columns import PENDING_ROWS, ColumnRecorder, IterationWriter
from runtime.training.progress import Progress, load_progress
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.lab import VirtualLab
from runtime.virtual.tasks.model_state import NoModelState
from strategies.protocol import (
    Apply,
    Arrived,
    Checkpoint,
    Compute,
    Drop,
    Evaluate,
    ProtocolError,
    Started,
    Stop,
    Strategy,
    Wake,
    Woke,
)
from tests.contract.catalogue import hurried
from tests.support.compared_loops import FILES, RECORDS, compare, run_in_lab
from tests.support.harness import Puppet, make_job, make_run_spec

built = pytest.mark.skipif(native(EVENTS) is None, reason="was not compiled here")


def play(run_dir: Path, job: Job, strategy: Strategy, about: dict[str, Any]) -> Outcome:
    run_dir.mkdir()
    record = RECORDS[about.get("keeps", "rows")](run_dir)
    spec = make_run_spec(job, strategy, record, run_dir, transport=about["transport"])
    model_state = NoModelState(5000, Progress(load_progress("digits_mlp")) if about["progress"] else None)
    plan = Schedule(build_plan("test", 0, 1000.0, about["windows"]))
    rest = (spec, plan, model_state, about["costs"], about["profile"])
    return run_in_lab(record, lambda clock: VirtualSession(*rest, clock=clock))


def both(place: Path, job: Job, make: Any, about: dict[str, Any]) -> int:
    """Play it with and without the loop, and compare; returns how many decisions the loop has carried out."""
    keeps = about.get("keeps", "rows")
    return compare(place, lambda run: play(run, job, make(), about), keeps, patience=(2, 4096))


WORKERS, ROUNDS = 4, 80
"""More rounds than factors of jitter are drawn at a time."""
ABOUT: dict[str, Any] = {
    "costs": Costs(jitter_sigma=0.1, jitter_rho=0.4, control_s=3e-4, latency_s=2e-4, update_base_s=4e-3),
    "windows": [],
    "profile": DeviceProfile(base_s=0.02, per_sample_s=0.00125),
    "transport": "tcp",
    "progress": False,
}
JOB = make_job(
    num_workers=WORKERS,
    num_servers=2,
    global_batch_samples=8 * WORKERS,
    num_samples=8 * WORKERS * ROUNDS,
    epochs=1,
    max_time_s=1000.0,
    stuck_after_s=1.0,
)


@built
@pytest.mark.parametrize("name", ["asp", "bsp", "backup_workers", "star_h"])
def test_the_loop_carries_out_nearly_all(name: str, tmp_path: Path) -> None:
    assert both(tmp_path, JOB, lambda: hurried(name), ABOUT) > 0.9 * WORKERS * ROUNDS


@built
@pytest.mark.parametrize(
    ("keeps", "num_servers", "progress"),
    [("all", 2, False), ("answers", 2, True), ("nothing", 2, False), ("rows", 0, False), ("rows", 2, True)],
)
def test_it_does_so_whatever_is_recorded_and_for_replicas(
    keeps: str, num_servers: int, progress: bool, tmp_path: Path
) -> None:
    """With evaluations, and without a last epoch."""
    job = msgspec.structs.replace(JOB, num_servers=num_servers, epochs=None, max_time_s=5.0, eval_every_s=0.5)
    rings = msgspec.structs.replace(ABOUT["costs"], ring_step_s=1e-3, ring_per_byte_s=1e-8, data_base_s=1e-3)
    about = {**ABOUT, "keeps": keeps, "costs": rings, "progress": progress}
    assert both(tmp_path, job, lambda: hurried("bsp"), about) > 0.9 * WORKERS * ROUNDS


def go(*workers: int) -> list[Any]:
    return [Compute(worker=worker, num_samples=8) for worker in workers]


def use(event: Arrived) -> list[Any]:
    return [Apply(grads=(event.grad.id,), weights=(1 / 8,)), *go(event.grad.worker)]


class Asynchronous(Puppet):
    """ASP by hand, but for the answer to arrival ``number``: what ``other(event)`` returns or raises."""

    def __init__(self, number: int, other: Any) -> None:
        super().__init__()
        self.number, self.other, self.arrivals = number, other, 0

    def handle(self, event: Any) -> Any:
        if isinstance(event, Started):
            return go(*event.workers)
        if isinstance(event, Woke):
            return go(*range(WORKERS)) if event.tag == "all" else []
        if not isinstance(event, Arrived):
            return []
        self.arrivals += 1
        if not event.grad.samples:
            return []
        return self.other(event) if self.arrivals == self.number else use(event)

    def log_state(self) -> dict[str, float | int | str]:
        return {"arrivals": self.arrivals, "warning": f"{self.arrivals} arrivals"}


def raising(error: Exception) -> Any:
    def answer(event: Any) -> Any:
        raise error

    return answer


ANSWERS: dict[str, Any] = {
    "a tuple": lambda event: tuple(use(event)),
    "nothing": lambda event: [],
    "no list": lambda event: None,
    "a text": lambda event: "compute",
    "no command": lambda event: [*use(event), "compute"],
    "busy": lambda event: [*use(event), *go((event.grad.worker + 1) % WORKERS)],
    "twice": lambda event: [*use(event), *go(event.grad.worker)],
    "nobody": lambda event: [*use(event), *go(WORKERS)],
    "negative": lambda event: go(-1),
    "no samples": lambda event: [*use(event)[:1], Compute(worker=event.grad.worker, num_samples=0)],
    "micro-batches": lambda event: [*use(event)[:1], Compute(worker=event.grad.worker, num_samples=8, accum=3)],
    "too many micro-batches": lambda event: [Compute(worker=event.grad.worker, num_samples=2, accum=3)],
    "used twice": lambda event: [use(event)[0], *use(event)],
    "twice in one": lambda event: [Apply(grads=(event.grad.id,) * 2, weights=(0.1, 0.1))],
    "unknown": lambda event: [Apply(grads=(10**9,), weights=(0.1,))],
    "huge": lambda event: [Apply(grads=(10**30,), weights=(0.1,))],
    "few weights": lambda event: [Apply(grads=(event.grad.id,), weights=())],
    "none": lambda event: [Apply(grads=(), weights=())],
    "dropped": lambda event: [Drop(grads=(event.grad.id,)), *go(event.grad.worker)],
    "given up": lambda event: [Drop(grads=(event.grad.id,), requeue=False), *go(event.grad.worker)],
    "kept": lambda event: go(event.grad.worker),
    "later": lambda event: [*use(event), Wake(at_s=event.t + 0.05, tag="some")],
    "in the past": lambda event: [*use(event), Wake(at_s=0.0, tag="some")],
    "late and unlawful": lambda event: [Wake(at_s=event.t + 0.01, tag="all")],
    "whole seconds": lambda event: [*use(event), Wake(at_s=1, tag="some")],
    "measured": lambda event: [Apply(grads=(event.grad.id,), weights=(0.1,), measure=True), *go(event.grad.worker)],
    "evaluated": lambda event: [Evaluate(), Checkpoint(), *use(event)],
    "stopped": lambda event: [*use(event), Stop(reason="enough")],
    "stopped, failed": lambda event: [Stop(reason="enough", ok=False)],
    "a law": raising(ProtocolError("planted")),
}


@pytest.mark.few(10)
@built
@pytest.mark.parametrize("answer", ANSWERS)
def test_any_answer(answer: str, tmp_path: Path) -> None:
    """In the middle of a job, with a coordinator that is never busy and with one that always is."""
    for decision_s in (0.0, 0.01):
        about = {**ABOUT, "costs": msgspec.structs.replace(ABOUT["costs"], decision_s=decision_s)}
        (place := tmp_path / f"{decision_s}").mkdir()
        assert both(place, JOB, lambda: Asynchronous(50, ANSWERS[answer]), about) > 30


class Quitting(Asynchronous):
    """Orders nothing after its 60th arrival; a timer that it set before is all that it waits for then."""

    def handle(self, event: Any) -> Any:
        answer = super().handle(event)
        if not isinstance(event, Arrived) or self.arrivals not in (40, 45):
            return answer[:1] if self.arrivals >= 60 else answer
        return [*answer, Wake(at_s=event.t + 9.0, tag="some") if self.arrivals == 40 else Evaluate()]


@built
def test_a_job_waits_for_its_timer_and_is_stuck_after_it(tmp_path: Path) -> None:
    """The loop leaves, at the evaluation, and takes over again while the timer is awaited."""
    assert both(tmp_path, JOB, lambda: Quitting(0, None), ABOUT) > 45


@built
def test_a_full_disk_ends_the_job(tmp_path: Path) -> None:
    ends = []
    for name, loop in (("compiled", lab_module.loop_of), ("python", lambda session: None)):
        full = patch.object(IterationWriter, "block", side_effect=OSError(errno.ENOSPC, "no space"))
        with full, patch.object(lab_module, "loop_of", loop), patch.object(IterationWriter, "close"):
            job = msgspec.structs.replace(JOB, num_samples=8 * WORKERS * 1100)
            ends.append(play(tmp_path / name, job, hurried("asp"), ABOUT))
    assert ends[0].status == ends[1].status == "disk_full"
    assert abs(ends[0].version - ends[1].version) <= PENDING_ROWS, "as many rows may wait, and others than in Python"


@built
def test_jobs_side_by_side_are_driven_by_python_as_long_as_there_are_two(tmp_path: Path) -> None:
    """The second begins while the loop drives the first, after a third has begun and ended next to it."""
    play(tmp_path / "alone", JOB, hurried("asp"), ABOUT)
    lab, records = VirtualLab(), []

    def make(name: str, job: Job = JOB) -> Any:
        (tmp_path / name).mkdir()
        records.append(record := ColumnRecorder(tmp_path / name))
        spec = make_run_spec(job, hurried("asp"), record, tmp_path / name)
        schedule = Schedule(build_plan("test", 0, 1000.0, []))
        about = spec, schedule, NoModelState(5000, None), ABOUT["costs"], ABOUT["profile"]
        return lambda clock, tenancy: VirtualSession(*about, clock=clock)

    lab.add("first", make("first"))
    lab.add("third", make("third", msgspec.structs.replace(JOB, max_time_s=0.7)))
    with patch.object(loop_module, "CHUNK", 16):
        lab._step()
        while lab._waiting or len(lab._running) > 1:
            lab._step()
        loop = lab._running[0].loop
        assert loop is not None
        while not loop._inside:
            lab._step()
        lab.add("second", make("second"), start_s=lab._running[0].clock.now + 0.1)
        lab.run()
    for record in records:
        record.close()
    for name in ("first", "second"):
        for file in FILES:
            assert (tmp_path / name / file).read_bytes() == (tmp_path / "alone" / file).read_bytes()


@pytest.mark.skipif(os.environ.get(SWITCH) == OFF, reason="is switched off")
def test_a_loop_that_was_built_knows_the_vocabulary() -> None:
    """It refuses to be imported if a command has more fields than it knows, and everything would be slow in silence."""
    was_built = any(Path(loop_module.__file__).parent.glob("_events.*.so"))
    assert was_built == (native(EVENTS) is not None)


@built
def test_a_loop_refuses_what_does_not_fit() -> None:
    module: Any = native(EVENTS)
    work = {"id": 0, "worker": 1, "samples": 8, "assigned_samples": 8, "accum": 1, "wait_s": 0.5}
    for sizes in ({"workers": 0, "servers": 1}, {"workers": 1, "servers": -1}):
        with pytest.raises(ValueError, match="a loop needs"):
            module.Loop(**sizes)
    loop = module.Loop(workers=2, servers=1)
    with pytest.raises(ValueError, match="without all"):
        loop.advance(1)
    with pytest.raises(ValueError, match=r"numbers that a work does not have: .*stage_s"):
        loop.add_work({**work, "stage_s": 0.0}, None, [])
    assert loop.add_work(work, None, []) == 0
    with pytest.raises(ValueError, match="somebody who is busy"):
        loop.add_work(work, None, [])
    with pytest.raises(ValueError, match="work of nobody"):
        loop.add_work({**work, "worker": 2}, None, [])
    for kind, about in ((module.PUSHED, 1), (module.ARRIVED, -1), (99, 0)):
        with pytest.raises(ValueError, match="no such work"):
            loop.add_entry(0.0, 0, 1, kind, about, None)
        with pytest.raises(ValueError, match="no such work"):
            loop.add_waiting(kind, about, None)
    with pytest.raises(ValueError, match="held with"):
        loop.hold(2, Compute(worker=2, num_samples=1))
    with pytest.raises(ValueError, match="samples of nobody"):
        loop.add_samples(2, [])
    works, *others = loop.leave()
    assert (len(works), others) == (1, [[], [], []])
    numbers, event, ranges = works[0]
    assert ({name: numbers[name] for name in work}, event, ranges) == (work, None, [])
    assert {name for name, value in numbers.items() if value} == {name for name, value in work.items() if value}
    assert loop.leave() == ({}, [], [], [])
