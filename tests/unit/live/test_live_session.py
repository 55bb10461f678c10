"""What a live session does with messages that come too late."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from runtime.core import inputs
from runtime.live.control.session import LiveSession


def session_of(heard: list[inputs.AnyInput]) -> LiveSession:
    """A session of a job that is over, with a coordinator that only listens."""
    nobody = SimpleNamespace()
    session = LiveSession.__new__(LiveSession)
    session.loop, session.record = cast("Any", SimpleNamespace(now=2.0)), cast("Any", nobody)
    session.started, session.recorded, session.failure, session._driven_s = True, False, None, None
    session.loads = None
    session.port = cast("Any", SimpleNamespace(flush=lambda: None))
    session.nodes = cast("Any", SimpleNamespace(free_places=lambda: None))
    session.coordinator = cast(
        "Any", SimpleNamespace(receive=lambda t, given: heard.append(given), status="done", finished_s=1.0)
    )
    return session


def test_a_report_after_the_end_is_in_the_record_only_until_the_end_is() -> None:
    """A task's last report may come while it is sent away; nothing follows ``Finished`` in a record."""
    heard: list[inputs.AnyInput] = []
    session, report = session_of(heard), inputs.ServerBusy(0, 0, 1, 1.0, 0.0)
    session.receive(report)
    assert heard == [report]
    session.recorded = True
    session.receive(report)
    assert heard == [report]


def test_so_are_notes() -> None:
    """An agent that has undone a disturbance says so, and may do it later than the end of a job that fails."""
    noted: list[str] = []
    session = session_of([])
    session.record = cast("Any", SimpleNamespace(note=lambda t, kind, **fields: noted.append(kind)))
    session.note("Injected", target="worker:0")
    session.recorded = True
    session.note("Injected", target="worker:0")
    assert noted == ["Injected"]


def test_what_an_event_causes_has_its_time() -> None:
    """A limit is set, read back and noted while a strategy's answer is carried out, whose line comes after the note."""
    session, noted = session_of([]), list[float]()
    loop = SimpleNamespace(now=1.0)
    session.loop = cast("Any", loop)
    session.record = cast("Any", SimpleNamespace(note=lambda t, kind, **fields: noted.append(t)))

    def receive(t: float, given: inputs.AnyInput) -> None:
        loop.now += 0.5
        session.note("Enforced", node="worker:3")

    session.coordinator = cast("Any", SimpleNamespace(receive=receive, status=None))
    session.receive(inputs.ServerBusy(0, 0, 1, 1.0, 0.0))
    session.note("Enforced", node="worker:4")
    assert noted == [1.0, 1.5]
