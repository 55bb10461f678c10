"""Where the tasks of a live job go that start elsewhere, and what becomes of nodes that find no place."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.core import inputs
from runtime.core.node_orders import AllocateOrder, LaunchOrder, RetireOrder
from runtime.core.recovery import inputs as recovery
from runtime.live.control.nodes import LiveNodes
from runtime.live.control.session import LiveSession
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId


class Injector:
    """Moves every task, and keeps what it was asked; ``None`` for the number: it chooses itself."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int | None]] = []

    def moved(self, task: str, to: int | None) -> Place:
        self.asked.append((task, to))
        return Place(host=f"host:{to}")


def nodes_on(**host_of: str) -> tuple[LiveNodes, Injector]:
    """Those of a job with its tasks on these hosts (``w0="host:1"``)."""
    injector, nobody = Injector(), cast("Any", SimpleNamespace())
    allotter = cast("Any", SimpleNamespace(moved=lambda node: None))
    places = {name.replace("w", "worker:"): host for name, host in host_of.items()}
    return LiveNodes(nobody, nobody, cast("Any", injector), allotter, places.get), injector


@pytest.mark.parametrize(("answer", "asked"), [(2, [("worker:0", 2)]), (None, [])])
def test_a_restarted_task_goes_where_the_cluster_says_or_stays(answer: int | None, asked: list[Any]) -> None:
    """Who stays meets what the plan does to it on its host, so the injector hears nothing."""
    nodes, injector = nodes_on(w0="host:1")
    nodes.elsewhere = lambda task: answer
    place = nodes.moved(NodeId.worker(0))
    assert injector.asked == asked
    assert (place is None) == (answer is None)


def test_who_has_another_host_is_moved_there() -> None:
    nodes, injector = nodes_on(w0="host:1")
    assert nodes.moved(NodeId.worker(0)) is not None
    assert injector.asked == [("worker:0", None)]
    nodes, injector = nodes_on(w0="host:0", w1="host:1")
    resumed: list[dict[NodeId, Place]] = []
    nodes.supervisor = cast("Any", SimpleNamespace(resume=resumed.append))
    nodes.resume({"worker:0": 0, "worker:1": 2})
    assert injector.asked == [("worker:1", 2)]
    assert resumed == [{NodeId.worker(1): Place(host="host:2")}]


class Owner:
    """A session that receives inputs."""

    def __init__(self) -> None:
        self.heard: list[inputs.AnyInput] = []

    def receive(self, given: inputs.AnyInput) -> None:
        self.heard.append(given)


@pytest.mark.parametrize(
    ("node", "heard"),
    [
        ("worker:3", inputs.WorkerLost(3, 0, "no room", restarting=False)),
        ("server:2", inputs.ServerLost(2, 0, "no room", holding=False)),
    ],
)
def test_a_newcomer_without_a_place_is_lost_before_it_starts(node: str, heard: inputs.AnyInput) -> None:
    def admit(order: LaunchOrder, host: int | None) -> Place:
        raise ValueError("no room")

    members = SimpleNamespace(layout=SimpleNamespace(version=0, nodes=()))
    nobody, owner = cast("Any", SimpleNamespace(members=members)), Owner()
    nodes = LiveNodes(cast("Any", owner), nobody, nobody, cast("Any", SimpleNamespace(admit=admit)), lambda task: None)
    nodes.carry_out(LaunchOrder(node=node, pending_s=0.0))
    assert owner.heard == [heard]


class Desk:
    """A cluster that answers later."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def ask(self, node: NodeId, order: LaunchOrder) -> None:
        self.heard.append(("ask", str(node)))

    def allot(self, node: NodeId, cores: float, reserve: Callable[[], str | None]) -> str | None:
        self.heard.append(("allot", f"{node} {cores:g}"))
        return reserve() if cores < 2.0 else "there are not so many"

    def leaving(self, node: NodeId) -> None:
        self.heard.append(("leaving", str(node)))


class AtDesk:
    """The nodes of a job that asks a cluster; ``room``: whether its own machines can take a newcomer."""

    def __init__(self, *, room: bool = True) -> None:
        self.room, self.desk, self.owner = room, Desk(), Owner()
        self.did: list[tuple[Any, ...]] = []
        self.ends: list[Any] = []
        """Called when the processes of nodes that have left end."""
        members = SimpleNamespace(layout=SimpleNamespace(version=0, nodes=()))
        supervisor = SimpleNamespace(
            members=members,
            tasks={NodeId.worker(0): None},
            launch=lambda order, place: self.did.append(("launch", order.node, place.host)),
            tell=lambda given: self.did.append(("tell", given)),
            once_ended=lambda node, then: self.ends.append(then),
        )
        allotter = SimpleNamespace(admit=self._admit, dismiss=lambda node: None, refuses=lambda node, cores: None)
        injector = SimpleNamespace(plan=SimpleNamespace(admitted=lambda task: None), paced=None)
        about: Any = (self.owner, supervisor, injector, allotter)
        self.nodes = LiveNodes(*about, lambda task: None)
        self.nodes.requests.desk = self.desk

    def _admit(self, order: LaunchOrder, host: int | None) -> Place:
        if not self.room:
            raise ValueError("no room")
        return Place(host=f"host:{host}")


ASKED, LAUNCH = NodeId.worker(1), LaunchOrder(node="worker:1", pending_s=0.0, cpu_cores=1.0)


def test_a_node_starts_when_and_where_the_cluster_grants_it() -> None:
    job = AtDesk()
    job.nodes.carry_out(LAUNCH)
    assert (job.desk.heard, job.did) == ([("ask", "worker:1")], [])
    job.nodes.granted(ASKED, 2)
    job.nodes.granted(ASKED, 2)
    assert job.did == [("launch", "worker:1", "host:2")]


def test_a_node_that_cannot_start_where_it_was_granted_gives_its_cores_back() -> None:
    job = AtDesk(room=False)
    job.nodes.carry_out(LAUNCH)
    job.nodes.granted(ASKED, 2)
    assert job.owner.heard == [inputs.WorkerLost(1, 0, "no room", restarting=False)]
    job.ends.pop()()
    assert job.desk.heard == [("ask", "worker:1"), ("leaving", "worker:1")]


def test_a_node_that_is_refused_does_not_start() -> None:
    job = AtDesk()
    job.nodes.carry_out(LAUNCH)
    job.nodes.refused(ASKED, "nothing is left")
    job.nodes.refused(ASKED, "nothing is left")
    job.nodes.granted(ASKED, 2)
    assert job.owner.heard == [inputs.WorkerLost(1, 0, "nothing is left", restarting=False)]
    assert job.did == []


def test_a_request_that_is_taken_back_is_no_loss_of_a_task() -> None:
    """A node that was there leaves by the recovery, which reports it when it is gone."""
    job = AtDesk()
    job.nodes.carry_out(LAUNCH)
    job.nodes.carry_out(RetireOrder("worker:1", "not needed"))
    job.nodes.granted(ASKED, 2)
    assert job.desk.heard == [("ask", "worker:1"), ("leaving", "worker:1")]
    assert job.did == []
    job.nodes.carry_out(RetireOrder("worker:0", "not needed"))
    assert job.did == [("tell", recovery.Dismiss(NodeId.worker(0), "not needed"))]
    assert job.desk.heard[2:] == []


def test_cores_are_the_clusters_until_the_last_process_of_a_node_has_ended() -> None:
    job = AtDesk()
    job.nodes.left(ASKED)
    assert job.desk.heard == []
    job.ends.pop()()
    assert job.desk.heard == [("leaving", "worker:1")]
    job.nodes.requests.desk = None
    job.nodes.left(ASKED)
    assert job.ends == []


@pytest.mark.parametrize(("cores", "refused"), [(1.5, None), (2.5, "there are not so many"), (None, None)])
def test_other_cores_are_asked_for(cores: float | None, refused: str | None) -> None:
    job = AtDesk()
    assert job.nodes.book(AllocateOrder("worker:0", cores, None)) == refused
    assert job.desk.heard == [("allot", f"worker:0 {cores or 0:g}")]
    job.nodes.allotter = cast("Any", SimpleNamespace(refuses=lambda node, cores: "the host has less"))
    assert job.nodes.book(AllocateOrder("worker:0", cores, None)) == (refused or "the host has less")


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


def test_a_report_or_a_note_after_the_end_is_in_the_record_only_until_the_end_is() -> None:
    """A task's last report may come while it is sent away; nothing follows ``Finished`` in a record."""
    heard: list[inputs.AnyInput] = []
    session, report = session_of(heard), inputs.ServerBusy(0, 0, 1, 1.0, 0.0)
    session.receive(report)
    assert heard == [report]
    session.recorded = True
    session.receive(report)
    assert heard == [report]
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
