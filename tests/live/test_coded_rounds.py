"""Coded rounds with real processes: whoever is late or dead, the parameters are those of serial SGD on full batches."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.records.integrity import integrity
from analysis.records.load import load_run
from runtime.core.data.sampling import sample_indices
from runtime.core.data.shards import Range
from tests.support.exact import assert_sound
from tests.support.laws import samples_of
from tests.support.runs import DIGITS, Run
from tests.support.serial import heap_of, serial_sgd

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

UNEQUAL = "strategy.throughputs=[1,1,2,2]"
SCHEMES = {
    "fractional": ("strategy=coding_fractional",),
    "cyclic": ("strategy=coding_cyclic",),
    "heter_aware": ("strategy=coding_heter_aware", UNEQUAL),
    "group_based": ("strategy=coding_group_based", UNEQUAL),
    "cyclic, s=2": ("strategy=coding_cyclic", "strategy.s=2"),
}
NEVER = ("straggler=persistent", "straggler.targets=[worker:3]", "straggler.sleep_s=1000", "straggler.sleep_iters=null")
"""Worker 3 does not answer before the job is over."""


@contextmanager
def running(run_dir: Path, *overrides: str) -> Iterator[Run]:
    run = Run(run_dir, *DIGITS, "workload.epochs=1", "save_parameters=true", "cluster.num_workers=4", *overrides)
    try:
        yield run
    finally:
        run.kill()


def rounds_of(run: Run) -> list[NDArray[np.int64]]:
    """Samples of every round, by the pure coordinator on a heap: they do not depend on who is late."""
    heap = heap_of(run)
    rows = [[heap.orders[grad] for grad in order.grads] for _, order, _ in heap.applied]
    rounds = [sorted({sample for order in orders for sample in samples_of(order)}) for orders in rows]
    cut, seed = heap.core.cut, run.meta["seed"]
    return [np.concatenate([sample_indices([Range(*at, at[2] + 1)], cut, seed) for at in own]) for own in rounds]


def distance(run: Run) -> float:
    """Of the final parameters from those of serial SGD, as a part of their size."""
    serial = serial_sgd(run, rounds_of(run))
    return float(np.linalg.norm(run.parameters() - serial) / np.linalg.norm(serial))


def check_record(run: Run) -> None:
    assert_sound(run)
    assert integrity(load_run(run.run_dir)).problems == ()


@pytest.mark.parametrize(
    "scheme", ["cyclic", *(pytest.param(name, marks=pytest.mark.long) for name in SCHEMES if name != "cyclic")]
)
def test_who_never_answers_changes_nothing(scheme: str, tmp_path: Path) -> None:
    with running(tmp_path / "run", *SCHEMES[scheme], *NEVER) as run:
        run.finish()
        assert run.finished["status"] == "done"
        assert not [event for event in run.events("Arrived") if event["grad"]["worker"] == 3]
        assert distance(run) <= 1e-5
        assert max(line["state"]["residual"] for line in run.lines() if "state" in line) <= 1e-6
        check_record(run)


@pytest.mark.long(like="test_who_never_answers_changes_nothing")
def test_the_naive_scheme_waits_for_who_never_answers(tmp_path: Path) -> None:
    """Negative control: without redundancy the job does not end by itself."""
    with running(tmp_path / "run", "strategy=coding_naive", *NEVER, "max_time_s=3") as run:
        run.finish()
        assert run.version == 0


@pytest.mark.long(like="test_who_never_answers_changes_nothing")
def test_the_dead_are_not_waited_for(tmp_path: Path) -> None:
    """The agent is stopped, so that killed workers stay dead; meanwhile rounds continue, and then they are back."""
    words = ("strategy=coding_cyclic", "cluster.device={base_s: 0.06}", "runtime.lease_s=20", "workload.epochs=2")
    with running(tmp_path / "run", *words) as run:
        run.await_training(3)
        os.kill(run.agent_pid, signal.SIGSTOP)
        assert run.unregister(("worker", 1))
        run.await_events("Lost")
        run.await_training(run.version + 6)
        assert not run.events("Joined")
        os.kill(run.agent_pid, signal.SIGCONT)
        run.await_events("Joined")
        run.finish()
        assert run.finished["status"] == "done"
        assert distance(run) <= 1e-5
        check_record(run)
