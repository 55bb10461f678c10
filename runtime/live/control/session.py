"""One live run: the coordinator, its tasks, and the loop that carries messages between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from runtime.api import RunStatus
from runtime.core import inputs
from runtime.core.coordinator import Coordinator
from runtime.core.job import LaunchOrder, RecordSink
from runtime.core.replication import Step
from runtime.core.stuck import Vigil
from runtime.core.vectors import PARAMETER_BYTES
from runtime.errors import is_full
from runtime.live.control.agents import Agents
from runtime.live.control.allotting import Allotter
from runtime.live.control.final_evaluation import FinalEvaluation
from runtime.live.control.injecting import Injector
from runtime.live.control.link_pacing import LinkPacing
from runtime.live.control.port import LivePort
from runtime.live.control.replica_port import ReplicaPort
from runtime.live.control.reports import input_of
from runtime.live.control.speakers import refuse_foreign
from runtime.live.control.supervisor import LiveSupervisor
from runtime.live.control.tasks import OUTSIDE_NETWORK
from runtime.live.transport.address import Address
from runtime.live.transport.auth import Identity
from runtime.live.transport.auxiliaries import EVALUATOR, SCORER
from runtime.live.transport.hub import Hub
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import (
    Actuated,
    AgentReady,
    Apart,
    Busy,
    Followed,
    Goodbye,
    Held,
    LinksPaced,
    Message,
    Paced,
    Passed,
    Sampled,
    Summed,
    TaskReady,
    Ungiven,
    VersionEvaluated,
)
from runtime.live.transport.task_spec import Place
from strategies.protocol import Evaluated, NodeId, ProtocolError, Timings


class MakeCoordinator(Protocol):
    """Builds the coordinator around a port and a stopwatch."""

    def __call__(self, port: LivePort) -> Coordinator:
        """Called once, when all tasks are attached."""
        ...


class LiveSession:
    """Passes messages of the supervisor and of tasks to the coordinator, and its orders to tasks."""

    def __init__(self, loop: Loop, supervisor_of: Callable[[LiveSession], LiveSupervisor], record: RecordSink) -> None:
        self.loop, self.record = loop, record
        self.supervisor = supervisor_of(self)
        self.coordinator: Coordinator
        self.port: LivePort
        self.initial_state = b""
        self.started = False
        self.failure: str | None = None
        self.recorded = False
        """Whether the end is in the record: what tasks report while they go is not."""
        self.failed_as: RunStatus = "failed"
        self.agent: AgentReady | None = None
        self.sha256 = ""
        self.injector: Injector
        self.allotter: Allotter
        self.paced: LinkPacing | None = None
        """The links of machines elsewhere, if the plan limits them."""
        self.step = Step()
        """Of the optimizer, in a job with replicas of the server."""
        self.links: dict[str, float] = {}
        """Limits of the hosts' links."""
        self.place_of: Callable[[str], str | None] = lambda task: None
        """The name of a task's host; None without hosts."""
        self._timings: dict[int, Timings] = {}
        """Of the gradients that workers hold, or held last."""
        self.served: Callable[[int, float], None] = lambda server, worked_s: None
        self.sampled: Callable[[Sampled], None] = lambda message: None
        self.site: Callable[[str], None] = lambda task: None
        """Chooses the machine of a newcomer."""
        self.moves_to: Callable[[str], Place | None] = lambda task: None
        """Chooses another machine for a task that is restarted elsewhere, without emulated hosts; None: the same."""
        self.elsewhere: Callable[[str], int | None] | None = None
        """Says to which host a task goes that is restarted (None: it stays), where a cluster gives the places."""
        self._layout_version = 0
        """Of the nodes that have places."""
        self._final = FinalEvaluation()
        self.on_start: Callable[[], None] = lambda: None
        self.on_left: Callable[[], None] = lambda: None
        self.on_resumed: Callable[[], None] = lambda: None
        self._preempted_s: float | None = None
        """The grace of a job that was preempted before it has begun."""

    def connect(
        self, hub: Hub, agents: Agents, make_port: Callable[[], LivePort], make_coordinator: MakeCoordinator
    ) -> None:
        """Attach the hub, then the port and the coordinator that need it."""
        self.hub = hub
        self.port = make_port()
        self.coordinator = make_coordinator(self.port)
        self.initial_state = self.coordinator.snapshot()
        self.supervisor.begin(hub, agents)

    @property
    def t(self) -> float:
        """The time of the job in seconds."""
        if not self.started:
            return 0.0
        return self.coordinator.finished_s if self.coordinator.status else self.loop.now

    @property
    def over(self) -> bool:
        """Whether the job is over, so that only its end remains."""
        return self.failure is not None or self.coordinator.status is not None

    # ---- from the hub ------------------------------------------------------------------------------------------------

    def on_message(self, identity: Identity, message: Message) -> None:
        """Process a task's message; raises ``ConnectionError`` if it must end the connection."""
        refuse_foreign(identity.role, message)
        if self.supervisor.receive(identity, message):
            if isinstance(message, TaskReady):
                self.allotter.ready(identity.key)
                if self.paced is not None:
                    self.paced.ready(identity.key)
            return
        self._heard(identity, message)
        if isinstance(message, Followed) and not self._has_followed(identity.key, message):
            return
        if (given := input_of(identity.id, message)) is not None:
            self.receive(given)

    def _heard(self, identity: Identity, message: Message) -> None:
        """What is no input of the coordinator as it stands."""
        match message:
            case Passed() | Summed():
                self._on_the_way(identity.id, message)
            case Held():
                self._timings[identity.id] = message.timings
            case VersionEvaluated():
                self._version_evaluated(message)
            case Actuated():
                self.injector.answered(message)
            case Sampled():
                self.sampled(message)
            case Busy():
                self.served(identity.id, message.worked_s)
            case Paced():
                self.allotter.paced(identity.key, message)
            case LinksPaced() if self.paced is not None and not self.recorded:
                self.paced.answered(identity.key, message)
            case Ungiven() | Apart():
                self._of_replica(message)

    def _of_replica(self, message: Ungiven | Apart) -> None:
        if isinstance(message, Ungiven):
            self.supervisor.suspect(NodeId.server(message.server), message.incarnation, message.reason)
        elif message.server in self.coordinator.executor.replication.followed:  # else it is lost by now
            self.note("Diverged", **msgspec.structs.asdict(message))

    def _has_followed(self, replica: NodeId, message: Followed) -> bool:
        """Whether a replica follows the server that there is now."""
        if message.generation != self.supervisor.generation:
            return False
        if message.grad_id is None:
            self.supervisor.follows(replica)
        return True

    def _on_the_way(self, sender: int, message: Passed | Summed) -> None:
        """Nobody has a worker's gradient, or all servers have a sum, with the durations of its first member."""
        busy_with = self.coordinator.ledger.busy_with
        if isinstance(message, Passed):
            if message.problem and any(order.worker == sender for order in busy_with((message.grad_id,))):
                self.receive(inputs.WorkerFailed(sender, message.problem, retryable=True))
            return
        first = next((order.worker for order in busy_with(message.members)), -1)
        timings = msgspec.structs.replace(self._timings.get(first, Timings()), send_s=message.send_s)
        self.receive(inputs.GradientArrived(message.grad_id, first, timings, members=message.members))

    def on_closed(self, identity: Identity, reason: str) -> None:
        """A task's connection is gone."""
        if self.paced is not None and not self.recorded:
            self.paced.left(identity.key)
        self.supervisor.closed(identity, reason)

    def _version_evaluated(self, evaluated: VersionEvaluated) -> None:
        asked = self.port.tickets.pop(evaluated.ticket, None)
        if asked is None:
            return
        if self._final.answered(evaluated.ticket):
            self.sha256 = evaluated.sha256
            t = self.coordinator.finished_s
            event = Evaluated(t=t, version=asked[1], asked_s=t, metrics=evaluated.metrics)
            self.record.event(t, event, (), self.coordinator.version, 0.0, None)
            return
        self._final.took(self.loop.now - asked[0])
        self.receive(inputs.Evaluated(asked[1], asked[0], evaluated.metrics))

    def receive(self, given: inputs.AnyInput) -> None:
        """Pass an input to the coordinator, then send its orders."""
        self._drive(lambda t: self.coordinator.receive(t, given))

    def _aggregators_away(self) -> None:
        """None of them can sum before it is connected to the servers again."""
        for node in self.supervisor.aggregators:
            self.receive(inputs.AuxiliaryLost(node.role, node.number))

    def _drive(self, call: Callable[[float], None]) -> None:
        """Let the coordinator react, then send its orders."""
        if self.failure is not None or self.recorded:
            return
        try:
            call(self.t)
            self.port.flush()
            self._free_places()
        except ProtocolError as error:
            self.failed(f"the strategy broke a law: {error}")

    # ---- from the supervisor -----------------------------------------------------------------------------------------

    def note(self, kind: str, /, **fields: object) -> None:
        self.record.note(self.t, kind, **fields)

    def agent_ready(self, message: AgentReady) -> None:
        """The framework is imported."""
        self.agent = message
        self.note("Imported", seconds=message.import_s, versions=message.versions)

    def agents_ready(self) -> None:
        self.injector.prepare()

    def agent_lost(self, number: int) -> None:
        """Fail with the last line that the agent printed."""
        self.supervisor.agents.lost(number)

    def all_attached(self) -> None:
        self.loop.restart_clock()
        self.supervisor.clock_restarted()
        self.started = True
        self.supervisor.save(0, self.initial_state)
        workers = [task for task in self.supervisor.tasks.values() if task.key.role == "worker"]
        incarnations = {task.key.number: task.incarnation for task in workers}
        model_bytes = PARAMETER_BYTES * self.supervisor.num_parameters
        aggregators = {str(key): self.place_of(str(key)) for key in self.supervisor.aggregators}
        following: dict[str, Any] = {}
        if self.port.followers is not None:
            self.port.followers.start()
            numbers = {key.number: incarnation for key, incarnation in self.supervisor.followers().items()}
            following = {**self.step._asdict(), "replicas": numbers}
        self.receive(inputs.JobStarted(incarnations, model_bytes, self.links, aggregators, **following))
        self.on_start()
        if self._preempted_s is not None:
            self.receive(inputs.PreemptionOrdered(self._preempted_s))
        self._watch_over(Vigil(self.coordinator, self.coordinator.job.stuck_after_s))

    def _watch_over(self, vigil: Vigil) -> None:
        """Check now and periodically whether the strategy is stuck."""
        if self.over or vigil.period_s is None:
            return
        self._drive(vigil.look)
        self.loop.after(vigil.period_s, lambda: self._watch_over(vigil))

    def recovery_says(self, news: inputs.OfRecovery) -> None:
        """Process an effect of the recovery, then pass it to the coordinator."""
        match news:
            case inputs.AuxiliaryLost(role=EVALUATOR.name):
                self._forget_evaluations()
            case inputs.ServerLost(holding=True):
                if self.port.followers is not None:
                    self.port.followers.remember(self.coordinator.version)
                self._void()
                self.receive(news)
                self.port.discard()
                self._aggregators_away()
            case inputs.RolledBack():
                self._void()
                self.coordinator.receive(self.t, news)
                self._aggregators_away()
            case inputs.Restored():
                self._forget_evaluations()  # servers that read other parts have closed the evaluator's connections
                state = self.state_of(news.version) if news.state is None else news.state
                if self.coordinator.preemption.away:
                    self.on_resumed()
                if self.port.followers is not None:
                    self.port.followers.restored()
                self.receive(inputs.Restored(news.version, state or self.initial_state, news.shares))
            case _:
                self.receive(news)

    def _forget_evaluations(self) -> None:
        """Void all evaluations in progress, the final one too: it cannot arrive any more."""
        self.port.tickets.clear()
        self._final.void()
        self.cannot_evaluate()

    def _void(self) -> None:
        self.port.discard()
        self._forget_evaluations()

    def failed(self, reason: str) -> None:
        if not self.over:
            self.failure = reason

    def out_of_space(self, reason: str) -> None:
        """Fail: the disk is full, so the record or the parameters are incomplete."""
        self.failure, self.failed_as = self.failure or reason, "disk_full"

    def overdue(self, now: float, limit_s: float) -> list[int]:
        """Workers whose Compute, or order to push, was sent longer ago than the limit; who holds a gradient may."""
        if not self.started:
            return []
        executor = self.coordinator.executor
        holding = {grad.worker for grad in executor.ledger.ready.values()}
        waiting = executor.ledger.busy.keys() - executor.reserved.keys() - holding
        return [worker for worker in sorted(waiting) if now - self.port.sent_s.get(worker, now) > limit_s]

    # ---- from the injector -------------------------------------------------------------------------------------------

    def hold(self, task: str, reason: str) -> None:
        """Kill a task, and keep it from restarting."""
        self.supervisor.hold(NodeId.parse(task), reason)

    def release(self, task: str) -> None:
        self.supervisor.release(NodeId.parse(task))

    def operate(self, change: Literal["join", "leave"], worker: str) -> None:
        """Let a worker join or leave, as an operator does."""
        self.receive(inputs.Operated(change, worker))

    # ---- telemetry ---------------------------------------------------------------------------------------------------

    def pids(self) -> list[tuple[str, int]]:
        """Workers and servers that have a process."""
        tasks = self.supervisor.tasks.items()
        return [(str(key), task.pid) for key, task in tasks if task.pid and key.role not in OUTSIDE_NETWORK]

    # ---- where the workers are replicas ------------------------------------------------------------------------------

    def replicas(self) -> tuple[int, ...]:
        """Replicas that receive the order of an update now; children among them take no part."""
        return self.supervisor.replicas

    def incarnation(self, worker: int) -> int:
        """A worker's present incarnation."""
        return self.supervisor.tasks[NodeId.worker(worker)].incarnation

    def left_ring(self, children: frozenset[int]) -> None:
        """These replicas will not have the parameters after the next update: another delivers to auxiliary tasks."""
        if self.speaker() in children:
            self.supervisor.speak(min(worker for worker in self.coordinator.members.here() if worker not in children))

    def speaker(self) -> int:
        """The replica that delivers to auxiliary tasks."""
        return self.supervisor.speaker

    def data_state(self) -> dict[str, Any]:
        """The data service's state."""
        return self.coordinator.shards.state()

    def state_of(self, version: int) -> bytes:
        """The data service's state when ``version`` was the newest."""
        if version == self.coordinator.version:
            return self.coordinator.snapshot()
        if self.port.followers is not None:
            return msgspec.json.encode(self.port.followers.states[version])
        assert isinstance(self.port, ReplicaPort)
        return msgspec.json.encode(self.port.states[version])

    # ---- where servers have replicas ---------------------------------------------------------------------------------

    def followers(self) -> dict[NodeId, int]:
        """The present replicas of the server, and their incarnations."""
        return self.supervisor.followers()

    def generation(self) -> int:
        """How often all had to connect again."""
        return self.supervisor.generation

    def followed(self) -> int | None:
        """The version up to which all replicas have followed; None: there are none."""
        return min(self.coordinator.executor.replication.followed.values(), default=None)

    # ---- from the port -----------------------------------------------------------------------------------------------

    def wants_checkpoint(self, version: int, state: bytes) -> None:
        """Order all servers to store their part."""
        self.supervisor.save(version, state)

    def wants_restart(self, node: str, pending_s: float) -> None:
        """KILL_RESTART: another machine, without the old one's disturbances."""
        self.supervisor.restart(NodeId.parse(node), pending_s)

    def wants_launch(self, order: LaunchOrder) -> None:
        """A node more, whose number nobody had, if there is a place for it."""
        self._free_places()
        self.site(order.node)
        try:
            place = self.allotter.admit(order)
        except ValueError as error:
            self._deny(NodeId.parse(order.node), str(error))
            return
        self.supervisor.launch(order, place)
        self.injector.admitted(order.node)

    def _free_places(self) -> None:
        """Who is no member any more has no place either, however it left."""
        if self.coordinator.executor.layout.version != self._layout_version:
            layout = self.coordinator.executor.layout
            self._layout_version = layout.version
            self.allotter.keep([*layout.nodes, *self.supervisor.aggregators])
            if self.paced is not None:
                self.paced.look()

    def _deny(self, node: NodeId, reason: str) -> None:
        if node.role == "server":
            self.receive(inputs.ServerLost(node.number, 0, reason, holding=False))
        else:
            self.receive(inputs.WorkerLost(node.number, 0, reason, restarting=False))

    def wants_retire(self, node: str, reason: str) -> None:
        """End a node for good."""
        self.supervisor.retire(NodeId.parse(node), reason)
        self.allotter.dismiss(NodeId.parse(node))

    def wants_repartition(self, shares: tuple[tuple[str, float], ...]) -> None:
        """Other servers hold the parameters from now on."""
        self.supervisor.repartition(tuple((NodeId.parse(server), share) for server, share in shares))

    # ---- preemption --------------------------------------------------------------------------------------------------

    def preempt(self, grace_s: float) -> None:
        """The cluster takes the job's places; :attr:`on_left` is called when all tasks have ended."""
        if self.started:
            self.receive(inputs.PreemptionOrdered(grace_s))
        else:
            self._preempted_s = grace_s

    def wants_suspend(self) -> None:
        """End all tasks when the checkpoint that was ordered last is stored."""
        self.supervisor.suspend()

    def left(self) -> None:
        """All tasks of the preempted job have ended."""
        self._void()
        self.on_left()

    def resume(self, hosts: Mapping[str, int]) -> None:
        """Continue, with every task on the host of this number; :attr:`on_resumed` is called when all are there.

        Who stays on its host meets what disturbs it there.
        """
        leaving = {task: to for task, to in hosts.items() if self.place_of(task) != str(NodeId("host", to))}
        moved = {node: self._move(node, to) for task, to in leaving.items() for node in [NodeId.parse(task)]}
        self.supervisor.resume({node: place for node, place in moved.items() if place is not None})

    def cannot_allocate(self, node: str, cpu_cores: float | None) -> str | None:
        """Why a node cannot have so many cores; None: they are reserved."""
        self._free_places()
        return self.allotter.refuses(NodeId.parse(node), cpu_cores)

    def wants_allocate(self, node: str, cpu_cores: float | None, link_bytes_per_s: float | None) -> None:
        """A node may use so much from now on."""
        self.allotter.allocate(NodeId.parse(node), cpu_cores, link_bytes_per_s)

    def address_for(self, caller: NodeId, called: NodeId) -> Address:
        """Where a task that is connected is called by another."""
        return self.supervisor.address_for(caller, called)

    def holders(self) -> tuple[NodeId, ...]:
        """The servers that hold parameters now."""
        return self.supervisor.holders

    def moved(self, node: NodeId) -> Place | None:
        """A task that is restarted starts elsewhere, or where it was, among what disturbs it there."""
        if self.elsewhere is None:
            return self._move(node)
        to = self.elsewhere(str(node))
        return None if to is None else self._move(node, to)

    def _move(self, node: NodeId, to: int | None = None) -> Place | None:
        """A task's next incarnation starts elsewhere; ``to``: the host's number, where it is given."""
        try:
            place = self.injector.moved(str(node), to) or self.moves_to(str(node))
            if place is not None:
                self.allotter.moved(node)
        except (OSError, ValueError) as error:
            if is_full(error):  # an error of the record
                raise
            self.failed(f"{node} could not move: {error}")
            return None
        return place

    def serving(self, role: str) -> int | None:
        """The connected incarnation of an auxiliary role; None if there is none."""
        return self.supervisor.serving(role)

    def reference_ordered(self, number: int, incarnation: int) -> None:
        """Start the scorer's deadline, which is a worker's deadline for a gradient."""
        limit_s, scoring = self.supervisor.settings.iteration_deadline_s, self.coordinator.executor.scoring

        def check() -> None:
            if not self.over and scoring.under_way is not None and scoring.under_way.number == number:
                reason = f"no reference gradient within runtime.iteration_deadline_s={limit_s:g}"
                self.supervisor.give_up(SCORER.node, incarnation, reason)

        self.loop.after(limit_s, check)

    def cannot_evaluate(self) -> None:
        """Continue without the evaluation: it is not available."""
        if self.started:
            self.coordinator.receive(self.t, inputs.AuxiliaryLost(EVALUATOR.name))

    # ---- the end -----------------------------------------------------------------------------------------------------

    def interrupt(self, reason: str) -> None:
        """The user wants it to end, soon unless its parameters are to be saved."""
        if self.started:
            self.coordinator.receive(self.t, inputs.Interrupted(reason))
            if not self.waits_to_save:
                self._final.hurry(self.loop.now)
        elif self.failure is None:
            self.failure = reason

    @property
    def waits_to_save(self) -> bool:
        """Whether a job that is interrupted now waits for the evaluator as long as any other, as that saves for it."""
        return self.started and self.failure is None and bool(self.port.last_save)

    @property
    def unscored(self) -> bool:
        """Whether the evaluation of the final parameters was given up."""
        return self._final.given_up

    def last_evaluation(self) -> bool:
        """Evaluate the final parameters, outside the job's time; call it repeatedly until it is done."""
        if self.failure is not None:
            return True
        now, connected = self.loop.now, self.serving(EVALUATOR.name) is not None
        what = self._final.look(now, connected=connected, recovering=self.supervisor.running)
        if what == "order":
            self.port.flush()
            self.port.evaluate(self.coordinator.version, last=True)
            self._final.ordered(max(self.port.tickets), now)
        return what == "done"

    def goodbye(self) -> None:
        """Send ``Goodbye`` to all tasks."""
        for key in list(self.hub.peers):
            self.hub.send(key, Goodbye())

    def unique_memory_bytes(self) -> dict[str, int]:
        """Memory private to each process (USS) in bytes, by task."""
        return {task.name: unique_memory_bytes(task.pid) for task in self.supervisor.tasks.values() if task.pid}


def unique_memory_bytes(pid: int) -> int:
    """Private memory of a process in bytes; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
