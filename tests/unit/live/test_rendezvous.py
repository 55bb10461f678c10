"""The driver and agents that join, in one process: refusals, vacancies, and the silence of either side."""

from __future__ import annotations

import os
import re
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runtime.errors import ConfigError
from runtime.live.agent.dialing import dial
from runtime.live.agent.membership import Cut, Membership
from runtime.live.joining import wire
from runtime.live.joining.facts import Code, Facts
from runtime.live.joining.site import SAVED
from runtime.live.joining.ways import door_of, open_door
from runtime.live.launchers import rendezvous
from runtime.live.launchers.pieces import Pieces
from runtime.live.launchers.rendezvous import Rendezvous, Wanted
from runtime.live.transport.auth import Identity
from runtime.live.transport.channel import LoopChannel
from runtime.live.transport.messages import encode
from runtime.live.transport.secured import new_certificate
from strategies.protocol import NodeId

TOKEN = bytes(range(32))
TASK = {"_target_": "workloads.ledger.SampleLedger", "num_samples": 7}
VERSIONS = {"stragglab": "1", "python": "3", "msgspec": "1", "numpy": "1"}
OURS = Facts(
    hostname="alpha", address="127.0.0.1", cores=1, memory_bytes=1, versions=VERSIONS, code=Code(sha256="a" * 64)
)


class Scene:
    """A rendezvous whose listener has any free port, and agents in threads."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.folder, self.said, self.ends = folder, list[str](), list[str]()
        fields: dict[str, Any] = {"nodes": 1, "wait_s": 20.0, "lease_s": 5.0, "framework": "numpy", "port": 0}
        fields["prepared"] = wire.Prepared(num_samples=7)
        wanted = Wanted(listen="127.0.0.1", token=TOKEN, ours=OURS, task=TASK, **{**fields, **more})
        self.rendezvous = Rendezvous(wanted, self.said.append)
        self.threads: list[threading.Thread] = []
        self.socks: list[Any] = []

    def agent(self, facts: Facts = OURS, token: bytes = TOKEN, *, tls: bool = False) -> None:
        def serve() -> None:
            try:
                sock = dial("127.0.0.1", self.rendezvous.hub.address.port, token, 5.0, tls=tls)
                Membership(LoopChannel(sock, wire.decode), token, facts, self.folder).run()
            except (ConfigError, Cut) as end:
                self.ends.append(str(end))

        self.threads.append(threading.Thread(target=serve))
        self.threads[-1].start()

    def until(self, reached: Callable[[], object]) -> None:
        for _ in range(600):
            if reached():
                return
            self.rendezvous.loop.turn(0.05)
        raise AssertionError((self.said, self.ends))

    def close(self) -> None:
        self.rendezvous.close()
        self.rendezvous.loop.close()
        for sock in self.socks:
            sock.close()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()


Make = Callable[..., Scene]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    scenes: list[Scene] = []

    def begin(**more: Any) -> Scene:
        scenes.append(Scene(tmp_path, **more))
        return scenes[-1]

    yield begin
    for scene in scenes:
        scene.close()
    assert list(tmp_path.iterdir()) == [], "agents leave no directory"


def test_who_agrees_is_a_member_and_the_nodes_are_numbered_by_address(make: Make) -> None:
    scene = make(nodes=2)
    for address in ("10.0.0.10", "10.0.0.9"):
        scene.agent(msgspec.structs.replace(OURS, address=address))
    scene.rendezvous.await_nodes()
    members = {node: scene.rendezvous.members[key].address for node, key in scene.rendezvous.keys.items()}
    assert members == {"node0": "10.0.0.9", "node1": "10.0.0.10"}
    assert scene.said[0].startswith("launcher=join: 0 of 2 nodes joined, waiting for 2 at 127.0.0.1:")
    assert scene.said[1].startswith("launcher=join: 1 of 2 nodes joined, waiting for 1 at 127.0.0.1:")
    assert scene.said[2].startswith("launcher=join: 2 of 2 nodes joined: 10.0.0.")
    scene.agent()
    scene.until(lambda: scene.ends)
    assert scene.ends == ["the driver refuses us: launcher.nodes=2: all have joined already"]


@pytest.mark.parametrize("tls", [False, True])
def test_a_stranger_is_named_and_told_and_a_member_is_not(make: Make, tls: bool) -> None:
    scene = make(certificate=new_certificate() if tls else "")
    scene.agent(token=bytes(32), tls=tls)
    scene.until(lambda: scene.ends)
    assert scene.said == ["launcher=join: refused 127.0.0.1: its token is another one"]
    assert scene.ends[0].endswith("who listens there does not accept our token; use the driver's token file")
    scene.agent(tls=tls)
    scene.rendezvous.await_nodes()
    assert len(scene.rendezvous.members) == 1
    home = os.getcwd()
    scene.rendezvous.close()
    scene.threads[1].join(20)
    assert scene.ends[1:] == ["the driver is gone (closed): nothing runs here"]
    assert os.getcwd() == home


@pytest.mark.long(like="test_a_stranger_is_named_and_told_and_a_member_is_not")
def test_who_speaks_tls_and_who_does_not_is_named(make: Make) -> None:
    plain, secured = make(), make(certificate=new_certificate())
    for scene, words in ((plain, "it speaks TLS; leave --tls out there"), (secured, "it does not speak TLS; give it")):
        scene.agent(tls=scene is plain)
        scene.until(lambda: scene.ends and scene.said)  # noqa: B023
        assert scene.said[0].startswith(f"launcher=join: refused 127.0.0.1: {words}")
    assert plain.ends[0].endswith("does not speak TLS; leave --tls out, or start the run with launcher.tls=true")
    assert secured.ends[0].endswith("; a run with launcher.tls=true needs --tls")


@pytest.mark.parametrize(
    ("more", "sha256", "reason"),
    [
        ({}, "b", f"code: files {'b' * 12} there, files {'a' * 12} here; use the same working tree on all machines"),
        ({"shared": "/nowhere/at/all"}, "a", "data: launcher.shared_dir: /nowhere/at/all is not on that machine"),
    ],
)
def test_what_differs_is_named_on_both_sides(make: Make, more: dict[str, Any], sha256: str, reason: str) -> None:
    scene = make(**more)
    scene.agent(msgspec.structs.replace(OURS, code=Code(sha256=sha256 * 64)))
    scene.until(lambda: scene.ends)
    assert scene.said[0].startswith(f"launcher=join: refused 127.0.0.1 (alpha): {reason}")
    assert scene.ends[0].startswith(f"the driver refuses us: {reason}")


def test_too_few_are_sent_home_with_one_line(make: Make) -> None:
    scene = make(nodes=2, wait_s=0.6)
    scene.agent()
    scene.until(lambda: scene.rendezvous.members)
    with pytest.raises(
        ConfigError, match=r"launcher.nodes=2: 1 joined within launcher.wait_s=0.6 \(127.0.0.1 \(alpha\)\); start"
    ):
        scene.rendezvous.await_nodes()
    scene.threads[0].join(20)
    assert scene.ends == ["the driver refuses us: the run does not start, since not all nodes have joined"]


def test_a_way_that_is_closed_or_a_port_that_is_another_program_s_is_one_line_on_both_sides(make: Make) -> None:
    """The coordinator's port is open, a member's is not: nobody listens at its door."""
    with open_door("127.0.0.1") as door:
        gone = door_of("", door)
    scene = make(nodes=2)
    dial_and_enlist(scene, port=gone.port)
    scene.agent()
    way = f"does not reach 127.0.0.1 (alpha) at 127.0.0.1:{gone.port} (connection refused)"
    with pytest.raises(
        ConfigError, match=rf"^launcher.nodes=2: 127.0.0.1 \(alpha\) {re.escape(way)}; let the machines"
    ):
        scene.rendezvous.await_nodes()
    scene.threads[-1].join(20)
    assert way in scene.ends[0]
    with open_door("127.0.0.1") as other:
        port = other.getsockname()[1]
        scene = make(tasks_port=port)
        scene.agent()
        with pytest.raises(ConfigError, match=f"^runtime.port={port}: address already in use; choose another, or 0"):
            scene.rendezvous.await_nodes()
    scene.threads[0].join(20)
    assert scene.ends[0].startswith(f"the driver refuses us: runtime.port={port}: ")


@pytest.mark.long(like="test_all_are_heard_while_one_is_awaited")
def test_who_leaves_while_ways_are_tried_is_awaited_again_and_who_says_nothing_is_named(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = make(nodes=2)
    socks = [dial_and_enlist(scene), dial_and_enlist(scene, problem=None)]
    scene.rendezvous.loop.after(0.2, socks[1].close)
    scene.rendezvous.loop.after(0.4, scene.agent)
    scene.rendezvous.await_nodes()
    assert [line.split()[1] for line in scene.said[-2:]] == ["1", "2"]
    assert socks[1].fileno() == -1
    monkeypatch.setattr(rendezvous, "ANSWER_S", 0.2)
    scene = make()
    dial_and_enlist(scene, problem=None)
    with pytest.raises(ConfigError, match=r"^launcher.nodes=1: 127.0.0.1 \(alpha\) does not say whom it reaches; "):
        scene.rendezvous.await_nodes()


def test_silence_of_an_agent_ends_it_for_the_driver(make: Make) -> None:
    """It keeps its connection, as in a partition; another that speaks is not affected."""
    scene = make(lease_s=1.0)
    dial_and_enlist(scene)
    scene.rendezvous.await_nodes()
    begin = wire.Begin(spec=b"", salt=b"", lease_s=1.0, heartbeat_s=0.2)
    scene.rendezvous.begin("node0", begin, Pieces(scene.folder / "agent.log", None))
    assert scene.rendezvous.ended("node0") is None
    scene.until(lambda: scene.rendezvous.ended("node0"))
    assert scene.rendezvous.ended("node0") == "no word from it for launcher.lease_s=1"


def test_the_next_agent_takes_the_place_of_a_lost_one_and_whoever_gives_one_up_says_which(make: Make) -> None:
    scene = make(nodes=2)
    socks = [dial_and_enlist(scene), dial_and_enlist(scene)]
    scene.rendezvous.await_nodes()
    socks[1].close()
    node = next(node for node, key in scene.rendezvous.keys.items() if list(scene.rendezvous.members)[1] == key)
    scene.until(lambda: scene.rendezvous.ended(node))
    scene.rendezvous.vacate(node)
    assert scene.rendezvous.ended(node) == "nobody has taken its place"
    scene.agent(msgspec.structs.replace(OURS, address="10.0.0.3"))
    scene.until(lambda: scene.rendezvous.ended(node) is None)
    assert scene.rendezvous.members[scene.rendezvous.keys[node]].address == "10.0.0.3"
    assert scene.said[-1] == f"launcher=join: 10.0.0.3 (alpha) takes the place of {node}"
    scene = make(nodes=2)
    starts = vacated(scene)
    sock = dial_and_enlist(scene, start=3)
    scene.until(lambda: "node1" in scene.rendezvous.keys)
    sock.close()
    scene.until(lambda: "node1" not in scene.rendezvous.keys)
    assert len(starts) == 2
    assert starts[0] in (1, 2)
    assert starts[1] == 3
    scene.agent()
    scene.until(lambda: scene.rendezvous.ended("node1") is None)


def vacated(scene: Scene) -> list[int]:
    """The agents of both nodes are there, then that of node1 is lost; returns the starts that were given up."""
    starts: list[int] = []
    scene.rendezvous.vacated = starts.append
    socks = [dial_and_enlist(scene, start=1), dial_and_enlist(scene, start=2)]
    scene.rendezvous.await_nodes()
    of_node = dict(zip(scene.rendezvous.members, socks, strict=True))
    of_node[scene.rendezvous.keys["node1"]].close()
    scene.until(lambda: scene.rendezvous.ended("node1"))
    scene.rendezvous.vacate("node1")
    return starts


def test_nobody_takes_a_place_when_the_job_is_over(make: Make) -> None:
    scene = make(nodes=2)
    vacated(scene)
    scene.agent()
    scene.until(lambda: "node1" in scene.rendezvous.keys)
    assert scene.rendezvous.ended("node1") is None
    scene.rendezvous.end("node1")
    assert scene.rendezvous.ended("node1") == "it was never started"
    scene.until(lambda: scene.ends)
    assert scene.ends == ["the driver refuses us: the job is over"]
    assert scene.said[-1].endswith("takes the place of node1"), "nobody is awaited in its place"
    scene = make(nodes=2)
    vacated(scene)
    key = NodeId("agent", 1000)
    scene.rendezvous._enlist(key, wire.Enlist(facts=OURS))
    scene.rendezvous.end("node1")
    scene.rendezvous._prepared(key, wire.Prepared(num_samples=7))
    scene.agent()
    scene.until(lambda: scene.ends)
    assert scene.ends == ["the driver refuses us: the job is over"]
    assert scene.rendezvous.ended("node1") == "nobody has taken its place"


@pytest.mark.parametrize("ends", [Rendezvous.hang_up_now, Rendezvous.close])
def test_a_driver_that_ends_at_once_leaves_nothing_incomplete(
    make: Make, tmp_path_factory: pytest.TempPathFactory, ends: Callable[[Rendezvous], None]
) -> None:
    """What has come whole stays."""
    scene, folders = make(nodes=2), [tmp_path_factory.mktemp("run") for _ in range(2)]
    for _ in range(2):
        dial_and_enlist(scene)
    scene.rendezvous.await_nodes()
    for node, folder in zip(("node0", "node1"), folders, strict=True):
        begin(scene, folder, node).write(wire.Piece(name=SAVED, data=b"half"))
    scene.rendezvous._on_message(Identity(*scene.rendezvous.keys["node0"]), wire.Ended(reason="exit code 0"))
    ends(scene.rendezvous)
    assert [[path.name for path in folder.iterdir()] for folder in folders] == [[SAVED], []]
    scene.rendezvous.hub.peers.clear()  # their sockets are detached, as only in a process that ends then


def begin(scene: Scene, folder: Path, node: str) -> Pieces:
    pieces = Pieces(folder / "agent.log", folder / SAVED)
    scene.rendezvous.begin(node, wire.Begin(spec=b"", salt=b"", lease_s=5.0, heartbeat_s=0.5), pieces)
    return pieces


@pytest.mark.parametrize("whole", [True, False])
def test_what_tasks_leave_is_awaited_as_long_as_more_of_it_comes(
    make: Make, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """Eight seconds between two pieces, and nothing incomplete is left."""
    scene, folder = make(), tmp_path_factory.mktemp("run")
    dial_and_enlist(scene)
    scene.rendezvous.await_nodes()
    pieces, key = begin(scene, folder, "node0"), scene.rendezvous.keys["node0"]
    to_come = [wire.Piece(name=SAVED, data=bytes([number])) for number in range(6)]

    def hear(self: Rendezvous) -> None:
        self.loop.origin -= 8.0
        if to_come:
            pieces.write(to_come.pop(0))
        elif whole:
            self._on_message(Identity(*key), wire.Ended(reason="exit code 0"))

    monkeypatch.setattr(Rendezvous, "_hear", hear)
    scene.rendezvous.end("node0")
    assert to_come == []
    if whole:
        assert scene.rendezvous.ended("node0") == "exit code 0"
        assert (folder / SAVED).read_bytes() == bytes(range(6))
    else:
        silent = "it did not end within 10 s"
        assert scene.rendezvous.ended("node0") == silent
        assert scene.said[-1] == f"launcher=join: the final parameters of 127.0.0.1 (alpha) are left out: {silent}"
    assert [path.name for path in folder.iterdir()] == ([SAVED] if whole else [])


def dial_and_enlist(scene: Scene, problem: str | None = "", port: int = 0, start: int = 0) -> Any:
    """An agent that says what is needed to become a member, and nothing more.

    ``problem``: of the ways to others; None: it does not say. ``port``: of its door.
    ``start``: the number to enlist with.
    """
    found: list[Any] = []

    def speak() -> None:
        sock = dial("127.0.0.1", scene.rendezvous.hub.address.port, TOKEN, 5.0)
        channel = LoopChannel(sock, wire.decode)
        for message in (wire.Enlist(facts=OURS, start=start), wire.Prepared(num_samples=7, port=port)):
            assert not channel.send(encode(message))
            while isinstance(message, wire.Enlist) and not list(channel.receive()):
                pass
        scene.socks.append(sock)
        found.append(sock)
        with suppress(OSError, ValueError):  # closed by the test
            while problem is not None:
                select.select([sock], [], [], 0.1)
                for asked in channel.receive():
                    if isinstance(asked, wire.Reach):
                        channel.send(encode(wire.Reached(number=asked.number, problem=problem)))

    thread = threading.Thread(target=speak)
    thread.start()
    scene.threads.append(thread)
    scene.until(lambda: found)
    return found[0]


def test_all_are_heard_while_one_is_awaited(make: Make, tmp_path_factory: pytest.TempPathFactory) -> None:
    scene, folder = make(nodes=2), tmp_path_factory.mktemp("run")
    socks = [dial_and_enlist(scene), dial_and_enlist(scene)]
    scene.rendezvous.await_nodes()
    for node in scene.rendezvous.keys:
        begin(scene, folder, node)
    for sock in socks:
        sock.sendall(encode(wire.Ended(reason="exit code 0")))
    scene.rendezvous.end("node0")
    assert [scene.rendezvous.ended(node) for node in ("node0", "node1")] == ["exit code 0"] * 2
