"""Carries out the recovery of a live run: messages of tasks become its inputs, its effects messages and timers.

:mod:`runtime.core.recovery` decides; clocks, addresses, leases and notes are here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, assert_never

from runtime.containment.pids import outer_pid
from runtime.core.layout import Layout
from runtime.core.membership import Membership
from runtime.core.node_orders import LaunchOrder
from runtime.core.recovery import effects, inputs
from runtime.core.recovery.automaton import Recovery
from runtime.core.recovery.rules import Rules
from runtime.core.recovery.states import ImpossibleTransitionError, TaskState
from runtime.core.recovery.task import Key
from runtime.live.control.agents import Agents
from runtime.live.control.leases import Leases
from runtime.live.control.orders import Orders
from runtime.live.control.roster import Roster
from runtime.live.control.settings import Settings
from runtime.live.control.tasks import CROWDED_S, MAX_CROWDED, MAX_FUTILE, OUT_OF_MEMORY, Task, death
from runtime.live.machines.machines import HostMachines
from runtime.live.transport.auth import Identity
from runtime.live.transport.auxiliaries import auxiliaries_of
from runtime.live.transport.hub import Hub
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import (
    AgentReady,
    Attached,
    Exited,
    Forked,
    Halted,
    Heartbeat,
    LinkLost,
    Loaded,
    MalformedMessage,
    Message,
    Pushed,
    Report,
    Saved,
    TaskReady,
)
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId

if TYPE_CHECKING:
    from runtime.live.control.session import LiveSession

SEVERED_GRACE_S = 0.5
"""Seconds after a broken connection, usually the first sign of a death, within which the death is reported."""


class LiveSupervisor:
    """Supervises all tasks but the agent, and tells the session; ``machines`` has the places of the initial tasks."""

    def __init__(
        self, loop: Loop, settings: Settings, session: LiveSession, hub: Hub, agents: Agents, machines: HostMachines
    ) -> None:
        self.loop, self.settings, self.session = loop, settings, session
        self.agents, self.machines = agents, machines
        rules = Rules(
            failover=settings.failover,
            max_losses=settings.max_losses,
            inseparable=settings.inseparable,
            max_restarts=settings.max_restarts,
            max_futile=MAX_FUTILE,
            max_crowded=MAX_CROWDED,
            crowded_s=CROWDED_S,
            replaces_workers=settings.replaces_workers,
            num_replicas=settings.num_replicas,
        )
        roles = auxiliaries_of(scores=settings.scores)
        size = (settings.num_workers, settings.num_servers, settings.shares, settings.num_replicas)
        self.members = Membership(Layout.initial(*size))
        self.recovery = Recovery(rules, self.members, roles, settings.num_aggregators)
        places = machines.places
        self.tasks = {key: Task(life=life, place=places.get(str(key))) for key, life in self.recovery.tasks.items()}
        self.roster = Roster(self.recovery, self.tasks)
        self.leases = Leases(self.tasks, settings)
        self.num_parameters = 0
        followed = settings.num_replicas > 0
        self.orders = Orders(hub, agents, self.tasks, session.note, self._ranges, followed=followed)
        self._awaited: list[tuple[Key, frozenset[int], Callable[[], None]]] = []
        """Callbacks for the end of these incarnations of tasks."""
        self._leaving = False
        """Whether the job is preempted and not all of its processes have exited."""
        self._departures = 0
        """How often it has been preempted."""
        self._asked_s: dict[int, float] = {}
        """Time at which each checkpoint was ordered."""
        self.leases.begin(loop.now)
        loop.after(settings.start_deadline_s, self._check_started)
        loop.after(self.leases.period_s, self._tick)

    # ---- start -------------------------------------------------------------------------------------------------------

    def _ranges(self) -> Mapping[Key, tuple[int, int]]:
        """Each server's range; a replica that auxiliaries hear from has all of the vector."""
        primary = self.recovery.policy.primary
        if primary is not None:
            return {primary: (0, self.num_parameters)}
        return self.members.layout.ranges(self.num_parameters)

    def clock_restarted(self) -> None:
        """Set now to 0, and renew all leases."""
        self.leases.started(self.loop.now)
        self.agents.clock_restarted()

    def admit(self, identity: Identity) -> bool:
        """Whether an identity is expected: only the incarnation launched last is."""
        if identity.role == "agent":
            return self.agents.expects(identity)
        task = self.tasks.get(identity.key)
        if task is None or not task.life.expects(identity.incarnation):
            return False
        task.connected, task.heard_s = True, self.loop.now
        return True

    def _check_started(self) -> None:
        if not self.recovery.state.started:
            self.session.failed(self.leases.not_ready(self.agents.awaited))

    # ---- messages ----------------------------------------------------------------------------------------------------

    def receive(self, identity: Identity, message: Message) -> bool:
        """Process a message about a task's state; False if the message is about something else.

        Raises :class:`MalformedMessage` for a message that is impossible in the task's state.
        """
        if identity.role == "agent":
            return self._from_agent(identity.id, message)
        task = self.tasks[identity.key]
        task.heard_s = self.loop.now
        if isinstance(message, LinkLost):
            self._link_lost(identity, message)
            return True
        given = self._understood(task, identity.incarnation, message)
        if given is not None:
            try:
                wanted = self.recovery.receive(given)
            except ImpossibleTransitionError as error:
                raise MalformedMessage(f"{type(message).__name__}, out of turn: {error}") from None
            self._carry_out(wanted)
            return True
        if isinstance(message, Report | Pushed) and not task.life.useful:
            self.tell(inputs.Worked(task.key, identity.incarnation))
        return False

    def _understood(self, task: Task, incarnation: int, message: Message) -> inputs.AnyInput | None:
        """The recovery's input for a message; None: there is none."""
        match message:
            case TaskReady():
                task.address, task.side = message.address, message.side
                self.num_parameters = message.num_parameters
                return inputs.Ready(task.key, incarnation)
            case Attached():
                return inputs.Attached(task.key, incarnation, message.generation)
            case Saved():
                return inputs.Saved(task.key, message.id)
            case Loaded():
                return self._read_loaded(task.key, message)
            case Halted():
                return inputs.Halted(task.key, incarnation, message.generation, message.version)
        return None

    def _read_loaded(self, key: Key, message: Loaded) -> inputs.AnyInput | None:
        """A replica that takes over knows nothing of the data, and reads the last checkpoint if that is newer."""
        if message.id != effects.FOLLOWED:
            return inputs.Loaded(key, message.generation, message.version, message.state)
        checkpoints = self.recovery.state.checkpoints
        stored, _ = checkpoints.contents.get(checkpoints.complete, (-1, b""))
        if stored > message.version:
            effect = effects.Load(checkpoints.complete, message.generation, (key,))
            self.orders.of_checkpoint(effect)
            return None
        state = self.session.state_of(message.version)
        return inputs.Loaded(key, message.generation, message.version, state)

    def _link_lost(self, identity: Identity, message: LinkLost) -> None:
        """A task lost a server. If no server proves dead, its connection was at fault: restart the task."""
        lost = inputs.LinkLost(identity.key, identity.incarnation, message.generation, message.reason)
        self.loop.after(SEVERED_GRACE_S, lambda: self.tell(lost))

    def closed(self, identity: Identity, reason: str = "connection lost") -> None:
        """A control connection has ended: its process will be reported dead soon, or is killed."""
        if identity.role == "agent":
            self.agents.lost(identity.id)
            return
        self.suspect(identity.key, identity.incarnation, reason)

    def suspect(self, key: Key, incarnation: int, reason: str) -> None:
        """A task that others cannot reach is given up, unless it is reported dead before."""
        self.loop.after(SEVERED_GRACE_S, lambda: self.give_up(key, incarnation, reason))

    def _from_agent(self, number: int, message: Message) -> bool:
        self.agents.heard(number)
        match message:
            case Heartbeat():
                pass
            case AgentReady():
                everybody = self.agents.ready(number)
                self.session.agent_ready(message)
                if everybody:
                    self.session.agents_ready()
                    self.tell(inputs.Begin())
            case Forked():
                task, about = self._name(message)
                if task.life.expects(message.incarnation):
                    task.pid = message.pid
                if self.agents.elsewhere:
                    about["node"] = self.agents.where(str(task.key))
                pid = message.pid if self.agents.elsewhere else outer_pid(message.pid)
                self.session.note("Launched", **about, pid=pid)
            case Exited():
                task, about = self._name(message)
                how = death(message.exit_code, message.signal, message.last_line)
                if self.machines.killed_for_memory(str(task.key)) and message.signal:
                    how = OUT_OF_MEMORY
                self.session.note("Exited", **about, reason=how.reason)
                self.orders.processes.discard((task.key, message.incarnation))
                self.machines.leave_behind(str(task.key))
                self._look_who_ended(task.key)
                self._look_who_left()
                ways = {"retryable": how.retryable, "full": how.full, "device_full": how.device_full}
                self.tell(inputs.Gone(task.key, message.incarnation, how.reason, **ways, cause=how.cause))
            case _:
                return False
        return True

    def _name(self, message: Forked | Exited) -> tuple[Task, dict[str, object]]:
        """The task of an agent's message, and its name in notes."""
        if (task := self.tasks.get(NodeId(message.role, message.id))) is None:
            raise MalformedMessage(f"{message}, of a task that there is not")
        return task, {"role": message.role, "id": message.id, "incarnation": message.incarnation}

    # ---- what others want --------------------------------------------------------------------------------------------

    def give_up(self, key: Key, incarnation: int, reason: str) -> None:
        """Give up an incarnation, if it is still current; the next one replaces it."""
        self.tell(inputs.Silent(key, incarnation, reason))

    def hold(self, key: Key, reason: str) -> None:
        """Kill a task and do not restart it before :meth:`release`: it waits for a place, as on a busy cluster."""
        self.tell(inputs.Hold(key, reason))

    def release(self, key: Key) -> None:
        """Let the task start again."""
        self.tell(inputs.Release(key))

    def restart(self, key: Key, pending_s: float) -> None:
        """KILL_RESTART. A server goes without a checkpoint if there is none by ``iteration_deadline_s``."""
        leave = inputs.Leave(key, self.tasks[key].incarnation)
        self.tell(inputs.Restart(key, pending_s))
        if key.role == "server":
            self.loop.after(self.settings.iteration_deadline_s, lambda: self.tell(leave))

    def launch(self, order: LaunchOrder, place: Place) -> None:
        """A node more: its task exists from now on, its process when the scheduler has a place."""
        node = NodeId.parse(order.node)
        wanted = self.recovery.receive(inputs.Admit(node, order.pending_s))
        self.tasks[node] = Task(life=self.recovery.tasks[node], heard_s=self.loop.now, place=place)
        self._carry_out(wanted)

    def suspend(self) -> None:
        """End all tasks once the checkpoint that was ordered last is stored; ``LiveSession.left`` follows.

        All who wait for its places wait for that, so a job that has not left by ``iteration_deadline_s`` fails.
        """
        self._departures += 1
        number, limit_s = self._departures, self.settings.iteration_deadline_s
        self.loop.after(limit_s, lambda: self._check_left(number))
        self.tell(inputs.Suspend())

    def _check_left(self, number: int) -> None:
        """It may have left, and be away or back; a later departure has a deadline of its own."""
        stores = self.recovery.state.suspending is not None
        if number != self._departures or not (stores or self._leaving):
            return
        left = sorted({self.tasks[key].name for key, _ in self.orders.processes})
        what = "its checkpoint is not stored" if stores else f"the kernel has not ended {', '.join(left)}"
        limit = f"runtime.iteration_deadline_s={self.settings.iteration_deadline_s:g}"
        self.session.failed(f"it is preempted, and has not left within {limit}: {what}")

    def resume(self, places: Mapping[Key, Place]) -> None:
        """All tasks start again; ``places``: of those that have others now."""
        for key, place in places.items():
            self.tasks[key].place = place
        self.tell(inputs.Resume())

    def processes(self, key: Key) -> frozenset[int]:
        """The incarnations of a task that were launched and have not exited."""
        return frozenset(incarnation for launched, incarnation in self.orders.processes if launched == key)

    def once_ended(self, key: Key, then: Callable[[], None]) -> None:
        """Call ``then()`` when the processes that a task has now have ended; soon if it has none."""
        self._awaited.append((key, self.processes(key), then))
        self._look_who_ended(key)

    def _look_who_ended(self, key: Key) -> None:
        """Call the callbacks that wait for processes of this task of which none is left; later ones do not count."""
        there, waiting = self.processes(key), self._awaited
        self._awaited = [one for one in waiting if one[0] != key or one[1] & there]
        for awaited, had, then in waiting:
            if awaited == key and not had & there:
                self.loop.after(0.0, then)

    def _look_who_left(self) -> None:
        if self._leaving and not self.orders.processes:
            self._leaving = False
            self.session.left()

    def follows(self, key: Key) -> None:
        """A replica of the server has a copy."""
        self.tell(inputs.Follows(key, self.tasks[key].incarnation))

    def elect_primary(self, worker: int) -> None:
        """This replica delivers to auxiliary tasks from now on."""
        self.tell(inputs.ElectPrimary(NodeId.worker(worker)))

    def save(self, version: int, state: bytes) -> None:
        """Order a checkpoint from every saver of a part."""
        self.tell(inputs.Save(version, state))

    def _tick(self) -> None:
        """Restart tasks that have been silent, or have computed, for too long."""
        now, limit = self.loop.now, self.settings.iteration_deadline_s
        for task, reason in self.leases.overdue(now):
            self.give_up(task.key, task.incarnation, reason)
        for worker in self.session.overdue(now, limit):
            reason = f"no gradient within runtime.iteration_deadline_s={limit:g}"
            self.give_up(key := NodeId.worker(worker), self.tasks[key].incarnation, reason)
        self.loop.after(self.leases.period_s, self._tick)

    # ---- effects -----------------------------------------------------------------------------------------------------

    def tell(self, given: inputs.AnyInput) -> None:
        """Pass an input to the recovery, and carry out the effects."""
        self._carry_out(self.recovery.receive(given))

    def _carry_out(self, wanted: list[effects.AnyEffect]) -> None:
        """Carry out effects in order. The coordinator's orders meanwhile are carried out at once, before the rest."""
        for effect in wanted:
            if isinstance(effect, effects.News):
                self._announce(effect)
            elif isinstance(effect, effects.Wait):
                self._wait(effect)
            elif isinstance(effect, effects.OfProcess):
                self.orders.of_process(effect, self.loop.now)
                if isinstance(effect, effects.Fence) and self.tasks[effect.key].life.state == TaskState.LEFT:
                    self.session.nodes.left(effect.key)
            elif isinstance(effect, effects.OfGroup):
                self.orders.of_group(effect)
            else:
                self._of_checkpoint(effect)

    def _wait(self, effect: effects.Wait) -> None:
        task = self.tasks[effect.key]
        if effect.moves:
            task.place = self.session.nodes.moved(effect.key) or task.place
        free = inputs.PlaceFree(effect.key, effect.incarnation)
        self.loop.after(effect.pending_s, lambda: self.tell(free))

    def _of_checkpoint(self, effect: effects.OfCheckpoint) -> None:
        match effect:
            case effects.Store():
                self._asked_s[effect.number] = self.loop.now
                self.orders.of_checkpoint(effect)
            case effects.Load():
                self.orders.of_checkpoint(effect)
            case effects.Checkpointed():
                took_s = self.loop.now - self._asked_s[effect.number]
                self._asked_s = {number: s for number, s in self._asked_s.items() if number > effect.number}
                self.session.note("Checkpointed", id=effect.number, version=effect.version, seconds=took_s)
            case effects.MayLeave():
                self.tell(inputs.Leave(effect.key, effect.incarnation))
            case _:
                assert_never(effect)

    def _announce(self, news: effects.News) -> None:
        match news:
            case effects.Started():
                self.session.all_attached()
            case effects.Suspended():
                self._leaving = True
                self._look_who_left()
            case effects.Failed():
                (self.session.out_of_space if news.full else self.session.failed)(news.reason)
            case _:
                self.session.recovery_says(news)
