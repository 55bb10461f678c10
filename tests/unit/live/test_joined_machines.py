"""Which machine of several that have joined has which task: newcomers, restarts, losses (no agent, no socket)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.live.control.joined import JoinedMachines
from runtime.live.joining.site import Site
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId

ADDRESSES = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}


class Scene:
    """Three machines with 4, 2 and 3 cores; worker:0 and server:0 are on ``a``, worker:1 is on ``b``."""

    def __init__(self, checkpoints: str = "") -> None:
        self.said: list[tuple[Any, ...]] = []
        self.lost: set[str] = set()
        self.addresses = dict(ADDRESSES)
        self.machines = SimpleNamespace(allocated={}, addresses={}, places={})
        self.tasks: dict[NodeId, Any] = {}
        self.node_of = {"worker:0": "a", "server:0": "a", "worker:1": "b"}
        for task, node in self.node_of.items():
            place = Place(address=ADDRESSES[node])
            self.machines.places[task], self.tasks[NodeId.parse(task)] = place, SimpleNamespace(place=place)
        members: Any = SimpleNamespace(layout=SimpleNamespace(nodes=[NodeId.parse(task) for task in self.node_of]))
        self.cores = {"a": 4, "b": 2, "c": 3}
        self.launcher = SimpleNamespace(cores=self.cores.__getitem__, address=self.addresses.get)
        site = Site(nodes=("a", "b", "c"), addresses=ADDRESSES, checkpoints=checkpoints)
        here: Any = self
        self.joined = JoinedMachines(site, here, cast("Any", self.machines), here, members, self.note, self.tasks, 1.0)

    # agents
    def where(self, task: str) -> str:
        return self.node_of.get(task, "a")

    def is_here(self, node: str) -> bool:
        return node not in self.lost

    # the injector and its plan
    @property
    def plan(self) -> Scene:
        return self

    def awaits(self, task: str) -> bool:
        return False

    def machine_lost(self, node: str, tasks: list[str], reason: str) -> None:
        self.said.append(("lost", node, tasks, reason))

    # the session
    def note(self, kind: str, /, **fields: Any) -> None:
        self.said.append((kind, *fields.values()))


def test_who_starts_elsewhere_goes_where_most_room_is_left() -> None:
    """``c`` has three cores free, ``a`` two of four, ``b`` one of two."""
    scene = Scene()
    scene.joined.choose("worker:2")
    assert scene.node_of["worker:2"] == "c"
    assert scene.machines.addresses["worker:2"] == ADDRESSES["c"]
    scene = Scene()
    scene.lost = {"a", "b", "c"}
    scene.joined.choose("worker:2")
    assert (scene.node_of.pop("worker:2"), scene.machines.addresses) == ("a", {}), "it waits on the first"
    scene.lost = set()
    place = scene.joined.move("worker:1")
    assert place == scene.machines.places["worker:1"]
    assert place.address == ADDRESSES["c"]
    assert scene.said == [("Moved", "worker:1", "c")]
    scene = Scene("/shared")
    assert scene.joined.move("server:0") is not None
    assert scene.node_of["server:0"] == "c"


@pytest.mark.parametrize("why", ["what it has stored", "its cores are limited", "no other has room"])
def test_it_starts_again_where_it_was_if_it_cannot_leave(why: str) -> None:
    scene = Scene()
    task = "server:0" if why == "what it has stored" else "worker:0"
    if why == "its cores are limited":
        scene.machines.allocated[task] = 1.0
    elif why == "no other has room":
        scene.cores.update(b=1, c=0)
    assert scene.joined.move(task) is None
    assert (scene.node_of[task], scene.said) == ("a", [])


def test_with_a_machine_its_tasks_are_lost_and_they_start_at_the_address_of_the_next_one() -> None:
    scene: Any = Scene()
    scene.joined.lost("a", "it is off")
    scene.joined.here("a", "10.0.0.9")
    assert scene.said == [
        ("NodeLost", "a", "it is off"),
        ("lost", "a", ["worker:0", "server:0"], "a is lost"),
        ("NodeJoined", "a", "10.0.0.9"),
    ]
    assert [task.place.address for task in scene.tasks.values()] == ["10.0.0.9", "10.0.0.9", ADDRESSES["b"]]
