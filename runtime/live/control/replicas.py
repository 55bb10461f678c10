"""Keeps the replicas of a run agreed on one version, whoever dies.

A replica that is lost takes a gradient with it and breaks the ring in the middle of a sum, which some of the others
may have completed and some not. So all halt, drop what is under way and say which version they hold; the newest wins,
who is behind or new takes everything over from one that has it, and the data service goes back to just before the first
update that this version lacks. With nobody left who has any, the last checkpoint is the newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from runtime.live.control.saving import Checkpoints
from runtime.live.control.settings import Settings
from runtime.live.control.supervisor import Supervisor
from runtime.live.control.tasks import Task
from runtime.live.tasks.replica import NOTHING
from runtime.live.transport.auth import Identity
from runtime.live.transport.listener import Listener
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import (
    Attach,
    Attached,
    Deliver,
    Form,
    Halt,
    Halted,
    Message,
    Peer,
    Saved,
    TaskReady,
)


class Agreement(NamedTuple):
    """From which version on all go on, who has it, and who takes it over."""

    version: int
    source: int
    behind: tuple[int, ...]


def agree(versions: Mapping[int, int]) -> Agreement | None:
    """The newest version wins, of the lowest worker that has it; None when nobody has anything (pure).

    Versions differ by one update at most, the last that was ordered, so nothing that was applied is lost.
    """
    newest = max(versions.values())
    if newest == NOTHING:
        return None
    source = min(worker for worker, version in versions.items() if version == newest)
    return Agreement(newest, source, tuple(sorted(worker for worker in versions if versions[worker] != newest)))


class States(Listener, Protocol):
    """What a listener must tell besides."""

    def state_of(self, version: int) -> bytes:
        """The data service's state when ``version`` was the newest."""
        ...


class ReplicaSupervisor(Supervisor):
    """Phases: ``launching`` until all have halted or are built, ``attaching`` until all agree, then ``none``."""

    listener: States

    def __init__(self, loop: Loop, settings: Settings, num_workers: int, num_servers: int, listener: States) -> None:
        super().__init__(loop, settings, num_workers, num_servers, listener)
        self.workers = self.clients[:-1]
        self.evaluator = self.clients[-1]
        self.phase = "launching"
        self.speaker = 0
        self._ring: dict[int, Peer] = {}
        self._versions: dict[int, int] = {}
        self._agreed = (0, b"")
        self._states: dict[int, tuple[int, bytes]] = {}
        self.checkpoints = Checkpoints(num_servers=1)

    @property
    def replicas(self) -> tuple[int, ...]:
        """Members of now, in the ring's order."""
        return tuple(self._ring)

    @property
    def keepers(self) -> list[Task]:
        """All replicas hold the same, so one of them stores it."""
        return [self.tasks["worker", self.speaker]]

    # ---- who is there ------------------------------------------------------------------------------------------------

    def receive(self, identity: Identity, message: Message) -> bool:
        """What only replicas say, too."""
        if isinstance(message, Halted):
            task = self.tasks[identity.role, identity.id]
            task.heard_s = self.loop.now
            if message.generation == self.generation:
                self._stands(task, message.version)
            return True
        return super().receive(identity, message)

    def _ready(self, task: Task, message: TaskReady) -> None:
        task.built(message.address, message.side)
        self.num_parameters = message.num_parameters
        if task.role == "evaluator":
            if self.phase != "launching":
                self._attach(task)
        elif self.phase == "launching":
            self._stands(task, NOTHING)
        else:
            self._welcome()

    def _stands(self, task: Task, version: int) -> None:
        self._versions[task.id] = version
        self._settle()

    def _settle(self) -> None:
        """When the last that is waited for has said where it stands, all go on from the same version."""
        awaited = [task for task in self.workers if task.state not in self.absent]
        if self.phase != "launching" or not awaited or any(task.id not in self._versions for task in awaited):
            return
        self._ring = {task.id: _peer(task) for task in awaited}
        self.speaker = awaited[0].id
        self.phase = "attaching"
        found = (
            None
            if self.settings.failover == "checkpoint"
            else agree({task.id: self._versions[task.id] for task in awaited})
        )
        if found is None:
            self._from_the_disk()
        else:
            self._from_each_other(found)
        if self.evaluator.state in ("ready", "attached"):
            self.evaluator.state = "ready"
            self._attach(self.evaluator)

    def _from_the_disk(self) -> None:
        """The last checkpoint or, before there is one, the beginning."""
        number = self.checkpoints.complete
        self._agreed = self._states.get(number, (0, b""))
        for worker in self._ring:
            self._form(worker, checkpoint=number, anew=number < 0)

    def _from_each_other(self, found: Agreement) -> None:
        self._agreed = (found.version, self.listener.state_of(found.version) if self.started else b"")
        for worker in self._ring:
            self._form(worker, source=found.source if worker in found.behind else -1)
        for worker in found.behind:
            self._donate(found.source, worker)

    def _form(self, worker: int, source: int = -1, checkpoint: int = -1, anew: bool = False) -> None:
        peers = tuple(self._ring.values())
        task = self.tasks["worker", worker]
        if source >= 0 or self.phase == "attaching":
            task.state = "ready"
        form = Form(generation=self.generation, peers=peers, source=source, checkpoint=checkpoint, anew=anew)
        self.hub.send(task.key, form)

    def _donate(self, source: int, worker: int) -> None:
        incarnation = self._ring[worker].incarnation
        self.hub.send(("worker", source), Deliver(role="reader", id=worker, incarnation=incarnation))

    def _welcome(self) -> None:
        """Newcomers while the others train: they take over, and are in the ring of the next update that is ordered."""
        new = [task for task in self.workers if task.state == "ready" and task.id not in self._ring]
        if self.phase != "none" or not self.started or not new:
            return
        members = {**self._ring, **{task.id: _peer(task) for task in new}}
        self._ring = dict(sorted(members.items()))
        newcomers = {task.id for task in new}
        for worker in self._ring:
            self._form(worker, source=self.speaker if worker in newcomers else -1)
        for worker in sorted(newcomers):
            self._donate(self.speaker, worker)

    def _attach(self, task: Task) -> None:
        """The evaluator hears from one replica."""
        speaker = self.tasks["worker", self.speaker]
        address = speaker.side or speaker.address
        self.hub.send(task.key, Attach(generation=self.generation, servers=(address,) if address else ()))

    def _check_attached(self) -> None:
        if self.phase == "attaching" and all(self.tasks["worker", worker].state == "attached" for worker in self._ring):
            self.phase = "none"
            if self.started:
                self.listener.restored(*self._agreed)
                self._welcome()
        if self.phase == "none" and not self.started and self.evaluator.state == "attached":
            self.started = True
            self.listener.all_attached()
            self._welcome()

    # ---- who is gone -------------------------------------------------------------------------------------------------

    def _tell_gone(self, task: Task, gone: int, reason: str, restarting: bool) -> None:
        if task.role == "worker" and not self.started:
            self._halt()
        else:
            super()._tell_gone(task, gone, reason, restarting)

    def _takes_all_back(self, task: Task) -> bool:
        """Who has not been told of yet can go without a trace."""
        return task.id in self._ring or self.phase != "none"

    def _go_back(self) -> None:
        self.listener.rolled_back()
        self._halt()

    def _halt(self) -> None:
        self.generation += 1
        self.phase = "launching"
        self._ring, self._versions = {}, {}
        self.checkpoints.abandon()
        for task in self.workers:
            if task.state in ("ready", "attached"):
                self.hub.send(task.key, Halt(generation=self.generation))
        self._settle()

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def save(self, version: int, state: bytes) -> None:
        """One replica writes it."""
        self._states[self.checkpoints.next] = (version, state)
        super().save(version, state)

    def _save_done(self, task: Task, message: Saved) -> None:
        super()._save_done(task, message)
        self._states = {number: state for number, state in self._states.items() if number >= self.checkpoints.complete}

    def _attached(self, task: Task, message: Attached) -> None:
        if task.role == "worker" and task.id not in self._ring:
            return
        super()._attached(task, message)


def _peer(task: Task) -> Peer:
    assert task.address is not None
    return Peer(task.id, task.incarnation, task.address)


class InseparableSupervisor(ReplicaSupervisor):
    """Of ``DistributedDataParallel`` as it is: whoever is lost ends the run."""

    def _tell_gone(self, task: Task, gone: int, reason: str, restarting: bool) -> None:
        if task.role == "worker":
            self.listener.failed(
                f"{task.name} is gone ({reason}), and topology.collective=ddp cannot go on without it; "
                "topology.collective=ring can"
            )
        else:
            super()._tell_gone(task, gone, reason, restarting)
