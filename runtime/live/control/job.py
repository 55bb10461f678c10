"""One live job from its first process to its last."""

from __future__ import annotations

import math
import os
import secrets
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from injectors.schedule import Schedule
from runtime.api import Outcome, RunSpec, outcome_of, record_outcome
from runtime.cluster.gpu_hogs import GPU, DeviceUsers, hogs_of, turns_alike
from runtime.cluster.hosts import Hosts
from runtime.core import inputs
from runtime.errors import no_space
from runtime.live.control.job_resources import JobResources, JobSetup
from runtime.live.control.session import LiveSession
from runtime.live.control.settings import Processes
from runtime.live.control.tasks import OUTSIDE_NETWORK
from runtime.live.joining.site import Site
from runtime.live.machines.machines import build_machines
from runtime.live.machines.memory_speed import PERIOD_S, MemoryProbe
from runtime.live.tasks.usage import private_bytes
from runtime.live.transport.loop import Loop
from runtime.live.transport.task_spec import TaskSpec
from strategies.protocol import NodeId, NodeUse, Partition, Send, StepAlone

VIEW_EVERY_S = 0.25
AGENT_EXIT_S = 2.0
CROWDED_FRAC = 0.8
"""Part of the cores that may be promised: beyond it, hosts got up to 17 % less than their quotas when all were busy."""


class LiveJob:
    """One job of a lab: its secret, hub, session, agents and tasks. Nothing of another job can reach them."""

    def __init__(
        self,
        resources: JobResources,
        processes: Processes,
        spec: RunSpec,
        schedule: Schedule,
        hosts: Hosts | None,
        site: Site | None = None,
    ) -> None:
        self.name, self.processes, self.spec, self.schedule = resources.name, processes, spec, schedule
        self.site = site = site or Site()
        self.outcome: Outcome | None = None
        self.begun: Callable[[], None] | None = None
        """Called when its clock starts, and when it continues after a preemption: all tasks are there."""
        self.trained: Callable[[], None] | None = None
        """Called when it is over, before its last evaluation."""
        self.watched: Callable[[Sequence[NodeUse]], None] | None = None
        """Called with every sample, where somebody else keeps what jobs use."""
        self._winding_down = False
        self._gone_by_s = 0.0
        self.loop, self.secret = Loop(resources.loop), site.secret or secrets.token_bytes(32)
        start, count = spec.job.start_layout, spec.strategy.aggregators
        tasks = [*map(str, start.nodes), *(str(NodeId.aggregator(number)) for number in range(count))]
        if hosts is not None:
            hosts = hosts.with_aggregators(count, spec.strategy.aggregators_at)
        threads = int(spec.backend_spec.get("num_threads", 1))
        self.machines, self.obstacle = build_machines(
            resources.machines,
            resources.name,
            hosts,
            tasks,
            float(threads),
            requests=spec.strategy.cores_as == "request",
        )
        self.machines.places = site.placed(self.machines.places)
        on_devices = any(place.device for place in self.machines.places.values())
        self.paced = on_devices or bool(processes.device or processes.devices)
        """Whether workers sleep until their device's time has passed."""
        users = DeviceUsers(processes.gpus, spec.job.num_workers, self.machines.host_of)
        self.setup = JobSetup(
            self.loop,
            self.secret,
            resources.launcher,
            self.machines,
            site,
            spec,
            schedule,
            processes,
            users,
            threads,
            resources.reservations,
        )
        self.session = LiveSession(self.setup, self._start_clock, self._report_begun)
        self.agents, self.injector, self.nodes = self.session.agents, self.session.injector, self.session.nodes

    # ---- from beginning to end ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start all tasks; the job's clock starts when all are connected."""
        if self.obstacle:
            self.session.failed(self.obstacle)
        else:
            self._say_if_crowded()
            if why := self.machines.shared.no_ticks:
                self.session.note("TicksMissing", reason=why)
            saves = self.spec.save_parameters_to is not None
            self.agents.start(self._task_spec, self.machines.namespace_fds, saves=saves)
        self._view()

    @property
    def over(self) -> bool:
        """Whether only its end remains."""
        return self.session.over

    def advance(self) -> bool:
        """Advance the job after a turn of the loop; returns whether it is over and nothing of it remains."""
        if self.outcome is None and self.session.over:
            if not self._winding_down:
                self._winding_down = True
                self.injector.stop()
                if self.trained is not None:
                    self.trained()
            if self.session.last_evaluation():
                if self.session.unscored:
                    print(
                        "run.py: the final parameters have no score, as their evaluation took too long", file=sys.stderr
                    )
                self.outcome = self._outcome()
                self._say_goodbye()
        if self.outcome is None or (self.agents.there and self.loop.now < self._gone_by_s):
            return False
        self.close()
        return True

    def preempt(self, grace_s: float, left: Callable[[], None]) -> None:
        """The cluster takes its places; ``left()`` is called when all tasks have ended, unless the job ends before.

        Its agent stays: it is on none of the hosts.
        """
        self.session.preempt(grace_s, left)

    def resume(self, hosts: Mapping[str, int]) -> None:
        """Continue, with every task on the host of this number; :attr:`begun` is called when all are there."""
        self.nodes.resume(hosts)

    def interrupt(self, number: int) -> None:
        """The user wants it to end."""
        self.spec.interrupted_by = number
        if self.session.waits_to_save:
            limit_s = self.session.port.evaluations.patience_s
            print(
                f"run.py: save_parameters=true: waiting up to {limit_s:.0f} s for the final parameters; "
                "a second signal ends the run without them",
                file=sys.stderr,
            )
        self.session.interrupt(f"signal {signal.Signals(number).name}")

    def out_of_space(self, error: OSError) -> None:
        """The disk is full, so its record cannot continue."""
        self.session.out_of_space(no_space(error, self.spec.run_dir))
        if self.outcome is None:
            self.outcome = self._outcome()
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        self._gone_by_s = self.loop.now + AGENT_EXIT_S
        self.agents.end_those_that_start()
        self.session.goodbye()

    def close(self) -> None:
        """End the remaining processes, then release their machines; a second call does nothing."""
        with ExitStack() as stack:
            stack.callback(self.loop.forget_timers)
            stack.callback(self.machines.close)
            stack.callback(self.session.hub.close)
            stack.callback(self.agents.kill)
            self.session.goodbye()

    def once_ended(self, node: NodeId, then: Callable[[], None]) -> None:
        """Call ``then()`` when the processes that a task has now have ended; soon if it has none."""
        self.session.supervisor.once_ended(node, then)

    # ---- what it starts with -----------------------------------------------------------------------------------------

    def _say_if_crowded(self) -> None:
        """Warn if hosts are promised more than this machine can give to all at once."""
        promised, have = self.machines.promised_cores, len(os.sched_getaffinity(0))
        if promised > CROWDED_FRAC * have:
            self.session.note("Crowded", promised_cores=promised, cores=have)
            print(
                f"run.py: cluster.hosts: quotas of {promised:.2f} cores in all are more than {CROWDED_FRAC} of the "
                f"{have} cores here, so busy hosts disturb each other; use a smaller cluster.hosts.real_cores_per_core",
                file=sys.stderr,
            )

    def _task_spec(self, agent: int) -> TaskSpec:
        spec, cut = self.spec, self.session.coordinator.cut
        return TaskSpec(
            run_dir=str(Path(spec.run_dir).resolve()),
            coordinator=self.session.hub.address,
            secret=self.secret,
            agent=agent,
            heartbeat_s=self.processes.heartbeat_s,
            transport=spec.transport,
            transfer_bits=spec.transfer_bits,
            seed=spec.job.seed,
            num_workers=spec.job.num_workers,
            layout=self.session.supervisor.members.layout,
            num_samples=cut.num_samples,
            shard_samples=cut.shard_samples,
            num_shards=cut.num_shards,
            validation_samples=spec.job.validation_samples,
            optimizer=spec.optimizer,
            outer=dict(spec.strategy.outer) if StepAlone in spec.strategy.needs else {},
            backend=spec.backend_spec,
            task=spec.task_spec,
            device=self.processes.device,
            devices=self.processes.devices,
            threads=self.setup.threads,
            niceness=self.processes.niceness,
            supports_sample_weights=spec.job.supports_sample_weights and Partition in spec.strategy.needs,
            collective=spec.collective,
            places=self.machines.places,
            gpus=self.processes.gpus,
            mps_pipes=self.processes.mps_pipes,
            mps_percent=self.processes.mps_percent,
            hogs=self._hogs(),
            sample_every_s=self.processes.telemetry_every_s if self.site.elsewhere else None,
            checkpoints=self.site.checkpoints,
            certificate=self.site.certificate,
            holds=Send in spec.strategy.needs,
            paces_links=self.setup.paces_links,
            num_replicas=spec.job.num_replicas,
            sums_meanwhile=spec.strategy.sums_meanwhile,
            bound_s=spec.summing.bound_s,
        )

    def _hogs(self) -> dict[int, int]:
        asked = [(change.target, change.level) for change in self.schedule.changes([GPU])]
        device = str(self.spec.backend_spec.get("device"))
        return hogs_of(asked, self.setup.users, alike=turns_alike(device, mps=bool(self.processes.mps_pipes)))

    # ---- while it runs -----------------------------------------------------------------------------------------------

    def _view(self) -> None:
        if self.outcome is not None:
            return
        self.spec.tick(self.session.t)
        self.loop.after(VIEW_EVERY_S, self._view)

    def _start_clock(self) -> None:
        """The job's clock starts."""
        self._report_begun()
        self._announce()
        self.injector.start()
        if self.processes.telemetry_every_s is not None:
            self._observe(self.processes.telemetry_every_s)
        if self.machines.hosts is not None and not self.site.elsewhere:
            self._probe_memory(MemoryProbe())

    def _report_begun(self) -> None:
        if self.begun is not None:
            self.begun()

    def _observe(self, every_s: float) -> None:
        """Sample the use of all tasks and hosts, now and periodically."""
        if self.session.over:
            return
        period_s, nodes = self.session.sampler.sample(self.loop.now, self._list_sampled_pids())
        if nodes:
            if self.watched is not None:
                self.watched(nodes)
            self.session.receive(inputs.Observed(period_s, nodes))
        self.loop.after(every_s, lambda: self._observe(every_s))

    def _probe_memory(self, probe: MemoryProbe) -> None:
        """Note how long a copy takes, now and periodically: emulated hosts share this machine's memory."""
        if self.session.over:
            return
        self.session.note("MemoryProbed", copy_s=probe.read())
        self.loop.after(PERIOD_S, lambda: self._probe_memory(probe))

    def _list_sampled_pids(self) -> list[tuple[str, int]]:
        """Return the processes of workers, servers and aggregators; observers are not part of the job."""
        pids = self.session.supervisor.roster.pids
        return [(name, pid) for name, pid in pids if NodeId.parse(name).role not in OUTSIDE_NETWORK]

    def _announce(self) -> None:
        """Record which disturbances are open, now and whenever that changes."""
        if self.session.over:
            return
        t = self.loop.now
        self.session.note("Injecting", active=self.schedule.active(t))
        if math.isfinite(following := self.schedule.next_change(t)):
            self.loop.at(following, self._announce)

    def _is_unsaved(self) -> bool:
        """Whether the final parameters are wanted, and the evaluator has not stored them; elsewhere only it knows."""
        wanted = self.spec.save_parameters_to
        return wanted is not None and not self.session.sha256 and (self.site.elsewhere or not wanted.exists())

    def _outcome(self) -> Outcome:
        session = self.session
        looks = not session.failure and not self.site.elsewhere
        tasks = session.supervisor.tasks.values() if looks else ()
        memory = {task.name: private_bytes(task.pid) for task in tasks if task.pid}
        outcome = outcome_of(
            session.coordinator,
            failure=session.failure,
            interrupted=bool(self.spec.interrupted_by),
            t=session.coordinator.finished_s or session.t,
            parameters_sha256=session.sha256,
            num_parameters=session.supervisor.num_parameters,
            memory=memory,
            failed=session.failed_as,
            unscored=session.unscored,
            unsaved=self._is_unsaved(),
        )
        record_outcome(self.spec.record, outcome)
        session.recorded = True
        return outcome
