"""When a job gives its places back: what a rollback does to the order. No job, no time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runtime.core.preemption import Preemption


def preemption(*, halted: bool) -> Preemption:
    """Of a job that trains, or that is rolling back (``halted``)."""
    nothing: Any = SimpleNamespace(wake=lambda *_: None, suspend=lambda: None, note=lambda *_, **__: None)
    course: Any = SimpleNamespace(status="", halted=halted)
    dialogue: Any = SimpleNamespace(carry_out=lambda command: None)
    return Preemption(nothing, nothing, course, dialogue, lambda: None)


def test_who_is_ordered_to_leave_while_all_roll_back_leaves_once_they_have() -> None:
    one = preemption(halted=True)
    one.order(1.0, 5.0, works=True)
    assert not one.due
    one.course.halted = False
    one.restored(2.0, 100.0, {})
    assert one.due


def test_without_an_order_a_job_that_has_rolled_back_stays() -> None:
    one = preemption(halted=False)
    one.restored(2.0, 100.0, {})
    assert not one.due
