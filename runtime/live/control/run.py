"""One live run from its first process to its last."""

from __future__ import annotations

import math
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import msgspec

from injectors.schedule import Schedule
from runtime.api import Outcome, RunSpec, outcome_of, record_outcome
from runtime.cluster.hosts import Hosts
from runtime.core.coordinator import Coordinator
from runtime.errors import is_full, no_space
from runtime.live.control.factory import INSEPARABLE, port_for
from runtime.live.control.injecting import Injector
from runtime.live.control.port import LivePort
from runtime.live.control.session import LiveSession
from runtime.live.control.settings import Processes, Settings, num_computing, start_deadline_s
from runtime.live.control.supervisor import LiveSupervisor
from runtime.live.control.telemetry import Sampler
from runtime.live.machines.machines import build_machines
from runtime.live.machines.mechanisms import Mechanisms
from runtime.live.tasks.interpreter import program, surroundings
from runtime.live.transport.hub import Hub
from runtime.live.transport.loop import Loop
from runtime.live.transport.task_spec import TaskSpec
from strategies.protocol import Partition

VIEW_EVERY_S = 0.25
AGENT_EXIT_S = 2.0
CROWDED_FRAC = 0.8
"""Of the cores: with more promised, hosts got up to 17 % less than their quotas when all were busy (2 cores)."""


class LiveRun:
    """Machines, agent, tasks; the loop that carries what they say."""

    def __init__(
        self, processes: Processes, experiment: RunSpec, schedule: Schedule, hosts: Hosts | None, mechanisms: Mechanisms
    ) -> None:
        self.processes, self.experiment, self.schedule = processes, experiment, schedule
        self.on_hosts = hosts is not None
        self.secret = secrets.token_bytes(32)
        self.loop = Loop()
        self.threads = int(experiment.backend_spec.get("num_threads", 1))
        tasks = [f"server:{number}" for number in range(experiment.job.num_servers)]
        tasks += [f"worker:{number}" for number in range(experiment.job.num_workers)]
        self.machines, self.obstacle = build_machines(hosts, mechanisms, tasks, float(self.threads))
        self.session = LiveSession(self.loop, self._supervisor, experiment.record)
        self.hub = Hub(
            self.loop,
            self.secret,
            experiment.transport,
            processes.port,
            self.machines.control_path,
            self.session.supervisor.admit,
            self.session.on_message,
            self.session.on_closed,
        )
        self.session.connect(self.hub, self._port, self._coordinator)
        self.injector = Injector(
            schedule, self.machines, self.loop, self.session, lambda message: self.hub.send(("agent", 0), message)
        )
        self.session.injector = self.injector
        network = self.machines.network
        placement = self.machines.placement
        tasks_of = [] if placement is None else placement.tasks_on
        self.sampler = Sampler(None if network is None else network.counters, tasks_of)
        self.session.served = self.sampler.served
        self.session.agent_words = self._agent_words
        self.agent: subprocess.Popen[bytes] | None = None

    def _supervisor(self, session: LiveSession) -> LiveSupervisor:
        asked, job = self.processes, self.experiment.job
        cold = int(not self.experiment.backend.fork_safe)
        deadline_s = partial(start_deadline_s, asked.start_deadline_s, on_hosts=self.on_hosts)
        settings = Settings(
            heartbeat_s=asked.heartbeat_s,
            lease_s=asked.lease_s,
            start_deadline_s=deadline_s(num_cold=cold * num_computing(job)),
            restart_deadline_s=deadline_s(num_cold=cold),
            iteration_deadline_s=asked.iteration_deadline_s,
            max_restarts=asked.max_restarts,
            failover=job.failover,
            inseparable=self.experiment.collective == INSEPARABLE,
            scores=job.validation_samples > 0,
        )
        return LiveSupervisor(self.loop, settings, job.num_workers, job.num_servers, session)

    def _port(self) -> LivePort:
        make_port = port_for(self.experiment.collective)
        num_servers = self.experiment.job.num_servers
        port = make_port(self.hub, self.loop, self.session, num_servers, self.schedule.delay_for)
        port.last_save = str(self.experiment.save_parameters_to or "")
        return port

    def _coordinator(self, port: LivePort) -> Coordinator:
        experiment = self.experiment
        return Coordinator(
            experiment.job,
            experiment.strategy,
            port,
            experiment.record,
            disturb=self.schedule.delay_for,
            stopwatch=time.perf_counter,
            scheduler=experiment.scheduler,
        )

    def run(self) -> Outcome:
        try:
            self._watch_interrupts()
            if self.obstacle:
                self.session.failed(self.obstacle)
            else:
                self._say_if_crowded()
                self._start_agent()
            self._view()
            self.session.on_start = self._begin
            while not self.session.over:
                self.loop.turn()
            self.injector.stop()
            self.session.last_evaluation()
            return self._outcome()
        except OSError as error:
            if not is_full(error):
                raise
            self.session.out_of_space(no_space(error, self.experiment.run_dir))
            return self._outcome()
        finally:
            self._end()

    def _say_if_crowded(self) -> None:
        """Hosts that are promised more than this machine can give all at once do not get what they are promised."""
        promised, have = self.machines.promised_cores, len(os.sched_getaffinity(0))
        if promised > CROWDED_FRAC * have:
            self.session.note("Crowded", promised_cores=promised, cores=have)
            print(
                f"run.py: cluster.hosts: quotas of {promised:.2f} cores in all are more than {CROWDED_FRAC} of the "
                f"{have} cores here, so busy hosts disturb each other; use a smaller cluster.hosts.real_cores_per_core",
                file=sys.stderr,
            )

    def _start_agent(self) -> None:
        log = (Path(self.experiment.run_dir) / "logs" / "agent.log").open("ab")
        self.agent = subprocess.Popen(
            program("runtime.live.tasks.agent", str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=surroundings(),
            process_group=0,
            pass_fds=self.machines.namespace_fds,
        )
        log.close()
        assert self.agent.stdin is not None
        with suppress(BrokenPipeError), self.agent.stdin as stdin:  # broken: it has died, as we shall see
            stdin.write(msgspec.msgpack.encode(self._spec()))
        agent = self.agent
        self.loop.after(0.1, lambda: self._check_agent(agent))

    def _check_agent(self, agent: subprocess.Popen[bytes]) -> None:
        """Until it has called, only its exit can tell that the agent is in trouble."""
        if ("agent", 0) in self.hub.peers:
            return
        if agent.poll() is not None:
            self.session.failed(f"the agent could not start: {self._agent_words()}")
        else:
            self.loop.after(0.1, lambda: self._check_agent(agent))

    def _agent_words(self) -> str:
        log = Path(self.experiment.run_dir) / "logs" / "agent.log"
        words = log.read_text(errors="replace").strip() if log.exists() else ""  # an empty one is taken away
        return words.splitlines()[-1] if words else "it said nothing"

    def _spec(self) -> TaskSpec:
        experiment, cut = self.experiment, self.session.coordinator.cut
        return TaskSpec(
            run_dir=str(Path(experiment.run_dir).resolve()),
            coordinator=self.hub.address,
            secret=self.secret,
            heartbeat_s=self.processes.heartbeat_s,
            transport=experiment.transport,
            seed=experiment.job.seed,
            num_workers=experiment.job.num_workers,
            num_servers=experiment.job.num_servers,
            num_samples=cut.num_samples,
            shard_samples=cut.shard_samples,
            num_shards=cut.num_shards,
            validation_samples=experiment.job.validation_samples,
            optimizer=experiment.optimizer,
            backend=experiment.backend_spec,
            task=experiment.task_spec,
            device=self.processes.device,
            devices=self.processes.devices,
            threads=self.threads,
            evaluator_niceness=self.processes.evaluator_niceness,
            supports_sample_weights=experiment.job.supports_sample_weights and Partition in experiment.strategy.needs,
            collective=experiment.collective,
            places=self.machines.places,
        )

    def _watch_interrupts(self) -> None:
        """Ctrl-C, SIGTERM and SIGHUP end the run in good order; a second one ends it at once."""
        ours, theirs = socket.socketpair()
        for sock in (ours, theirs):
            sock.setblocking(False)
        self.waker = (ours, theirs)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self.loop.watch(ours, lambda _: self._obey_interrupt(ours))

        def interrupt(number: int, _: object) -> None:
            # only remembered here, since it may come in the middle of a decision; it also wakes the loop up
            if self.session.over or self.experiment.interrupted_by:
                if self.agent is not None and self.agent.returncode is None:
                    os.killpg(self.agent.pid, signal.SIGKILL)
                os._exit(128 + number)
            self.experiment.interrupted_by = number

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupt)

    def _obey_interrupt(self, waker: socket.socket) -> None:
        waker.recv(64)
        if number := self.experiment.interrupted_by:
            self.session.interrupt(f"signal {signal.Signals(number).name}")

    def _view(self) -> None:
        self.experiment.tick(self.session.t)
        self.loop.after(VIEW_EVERY_S, self._view)

    def _begin(self) -> None:
        """The job's clock runs."""
        self._announce()
        self.injector.start()
        if self.processes.telemetry_every_s is not None:
            self._observe(self.processes.telemetry_every_s)

    def _observe(self, every_s: float) -> None:
        """Look at what everybody uses, now and again and again."""
        if self.session.over:
            return
        period_s, nodes = self.sampler.sample(self.loop.now, self.session.pids())
        if nodes:
            self.session.observed(period_s, nodes)
        self.loop.after(every_s, lambda: self._observe(every_s))

    def _announce(self) -> None:
        """Write down which disturbances are open, now and whenever that changes."""
        if self.session.over:
            return
        t = self.loop.now
        self.session.note("Injecting", active=self.schedule.active(t))
        if math.isfinite(following := self.schedule.next_change(t)):
            self.loop.at(following, self._announce)

    def _outcome(self) -> Outcome:
        session = self.session
        outcome = outcome_of(
            session.coordinator,
            failure=session.failure,
            interrupted=bool(self.experiment.interrupted_by),
            t=session.coordinator.finished_s or session.t,
            parameters_sha256=session.sha256,
            num_parameters=session.supervisor.num_parameters,
            memory=session.unique_memory_bytes() if session.failure is None else {},
            failed=session.failed_as,
        )
        record_outcome(self.experiment.record, outcome)
        return outcome

    def _end(self) -> None:
        """Goodbye, then the end of whoever has not gone by himself, then of what they lived on."""
        with ExitStack() as stack:
            stack.callback(self.loop.close)
            stack.callback(self._forget_interrupts)
            stack.callback(self.machines.close)
            stack.callback(self.hub.close)
            stack.callback(self._end_agent)
            self.session.goodbye()

    def _end_agent(self) -> None:
        if ("agent", 0) not in self.hub.peers:
            self._kill_agent()  # it is still importing and would not listen
        elif self.agent is not None:
            try:
                self.agent.wait(AGENT_EXIT_S)
            except subprocess.TimeoutExpired:
                self._kill_agent()

    def _kill_agent(self) -> None:
        if self.agent is not None and self.agent.poll() is None:
            os.killpg(self.agent.pid, signal.SIGKILL)
            self.agent.wait(AGENT_EXIT_S)

    def _forget_interrupts(self) -> None:
        signal.set_wakeup_fd(-1)
        for sock in getattr(self, "waker", ()):
            self.loop.forget(sock)
            sock.close()
