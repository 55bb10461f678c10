"""Keeps the tasks of a live run alive: launches, leases, restarts, fences, and brings lost servers back."""

from __future__ import annotations

from runtime.containment.pids import outer_pid
from runtime.core.coordinator import RESTARTED
from runtime.live.control.leases import Leases
from runtime.live.control.saving import Checkpoints
from runtime.live.control.settings import Settings
from runtime.live.control.tasks import BESIDE, MAX_FUTILE, Death, Key, Task, death
from runtime.live.transport.auth import Identity
from runtime.live.transport.hub import Hub
from runtime.live.transport.listener import Listener
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import (
    AgentReady,
    Attach,
    Attached,
    Exited,
    Fence,
    Forked,
    KillTask,
    Launch,
    LoadCheckpoint,
    Loaded,
    MalformedMessage,
    Message,
    Report,
    SaveCheckpoint,
    Saved,
    Severed,
    TaskReady,
)

SEVERED_GRACE_S = 0.5
"""A broken connection is usually the first sign of a death; so long we wait for the death itself to be reported."""


class Supervisor:
    """``phase`` of a recovery: ``none``, ``launching`` (servers), ``loading`` (the checkpoint), ``attaching``."""

    def __init__(self, loop: Loop, settings: Settings, num_workers: int, num_servers: int, listener: Listener) -> None:
        self.loop, self.settings, self.listener = loop, settings, listener
        tasks = [Task(role="server", id=server) for server in range(num_servers)]
        tasks += [Task(role="worker", id=worker) for worker in range(num_workers)]
        tasks += [Task(role=role, id=0) for role in (("scorer", "evaluator") if settings.scores else ("evaluator",))]
        self.tasks: dict[Key, Task] = {task.key: task for task in tasks}
        self.servers = tasks[:num_servers]
        self.clients = tasks[num_servers:]
        self.hub: Hub
        self.generation = 0
        self.phase = "none"
        self.started = False
        self.num_parameters = 0
        self.restarts = 0
        self.checkpoints = Checkpoints(num_servers)
        self._loaded: dict[int, Loaded] = {}
        self.leases = Leases(self.tasks, settings)

    @property
    def keepers(self) -> list[Task]:
        """Who writes the parts of a checkpoint."""
        return self.servers

    @property
    def absent(self) -> tuple[str, ...]:
        """States of tasks that nobody waits for."""
        return ("left",) if self.settings.failover == "checkpoint" else ("left", "pending")

    # ---- start -------------------------------------------------------------------------------------------------------

    def begin(self, hub: Hub) -> None:
        """From now on the agent and the tasks may call."""
        self.hub = hub
        self.leases.begin(self.loop.now)
        self.loop.after(self.settings.start_deadline_s, self._check_started)
        self.loop.after(self.leases.period_s, self._tick)

    def clock_restarted(self) -> None:
        """Now is 0: what was heard before was heard now."""
        self.leases.started(self.loop.now)

    def admit(self, identity: Identity) -> bool:
        """Only the incarnation that was launched last may call."""
        if identity.role == "agent":
            return ("agent", 0) not in self.hub.peers
        task = self.tasks.get((identity.role, identity.id))
        if task is None or not task.expects(identity.incarnation):
            return False
        task.connected, task.heard_s = True, self.loop.now
        return True

    def _check_started(self) -> None:
        if not self.started:
            self.listener.failed(self.leases.not_ready())

    # ---- messages ----------------------------------------------------------------------------------------------------

    def receive(self, identity: Identity, message: Message) -> bool:
        """Take a message that is about life and death; False when it is about something else."""
        if identity.role == "agent":
            return self._from_agent(message)
        task = self.tasks[identity.role, identity.id]
        task.heard_s = self.loop.now
        match message:
            case TaskReady():
                self._ready(task, message)
            case Attached():
                self._attached(task, message)
            case Severed():
                self._severed(task, message)
            case Saved():
                self._save_done(task, message)
            case Loaded():
                self._load_done(task, message)
            case _:
                task.useful = task.useful or isinstance(message, Report)
                return False
        return True

    def closed(self, identity: Identity, reason: str = "connection lost") -> None:
        """A control connection has ended: its process will be reported dead in a moment, or is made so."""
        if identity.role == "agent":
            self.listener.agent_lost()
            return
        task = self.tasks[identity.role, identity.id]
        self.loop.after(SEVERED_GRACE_S, lambda: self.kill(task, identity.incarnation, reason))

    def _from_agent(self, message: Message) -> bool:
        match message:
            case AgentReady():
                self.listener.agent_ready(message)
                for task in self.tasks.values():
                    self._launch(task)
            case Forked():
                task = self._named(message)
                if task.expects(message.incarnation):
                    task.pid = message.pid
                self.listener.note(
                    "Launched", role=task.role, id=task.id, incarnation=message.incarnation, pid=outer_pid(message.pid)
                )
            case Exited():
                task = self._named(message)
                how = death(message.exit_code, message.signal, message.last_line)
                about = {"role": task.role, "id": task.id, "incarnation": message.incarnation}
                self.listener.note("Exited", **about, reason=how.reason)
                if task.expects(message.incarnation):
                    self._gone(task, how)
            case _:
                return False
        return True

    def _named(self, message: Forked | Exited) -> Task:
        """The task that the agent speaks of."""
        if (task := self.tasks.get((message.role, message.id))) is None:
            raise MalformedMessage(f"{message}, of a task that there is not")
        return task

    def _launch(self, task: Task) -> None:
        task.heard_s = self.loop.now
        self.hub.send(("agent", 0), Launch(role=task.role, id=task.id, incarnation=task.incarnation, place=task.place))

    # ---- life --------------------------------------------------------------------------------------------------------

    def _ready(self, task: Task, message: TaskReady) -> None:
        task.built(message.address, message.side)
        self.num_parameters = message.num_parameters
        if task.role == "server":
            self._servers_changed()
        elif self.phase in ("none", "attaching") and self._all_servers_ready():
            self._attach(task)

    def _all_servers_ready(self) -> bool:
        return all(server.state == "ready" for server in self.servers)

    def _servers_changed(self) -> None:
        if not self._all_servers_ready():
            return
        if self.phase == "launching":
            self.phase, self._loaded = "loading", {}
            for server in self.servers:
                load = LoadCheckpoint(id=self.checkpoints.complete, generation=self.generation)
                self.hub.send(server.key, load)
        elif self.phase == "none":
            self._attach_all()

    def _attach_all(self) -> None:
        for task in self.clients:
            if task.state in ("ready", "attached"):
                task.state = "ready"
                self._attach(task)

    def _attach(self, task: Task) -> None:
        beside = task.role in BESIDE
        addresses = [server.side if beside and server.side else server.address for server in self.servers]
        known = tuple(address for address in addresses if address)
        self.hub.send(task.key, Attach(generation=self.generation, servers=known))

    def _attached(self, task: Task, message: Attached) -> None:
        if message.generation != self.generation or self.phase not in ("none", "attaching"):
            return
        task.state = "attached"
        if self.started and task.role == "worker":
            self.listener.worker_joined(task.id, task.incarnation)
        elif self.started and task.role == "scorer":
            self.listener.scorer_joined()
        self._check_attached()

    def _check_attached(self) -> None:
        waiting = [task for task in self.clients if task.state not in ("attached", *self.absent)]
        if self.phase == "attaching" and not any(task.role == "worker" for task in waiting):
            self.phase = "none"
            if self.started:
                loaded = self._loaded[0]
                self.listener.restored(loaded.version, loaded.state)
        if self.phase == "none" and not self.started and not waiting:
            self.started = True
            self.listener.all_attached()

    # ---- death -------------------------------------------------------------------------------------------------------

    def _severed(self, task: Task, message: Severed) -> None:
        """A task lost a server. If no server turns out to be dead, its connection was at fault: start anew."""
        incarnation = task.incarnation

        def check() -> None:
            if message.generation == self.generation and self.phase in ("none", "attaching"):
                self.kill(task, incarnation, f"lost its connection to a server ({message.reason})")

        self.loop.after(SEVERED_GRACE_S, check)

    def kill(self, task: Task, incarnation: int, reason: str) -> None:
        """If this incarnation still counts, the next one takes its place."""
        if task.expects(incarnation):
            self.hub.send(("agent", 0), KillTask(role=task.role, id=task.id, incarnation=incarnation))
            self.listener.note("Fenced", role=task.role, id=task.id, incarnation=incarnation, reason=reason)
            self._gone(task, Death(reason))

    def hold(self, key: Key, reason: str) -> None:
        """Kill a task and do not start it again before :meth:`release`: it waits for a place, as on a busy cluster."""
        task = self.tasks[key]
        if task.state == "left":
            return
        waits = task.held
        task.holders.add("plan")
        if waits:
            return
        self.hub.send(("agent", 0), KillTask(role=task.role, id=task.id, incarnation=task.incarnation))
        self._replace(task, reason, restarting=True)
        task.futile = 0  # it did not die of itself

    def release(self, key: Key) -> None:
        """The wait is over."""
        self._free(self.tasks[key], "plan")

    def _free(self, task: Task, holder: str) -> None:
        if holder not in task.holders:
            return
        task.holders.discard(holder)
        if not task.held:
            task.state = "launching"
            self._launch(task)

    def restart(self, key: Key, pending_s: float) -> None:
        """KILL_RESTART. A server is killed when the checkpoint that was ordered last is stored, or will not be."""
        task = self.tasks[key]
        if task.role == "worker":
            self._move(task, pending_s)
            return
        incarnation = task.incarnation

        def move() -> None:
            if task.expects(incarnation) and self.phase == "none":
                self._move(task, pending_s)

        self.checkpoints.when_complete(move)
        self.loop.after(self.settings.iteration_deadline_s, move)

    def _move(self, task: Task, pending_s: float) -> None:
        """The old incarnation ends now; the next one starts elsewhere when the scheduler has a place."""
        self.hub.send(("agent", 0), KillTask(role=task.role, id=task.id, incarnation=task.incarnation))
        task.place = self.listener.moved(task.role, task.id) or task.place
        gone = task.incarnation
        task.next_incarnation(self.loop.now)
        task.futile = 0
        task.holders.add("scheduler")
        self.hub.hang_up(task.key)
        if task.role == "server":
            self._tell_gone(task, gone, RESTARTED, restarting=True)
        else:
            task.state = "pending"
            self._fence(task, gone)
            if self._takes_all_back(task):
                self._go_back()
        self.loop.after(pending_s, lambda: self._free(task, "scheduler"))

    def _gone(self, task: Task, how: Death) -> None:
        reason = how.reason
        if not how.retryable:
            give_up = self.listener.out_of_space if how.full else self.listener.failed
            give_up(f"{task.name} crashed: {reason}")
            return
        if task.futile + (not task.useful) >= MAX_FUTILE:
            self.listener.failed(f"{task.name} died {MAX_FUTILE} times before it had done anything: {reason}")
            return
        self.restarts += 1
        limit = self.settings.max_restarts
        restarting = limit is None or self.restarts <= limit
        if not restarting and not (task.role == "worker" and self.started):
            self.listener.failed(f"{task.name} is gone ({reason}) and runtime.max_restarts={limit} is used up")
            return
        self._replace(task, reason, restarting)

    def _replace(self, task: Task, reason: str, restarting: bool) -> None:
        """The next incarnation takes its place, or nobody."""
        gone = task.incarnation
        task.next_incarnation(self.loop.now)
        self.hub.hang_up(task.key)
        if not restarting:
            task.state = "left"
        elif not task.held:
            self._launch(task)
        self._tell_gone(task, gone, reason, restarting)

    def _tell_gone(self, task: Task, gone: int, reason: str, restarting: bool) -> None:
        if task.role == "server":
            self.generation += 1
            self.phase = "launching"
            if self.started:
                self.listener.server_lost(task.id, gone, reason)
            return
        self._fence(task, gone)
        if not self.started:
            return
        if task.role == "worker":
            self.listener.worker_lost(task.id, reason, restarting)
            if all(client.state == "left" for client in self.clients if client.role == "worker"):
                self.listener.failed("no worker is left")
            elif self._takes_all_back(task):
                self._go_back()
            elif not restarting:
                self._check_attached()
        elif task.role == "evaluator":
            self.listener.evaluator_lost()

    def _fence(self, task: Task, gone: int) -> None:
        for server in self.servers:
            self.hub.send(server.key, Fence(role=task.role, id=task.id, incarnation=gone))

    def _takes_all_back(self, task: Task) -> bool:
        """Whether the loss of a worker is one for all."""
        return self.settings.failover == "checkpoint"

    def _go_back(self) -> None:
        """Fail-over without a data service: all servers read the last checkpoint, all workers begin anew."""
        self.listener.rolled_back()
        if self.phase in ("none", "attaching", "loading"):
            self.generation += 1
            self.phase = "launching"
            self._servers_changed()

    def _tick(self) -> None:
        """Whoever has been silent, or has computed, for too long is started anew."""
        now, limit = self.loop.now, self.settings.iteration_deadline_s
        for task, reason in self.leases.overdue(now):
            self.kill(task, task.incarnation, reason)
        for worker in self.listener.overdue(now, limit):
            task = self.tasks["worker", worker]
            self.kill(task, task.incarnation, f"no gradient within runtime.iteration_deadline_s={limit:g}")
        self.loop.after(self.leases.period_s, self._tick)

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def save(self, version: int, state: bytes) -> None:
        """All servers write their part of one checkpoint."""
        number = self.checkpoints.begin(version, self.loop.now)
        keep_from = max(self.checkpoints.complete, 0)
        for server in self.keepers:
            self.hub.send(server.key, SaveCheckpoint(id=number, version=version, state=state, keep_from=keep_from))

    def _save_done(self, task: Task, message: Saved) -> None:
        if self.phase != "none":
            return
        if (done := self.checkpoints.stored(message.id, task.id)) is not None:
            took_s = self.loop.now - done.begun_s
            self.listener.note("Checkpointed", id=message.id, version=done.version, seconds=took_s)
            self.checkpoints.tell()

    def _load_done(self, task: Task, message: Loaded) -> None:
        if message.generation != self.generation or self.phase != "loading":
            return
        self._loaded[task.id] = message
        if len(self._loaded) == len(self.servers):
            self.checkpoints.abandon()
            self.phase = "attaching"
            self._attach_all()
            self._check_attached()
