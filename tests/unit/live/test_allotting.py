"""What nodes may use: which limits are set and read back, kept for the next incarnation, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from runtime.core.node_orders import LaunchOrder
from runtime.live.control.allotting import Allotter
from runtime.live.machines.machines import HostMachines
from runtime.live.machines.mechanisms import NOTHING, Mechanisms
from runtime.live.machines.shared import SharedMachines
from runtime.live.transport.messages import Actuated, Message, Pace, Paced
from strategies.protocol import NodeId
from tests.unit.live.test_host_places import Group

WORKER = NodeId.worker(0)
GROUPS = msgspec.structs.replace(NOTHING, memory=True, allocations="cgroup")


class Scene:
    """An allotter with two tasks of the start, and all that it says."""

    def __init__(self, mechanisms: Mechanisms = GROUPS, level: float = 1.0) -> None:
        shared = SharedMachines("0" * 16, None, NOTHING)
        shared.mechanisms = mechanisms
        shared.groups[""] = Group()  # type: ignore[assignment]
        self.machines = HostMachines(shared, "", None, ["server:0", "worker:0"], 8.0)
        self.sent: list[tuple[NodeId, Message]] = []
        self.asked: list[tuple[str, float | None, str, Callable[[Actuated], None]]] = []
        """Of the agent: whom to limit to how many cores, by what, and what follows from its answer."""
        self.notes: list[dict[str, Any]] = []
        self.failures: list[str] = []
        self.allotter = Allotter(
            self.machines,
            lambda target: level,
            lambda node, message: self.sent.append((node, message)),
            lambda target, cores, by, then: self.asked.append((target, cores, by, then)),
            lambda kind, **fields: self.notes.append({"type": kind, **fields}),
            self.failures.append,
        )

    def group(self, task: str) -> Group:
        found = self.machines.groups[task]
        assert isinstance(found, Group)
        return found


def test_a_newcomer_gets_a_group_with_its_limits_and_the_plan_throttles_what_was_allocated() -> None:
    scene = Scene()
    place = scene.allotter.admit(LaunchOrder(node="worker:1", pending_s=0.0, cpu_cores=0.5, memory_bytes=10_000))
    assert place.cgroup_files == ("/worker-1",)
    assert scene.group("worker:1").cores == [0.5]
    assert scene.notes == [
        {"type": "Enforced", "node": "worker:1", "cpu_cores": 0.5, "by": "cgroup"},
        {"type": "Enforced", "node": "worker:1", "memory_bytes": 8192},
    ]
    scene = Scene(level=0.5)
    scene.allotter.allocate(WORKER, 2.0, None)
    assert scene.group("worker:0").cores == [1.0]
    assert (scene.machines.quota("worker:0", 1.0), scene.machines.quota("worker:0", 0.25)) == (2.0, 0.5)
    scene.allotter.allocate(WORKER, None, None)
    assert scene.group("worker:0").cores == [1.0, 4.0]
    assert scene.machines.quota("worker:0", 1.0) is None


@pytest.mark.parametrize(("cores", "memory"), [(1.0, None), (None, 10_000)])
def test_without_groups_there_is_no_place_with_limits(cores: float | None, memory: int | None) -> None:
    scene = Scene(NOTHING)
    with pytest.raises(ValueError, match=r"^(cpu_cores=1: nothing limits|memory_bytes=10000: needs control groups)"):
        scene.allotter.admit(LaunchOrder(node="worker:1", pending_s=0.0, cpu_cores=cores, memory_bytes=memory))
    assert scene.allotter.admit(LaunchOrder(node="worker:1", pending_s=0.0)).cgroup_files == ()


@pytest.mark.parametrize("by", ["duty", "cpulimit"])
def test_without_groups_the_agent_limits_cores_to_what_the_plan_leaves(by: Any) -> None:
    scene = Scene(msgspec.structs.replace(NOTHING, allocations=by), level=0.5)
    scene.allotter.admit(LaunchOrder(node="worker:1", pending_s=0.0, cpu_cores=0.5))
    scene.allotter.allocate(WORKER, 2.0, None)
    scene.allotter.allocate(WORKER, None, None)
    assert [asked[:3] for asked in scene.asked] == [
        ("worker:1", 0.25, by),
        ("worker:0", 1.0, by),
        ("worker:0", 4.0, by),  # half of the eight that it can use at once
    ]
    assert scene.notes == [], "nothing is claimed before it is done"
    scene.asked[0][3](Actuated(target="worker:1", kind="cpu", by=by, achieved=0.24))
    assert scene.notes == [{"type": "Enforced", "node": "worker:1", "cpu_cores": 0.24, "by": by}]
    scene.asked[1][3](Actuated(target="worker:0", kind="cpu", by=by, achieved=None, problem="it is gone"))
    assert scene.failures == ["worker:0: its cores could not be allocated: it is gone"]


def test_who_leaves_is_limited_no_more_and_who_cannot_be_limited_is_denied() -> None:
    scene = Scene(msgspec.structs.replace(NOTHING, allocations="duty"))
    scene.allotter.admit(LaunchOrder(node="worker:1", pending_s=0.0, cpu_cores=0.5))
    for node in (NodeId.worker(1), WORKER):
        scene.allotter.dismiss(node)
    assert [asked[:3] for asked in scene.asked] == [("worker:1", 0.5, "duty"), ("worker:1", None, "duty")]
    scene.asked[1][3](Actuated(target="worker:1", kind="cpu", by="duty", achieved=None))
    assert scene.notes == []
    scene = Scene(msgspec.structs.replace(NOTHING, allocations="duty"))
    with pytest.raises(ValueError, match=r"^worker:1: 0.001 cores cannot be held"):
        scene.allotter.admit(LaunchOrder(node="worker:1", pending_s=0.0, cpu_cores=0.001))
    assert (scene.asked, scene.machines.allocated) == ([], {})
    scene = Scene()
    with pytest.raises(ValueError, match="more than there are"):
        scene.allotter.admit(LaunchOrder(node="worker:1", pending_s=0.0, cpu_cores=5.0))
    assert scene.machines.quota("worker:1", 1.0) is None
    scene.allotter.allocate(WORKER, 5.0, None)
    assert scene.failures == ["worker:0: its cores could not be allocated: 5 cores requested: more than there are"]


def test_the_next_incarnation_sends_as_slowly_and_another_rate_leaves_cores_alone() -> None:
    scene = Scene()
    scene.allotter.ready(WORKER)
    scene.allotter.allocate(WORKER, None, 0.5)
    scene.allotter.ready(WORKER)
    scene.allotter.paced(WORKER, Paced(bytes_per_s=1))
    scene.allotter.allocate(WORKER, None, None)
    scene.allotter.ready(WORKER)
    assert scene.sent == [(WORKER, Pace(bytes_per_s=1)), (WORKER, Pace(bytes_per_s=1)), (WORKER, Pace())]
    assert scene.notes == [{"type": "Enforced", "node": "worker:0", "link_bytes_per_s": 1}]
    scene = Scene()
    for rate in (1e6, 2e6, None):
        scene.allotter.allocate(WORKER, 2.0, rate)
    assert scene.group("worker:0").cores == [2.0]
    assert len(scene.sent) == 3
    assert [note["cpu_cores"] for note in scene.notes] == [2.0]


def test_a_kill_for_memory_is_noticed_once() -> None:
    scene = Scene()
    assert not scene.machines.killed_for_memory("worker:0")
    scene.group("worker:0").kills = 1
    assert [scene.machines.killed_for_memory("worker:0") for _ in range(2)] == [True, False]
    assert not scene.machines.killed_for_memory("evaluator:0")
