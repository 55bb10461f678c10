"""What a live session does with messages that come too late, and with tasks that start elsewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.core import inputs
from runtime.live.control.session import LiveSession
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId


def session_of(heard: list[inputs.AnyInput]) -> LiveSession:
    """A session of a job that is over, with a coordinator that only listens."""
    nobody = SimpleNamespace()
    session = LiveSession(
        cast("Any", SimpleNamespace(now=2.0)), lambda session: cast("Any", nobody), cast("Any", nobody)
    )
    session.started = True
    session.port = cast("Any", SimpleNamespace(flush=lambda: None))
    layout = SimpleNamespace(version=0, nodes=())
    session.coordinator = cast(
        "Any",
        SimpleNamespace(
            receive=lambda t, given: heard.append(given),
            status="done",
            finished_s=1.0,
            executor=SimpleNamespace(layout=layout),
        ),
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


class Injector:
    """Moves every task, and keeps what it was asked; ``None`` for the number: it chooses itself."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int | None]] = []

    def moved(self, task: str, to: int | None) -> Place:
        self.asked.append((task, to))
        return Place(host=f"host:{to}")


def session_on_hosts(**host_of: str) -> tuple[LiveSession, Injector]:
    """With its tasks on these hosts (``w0="host:1"``)."""
    session, injector = session_of([]), Injector()
    session.injector, session.allotter = cast("Any", injector), cast("Any", SimpleNamespace(moved=lambda node: None))
    session.place_of = {name.replace("w", "worker:"): host for name, host in host_of.items()}.get
    return session, injector


@pytest.mark.parametrize(("answer", "asked"), [(2, [("worker:0", 2)]), (None, [])])
def test_a_restarted_task_goes_where_the_cluster_says_or_stays(answer: int | None, asked: list[Any]) -> None:
    """Who stays meets what the plan does to it on its host, so the injector hears nothing."""
    session, injector = session_on_hosts(w0="host:1")
    session.elsewhere = lambda task: answer
    place = session.moved(NodeId.worker(0))
    assert injector.asked == asked
    assert (place is None) == (answer is None)


def test_without_a_cluster_its_host_is_chosen_here() -> None:
    session, injector = session_on_hosts(w0="host:1")
    assert session.moved(NodeId.worker(0)) is not None
    assert injector.asked == [("worker:0", None)]


def test_only_who_has_another_host_after_a_pause_leaves_something_behind() -> None:
    session, injector = session_on_hosts(w0="host:0", w1="host:1")
    resumed: list[dict[NodeId, Place]] = []
    session.supervisor = cast("Any", SimpleNamespace(resume=resumed.append))
    session.resume({"worker:0": 0, "worker:1": 2})
    assert injector.asked == [("worker:1", 2)]
    assert resumed == [{NodeId.worker(1): Place(host="host:2")}]
