"""A pause withholds Computes, whoever gets them meanwhile, until its time is up."""

from __future__ import annotations

from strategies.parts.nodes import TOO_EARLY_S, Pause, is_due
from strategies.protocol import Compute, Stop


def test_who_is_held_goes_on_together_at_the_end() -> None:
    pause, stop = Pause(until_s=5.0), Stop(reason="enough")
    assert pause.hold([Compute(worker=2, num_samples=1), stop]) == [stop]
    assert pause.hold([Compute(worker=0, num_samples=1)]) == []
    assert pause.hold([Compute(worker=1, num_samples=1)]) == []
    pause.gone(1)
    assert pause.ends(4.0) == []
    assert pause.ends(5.0) == [0, 2]
    assert pause.ends(6.0) == [], "once"
    assert pause.hold([Compute(worker=1, num_samples=1)]) == [Compute(worker=1, num_samples=1)]


def test_a_clock_that_rounds_down_does_not_make_a_timer_too_early() -> None:
    assert is_due(5.0 - TOO_EARLY_S / 2, 5.0)
    assert not is_due(5.0 - 2 * TOO_EARLY_S, 5.0), "it has been replaced by a later one"
