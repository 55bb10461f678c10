"""One live run: the coordinator, its tasks, and the loop that carries messages between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from runtime.api import RunStatus
from runtime.cluster.leases import OF_AGENTS
from runtime.core import inputs
from runtime.core.coordinator import Coordinator
from runtime.core.loads import Loads
from runtime.core.replication import step_of
from runtime.core.stuck import Vigil
from runtime.core.vectors import PARAMETER_BYTES
from runtime.live.control.agents import Agents
from runtime.live.control.allotting import Allotter
from runtime.live.control.allowed_senders import refuse_foreign
from runtime.live.control.factory import make_joined, make_pacing, make_port, make_sampler
from runtime.live.control.injecting import Injector
from runtime.live.control.job_resources import JobSetup
from runtime.live.control.nodes import LiveNodes
from runtime.live.control.reports import input_of
from runtime.live.control.settings import settings_of
from runtime.live.control.supervisor import LiveSupervisor
from runtime.live.control.telemetry import Elsewhere
from runtime.live.transport.auth import Identity
from runtime.live.transport.auxiliaries import EVALUATOR, SCORER
from runtime.live.transport.hub import Hub
from runtime.live.transport.messages import (
    Actuated,
    AgentReady,
    Busy,
    Divergence,
    Followed,
    Goodbye,
    GradientReady,
    Late,
    LinksPaced,
    Message,
    Paced,
    Pushed,
    ReplicationFailed,
    Sampled,
    Summed,
    TaskReady,
    VersionEvaluated,
)
from strategies.protocol import Evaluated, NodeId, ProtocolError, Timings


class LiveSession:
    """Passes messages of the supervisor and of tasks to the coordinator, and its orders to tasks.

    Its parts are built in the order in which they need one another; they report back to it.
    """

    def __init__(self, setup: JobSetup, on_start: Callable[[], None], on_resumed: Callable[[], None]) -> None:
        """``on_start`` is called when the job's clock starts, ``on_resumed`` when all are back after a preemption."""
        spec, machines, processes, site = setup.spec, setup.machines, setup.processes, setup.site
        self.loop, self.record = setup.loop, spec.record
        self.on_start, self.on_resumed = on_start, on_resumed
        self._links = {} if machines.hosts is None else machines.hosts.links
        self._step = step_of(spec.optimizer)
        self.started = False
        self.loads: Loads | None = None
        """Measures it for the jobs on the same hosts, where any of them may reserve something."""
        self.failure: str | None = None
        self.recorded = False
        """Whether the end is in the record: later reports of tasks are not."""
        self.failed_as: RunStatus = "failed"
        self.sha256 = ""
        """The fingerprint of the final parameters."""
        self._timings: dict[int, Timings] = {}
        """Of the gradients that workers hold, or held last."""
        self._left: Callable[[], None] | None = None
        """Called when a preempted job has left."""
        self._driven_s: float | None = None
        """When the coordinator received what it is busy with; None: it is idle."""
        self._preempted_s: float | None = None
        """The grace of a job that was preempted before it has begun."""
        settings = settings_of(processes, spec, on_hosts=machines.hosts is not None)
        self.hub = Hub(
            self.loop,
            setup.secret,
            spec.transport,
            processes.port,
            machines.control_path,
            self._admit,
            self.on_message,
            self.on_closed,
            host=site.listen,
            certificate=site.certificate,
        )
        self.agents = Agents(
            setup.launcher,
            self.hub,
            self.loop,
            spec.run_dir / "logs",
            self.failed,
            site.nodes,
            node_of=site.node_of(machines.tasks),
            lease_s=max(OF_AGENTS * processes.lease_s, site.lease_s),
            start_deadline_s=settings.start_deadline_s,
        )
        self.supervisor = supervisor = LiveSupervisor(self.loop, settings, self, self.hub, self.agents, machines)
        paced = make_pacing(setup, self.hub, self.agents, supervisor.members)
        self.injector = Injector(setup.schedule, machines, self.loop, self, self.agents.tell, setup.users, paced)
        self.allotter = Allotter(
            machines, self.injector.plan.level, self.hub.send, self.injector.throttle, self.note, self.failed
        )
        joined = make_joined(setup, self) if site.elsewhere else None
        self.nodes = LiveNodes(self, supervisor, self.injector, self.allotter, machines.host_of, joined)
        self._readings = Elsewhere() if site.elsewhere else None
        self.sampler = make_sampler(setup, self, self._readings)
        self.port = make_port(setup, self)
        self.coordinator = Coordinator(
            spec.job,
            spec.strategy,
            self.port,
            spec.record,
            members=supervisor.members,
            disturb=setup.schedule.delay_for,
            loader_for=setup.schedule.loader_for,
            stopwatch=time.perf_counter,
            scheduler=spec.scheduler,
            place_of=machines.host_of,
            reservations=setup.reservations,
        )
        self.initial_state = self.coordinator.snapshot()

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

    def _admit(self, identity: Identity) -> bool:
        return self.supervisor.admit(identity)

    def on_message(self, identity: Identity, message: Message) -> None:
        """Process a task's message; raises ``ConnectionError`` if it must end the connection."""
        refuse_foreign(identity.role, message)
        if self.supervisor.receive(identity, message):
            if isinstance(message, TaskReady):
                self.nodes.ready(identity.key)
            return
        self._heard(identity, message)
        if isinstance(message, Followed) and not self._has_followed(identity.key, message):
            return
        if (given := input_of(identity.id, message)) is not None:
            self.receive(given)

    def _heard(self, identity: Identity, message: Message) -> None:
        """Receive messages that are no input of the coordinator as they stand."""
        match message:
            case Pushed() | Summed():
                self._on_the_way(identity.id, message)
            case GradientReady():
                self._timings[identity.id] = message.timings
            case VersionEvaluated():
                self._version_evaluated(message)
            case Actuated():
                self.injector.answered(message)
            case Sampled() if self._readings is not None:
                self._readings.receive(message)
            case Busy():
                self.sampler.served(identity.id, message.worked_s)
            case Paced():
                self.nodes.allotter.paced(identity.key, message)
            case LinksPaced() if self.injector.paced is not None and not self.recorded:
                self.injector.paced.answered(identity.key, message)
            case ReplicationFailed() | Divergence() | Late():
                self._of_replica(identity.id, message)

    def _of_replica(self, sender: int, message: ReplicationFailed | Divergence | Late) -> None:
        if isinstance(message, ReplicationFailed):
            self.supervisor.suspect(NodeId.server(message.server), message.incarnation, message.reason)
        elif isinstance(message, Late):
            self.note("Late", worker=sender, **msgspec.structs.asdict(message))
        elif message.server in self.coordinator.executor.replication.followed:  # else it is lost by now
            self.note("Diverged", **msgspec.structs.asdict(message))

    def _has_followed(self, replica: NodeId, message: Followed) -> bool:
        """Whether a replica follows the server that there is now."""
        if message.generation != self.supervisor.roster.generation:
            return False
        if message.grad_id is None:
            self.supervisor.follows(replica)
        return True

    def _on_the_way(self, sender: int, message: Pushed | Summed) -> None:
        """Nobody has a worker's gradient, or all servers have a sum, with the durations of its first member."""
        busy_with = self.coordinator.ledger.busy_with
        if isinstance(message, Pushed):
            if message.problem and any(order.worker == sender for order in busy_with((message.grad_id,))):
                self.receive(inputs.WorkerFailed(sender, message.problem, retryable=True))
            return
        first = next((order.worker for order in busy_with(message.members)), -1)
        timings = msgspec.structs.replace(self._timings.get(first, Timings()), send_s=message.send_s)
        self.receive(inputs.GradientArrived(message.grad_id, first, timings, members=message.members))

    def on_closed(self, identity: Identity, reason: str) -> None:
        """A task's connection is gone."""
        if self.injector.paced is not None and not self.recorded:
            self.injector.paced.left(identity.key)
        self.supervisor.closed(identity, reason)

    def _version_evaluated(self, evaluated: VersionEvaluated) -> None:
        asked = self.port.evaluations.answered(evaluated.ticket)
        if asked is None:
            return
        if asked.final:
            self.sha256 = evaluated.sha256
            t = self.coordinator.finished_s
            event = Evaluated(t=t, version=asked.version, asked_s=t, metrics=evaluated.metrics)
            self.record.event(t, event, (), self.coordinator.version, 0.0, None)
            return
        self.port.evaluations.took(self.loop.now - asked.at_s)
        self.receive(inputs.Evaluated(asked.version, asked.at_s, evaluated.metrics))

    def receive(self, given: inputs.AnyInput) -> None:
        """Pass an input to the coordinator, then send its orders."""
        if self.loads is not None and isinstance(given, inputs.GradientArrived):
            self.loads.arrived(given)
        self._drive(lambda t: self.coordinator.receive(t, given))

    def _aggregators_away(self) -> None:
        """None of them can sum before it is connected to the servers again."""
        for node in self.supervisor.roster.aggregators:
            self.receive(inputs.AuxiliaryLost(node.role, node.number))

    def _drive(self, call: Callable[[float], None]) -> None:
        """Let the coordinator react, then send its orders."""
        if self.failure is not None or self.recorded:
            return
        before, self._driven_s = self._driven_s, self.t
        try:
            call(self._driven_s)
            self.port.flush()
            self.nodes.free_places()
        except ProtocolError as error:
            self.failed(f"the strategy broke a law: {error}")
        finally:
            self._driven_s = before

    # ---- from the supervisor -----------------------------------------------------------------------------------------

    def note(self, kind: str, /, **fields: object) -> None:
        """Note a consequence at the time of its event, whose line comes after it."""
        if not self.recorded:  # an agent may still answer, or report an end
            self.record.note(self.t if self._driven_s is None else self._driven_s, kind, **fields)

    def agent_ready(self, message: AgentReady) -> None:
        """The framework is imported on one node."""
        self.note("Imported", seconds=message.import_s, versions=message.versions)

    def agents_ready(self) -> None:
        """On all: tasks can be started."""
        self.injector.prepare()

    def all_attached(self) -> None:
        """All tasks are connected: the job can start."""
        self.loop.restart_clock()
        self.supervisor.clock_restarted()
        self.started = True
        self.supervisor.save(0, self.initial_state)
        workers = [task for task in self.supervisor.tasks.values() if task.key.role == "worker"]
        incarnations = {task.key.number: task.incarnation for task in workers}
        model_bytes = PARAMETER_BYTES * self.supervisor.num_parameters
        aggregators = {str(key): self.nodes.host_of(str(key)) for key in self.supervisor.roster.aggregators}
        following: dict[str, Any] = {}
        if self.port.followers is not None:
            self.port.followers.start()
            numbers = {key.number: incarnation for key, incarnation in self.supervisor.roster.followers.items()}
            following = {**self._step._asdict(), "replicas": numbers}
        self.receive(inputs.JobStarted(incarnations, model_bytes, {**self._links}, aggregators, **following))
        self.on_start()
        if self._preempted_s is not None:
            self.receive(inputs.PreemptionOrdered(self._preempted_s))
        self._watch_over(Vigil(self.coordinator.watch, self.coordinator.job.stuck_after_s))

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
                self.receive(inputs.Restored(news.version, state or self.initial_state))
            case _:
                self.receive(news)

    def _forget_evaluations(self) -> None:
        """Void all evaluations in progress, the final one too: it cannot arrive any more."""
        self.port.evaluations.void()
        self.cannot_evaluate()

    def _void(self) -> None:
        self.port.discard()
        self._forget_evaluations()

    def failed(self, reason: str) -> None:
        """The run cannot continue."""
        if not self.over:
            self.failure = reason

    def out_of_space(self, reason: str) -> None:
        """Fail: the disk is full, so the record or the parameters are incomplete."""
        self.failure, self.failed_as = self.failure or reason, "disk_full"

    def overdue(self, now: float, limit_s: float) -> list[int]:
        """Workers whose Compute, or order to push, was sent longer ago than the limit; not holders of gradients."""
        if not self.started:
            return []
        executor = self.coordinator.executor
        holding = {grad.worker for grad in executor.ledger.ready.values()}
        waiting = executor.ledger.busy.keys() - executor.reserved.keys() - holding
        return [worker for worker in sorted(waiting) if now - self.port.sent_s.get(worker, now) > limit_s]

    # ---- from the port -----------------------------------------------------------------------------------------------

    def followed(self) -> int | None:
        """The version up to which all replicas have followed; None: there are none."""
        return min(self.coordinator.executor.replication.followed.values(), default=None)

    def data_state(self) -> dict[str, Any]:
        """The data service's state."""
        return self.coordinator.shards.state()

    def state_of(self, version: int) -> bytes:
        """The data service's state when ``version`` was the newest."""
        if version == self.coordinator.version:
            return self.coordinator.snapshot()
        return msgspec.json.encode(self.port.data_state(version))

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
            self.coordinator.receive(self.t, inputs.AuxiliaryLost(EVALUATOR.name, 0))

    # ---- other jobs on its hosts -------------------------------------------------------------------------------------

    def limited(self, node: str, cpu_cores: float | None, link_bytes_per_s: float | None) -> None:
        """Another job needs that a task uses no more than this; None: it may again.

        The rate is divided among the task's connections, over which it sends the same amount each.
        """
        layout, key = self.coordinator.members.layout, NodeId.parse(node)
        if key not in layout.nodes:  # it has left
            return
        self.note("Limited", node=node, cpu_cores=cpu_cores, link_bytes_per_s=link_bytes_per_s)
        peers = layout.workers if key.role == "server" else layout.holders
        rate = None if link_bytes_per_s is None else link_bytes_per_s / max(1, len(peers))
        self.allotter.leave(key, cpu_cores, rate)

    # ---- preemption --------------------------------------------------------------------------------------------------

    def preempt(self, grace_s: float, left: Callable[[], None]) -> None:
        """The cluster takes the job's places; ``left()`` is called when all tasks have ended.

        After :meth:`LiveNodes.resume`, :attr:`on_resumed` is called when all are there again.
        """
        self._left = left
        if self.started:
            self.receive(inputs.PreemptionOrdered(grace_s))
        else:
            self._preempted_s = grace_s

    def left(self) -> None:
        """All tasks of the preempted job have ended."""
        self._void()
        if self._left is not None:
            self._left()

    # ---- the end -----------------------------------------------------------------------------------------------------

    def interrupt(self, reason: str) -> None:
        """The user wants it to end, soon unless its parameters are to be saved."""
        if self.started:
            self.coordinator.receive(self.t, inputs.Interrupted(reason))
            if not self.waits_to_save:
                self.port.evaluations.hurry(self.loop.now)
        elif self.failure is None:
            self.failure = reason

    @property
    def waits_to_save(self) -> bool:
        """Whether a job that is interrupted now waits for the evaluator as long as any other, as that saves for it."""
        return self.started and self.failure is None and not self.recorded and bool(self.port.last_save)

    @property
    def unscored(self) -> bool:
        """Whether the evaluation of the final parameters was given up."""
        return self.port.evaluations.given_up

    def last_evaluation(self) -> bool:
        """Evaluate the final parameters, outside the job's time; call it repeatedly until it is done."""
        if self.failure is not None:
            return True
        roster = self.supervisor.roster
        connected = roster.serving(EVALUATOR.name) is not None
        what = self.port.evaluations.look(self.loop.now, connected=connected, may_come=roster.running)
        if what == "order":
            self.port.flush()
            self.port.evaluate(self.coordinator.version, last=True)
        return what == "done"

    def goodbye(self) -> None:
        """Send ``Goodbye`` to all tasks."""
        for key in list(self.hub.peers):
            self.hub.send(key, Goodbye())
