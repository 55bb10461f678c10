"""The plan of a live run is carried out: messages, their times, and the record."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.cluster.gpu_hogs import DeviceUsers
from runtime.cluster.hosts import Placement, parse_hosts
from runtime.core.inputs import Operated
from runtime.live.control.injecting import NOBODY, Injector
from runtime.live.control.link_pacing import LinkRate
from runtime.live.machines.machines import HostMachines
from runtime.live.machines.mechanisms import NOTHING
from runtime.live.transport.messages import Actuated, Freeze, Throttle
from strategies.protocol import NodeId
from tests.unit.live.test_host_places import Group
from tests.unit.live.test_supervisor import Clock

TASKS = ["server:0", "worker:0", "worker:1"]
HOSTS = parse_hosts({"count": 2, "cpu_cores": 2.0, "real_cores_per_core": 0.2, "link_mbps": 80}, 2, 1)


class Links:
    def __init__(self) -> None:
        self.said: list[Any] = []

    def set_rate(self, host: int, rate: float) -> float:
        self.said.append(("rate", host, rate))
        return rate - 1

    def set_peer_rate(self, sender: int, receiver: int, rate: float | None) -> float | None:
        self.said.append(("peer", sender, receiver, rate))
        return rate

    def cut(self, host: int, on: bool) -> None:
        self.said.append(("cut", host, on))


class Scene:
    """An injector and all that it speaks to."""

    def __init__(
        self, *windows: Disturbance, throttles: Any = "cgroup", quotas: Any = "cgroup", users: DeviceUsers = NOBODY
    ) -> None:
        mechanisms = msgspec.structs.replace(NOTHING, host_quotas=quotas, throttles=throttles, network=True)
        self.machines = object.__new__(HostMachines)  # neither groups nor networks are made here
        self.machines.hosts, self.machines.mechanisms, self.machines.tasks = HOSTS, mechanisms, TASKS
        self.machines.cores_each, self.machines.allocated, self.machines.requests = 1.0, {}, False
        self.machines.left = {}
        self.machines.placement = Placement(HOSTS)
        self.links = Links()
        self.machines.network = self.links  # type: ignore[assignment]
        self.groups = {name: Group() for name in [*TASKS, "host:0", "host:1"]}
        self.machines.groups = self.groups  # type: ignore[assignment]
        self.clock, self.received, self.notes, self.said, self.failures = Clock(), [], [], [], []
        self.operated: list[tuple[str, str]] = []
        schedule = Schedule(build_plan("test", 0, 100.0, windows))
        tell = lambda target, message: self.received.append(message)  # noqa: E731
        self.injector = Injector(schedule, self.machines, self.clock, self, tell, users)  # type: ignore[arg-type]

    def let_move(self) -> None:
        """Tasks move from one host to the other, without groups and networks."""
        placement = self.machines.placement
        self.machines.move = lambda task, to=None, dead=(): placement.move(task, to, dead) and None  # type: ignore[assignment]

    def note(self, kind: str, /, **fields: Any) -> None:
        assert kind == "Injected"
        self.notes.append((self.clock.now, fields))

    def failed(self, reason: str) -> None:
        self.failures.append(reason)

    def receive(self, given: Operated) -> None:
        self.operated.append((given.change, given.node))

    @property
    def supervisor(self) -> Scene:
        return self

    def hold(self, task: NodeId, reason: str) -> None:
        self.said.append(("hold", str(task)))

    def release(self, task: NodeId) -> None:
        self.said.append(("release", str(task)))


def window(kind: Any, target: str, magnitude: float = 1.0, start_s: float = 1.0, end_s: float = 2.0) -> Disturbance:
    return Disturbance(start_s=start_s, end_s=end_s, target=target, kind=kind, magnitude=magnitude)


def test_quotas_and_links_are_a_part_of_what_the_target_has() -> None:
    scene = Scene(window("cpu", "worker:0", 0.25), window("cpu", "host:1", 0.5, 1.5, 3.0))
    scene.injector.start()
    scene.clock.pass_to(10)
    assert scene.groups["worker:0"].cores == [pytest.approx(0.1), None], "a quarter of its host's 0.4 cores, then all"
    assert scene.groups["host:1"].cores == [pytest.approx(0.2), pytest.approx(0.4)]
    noted = [(t, note["target"], note["level"]) for t, note in scene.notes if note["by"] == "cgroup"]
    assert noted == [(1.0, "worker:0", 0.25), (1.5, "host:1", 0.5), (2.0, "worker:0", 1.0), (3.0, "host:1", 1.0)]
    scene = Scene(window("bandwidth", "link:1", 0.1), window("bandwidth", "link:0>1", 0.5), window("cut", "link:0"))
    scene.injector.start()
    scene.clock.pass_to(10)
    assert ("rate", 1, pytest.approx(1e6)) in scene.links.said
    assert ("rate", 1, 1e7) in scene.links.said
    assert ("peer", 0, 1, 5e6) in scene.links.said
    assert ("peer", 0, 1, None) in scene.links.said
    assert [said for said in scene.links.said if said[0] == "cut"] == [("cut", 0, True), ("cut", 0, False)]
    first = next(note for _, note in scene.notes if note["target"] == "link:1")
    assert (first["asked"], first["achieved"]) == (pytest.approx(1e6), pytest.approx(1e6 - 1)), "as read back"


def test_links_of_machines_elsewhere_are_paced_and_noted_when_all_have_answered() -> None:
    scene, asked = Scene(window("bandwidth", "link:1", 0.1)), []
    scene.injector.paced = SimpleNamespace(change=lambda *words: asked.append(words))  # type: ignore[assignment]
    scene.injector.start()
    scene.clock.pass_to(1)
    ((target, level, then),) = asked
    assert (target, level, scene.notes) == ("link:1", 0.1, [])
    scene.clock.now = 1.2
    then(LinkRate(1e6, 9e5))
    ((_, note),) = scene.notes
    assert (note["by"], note["asked"], note["achieved"], note["took_s"]) == ("pacing", 1e6, 9e5, pytest.approx(0.2))
    assert scene.failures == []
    scene.injector.stop()
    assert [words[:2] for words in asked] == [("link:1", 0.1), ("link:1", 1.0)], "it ends with the run"
    asked[1][2](LinkRate(None, None, "worker:1: protocol not available"))
    assert scene.failures == ["bandwidth of link:1 could not be injected: worker:1: protocol not available"]


def test_the_agent_answers_in_order_and_its_answer_is_what_counts() -> None:
    scene = Scene(window("pause", "worker:1"), window("cpu", "worker:0", 0.5), throttles="duty")
    scene.injector.start()
    scene.clock.pass_to(1)
    assert scene.received == [
        Throttle(target="worker:0", cores=pytest.approx(0.2), by="duty"),
        Freeze(target="worker:1", on=True),
    ]
    assert scene.notes == [], "nothing is claimed before it is done"
    scene.clock.now = 1.2
    scene.injector.answered(Actuated(target="worker:0", kind="cpu", by="duty", achieved=0.19))
    scene.injector.answered(Actuated(target="worker:1", kind="pause", by="signal", achieved=1.0))
    (t, first), (_, second) = scene.notes
    assert (t, first["achieved"], first["took_s"]) == (1.2, 0.19, pytest.approx(0.2))
    assert (second["target"], second["asked"]) == ("worker:1", 1.0)


def test_answers_to_others_do_not_mix_with_those_to_the_plan() -> None:
    scene, answers = Scene(window("cpu", "worker:0", 0.5), throttles="duty"), []
    scene.machines.allocated["worker:0"] = 0.1
    scene.injector.throttle("worker:1", 0.3, "duty", answers.append)
    scene.injector.start()
    scene.clock.pass_to(10)
    assert scene.received == [
        Throttle(target="worker:1", cores=0.3, by="duty"),
        Throttle(target="worker:0", cores=pytest.approx(0.05), by="duty"),
        Throttle(target="worker:0", cores=0.1, by="duty"),
    ], "half of what is allocated to it, then all of that"
    for target, cores in (("worker:1", 0.3), ("worker:0", 0.05), ("worker:0", 0.1)):
        scene.injector.answered(Actuated(target=target, kind="cpu", by="duty", achieved=cores))
    assert [answer.target for answer in answers] == ["worker:1"]
    assert [(note["target"], note["achieved"]) for _, note in scene.notes] == [("worker:0", 0.05), ("worker:0", 0.1)]


def test_a_killed_host_takes_its_tasks_along_and_who_moves_avoids_it() -> None:
    scene = Scene(window("kill", "host:1", start_s=1, end_s=4))
    scene.let_move()
    scene.injector.start()
    scene.clock.pass_to(3)
    assert scene.said == [("hold", "server:0"), ("hold", "worker:1")]
    scene.injector.moved("worker:0")
    assert scene.said[2:] == [("hold", "worker:0")]
    scene.clock.pass_to(5)
    assert scene.said[3:] == [("release", "server:0"), ("release", "worker:1"), ("release", "worker:0")]
    noted = [(t, note["target"], note["level"], note["by"]) for t, note in scene.notes]
    assert noted == [(1.0, "host:1", 1.0, "signal"), (4.0, "host:1", 0.0, "signal")]
    scene = Scene(window("kill", "host:1"), window("kill", "worker:1"), window("kill", "host:0", 1.0, 5.0, 6.0))
    asked: list[Any] = []
    scene.machines.move = lambda *words: asked.append(words)  # type: ignore[assignment]
    scene.injector.start()
    for t in (1.5, 3.0):
        scene.clock.pass_to(t)
        scene.injector.moved("worker:0")
    assert asked == [("worker:0", None, [1]), ("worker:0", None, [])]


def test_an_agent_keeps_who_is_throttled_or_stopped_and_has_to_answer() -> None:
    """It would keep doing so if the task came back."""
    scene = Scene(window("pause", "worker:1", end_s=3), throttles="duty")
    scene.injector.start()
    scene.clock.pass_to(1)
    assert scene.injector.awaits("worker:1")
    scene.injector.answered(Actuated(target="worker:1", kind="pause", by="signal", achieved=1.0))
    assert scene.injector.awaits("worker:1")
    scene.clock.pass_to(4)
    scene.injector.answered(Actuated(target="worker:1", kind="pause", by="signal", achieved=0.0))
    assert not scene.injector.awaits("worker:1")


def test_hogs_leave_of_a_device_what_all_that_reach_it_are_left() -> None:
    users = DeviceUsers((0, 1), 2)
    scene = Scene(window("gpu", "worker:0", 0.5, 1, 4), window("gpu", "device:0", 0.25, 2, 3), users=users)
    scene.injector.start()
    scene.clock.pass_to(5)
    taken = [(message.target, message.taken_frac) for message in scene.received]
    assert taken == [("device:0", 0.5), ("device:0", 0.75), ("device:0", 0.5), ("device:0", 0.0)]
    for left in (0.5, 0.25):
        scene.injector.answered(Actuated(target="device:0", kind="gpu", by="hog", achieved=left, measured=0.9))
    noted = [(note["target"], note["asked"], note["achieved"], note["measured"]) for _, note in scene.notes]
    assert noted == [("worker:0", 0.5, 0.5, 0.9), ("device:0", 0.25, 0.25, 0.9)]
    assert scene.failures == []
    scene.injector.answered(Actuated(target="device:0", kind="gpu", by="hog", achieved=None, problem="a hog has ended"))
    assert scene.failures == ["gpu of device:0 could not be injected: a hog has ended"]


def test_at_the_end_nobody_stays_throttled() -> None:
    ends = (window("cut", "link:1", end_s=50), window("pause", "worker:1", end_s=50))
    scene = Scene(window("cpu", "worker:0", 0.5, end_s=50), *ends, window("kill", "server:0", end_s=50))
    scene.injector.start()
    scene.clock.pass_to(2)
    scene.injector.stop()
    assert scene.groups["worker:0"].cores[-1] is None
    assert scene.links.said[-1] == ("cut", 1, False)
    assert scene.received[-1] == Freeze(target="worker:1", on=False)
    assert scene.said == [("hold", "server:0")], "nobody is started for the end"
    scene.clock.pass_to(60)
    assert len(scene.groups["worker:0"].cores) == 2, "nothing is carried out after that"


def test_quotas_of_hosts_that_the_agent_keeps_are_set_before_the_job_and_operators_act_once() -> None:
    scene = Scene(quotas="duty", throttles="none")
    scene.injector.prepare()
    assert [message.target for message in scene.received] == ["host:0", "host:1"]
    assert all(message.cores == pytest.approx(0.4) for message in scene.received)
    for target in ("host:0", "host:1"):
        scene.injector.answered(Actuated(target=target, kind="cpu", by="duty", achieved=0.4))
    assert scene.notes == [], "that is no disturbance"
    scene.injector.prepare()
    scene.injector.answered(Actuated(target="host:0", kind="cpu", by="duty", achieved=None, problem="it is gone"))
    assert "it is gone" in scene.failures[-1]
    scene = Scene(window("leave", "worker:1", end_s=9.0), window("join", "worker:4", 1.0, 3.0, 9.0))
    scene.injector.start()
    scene.clock.pass_to(10)
    scene.injector.stop()
    assert scene.operated == [("leave", "worker:1"), ("join", "worker:4")]
    assert [(t, note["kind"], note["by"]) for t, note in scene.notes] == [
        (1.0, "leave", "operator"),
        (3.0, "join", "operator"),
    ]
