"""The cost of a worker-iteration on the virtual clock, event by event, with 8 to 10,000 workers.

One process on one core, so no round is gated; all sizes run in turns. What is set up once per worker is left out: the
cost is that of the rounds in the middle of a job (with the log), or by which a longer job costs more than a shorter one
(with rows), in processor time.
"""

from __future__ import annotations

import gc
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import pytest

import runtime.virtual.lab as lab
from runtime.record.columns import ColumnRecorder
from runtime.record.recorder import Recorder
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.tasks.model_state import NoModelState
from tests.contract.catalogue import make
from tests.support.harness import make_job, make_run_spec
from tests.support.labs import run_alone

from .goals import at_least, at_most
from .report import Report
from .test_bench_virtual import COSTS, PROFILE, calm

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

FLAT = ("bsp", "asp", "ssp", "backup_workers", "antdt_nd", "lb_bsp", "dynamic_x")
FEW, MANY = 100, 1000
MOST = 10_000
SIZES = (8, FEW, MANY, MOST)
SHORT = 4
EXTRA, LONGEST = 200_000, {"lb_bsp": 44}
"""Worker-iterations that the longer of two jobs has more than the shorter; LB-BSP trains its networks after 50 rounds,
which takes longer, so its jobs are shorter than that."""
ROUNDS, TURNS, WARM = 14, 3, 5

RATES = dict.fromkeys(("asp", "ssp", "bsp", "backup_workers"), 100000)
RATES |= dict.fromkeys(("antdt_nd", "dynamic_x", "lb_bsp", "star_h"), 40000)
"""Worker-iterations a second of 100 workers, event by event with rows and no event log, at least."""


class Marks:
    """Notes the processor time of every so many events, which ``record`` writes."""

    def __init__(self, record: Any, every: int) -> None:
        self.record = record
        self.every, self.events, self.marks = every, 0, list[float]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.record, name)

    def event(self, *line: Any) -> None:
        self.record.event(*line)
        self.events += 1
        if self.events % self.every == 0:
            self.marks.append(time.process_time())


def session_of(name: str, workers: int, rounds: int, record: Any, run_dir: Path) -> VirtualSession:
    batch = 8 * workers
    job = make_job(
        num_workers=workers, num_samples=batch * rounds, global_batch_samples=batch, epochs=1, max_time_s=1e6
    )
    return VirtualSession(
        make_run_spec(job, make(name), record, run_dir), calm(), NoModelState(1000, None), COSTS, PROFILE
    )


def cost_s(name: str, workers: int, run_dir: Path, kind: type[Recorder | ColumnRecorder] = Recorder) -> float:
    """Seconds per worker-iteration, decisions between rounds included."""
    run_dir.mkdir()
    record = Marks(kind(run_dir), workers)
    session = session_of(name, workers, ROUNDS, record, run_dir)
    gc.collect()
    run_alone(session)
    record.close()
    last = len(record.marks) - 3  # at the end of an epoch data is short
    return (record.marks[last] - record.marks[WARM]) / (last - WARM) / workers


def test_as_cheap_with_many_workers_as_with_few(tmp_path: Path, report: Report) -> None:
    """STAR simulates its modes for every decision, which costs more with more workers, so there is no goal for it."""
    took: dict[tuple[str, int], list[float]] = {}
    for turn in range(TURNS):
        for name in (*FLAT, "star_h"):
            for workers in (FEW, MANY):
                if name != "star_h" or turn == 0:
                    run_dir = tmp_path / f"{name}{workers}{turn}"
                    took.setdefault((name, workers), []).append(cost_s(name, workers, run_dir))
    ratio = {
        name: median(many / few for few, many in zip(took[name, FEW], took[name, MANY], strict=True))
        for name in (*FLAT, "star_h")
    }
    goals = [at_most(f"{name}: {MANY:,} workers to {FEW}", ratio[name], 1.3, "x") for name in FLAT]
    each = ", ".join(f"{name} {median(took[name, MANY]) * 1e6:.0f} us" for name in ratio)
    report.judge("a worker-iteration by workers", goals, extra=f"{each}; star_h {ratio['star_h']:.2g} x")


def play_s(name: str, workers: int, rounds: int, run_dir: Path, *, compiled: bool) -> float:
    """Processor seconds of a whole job with rows only; ``compiled``: by the event loop in C, where it was built."""
    run_dir.mkdir()
    record = ColumnRecorder(run_dir)
    session = session_of(name, workers, rounds, record, run_dir)
    gc.collect()
    begun = time.process_time()
    with nullcontext() if compiled else patch.object(lab, "loop_of", lambda session: None):
        run_alone(session)
    record.close()
    return time.process_time() - begun


def more_s(name: str, workers: int, run_dir: Path, *, compiled: bool = True) -> float:
    """Seconds per worker-iteration by which a longer job costs more than a shorter one."""
    more = min(EXTRA // workers, LONGEST.get(name, EXTRA) if compiled else EXTRA // 10 // workers)
    took = [play_s(name, workers, rounds, run_dir / f"{rounds}", compiled=compiled) for rounds in (SHORT, SHORT + more)]
    return (took[1] - took[0]) / more / workers


def test_worker_iterations_event_by_event(tmp_path: Path, report: Report) -> None:
    """The strategy is asked for every decision."""
    took: dict[tuple[str, bool], list[float]] = {}
    for turn in range(TURNS):
        for name in RATES:
            for compiled in (True, False):
                (place := tmp_path / f"{name}{compiled}{turn}").mkdir()
                took.setdefault((name, compiled), []).append(more_s(name, FEW, place, compiled=compiled))
    ratio = {
        name: median(python / c for c, python in zip(took[name, True], took[name, False], strict=True))
        for name in RATES
    }
    goals = [
        at_least(f"{name}, {FEW} workers", 1 / median(took[name, True]), wanted, "/s") for name, wanted in RATES.items()
    ]
    each = ", ".join(f"{name} {ratio[name]:.2g}" for name in RATES)
    report.judge("worker-iterations event by event, rows only", goals, extra=f"times as fast as in Python: {each}")


@pytest.mark.timeout(1800)
def test_flat_with_rows(tmp_path: Path, report: Report) -> None:
    """As many workers as a large trace has, without the log."""
    took: dict[tuple[str, int], list[float]] = {}
    for turn in range(TURNS):
        for name in FLAT:
            for workers in SIZES:
                (place := tmp_path / f"{name}{workers}{turn}").mkdir()
                took.setdefault((name, workers), []).append(more_s(name, workers, place))
    goals = []
    for name in FLAT:
        pairs = zip(took[name, FEW], took[name, MOST], strict=True)
        goals.append(at_most(f"{name}: {MOST:,} workers to {FEW}", median(many / few for few, many in pairs), 1.3, "x"))
    each = ", ".join(f"{name} {' '.join(f'{median(took[name, w]) * 1e6:.1f}' for w in SIZES)}" for name in FLAT)
    sizes = ", ".join(f"{workers:,}" for workers in SIZES)
    report.judge("a worker-iteration by workers, rows only", goals, extra=f"us with {sizes} workers: {each}")
