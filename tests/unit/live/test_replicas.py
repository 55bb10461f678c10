"""Which version replicas continue from after a loss, on a fake clock (no process, no socket)."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.core.recovery.replicas import Agreement, agree
from runtime.live.tasks.replica import NOTHING
from runtime.live.transport.messages import (
    AgentReady,
    Attach,
    Attached,
    Deliver,
    Halt,
    Halted,
    Launch,
    Reconfigure,
    Saved,
)
from strategies.protocol import NodeId
from tests.unit.live.test_supervisor import World

# ---- the decision ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("versions", "wanted"),
    [
        ({0: 5, 1: 5, 2: 5}, Agreement(5, 0, ())),
        ({0: 4, 1: 5, 2: 4}, Agreement(5, 1, (0, 2))),
        ({0: NOTHING, 1: 5, 2: 5}, Agreement(5, 1, (0,))),
        ({2: 0, 3: NOTHING}, Agreement(0, 2, (3,))),
        ({0: NOTHING, 1: NOTHING}, None),
    ],
)
def test_the_newest_version_wins(versions: dict[int, int], wanted: Agreement | None) -> None:
    assert agree(versions) == wanted


# ---- the supervisor -------------------------------------------------------------------------------------------------


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


def started(**settings: Any) -> Replicas:
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
    world = started()
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
    world = started()
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


def test_the_evaluator_hears_from_a_replica_that_lives() -> None:
    world = started()
    world.die(("worker", 0))
    world.halted(w1=2, w2=2)
    world.connect(("worker", 0))
    world.form(0, 1, 2)
    assert world.said(Attach)[-1].generation == 1
    assert [address.port for address in world.said(Attach)[-1].servers] == [1001]


def test_native_ddp_ends_with_its_first_loss() -> None:
    world = started(inseparable=True)
    world.die(("worker", 1))
    (failed,) = [words for words in world.heard if words[0] == "failed"]
    assert "worker 1 is gone (killed by signal 9), and topology.collective=ddp cannot continue" in failed[1]


def test_with_failover_by_checkpoint_all_read_the_last_one() -> None:
    world = started(failover="checkpoint")
    world.die(("worker", 1))
    world.halted(w0=7, w2=7)
    world.connect(("worker", 1))
    assert all((form.source, form.checkpoint) == (-1, 0) for form in world.forms.values())
    world.form(0, 1, 2)
    assert world.heard[-1][:3] == ("Restored", 0, b"start")
