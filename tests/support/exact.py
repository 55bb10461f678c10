"""What every live job is held to: no sample is lost or used twice, and its record is lawful."""

from __future__ import annotations

import numpy as np

from stragglab.vouching.replaying import build_strategy
from tests.support.invariants import problems, replay
from tests.support.runs import RecordSink, Run

ALLOW = {"STRAGGLAB_ALLOW_TARGETS": "tests"}


def assert_sound(run: RecordSink) -> None:
    """The record is lawful, and a fresh strategy decides the same."""
    assert problems(run.lines()) == []
    assert replay(run.lines(), build_strategy(run.run_dir)) == []


def assert_used(run: RecordSink, times: float) -> None:
    """Of the ledger: every sample is in the final parameters so often, and the record is lawful."""
    assert set(run.parameters().tolist()) == {times}
    assert problems(run.lines()) == []


def assert_uses_are_exact(run: RecordSink) -> None:
    """Of a ledger's job that was ended: every sample was used as often as there are whole epochs, or once more."""
    uses, finished = run.parameters(), run.finished
    epochs = finished["epochs_done"]
    assert set(np.unique(uses)) <= {float(epochs), float(epochs + 1)}
    assert uses.sum() == finished["samples_applied"]
    assert uses.sum() > 0


def end_exactly(run: Run, patience_s: float = 60.0) -> None:
    """Ctrl-C for a ledger's job that has no end of its own."""
    run.interrupt(patience_s)
    assert_uses_are_exact(run)
    assert problems(run.lines()) == []
