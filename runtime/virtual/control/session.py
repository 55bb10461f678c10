"""One virtual run: the coordinator, its machines, and the clock that carries messages between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from injectors.schedule import Schedule
from runtime.api import INTERRUPTED_S, Crashed, Outcome, RunSpec, RunStatus, outcome_of, record_outcome
from runtime.cluster.device import DeviceProfile, Profiles
from runtime.cluster.gpu_hogs import DeviceUsers
from runtime.cluster.hosts import Hosts, Placement, aggregator_hosts
from runtime.core import inputs
from runtime.core.coordinator import Coordinator
from runtime.core.loads import Loads
from runtime.core.membership import Membership
from runtime.core.replication import step_of
from runtime.core.vectors import PARAMETER_BYTES
from runtime.errors import is_full, no_space
from runtime.virtual.clock import MESSAGE, Clock
from runtime.virtual.control.factory import assemble, replicas_of
from runtime.virtual.control.inbox import Inbox, Stopwatch
from runtime.virtual.control.nodes import Nodes
from runtime.virtual.control.places import Places
from runtime.virtual.control.port import VirtualPort
from runtime.virtual.control.reports import Reports, busy_of
from runtime.virtual.control.supervisor import VirtualSupervisor
from runtime.virtual.control.usage import Usage
from runtime.virtual.control.windows import Windows
from runtime.virtual.costs import Costs
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.tenancy import Tenancy
from runtime.virtual.tasks.aggregators import Sum
from runtime.virtual.tasks.carriers import Carriers
from runtime.virtual.tasks.followers import Followers
from runtime.virtual.tasks.host_workers import HostWorkers
from runtime.virtual.tasks.insides import insides_of
from runtime.virtual.tasks.iteration import Iteration
from runtime.virtual.tasks.jitter import run_factor
from runtime.virtual.tasks.model_state import ModelState, RealModelState
from runtime.virtual.tasks.models import TaskModels
from runtime.virtual.tasks.scorer import Scorer
from runtime.virtual.tasks.workers import Workers
from strategies.protocol import Evaluated, NodeId, ProtocolError, Restart, Send, Timings


class VirtualSession:
    """Drives one job to its end; ``supervisor`` carries out its recovery.

    Args:
        spec: the job.
        schedule: what is injected when.
        model_state: the model's parameters.
        costs: the cost model.
        device: the profile of every worker whose host has no device of its own; or one profile for each worker.
        measures_decisions: charge the real time of decisions.
        hosts: the tasks' hosts; None: each task has its own machine.
        lease_s: seconds after which a paused task counts as lost.
        clock: the job's, on the timeline of its lab; None: a clock of its own.
        tenancy: its place on machines shared with other jobs; None: it has its own.
        telemetry_every_s: seconds between two samples of what tasks and hosts use; None: no samples.
        sent_parameters: of the model that messages and updates are as large as; None: the model state's own.
    """

    def __init__(
        self,
        spec: RunSpec,
        schedule: Schedule,
        model_state: ModelState,
        costs: Costs,
        device: DeviceProfile | Profiles | None,
        *,
        measures_decisions: bool = False,
        hosts: Hosts | None = None,
        lease_s: float = math.inf,
        clock: Clock | None = None,
        tenancy: Tenancy | None = None,
        telemetry_every_s: float | None = None,
        sent_parameters: int | None = None,
    ) -> None:
        self.sent_parameters = model_state.num_parameters if sent_parameters is None else sent_parameters
        costs = costs.of_run(run_factor(spec.job.seed, costs.run_sigma))
        costs = costs.of_model(PARAMETER_BYTES * self.sent_parameters)
        self.spec, self.schedule, self.model_state, self.costs = spec, schedule, model_state, costs
        self.record = spec.record
        self.members = Membership(spec.job.start_layout)
        self._links = _links_of(costs, hosts, [str(node) for node in self.members.layout.nodes])
        self.clock = clock or new_clock()
        self.loads: Loads | None = None
        """Measures it for the jobs on the same hosts, where any of them may reserve something."""
        self.failure: str | None = None
        self.crashed: Crashed | None = None
        """Handles an unexpected error of this job; None: it is raised."""
        self.elsewhere: Callable[[str], int | None] | None = None
        """Says to which host a task goes that is restarted (None: it stays), where a cluster gives the places."""
        self.rehoused: Callable[[], None] | None = None
        """Called when a task may have another host, where jobs reserve what hosts have."""
        self._declares_stuck = spec.job.stuck_after_s is not None
        self.stopwatch = Stopwatch() if measures_decisions else None
        self.inbox = Inbox(self.clock, self, costs.decision_s, self.stopwatch)
        self._left: Callable[[], None] | None = None
        """Called when a preempted job has left."""
        self._unscored = False
        """Whether a signal has kept its last evaluation from being made."""
        self.telemetry_every_s = telemetry_every_s
        self._tell_arrived = self.tell if tenancy is None else self._tell_on_shared
        placement = None if hosts is None else Placement(hosts)
        self._model_tasks(device, hosts, placement, tenancy)
        self.port = self._make_port()
        self.coordinator = self._make_coordinator(tenancy)
        self._course, self._ledger = self.coordinator.course, self.coordinator.ledger
        self.supervisor = VirtualSupervisor(
            self.clock, self.costs, self.coordinator, self._models, self.places, self, lease_s=lease_s
        )
        num_workers = spec.job.num_workers
        users = DeviceUsers(spec.around.gpus or range(num_workers), num_workers, self.places.host_of)
        self.windows = Windows(self.clock, schedule, self.places, self.supervisor, self.tell, users)
        self.versions = self.supervisor.versions
        self.nodes = Nodes(self.clock, self.coordinator, self.supervisor, self.places, self.windows.plan.admitted)
        self.usage = Usage(self._living, self.machines, placement, self.places.cores_of)
        self.reports = Reports(
            self.clock,
            schedule,
            self.servers,
            self.coordinator,
            self.usage,
            tell=self.tell,
            note=self.note,
        )

    # ---- its parts, which call one another ---------------------------------------------------------------------------

    def _model_tasks(
        self,
        device: DeviceProfile | Profiles | None,
        hosts: Hosts | None,
        placement: Placement | None,
        tenancy: Tenancy | None,
    ) -> None:
        """Servers, workers, aggregators and followers, and where they are."""
        spec, job, costs = self.spec, self.spec.job, self.costs
        profiles = (device,) * job.num_workers if device is None or isinstance(device, DeviceProfile) else device
        count, at = spec.strategy.aggregators, spec.strategy.aggregators_at
        self._aggregators = {} if hosts is None or not count else aggregator_hosts(hosts, count, at)
        self.servers, self.workers, self.machines = assemble(
            self.clock,
            spec,
            self.members,
            self.schedule,
            costs,
            self.sent_parameters,
            profiles,
            hosts,
            self._arrived,
            tenancy,
            self._aggregators,
            self._on_summed,
            self._tell_arrived,
            held=self._on_held if Send in spec.strategy.needs else None,
            note=self.note,
        )
        self.insides = insides_of(self.schedule, self.workers.profiles)
        self.followers = self._make_followers() if job.num_replicas else None
        self._models = TaskModels(self.servers, self.workers, self.model_state, self.followers)
        requests = spec.strategy.cores_as == "request"
        self.places = Places(placement, self.machines, self.servers, self.workers, costs, requests=requests)

    def _make_followers(self) -> Followers:
        """Replicas of the server."""
        assert isinstance(self.model_state, RealModelState), "without gradients nothing is followed, which is refused"
        network = self.workers.network if isinstance(self.workers, Workers) else None
        return Followers(
            self.clock,
            self.costs,
            self.model_state,
            replicas_of(self.spec.job),
            self.servers,
            Carriers(self.clock, self.costs, self.machines, network),
            tell=self.tell,
            note=self.note,
            follows=self._follows,
        )

    def _follows(self, server: int) -> None:
        self.supervisor.follows(server)

    def _make_port(self) -> VirtualPort:
        scorer = Scorer(
            self.clock,
            self.costs,
            self.model_state,
            self.servers,
            samples=self.spec.job.validation_samples,
            shares_memory=self.spec.transport == "shm",
            tell=self.tell,
        )
        return VirtualPort(self.clock, self._models, self, scorer, self.costs.evaluation_s)

    def _make_coordinator(self, tenancy: Tenancy | None) -> Coordinator:
        return Coordinator(
            self.spec.job,
            self.spec.strategy,
            self.port,
            self.record,
            members=self.members,
            disturb=self.schedule.delay_for,
            loader_for=self.schedule.loader_for,
            stopwatch=self.stopwatch or float,  # which returns 0
            scheduler=self.spec.scheduler,
            place_of=self.places.host_of,
            reservations=None if tenancy is None else tenancy.reservations,
        )

    @property
    def over(self) -> bool:
        """Whether the job is over."""
        return self.failure is not None or self._course.status is not None

    @property
    def hosts(self) -> set[str]:
        """The names of the hosts that it is on; empty if each task has its own machine."""
        found = [self.places.host_of(str(node)) for node in self.members.layout.nodes]
        return {host for host in found if host is not None}

    # ---- from beginning to end ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        """All tasks are connected: the clock starts."""
        self.reports.announce()
        self.windows.begin()
        self.versions.save(0.0, 0, self.coordinator.snapshot(), self.model_state.dump())
        model_bytes = PARAMETER_BYTES * self.sent_parameters or None
        step = {} if self.followers is None else step_of(self.spec.optimizer)._asdict()
        aggregators: dict[str, str | None] = {**self._aggregators}
        self.tell(inputs.JobStarted(model_bytes=model_bytes, links=self._links, aggregators=aggregators, **step))
        self.reports.begin(self.telemetry_every_s)

    def end(self) -> Outcome:
        """The last reports and the evaluation of the final parameters, outside the job's time."""
        coordinator = self.coordinator
        if self.failure is None:
            t = coordinator.finished_s
            self.port.flush(t)
            for about in self.servers.report():
                coordinator.receive(t, busy_of(about, coordinator.version))
            if self._hurries:
                self._unscored = True
            elif metrics := self.model_state.evaluate():
                scored = Evaluated(t=t, version=coordinator.version, asked_s=t, metrics=metrics)
                self.record.event(t, scored, (), coordinator.version, 0.0, None)
        return self._end_as(self.failure, self.model_state.finish(self.spec.save_parameters_to))

    @property
    def _hurries(self) -> bool:
        """Whether a signal has come and the last evaluation would take too long."""
        return bool(self.spec.interrupted_by) and self.model_state.evaluation_took_s > INTERRUPTED_S

    def _end_as(self, failure: str | None, sha256: str = "", failed: RunStatus = "failed") -> Outcome:
        outcome = outcome_of(
            self.coordinator,
            failure=failure,
            interrupted=bool(self.spec.interrupted_by),
            t=self.coordinator.finished_s or self.clock.now,
            parameters_sha256=sha256,
            num_parameters=self.model_state.num_parameters,
            failed=failed,
            unscored=self._unscored,
        )
        record_outcome(self.record, outcome)
        return outcome

    def out_of_space(self, error: OSError) -> Outcome:
        """End the job: the disk is full, so its record cannot continue."""
        return self._end_as(no_space(error, self.spec.run_dir), failed="disk_full")

    def interrupt(self, number: int) -> None:
        """The user wants it to end."""
        self.spec.interrupted_by = number
        self.coordinator.receive(self.clock.now, inputs.Interrupted(f"signal {number}"))

    # ---- preemption --------------------------------------------------------------------------------------------------

    def preempt(self, grace_s: float, left: Callable[[], None]) -> None:
        """The cluster takes the job's places; ``left()`` is called when it can have them."""
        self._left = left
        self.tell(inputs.PreemptionOrdered(grace_s))

    def left(self) -> None:
        """All tasks of the preempted job have ended."""
        self.reports.rests = True
        if self._left is not None:
            self._left()

    @property
    def away(self) -> bool:
        """Whether the preempted job has left, and has no places yet."""
        return self.reports.rests

    def resume(self, hosts: Mapping[str, int]) -> None:
        """Continue, with every task on the host of this number."""
        self.reports.rests = False
        self.clock.catch_up()
        for task, number in hosts.items():
            if self.places.host_of(task) != str(NodeId("host", number)):
                self.windows.moved(task, number)
        self.supervisor.resume()
        self.reports.resume()

    def moved(self, task: str) -> None:
        """A task that the strategy restarts starts elsewhere, or where it was, among what disturbs it there."""
        if self.elsewhere is None:
            self.windows.moved(task)
        elif (to := self.elsewhere(task)) is not None:
            self.windows.moved(task, to)
            self.note("Moved", task=task, host=f"host:{to}")
        if self.rehoused is not None:
            self.rehoused()
            self.clock.catch_up()

    # ---- the coordinator, which does one thing at a time -------------------------------------------------------------

    def tell(self, given: inputs.AnyInput) -> None:
        """Pass an input to the coordinator, now or when it is free."""
        self.inbox.drive(self.coordinator.receive, given)

    def drive(self, call: Callable[[float], None]) -> None:
        """Let it react to something now, or when it is free; ``call(t)`` gets the time of that."""
        self.inbox.drive(call)

    def react(self, call: Callable[..., None], now: float, args: tuple[Any, ...]) -> bool:
        """Let the coordinator react; returns whether the job continues."""
        if self.over:
            return False
        try:
            call(now, *args)
        except ProtocolError as error:
            self.fail(f"the strategy broke a law: {error}")
            return False
        except Exception as error:
            if self.crashed is None or is_full(error):
                raise
            self.fail(self.crashed(error))
            return False
        return True

    def decided(self, now: float, sent_s: float) -> None:
        """Carry out its orders, which leave at ``sent_s``; end the job if it waits for nothing that can come."""
        self.port.flush(sent_s)
        if not self._ledger.progresses and self._declares_stuck and not self.over and not self._to_come():
            self.coordinator.watch.declare(now)

    def _to_come(self) -> bool:
        """Whether the strategy will receive an unknown event even if it gives no command."""
        job, now = self.coordinator, self.clock.now
        quoted = Restart in job.strategy.needs and math.isfinite(job.scheduler.next_change_s(now))
        return quoted or job.watch.awaits() or bool(self.inbox.waiting) or self.windows.to_come

    def _arrived(self, iteration: Iteration, timings: Timings, taken_s: float) -> None:
        order, result = iteration.order, iteration.result
        if self.telemetry_every_s is not None and self.machines is None:
            self.usage.worked(order.worker, iteration.data_s + iteration.compute_s - iteration.injected_s)
        ends_s: tuple[float, ...] = ()
        if order.within_s is not None:
            ends_s = self.workers.ends_s.pop(order.worker)
            if order.version != self.coordinator.version:
                self.fail(f"{order}: on the virtual clock iterations end early only in rounds of all workers")
                return
            result = self.model_state.gradient(order, len(ends_s))
        arrived = inputs.GradientArrived(order.grad_id, order.worker, timings, *result, ends_s=ends_s)
        self.clock.at(taken_s + self.costs.control_s, MESSAGE, self._tell_arrived, arrived)

    def _on_held(self, iteration: Iteration, timings: Timings, held_s: float) -> None:
        order, (loss, sqr_norm, _) = iteration.order, iteration.result
        num_bytes = self.workers.model_bytes
        ready = inputs.GradientReady(order.grad_id, order.worker, timings, num_bytes, loss, sqr_norm)
        self.clock.at(held_s + self.costs.control_s, MESSAGE, self.tell, ready)

    def _on_summed(self, made: Sum) -> None:
        assert isinstance(self.workers, HostWorkers)
        timings, parts = self.workers.summed(made)
        members = tuple(part.order.grad_id for part in made.parts)
        worker = parts[0].order.worker
        arrived = inputs.GradientArrived(made.order.grad_id, worker, timings, members=members)
        self.clock.at(self.clock.now + self.costs.control_s, MESSAGE, self._tell_arrived, arrived)

    def _tell_on_shared(self, given: inputs.GradientArrived) -> None:
        """A gradient that has arrived, of a job on machines that others share."""
        if self.loads is not None:
            self.loads.arrived(given)
        self.tell(given)

    def fail(self, reason: str) -> None:
        """The run cannot continue."""
        self.failure = reason

    def limited(self, node: str, cpu_cores: float | None, link_bytes_per_s: float | None) -> None:
        """Another job on the same hosts needs that a task uses no more than this; None: it may again."""
        self.clock.catch_up()
        self.note("Limited", node=node, cpu_cores=cpu_cores, link_bytes_per_s=link_bytes_per_s)

    # ---- notes -------------------------------------------------------------------------------------------------------

    def note(self, kind: str, /, **fields: object) -> None:
        """Write to the record."""
        self.record.note(self.clock.now, kind, **fields)

    def _living(self) -> list[str]:
        """Tasks that have a process, or will have one again soon."""
        return [str(node) for node in self.members.layout.nodes if node not in self.members.awaited]


def _links_of(costs: Costs, hosts: Hosts | None, nodes: list[str]) -> dict[str, float]:
    """Limits of links, of hosts or of nodes that have machines of their own."""
    rate = costs.link_bytes_per_s
    if hosts is not None:
        unlimited = {} if rate is None else dict.fromkeys((f"host:{host.number}" for host in hosts.hosts), rate)
        return unlimited | hosts.links
    return {} if rate is None else dict.fromkeys(nodes, rate)
