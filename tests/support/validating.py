"""Validation after every event: of jobs on the heap, on the virtual clock, and of live ones in the driver's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from runtime.core.coordinator import Coordinator
from runtime.core.recovery.automaton import Recovery
from runtime.live.control.session import LiveSession
from runtime.live.control.supervisor import LiveSupervisor
from runtime.virtual.control.inbox import Inbox
from runtime.virtual.control.supervisor import VirtualSupervisor
from tests.support.recovering import Recovering
from tests.support.validation import Validation


class Inconsistent(AssertionError):
    """What does not hold, after an event."""


class Validator:
    """Validates when the outermost of nested calls has returned; ``count`` is how often it has."""

    def __init__(self) -> None:
        self.count = 0
        self._depth = 0

    def around(self, call: Callable[..., Any], parts: Callable[[Any], tuple[Coordinator, Recovery] | None]) -> Any:
        """The method, followed by a validation of the job that ``parts`` finds at its object; None: it cannot be."""

        def validated(owner: Any, *args: Any, **fields: Any) -> Any:
            self._depth += 1
            try:
                result = call(owner, *args, **fields)
            finally:
                self._depth -= 1
            if not self._depth and (found := parts(owner)) is not None:
                self.count += 1
                validate(*found)
            return result

        return validated


def validate(job: Coordinator, recovery: Recovery) -> None:
    """Raise :class:`Inconsistent` with all violations of a job that has begun and has not ended."""
    begun = any(member.incarnation or member.state != "launching" for member in job.members.members.values())
    if begun and job.status is None and (found := Validation(job, recovery).violations()):
        raise Inconsistent("\n".join(found))


def _on_heap(run: Any) -> tuple[Coordinator, Recovery] | None:
    """Not while orders are on their way, which the heap carries out as events of the same time."""
    ordered = run.core.course.halted and run.heap and run.heap[0][0] <= run.t
    return None if ordered or not hasattr(run, "recovery") or getattr(run, "failed", "") else (run.core, run.recovery)


def _of_inbox(inbox: Inbox) -> tuple[Coordinator, Recovery] | None:
    return _of_virtual(inbox.owner.supervisor)  # type: ignore[attr-defined]


def _of_virtual(supervisor: VirtualSupervisor) -> tuple[Coordinator, Recovery] | None:
    session: Any = supervisor.owner
    return None if session.failure is not None else (supervisor.coordinator, supervisor.recovery)


def _of_live(session: LiveSession) -> tuple[Coordinator, Recovery] | None:
    fine = session.started and session.failure is None and not session.recorded
    return (session.coordinator, session.supervisor.recovery) if fine else None


def _of_supervisor(supervisor: LiveSupervisor) -> tuple[Coordinator, Recovery] | None:
    return _of_live(supervisor.session)


EVENTS: tuple[tuple[type, str, Any], ...] = (
    (Recovering, "happen", _on_heap),
    (Coordinator, "receive", lambda job: None),
    (Inbox, "decide", _of_inbox),
    (VirtualSupervisor, "tell", _of_virtual),
    (LiveSession, "on_message", _of_live),
    (LiveSession, "receive", _of_live),
    (LiveSupervisor, "tell", _of_supervisor),
)
"""Methods by which all that happens comes in, and the job that they belong to."""


@contextmanager
def validated() -> Iterator[Validator]:
    """Jobs are validated after every event meanwhile."""
    validator = Validator()
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, parts in EVENTS:
            patch.setattr(owner, name, validator.around(getattr(owner, name), parts))
        yield validator
