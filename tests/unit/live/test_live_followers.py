"""Orders about replicas of the server, and the supervisor when one of them takes over. No process."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.core.job import ApplyOrder, ReplicateOrder
from runtime.live.control.following import LiveFollowers
from runtime.live.transport.address import Address
from runtime.live.transport.messages import (
    AgentReady,
    Attach,
    Attached,
    Deliver,
    Fence,
    Follow,
    Halt,
    Halted,
    Launch,
    LoadCheckpoint,
    Loaded,
    Message,
    Reconfigure,
    Release,
    ReplicateGradient,
    Saved,
    SendState,
    Update,
)
from strategies.protocol import NodeId
from tests.unit.live.test_supervisor import World, started

SERVER, FIRST, SECOND = (NodeId.server(number) for number in range(3))
WORKER = NodeId.worker(3)


class Job:
    """Server 0 and two replicas; sent is what was said to whom."""

    def __init__(self) -> None:
        self.sent: list[tuple[NodeId, Message]] = []
        self.present, self.least, self.state = {FIRST: 4, SECOND: 0}, 0, 0
        self.orders = LiveFollowers(self, self, self)  # type: ignore[arg-type]

    def send(self, key: NodeId, message: Message) -> None:
        self.sent.append((key, message))

    def address_for(self, caller: NodeId, called: NodeId) -> Address:
        return Address(transport="tcp", host=f"{called} for {caller}", port=1)

    @property
    def holders(self) -> tuple[NodeId, ...]:
        return (SERVER,)

    @property
    def followers(self) -> dict[NodeId, int]:
        return self.present

    @property
    def generation(self) -> int:
        return 5

    def data_state(self) -> dict[str, Any]:
        self.state += 1
        return {"state": self.state}

    def followed(self) -> int | None:
        return self.least


@pytest.fixture
def job() -> Job:
    return Job()


def test_a_worker_gives_a_gradient_to_the_process_that_follows(job: Job) -> None:
    job.orders.replicate(ReplicateOrder(server=1, version=8, grad_id=7, worker=3))
    to = job.address_for(WORKER, FIRST)
    assert job.sent == [(WORKER, ReplicateGradient(grad_id=7, generation=5, server=1, incarnation=4, to=to))]


def test_a_copy_is_ordered_from_the_server_and_from_who_takes_it(job: Job) -> None:
    job.orders.replicate(ReplicateOrder(server=2, version=8, overtaken=(6,)))
    source = job.address_for(SECOND, SERVER)
    assert job.sent == [
        (SERVER, SendState(server=2, incarnation=0)),
        (SECOND, Follow(generation=5, version=8, source=source, overtaken=(6,))),
    ]


def test_replicas_make_the_servers_updates_and_deliver_nothing(job: Job) -> None:
    apply = ApplyOrder(version=9, grads=(7,), weights=(1.0,), lr=0.1, samples=1)
    update = Update(drop=(6,), apply=apply, deliver=(("worker", 3, 0, 8),), inner_products=((1, 2),))
    job.orders.update(update, lambda same, replica: same)
    job.orders.update(Update(deliver=(("worker", 3, 0, 9),)), lambda same, replica: same)
    assert job.sent == [(key, Update(drop=(6,), apply=apply)) for key in (FIRST, SECOND)]


def test_at_the_start_all_follow_and_workers_let_go_when_that_is_ordered(job: Job) -> None:
    job.orders.start()
    job.orders.release(3, (1, 2))
    assert job.sent == [
        (FIRST, Follow(generation=5, version=0)),
        (SECOND, Follow(generation=5, version=0)),
        (WORKER, Release(grads=(1, 2))),
    ]


def test_states_of_the_data_are_remembered_as_long_as_a_replica_may_have_their_version(job: Job) -> None:
    for version in range(4):
        job.least = max(0, version - 2)
        job.orders.remember(version)
    assert job.orders.states == {1: {"state": 2}, 2: {"state": 3}, 3: {"state": 4}}
    job.orders.restored()
    assert job.orders.states == {}


class Replicated(World):
    """The session knows the data's state at any version."""

    def state_of(self, version: int) -> bytes:
        return f"at {version}".encode()


def lost_server() -> World:
    """The server of a job with a replica has died, whose last checkpoint is of version 9."""
    world = started(servers=1, num_replicas=1, kind=Replicated)
    world.supervisor.save(9, b"stored")
    world.tell(("server", 0), Saved(id=1, seconds=0.1))
    world.forget()
    world.die(("server", 0))
    return world


def loads(world: World, key: tuple[str, int], version: int, state: bytes = b"") -> LoadCheckpoint:
    """It has done what it was ordered last, with this version."""
    ordered = world.said(LoadCheckpoint, key)[-1]
    world.tell(key, Loaded(id=ordered.id, generation=ordered.generation, version=version, state=state))
    return ordered


@pytest.mark.parametrize(("at", "state"), [(8, b"stored"), (9, b"at 9")])
def test_a_newer_checkpoint_is_read_instead_and_an_older_one_is_not(at: int, state: bytes) -> None:
    world = lost_server()
    assert [key for key, message in world.sent if isinstance(message, LoadCheckpoint)] == [("server", 1)], "at once"
    assert loads(world, ("server", 1), at).id == -2
    if at < 9:
        assert not world.said(Attach)
        assert loads(world, ("server", 1), 9, b"stored").id == 1
    world.attach(*world.clients)
    (restored,) = [words for words in world.heard if words[0] == "Restored"]
    assert restored[1:3] == (9, state)
    assert world.supervisor.members.layout.shares == ((NodeId.server(1), 1.0),)


def test_workers_hear_that_a_replica_is_lost_and_give_it_nothing_any_more() -> None:
    world = started(servers=1, num_replicas=1)
    assert world.supervisor.roster.followers == {NodeId.server(1): 0}
    world.die(("server", 1))
    fenced = [key for key, message in world.sent if isinstance(message, Fence)]
    assert fenced == [("worker", 0), ("worker", 1)]
    assert world.supervisor.roster.followers == {}


class Replicas(World):
    """Everything around the supervisor of three replicas."""

    listens = "worker"

    def __init__(self, **settings: Any) -> None:
        super().__init__(workers=3, servers=0, **settings)

    def form(self, *workers: int) -> None:
        """These have carried out their last order."""
        for worker in workers:
            newest = self.said(Reconfigure, ("worker", worker))[-1]
            self.tell(("worker", worker), Attached(generation=newest.generation))

    def halted(self, **versions: int) -> None:
        for name, version in versions.items():
            key = ("worker", int(name[1:]))
            self.tell(key, Halted(generation=self.said(Halt, key)[-1].generation, version=version))

    @property
    def forms(self) -> dict[int, Reconfigure]:
        """The newest of everybody."""
        return {key[1]: message for key, message in self.sent if isinstance(message, Reconfigure)}


def trained(**settings: Any) -> Replicas:
    world = Replicas(**settings)
    world.tell(("agent", 0), AgentReady(import_s=1.0, versions={}))
    for key in world.keys:
        world.connect(key)
    world.form(*world.forms)
    world.attach(("evaluator", 0))
    assert world.names() == ["agent_ready", "agents_ready", "all_attached"]
    world.supervisor.save(0, b"start")
    world.tell(("worker", 0), Saved(id=0, seconds=0.1))
    world.forget()
    return world


def test_at_the_start_all_begin_anew_as_soon_as_the_last_is_there() -> None:
    world = Replicas()
    world.tell(("agent", 0), AgentReady(import_s=1.0, versions={}))
    for key in world.keys[:2]:
        world.connect(key)
    assert not world.forms
    world.connect(("evaluator", 0))
    assert not world.said(Attach)
    world.connect(("worker", 2))
    assert all((form.source, form.checkpoint, form.anew) == (-1, -1, True) for form in world.forms.values())
    assert [peer.worker for peer in world.forms[1].peers] == [0, 1, 2]
    assert [address.port for address in world.said(Attach)[0].servers] == [1000]
    world.form(0, 1, 2)
    assert "all_attached" not in world.names()
    world.attach(("evaluator", 0))
    assert "all_attached" in world.names()
    assert "Restored" not in world.names()


def test_a_loss_halts_all_and_the_newest_version_goes_on() -> None:
    world = trained()
    world.die(("worker", 1))
    assert world.names() == ["WorkerLost", "RolledBack"]
    assert {key for key, message in world.sent if isinstance(message, Halt)} == {("worker", 0), ("worker", 2)}
    world.halted(w0=6, w2=7)
    assert not world.forms
    world.connect(("worker", 1))
    assert {worker: form.source for worker, form in world.forms.items()} == {0: 2, 1: 2, 2: -1}
    donations = [(key, message.id, message.incarnation) for key, message in world.sent if isinstance(message, Deliver)]
    assert donations == [(("worker", 2), 0, 0), (("worker", 2), 1, 1)]
    assert [peer.incarnation for peer in world.forms[0].peers] == [0, 1, 0]
    world.form(0, 1)
    assert "Restored" not in world.names()
    world.form(2)
    assert world.heard[-1][:3] == ("Restored", 7, None)


def test_a_worker_that_is_restarted_elsewhere_joins_the_others_on_their_way() -> None:
    world = trained()
    world.supervisor.restart(NodeId.worker(0), 5.0)
    world.halted(w1=4, w2=4)
    world.form(1, 2)
    assert world.heard[-1][:3] == ("Restored", 4, None)
    assert world.supervisor.roster.replicas == (1, 2)
    world.forget()
    world.live(6.0)
    assert world.said(Launch)
    world.connect(("worker", 0))
    assert world.supervisor.roster.replicas == (0, 1, 2)
    assert {worker: form.source for worker, form in world.forms.items()} == {0: 1, 1: -1, 2: -1}
    assert [(key, message.id) for key, message in world.sent if isinstance(message, Deliver)] == [(("worker", 1), 0)]
    assert "WorkerJoined" not in world.names()
    world.form(0)
    assert ("WorkerJoined", 0, 1) in world.heard
    assert not {"RolledBack", "Restored"} & set(world.names())


def test_the_evaluator_hears_from_a_replica_that_lives_and_native_ddp_ends_with_its_first_loss() -> None:
    world = trained()
    world.die(("worker", 0))
    world.halted(w1=2, w2=2)
    world.connect(("worker", 0))
    world.form(0, 1, 2)
    assert world.said(Attach)[-1].generation == 1
    assert [address.port for address in world.said(Attach)[-1].servers] == [1001]
    world = trained(inseparable=True)
    world.die(("worker", 1))
    (failed,) = [words for words in world.heard if words[0] == "failed"]
    assert "worker 1 is gone (killed by signal 9), and topology.collective=ddp cannot continue" in failed[1]
