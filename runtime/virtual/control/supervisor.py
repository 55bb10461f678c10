"""Life and death on the virtual clock: losses, restarts, checkpoints, and going back to the last one."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, final

from runtime.core.coordinator import RESTARTED, Coordinator
from runtime.virtual.clock import MESSAGE, TIMER, Clock
from runtime.virtual.costs import Costs
from runtime.virtual.machines.machines import Machines
from runtime.virtual.tasks.iteration import Crew
from runtime.virtual.tasks.learner import Learner
from runtime.virtual.tasks.replicas import Replicas
from runtime.virtual.tasks.servers import ServerGroup

Call = Callable[[float], None]

BY_PLAN = "killed by the plan"
NO_FILE = -1
"""Number of a checkpoint that was never stored."""


class Saved(NamedTuple):
    """A checkpoint: parameters and the data service's state, of one version."""

    number: int
    version: int
    state: bytes
    dumped: Any


@final
class Supervisor:
    """As the live one it is a part of the coordinator, so what befalls a machine while that decides has to wait.

    Otherwise the coordinator would go on giving orders to the dead, and hear of a return before it has heard of the
    loss. ``drive`` lets the coordinator react to something now or when it is free, ``discard`` forgets what it has
    ordered but not sent, ``note`` writes to the record, ``fail`` is told why the run cannot go on.
    """

    def __init__(
        self,
        clock: Clock,
        costs: Costs,
        coordinator: Coordinator,
        learner: Learner,
        servers: ServerGroup,
        workers: Crew,
        machines: Machines | None,
        *,
        lease_s: float,
        drive: Callable[[Call], None],
        discard: Callable[[], None],
        note: Callable[..., None],
        fail: Callable[[str], None],
        moved: Callable[[str], None],
    ) -> None:
        self.clock, self.costs, self.coordinator, self.learner = clock, costs, coordinator, learner
        self.servers, self.workers, self.machines, self.lease_s = servers, workers, machines, lease_s
        self.drive, self.discard, self.note, self.fail, self.moved = drive, discard, note, fail, moved
        self._goes_back = coordinator.job.failover == "checkpoint"
        self._copies = isinstance(servers, Replicas) and not self._goes_back
        """Who comes back takes the parameters of those who stayed."""
        self._copy_s = servers.copy_s if isinstance(servers, Replicas) else 0.0
        self._parting = False
        """They agree on a version; who is lost meanwhile changes nothing in that."""
        self._before: Saved
        """What replicas held before the last update."""
        self._leaving: tuple[int, int, float] | None = None
        """A server that restarts once a checkpoint is stored: numbers of both, and how long it will be pending."""
        self._generation = 0
        self._servers_back = True
        self._lost_servers = [0] * len(servers.num_bytes)
        self._away: set[int] = set()
        """Servers that are lost and not back yet."""
        self._ready_s = [-math.inf] * len(servers.num_bytes)
        """When each server's process was or will be there; infinity while nobody knows."""
        self._held: set[str] = set()
        """Tasks that are not to be started yet."""
        self._next_checkpoint = 0
        self._stable: Saved

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def save(self, asked_s: float, version: int, state: bytes, dumped: Any) -> None:
        """The servers write a checkpoint; it counts when the last has done so."""
        saved = Saved(self._next_checkpoint, version, state, dumped)
        self._next_checkpoint += 1
        if saved.number == 0:
            self._stable = saved
        stored = partial(self._stored, saved, self._generation, asked_s)
        self.servers.store(asked_s, lambda done_s: self.clock.at(done_s + self.costs.control_s, MESSAGE, stored))

    def _stored(self, saved: Saved, generation: int, asked_s: float) -> None:
        if generation == self._generation and self.coordinator.status is None:
            self._stable = saved
            self.note("Checkpointed", id=saved.number, version=saved.version, seconds=self.clock.now - asked_s)
            if self._leaving is not None and saved.number >= self._leaving[0]:
                self.drive(self._leave)

    # ---- workers -----------------------------------------------------------------------------------------------------

    def lose_worker(self, worker: int, reason: str, *, restarting: bool = True) -> None:
        """Its process is gone; with ``restarting`` the next incarnation joins after the time that this costs."""
        self.drive(lambda t: self._lost_worker(t, worker, reason, restarting))

    def _lost_worker(self, t: float, worker: int, reason: str, restarting: bool) -> None:
        member = self.coordinator.members.members[worker]
        if member.state == "left":
            return
        self.workers.lose(worker)
        self.note("Exited", role="worker", id=worker, incarnation=member.incarnation, reason=reason)
        self.coordinator.worker_lost(t, worker, reason, restarting)
        self._part_with(t)
        if restarting:
            self._start_worker(worker, t + self.costs.restart_s)
        elif all(other.state == "left" for other in self.coordinator.members.members.values()):
            self.fail("no worker is left")
        elif not self._copies:
            self._recover(t)

    def _start_worker(self, worker: int, ready_s: float) -> None:
        """Its next incarnation joins when it is ready, unless it is not to be started yet."""
        incarnation = self.coordinator.members.members[worker].incarnation
        if f"worker:{worker}" not in self._held:
            self.clock.at(ready_s + self.costs.control_s, MESSAGE, self._joined, worker, incarnation)

    def _joined(self, worker: int, incarnation: int) -> None:
        if self.coordinator.members.members[worker].incarnation != incarnation:
            return
        if not self._starts_late(f"worker:{worker}", 0.0, partial(self._joined, worker, incarnation)):
            self.workers.ready(worker, self.clock.now)
            self.drive(lambda t: self._join(t, worker, incarnation))

    def _join(self, t: float, worker: int, incarnation: int) -> None:
        self.coordinator.worker_joined(t, worker, incarnation)
        if self._goes_back and self._servers_back and self.coordinator.halted:
            read_s = self.servers.restore_s() + self.costs.control_s
            self.clock.at(t + read_s, MESSAGE, self.drive, self._recover)
        elif self._copies and self.coordinator.halted:
            self._copy(t)
        else:
            self._recover(t)

    def _part_with(self, t: float) -> None:
        """A worker is gone. The others go on, or back to the last checkpoint, or they see that they are alike."""
        if self._goes_back:
            self._void()
        elif self._copies:
            if not self._parting:
                self._stable = self._newest(t)
                self._parting = True
            self._void()
            self._copy(t)

    def _newest(self, t: float) -> Saved:
        """What those who stay have: with the last update, or without, if a worker has been lost within its ring."""
        assert isinstance(self.servers, Replicas)
        return self._before if t < self.servers.summed_s else self._of_now(self.coordinator.version)

    def remember(self, version: int) -> None:
        """An update of this version is ordered."""
        self._before = self._of_now(version)

    def _of_now(self, version: int) -> Saved:
        return Saved(NO_FILE, version, self.coordinator.snapshot(), self.learner.dump())

    def _copy(self, t: float) -> None:
        """Replicas take the newest parameters of each other; when all who are expected have, the job goes on."""
        self._generation += 1
        generation = self._generation
        self.clock.at(t + self._copy_s, MESSAGE, self.drive, lambda t: self._copied(t, generation))

    def _copied(self, t: float, generation: int) -> None:
        if generation == self._generation:
            self._recover(t)

    def _void(self) -> None:
        """What is under way is of no more use: everybody goes back to a version that all can have."""
        self._generation += 1
        self.workers.lose_all()
        self.servers.halt()
        self.discard()

    # ---- what the strategy wants -------------------------------------------------------------------------------------

    def restart(self, t: float, node: str, pending_s: float) -> None:
        """KILL_RESTART: the coordinator has voided what a worker had, and ordered a checkpoint before a server goes."""
        role, number = _parse(node)
        if role == "server":
            self._leaving = (self._next_checkpoint - 1, number, pending_s)
            return
        member = self.coordinator.members.members[number]
        self.note("Exited", role="worker", id=number, incarnation=member.incarnation - 1, reason=RESTARTED)
        self.workers.lose(number)
        self.moved(node)
        self._part_with(t)
        self._start_worker(number, t + pending_s + self.costs.launch_s + self._copy_s)

    def _leave(self, t: float) -> None:
        if self._leaving is not None:
            _, server, pending_s = self._leaving
            self.moved(f"server:{server}")
            self._lost_server(t, server, RESTARTED, pending_s + self.costs.launch_s)

    # ---- servers -----------------------------------------------------------------------------------------------------

    def lose_server(self, server: int, reason: str) -> None:
        """Its part of the parameters is gone: everything stands still until all are back at the last checkpoint."""
        self.drive(lambda t: self._lost_server(t, server, reason))

    def _lost_server(self, t: float, server: int, reason: str, away_s: float | None = None) -> None:
        """``away_s``: until its next incarnation is ready, where that is not as long as after a crash."""
        self._servers_back = False
        self._leaving = None
        self._away.add(server)
        gone = self._lost_servers[server]
        self._lost_servers[server] += 1
        self.note("Exited", role="server", id=server, incarnation=gone, reason=reason)
        self._void()
        self.coordinator.server_lost(t, server, gone, reason)
        self.discard()
        self._start_server(server, t + (self.costs.restart_s if away_s is None else away_s))

    def _start_server(self, server: int, ready_s: float) -> None:
        """All servers read the checkpoint when the last of them is there."""
        self._ready_s[server] = math.inf if f"server:{server}" in self._held else ready_s
        back_s = max(self._ready_s) + self.servers.restore_s() + self.costs.control_s
        if back_s < math.inf:
            self.clock.at(back_s, MESSAGE, self._servers_ready, self._generation)

    def _servers_ready(self, generation: int) -> None:
        if generation != self._generation:
            return
        again, restore_s = partial(self._servers_ready, generation), self.servers.restore_s()
        if not any(self._starts_late(f"server:{server}", restore_s, again) for server in sorted(self._away)):
            self.drive(lambda t: self._server_back(t, generation))

    def _server_back(self, t: float, generation: int) -> None:
        if generation == self._generation:
            self._servers_back = True
            self._away.clear()
            self._recover(t)

    def _recover(self, t: float) -> None:
        """As the live supervisor does it: once all servers and all workers that restart are back."""
        coordinator = self.coordinator
        absent = coordinator.members.anyone_launching() or (self._goes_back and coordinator.members.anyone_pending())
        if not coordinator.halted or self._leaving is not None or not self._servers_back or absent:
            return
        self._parting = False
        self.learner.load(self._stable.dumped)
        self.servers.begin_again(t)
        for worker in coordinator.members.members:
            self.workers.ready(worker, t)
        coordinator.restored(t, self._stable.version, self._stable.state)

    # ---- what the plan does ------------------------------------------------------------------------------------------

    def hold(self, task: str) -> None:
        """Kill a task, whose next incarnation is not scheduled before :meth:`release`."""
        self.drive(lambda t: self._hold(t, task))

    def _hold(self, t: float, task: str) -> None:
        self._held.add(task)
        self._lose(t, task, BY_PLAN)

    def release(self, task: str) -> None:
        """From now on its next incarnation may start."""
        self.drive(lambda t: self._release(t, task))

    def _release(self, t: float, task: str) -> None:
        self._held.discard(task)
        role, number = _parse(task)
        if role == "server":
            self._start_server(number, t + self.costs.launch_s)
        else:
            self._start_worker(number, t + self.costs.launch_s)

    def watch(self, task: str) -> None:
        """It stands still from now on, and gives no sign of life: who does so for longer than the lease is lost."""
        if self.machines is not None and self.lease_s < math.inf:
            since_s = self.machines.paused_since_s[task]
            self.clock.at(since_s + self.lease_s, TIMER, self._look, task, since_s, self._living(task))

    def _look(self, task: str, since_s: float, living: int | None) -> None:
        assert self.machines is not None
        if self.machines.paused_since_s.get(task) == since_s and living is not None:
            self.drive(lambda t: self._fence(t, task, living))

    def _fence(self, t: float, task: str, living: int) -> None:
        if self._living(task) == living:
            role, number = _parse(task)
            reason = f"no sign of life for {self.lease_s:.1f} s"
            self.note("Fenced", role=role, id=number, incarnation=living, reason=reason)
            self._lose(t, task, reason)

    def _lose(self, t: float, task: str, reason: str) -> None:
        role, number = _parse(task)
        if role == "server":
            self._lost_server(t, number, reason)
        else:
            self._lost_worker(t, number, reason, restarting=True)

    def _living(self, task: str) -> int | None:
        """The incarnation of a task that is there; None for one that is not."""
        role, number = _parse(task)
        if role == "server":
            return None if number in self._away else self._lost_servers[number]
        member = self.coordinator.members.members[number]
        return member.incarnation if member.state == "here" else None

    def _starts_late(self, task: str, more_s: float, again: Callable[[], None]) -> bool:
        """Whether it stands or stood still while it started; ``again()`` is called when it may be ready.

        It needs its launch and ``more_s`` from when it goes on.
        """
        if self.machines is None:
            return False
        if task in self.machines.paused_since_s:
            self.machines.awake(task, again)
            return True
        resumed_s = self.machines.resumed_s.get(task, -math.inf)
        ready_s = resumed_s + self.costs.launch_s + more_s + self.costs.control_s
        if ready_s > self.clock.now:
            self.clock.at(ready_s, MESSAGE, again)
        return ready_s > self.clock.now


def _parse(task: str) -> tuple[str, int]:
    role, _, number = task.partition(":")
    return role, int(number)
