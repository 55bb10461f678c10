"""One live job from its first process to its last."""

from __future__ import annotations

import math
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from injectors.schedule import Schedule
from runtime.api import Launcher, Outcome, RunSpec, outcome_of, record_outcome
from runtime.backends.devices.choice import CUDA
from runtime.cluster.gpu_hogs import GPU, DeviceUsers, hogs_of, turns_alike
from runtime.cluster.hosts import Hosts
from runtime.cluster.leases import OF_AGENTS
from runtime.core import inputs
from runtime.core.coordinator import Coordinator
from runtime.core.replication import step_of
from runtime.errors import no_space
from runtime.live.control.agents import Agents
from runtime.live.control.allotting import Allotter
from runtime.live.control.factory import port_for
from runtime.live.control.following import LiveFollowers
from runtime.live.control.gpu_use import GpuMeter
from runtime.live.control.injecting import Injector
from runtime.live.control.job_resources import JobResources
from runtime.live.control.joined import JoinedMachines
from runtime.live.control.link_pacing import LinkPacing
from runtime.live.control.nodes import LiveNodes
from runtime.live.control.port import LivePort
from runtime.live.control.session import LiveSession
from runtime.live.control.settings import Processes, settings_of
from runtime.live.control.supervisor import LiveSupervisor
from runtime.live.control.tasks import OUTSIDE_NETWORK
from runtime.live.control.telemetry import Elsewhere, Read, Sampler, read_here
from runtime.live.joining.site import SAVED, Site
from runtime.live.machines.machines import build_machines
from runtime.live.tasks.usage import private_bytes
from runtime.live.transport.hub import Hub
from runtime.live.transport.loop import Loop
from runtime.live.transport.task_spec import TaskSpec
from strategies.protocol import NodeId, Partition, Send

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
        self.site = site or Site()
        self.on_hosts = hosts is not None
        self.outcome: Outcome | None = None
        self.begun: Callable[[], None] = lambda: None
        """Called when its clock starts, and when it continues after a preemption: all tasks are there."""
        self._winding_down = False
        self._gone_by_s = 0.0
        self.loop = Loop(resources.loop)
        self.secret = self.site.secret or secrets.token_bytes(32)
        self.threads = int(spec.backend_spec.get("num_threads", 1))
        start, count = spec.job.start_layout, spec.strategy.aggregators
        tasks = [*map(str, start.nodes), *(str(NodeId.aggregator(number)) for number in range(count))]
        if hosts is not None:
            hosts = hosts.with_aggregators(count, spec.strategy.aggregators_at)
        self.machines, self.obstacle = build_machines(
            resources.machines,
            resources.name,
            hosts,
            tasks,
            float(self.threads),
            requests=spec.strategy.cores_as == "request",
        )
        self.machines.places = self.site.placed(self.machines.places)
        links = None if hosts is None else hosts.links
        self.session = LiveSession(self.loop, self._supervisor, spec.record, links, step_of(spec.optimizer))
        self.session.supervisor.killed_for_memory = lambda key: self.machines.killed_for_memory(str(key))
        self.hub = self._make_hub()
        self.agents = self._make_agents(resources.launcher, tasks)
        self.users = DeviceUsers(processes.gpus, spec.job.num_workers, self.machines.host_of)
        self.injector = Injector(schedule, self.machines, self.loop, self.session, self.agents.tell, self.users)
        self._awaited: list[tuple[NodeId, frozenset[int], Callable[[], None]]] = []
        """What follows the end of these incarnations of tasks."""
        self.session.supervisor.ended = self._process_ended
        self.allotter = self._make_allotter()
        self.nodes = self._make_nodes()
        self.session.connect(self.hub, self.agents, self.injector, self.nodes)
        port = self._port()
        self.session.drive(port, self._coordinator(port))
        self.sampler = self._make_sampler()
        self.session.served = self.sampler.served

    # ---- its parts ---------------------------------------------------------------------------------------------------

    def _make_hub(self) -> Hub:
        return Hub(
            self.loop,
            self.secret,
            self.spec.transport,
            self.processes.port,
            self.machines.control_path,
            self.session.supervisor.admit,
            self.session.on_message,
            self.session.on_closed,
            host=self.site.listen,
            certificate=self.site.certificate,
        )

    def _make_agents(self, launcher: Launcher, tasks: list[str]) -> Agents:
        logs = self.spec.run_dir / "logs"
        agents = Agents(
            launcher,
            self.hub,
            self.loop,
            logs,
            self.session.failed,
            self.site.nodes,
            lease_s=max(OF_AGENTS * self.processes.lease_s, self.site.lease_s),
            start_deadline_s=self.session.supervisor.settings.start_deadline_s,
        )
        agents.node_of = self.site.node_of(tasks)
        return agents

    def _make_allotter(self) -> Allotter:
        return Allotter(
            self.machines,
            self.injector.plan.level,
            self.hub.send,
            self.injector.throttle,
            self.session.note,
            self.session.failed,
        )

    def _make_nodes(self) -> LiveNodes:
        session, host_of = self.session, self.machines.host_of
        return LiveNodes(session, session.supervisor, self.injector, self.allotter, host_of, self._join())

    def _join(self) -> JoinedMachines | None:
        """Who chooses machines, if tasks are on some that have joined; their agents know the processes there."""
        site, session = self.site, self.session
        if not site.elsewhere:
            return None
        session.supervisor.pid_for_record = lambda pid: pid
        session.supervisor.where = lambda task: {"node": self.agents.where(task)}
        tasks, threads = session.supervisor.tasks, float(self.threads)
        joined = JoinedMachines(
            site, self.agents, self.machines, self.injector, session.supervisor.members, session.note, tasks, threads
        )
        if self._paces_links and site.link_bytes_per_s:
            self.injector.paced = LinkPacing(site.link_bytes_per_s, joined.numbers, self._connected, self.hub.send)
        return joined

    def _make_sampler(self) -> Sampler:
        read: Read = read_here
        if self.site.elsewhere:
            readings = Elsewhere()
            read, self.session.sampled = readings.read, readings.receive
        network = self.machines.network
        counters = None if network is None else network.counters
        on_gpus = self.spec.backend_spec.get("device") == CUDA and not self.site.elsewhere
        gpu_of = GpuMeter(self.processes.gpus if on_gpus else (), os.environ)
        return Sampler(counters, self.machines.placement, self.allotter.own_limits, read, gpu_of)

    @property
    def _paces_links(self) -> bool:
        return self.site.elsewhere and "bandwidth" in self.schedule.kinds

    def _connected(self) -> list[NodeId]:
        return [key for key in self.hub.peers if key.role in ("worker", "server")]

    def _supervisor(self, session: LiveSession) -> LiveSupervisor:
        settings = settings_of(self.processes, self.spec, on_hosts=self.on_hosts)
        return LiveSupervisor(self.loop, settings, session, self.machines.places)

    def _port(self) -> LivePort:
        make_port = port_for(self.spec.collective)
        session, roster = self.session, self.session.supervisor.roster
        port = make_port(self.hub, self.loop, roster, self.nodes, session, self.schedule.delay_for)
        if self.spec.job.num_replicas:
            port.followers = LiveFollowers(self.hub, roster, session)
        saved_to = self.spec.save_parameters_to
        port.last_save = "" if saved_to is None else SAVED if self.site.elsewhere else str(saved_to)
        return port

    def _coordinator(self, port: LivePort) -> Coordinator:
        spec = self.spec
        return Coordinator(
            spec.job,
            spec.strategy,
            port,
            spec.record,
            members=self.session.supervisor.members,
            disturb=self.schedule.delay_for,
            stopwatch=time.perf_counter,
            scheduler=spec.scheduler,
            place_of=self.machines.host_of,
        )

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
        self.session.on_start = self._start_clock

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
        self.session.on_left = left
        self.session.preempt(grace_s)

    def resume(self, hosts: Mapping[str, int]) -> None:
        """Continue, with every task on the host of this number; :attr:`begun` is called when all are there."""
        self.session.on_resumed = self.begun
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
            stack.callback(self.hub.close)
            stack.callback(self.agents.kill)
            self.session.goodbye()

    def once_ended(self, node: NodeId, then: Callable[[], None]) -> None:
        """Call ``then()`` when the processes that a task has now have ended; soon if it has none."""
        self._awaited.append((node, self.session.supervisor.processes(node), then))
        self._look_who_ended(node)

    def _process_ended(self, node: NodeId) -> None:
        self.machines.leave_behind(str(node))
        self._look_who_ended(node)

    def _look_who_ended(self, node: NodeId) -> None:
        """Whoever waits for processes of this task of which none is left waits no longer; later ones do not count."""
        there, waiting = self.session.supervisor.processes(node), self._awaited
        self._awaited = [one for one in waiting if one[0] != node or one[1] & there]
        for awaited, had, then in waiting:
            if awaited == node and not had & there:
                self.loop.after(0.0, then)

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
            coordinator=self.hub.address,
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
            backend=spec.backend_spec,
            task=spec.task_spec,
            device=self.processes.device,
            devices=self.processes.devices,
            threads=self.threads,
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
            paces_links=self._paces_links,
            num_replicas=spec.job.num_replicas,
        )

    def _hogs(self) -> dict[int, int]:
        asked = [(change.target, change.level) for change in self.schedule.changes([GPU])]
        device = str(self.spec.backend_spec.get("device"))
        return hogs_of(asked, self.users, alike=turns_alike(device, mps=bool(self.processes.mps_pipes)))

    # ---- while it runs -----------------------------------------------------------------------------------------------

    def _view(self) -> None:
        if self.outcome is not None:
            return
        self.spec.tick(self.session.t)
        self.loop.after(VIEW_EVERY_S, self._view)

    def _start_clock(self) -> None:
        """The job's clock starts."""
        self.begun()
        self._announce()
        self.injector.start()
        if self.processes.telemetry_every_s is not None:
            self._observe(self.processes.telemetry_every_s)

    def _observe(self, every_s: float) -> None:
        """Sample the use of all tasks and hosts, now and periodically."""
        if self.session.over:
            return
        period_s, nodes = self.sampler.sample(self.loop.now, self._sampled_pids())
        if nodes:
            self.session.receive(inputs.Observed(period_s, nodes))
        self.loop.after(every_s, lambda: self._observe(every_s))

    def _sampled_pids(self) -> list[tuple[str, int]]:
        """Of workers, servers and aggregators: what only looks at the job is not of it."""
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

    def _unsaved(self) -> bool:
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
            unsaved=self._unsaved(),
        )
        record_outcome(self.spec.record, outcome)
        session.recorded = True
        return outcome
