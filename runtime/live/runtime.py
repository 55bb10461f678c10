"""``cluster=local``: real processes on this machine."""

from __future__ import annotations

import math
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import msgspec

from injectors.sleep import SleepActuator
from runtime.coordinator import CAPABILITIES, Coordinator
from runtime.device import parse_device
from runtime.live.address import LOOPBACK, congestion_control
from runtime.live.hub import Hub
from runtime.live.loop import Loop
from runtime.live.messages import TaskSpec
from runtime.live.port import LivePort
from runtime.live.session import Session
from runtime.live.supervisor import Settings, Supervisor
from runtime.spec import Experiment, Outcome, outcome_of, record_outcome
from strategies.protocol import Command

VIEW_EVERY_S = 0.25
AGENT_EXIT_S = 2.0
DIRECTORIES = ("logs", "checkpoints")
"""Of a run, that its processes write to."""


@final
@dataclass(kw_only=True)
class LiveRuntime:
    """Runs a job on worker and server processes; every field is described in ``conf/cluster/local.yaml``."""

    capabilities: ClassVar[frozenset[type[Command]]] = CAPABILITIES
    name: ClassVar[str] = "live"
    needs_gradients: ClassVar[bool] = True

    num_workers: int
    device: dict[str, float] | None = None
    port: int = 0
    heartbeat_s: float = 0.5
    lease_s: float = 2.0
    iteration_deadline_s: float = 60.0
    start_deadline_s: float = 60.0
    max_restarts: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        for name in ("heartbeat_s", "lease_s", "iteration_deadline_s", "start_deadline_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)}: must be more than 0")
        if self.lease_s < 2 * self.heartbeat_s:
            raise ValueError(f"lease_s={self.lease_s}: must be at least twice heartbeat_s={self.heartbeat_s}")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port={self.port}: must be between 0 (any free one) and 65535")
        if self.max_restarts is not None and self.max_restarts < 0:
            raise ValueError(f"max_restarts={self.max_restarts}: must be 0 or more (null for no limit)")
        parse_device(self.device)

    def base_iter_s(self, batch_samples: int) -> float | None:
        """Nominal time of an undisturbed iteration, where a device profile says it."""
        profile = parse_device(self.device)
        return None if profile is None else profile.seconds(batch_samples)

    def machine(self) -> dict[str, Any]:
        """What of the machine matters to a live run."""
        return {"congestion_control": congestion_control()}

    def calibration(self, batch_samples: int) -> None:
        """Real time needs none."""

    def run(self, experiment: Experiment, actuator: SleepActuator) -> Outcome:
        """Run the job to its end; the record is written by ``experiment.record``."""
        for name in DIRECTORIES:
            (experiment.run_dir / name).mkdir(parents=True, exist_ok=True)
        outcome = _Run(self, experiment, actuator).run()
        clear_checkpoints(experiment.run_dir / "checkpoints")
        return outcome


def clear_checkpoints(directory: Path) -> None:
    """They serve this run only."""
    for path in directory.glob("*.ckpt"):
        path.unlink()
    directory.rmdir()


class _Run:
    """From the first process to the last."""

    def __init__(self, runtime: LiveRuntime, experiment: Experiment, actuator: SleepActuator) -> None:
        self.runtime, self.experiment, self.actuator = runtime, experiment, actuator
        self.secret = secrets.token_bytes(32)
        self.loop = Loop()
        self.session = Session(self.loop, self._supervisor, experiment.record)
        self.hub = Hub(
            self.loop,
            self.secret,
            experiment.transport,
            LOOPBACK,
            runtime.port,
            self.session.supervisor.admit,
            self.session.on_message,
            self.session.on_closed,
        )
        self.session.connect(self.hub, self._port, self._coordinator)
        self.agent: subprocess.Popen[bytes] | None = None

    def _supervisor(self, session: Session) -> Supervisor:
        runtime, job = self.runtime, self.experiment.job
        settings = Settings(
            heartbeat_s=runtime.heartbeat_s,
            lease_s=runtime.lease_s,
            start_deadline_s=runtime.start_deadline_s,
            iteration_deadline_s=runtime.iteration_deadline_s,
            max_restarts=runtime.max_restarts,
        )
        return Supervisor(self.loop, settings, job.num_workers, job.num_servers, session)

    def _port(self) -> LivePort:
        port = LivePort(self.hub, self.loop, self.session, self.experiment.job.num_servers, self.actuator.delay_for)
        port.last_save = str(self.experiment.save_parameters_to or "")
        return port

    def _coordinator(self, port: LivePort) -> Coordinator:
        experiment = self.experiment
        return Coordinator(
            experiment.job,
            experiment.strategy,
            port,
            experiment.record,
            disturb=self.actuator.delay_for,
            stopwatch=time.perf_counter,
        )

    def run(self) -> Outcome:
        try:
            self._start_agent()
            self._watch_interrupts()
            self._view()
            self.session.on_start = self._announce
            while not self.session.over:
                self.loop.turn()
            self.session.last_evaluation()
            return self._outcome()
        finally:
            self._end()

    def _start_agent(self) -> None:
        log = (Path(self.experiment.run_dir) / "logs" / "agent.log").open("ab")
        self.agent = subprocess.Popen(
            [sys.executable, "-m", "runtime.live.agent", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=Path(__file__).resolve().parents[2],
            process_group=0,
        )
        log.close()
        assert self.agent.stdin is not None
        self.agent.stdin.write(msgspec.msgpack.encode(self._spec()))
        self.agent.stdin.close()
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
        words = (Path(self.experiment.run_dir) / "logs" / "agent.log").read_text(errors="replace").strip()
        return words.splitlines()[-1] if words else "it said nothing"

    def _spec(self) -> TaskSpec:
        experiment, cut = self.experiment, self.session.coordinator.cut
        return TaskSpec(
            run_dir=str(Path(experiment.run_dir).resolve()),
            coordinator=self.hub.address,
            secret=self.secret,
            heartbeat_s=self.runtime.heartbeat_s,
            transport=experiment.transport,
            host=LOOPBACK,
            seed=experiment.job.seed,
            num_workers=experiment.job.num_workers,
            num_servers=experiment.job.num_servers,
            num_samples=cut.num_samples,
            shard_samples=cut.shard_samples,
            num_shards=cut.num_shards,
            optimizer=experiment.optimizer,
            backend=experiment.backend,
            task=experiment.task,
            device=self.runtime.device,
            threads=int(experiment.backend.get("num_threads", 1)),
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

    def _announce(self) -> None:
        """Write down which disturbances are open, now and whenever that changes."""
        if self.session.over:
            return
        t = self.loop.now
        self.session.note("Injecting", active=self.actuator.active(t))
        if math.isfinite(following := self.actuator.next_change(t)):
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
        )
        record_outcome(self.experiment.record, outcome)
        return outcome

    def _end(self) -> None:
        """Goodbye, then the end of whoever has not gone by himself."""
        self.session.goodbye()
        if ("agent", 0) not in self.hub.peers:
            self._kill_agent()  # it is still importing and would not listen
        elif self.agent is not None:
            try:
                self.agent.wait(AGENT_EXIT_S)
            except subprocess.TimeoutExpired:
                self._kill_agent()
        self.hub.close()
        signal.set_wakeup_fd(-1)
        for sock in getattr(self, "waker", ()):
            self.loop.forget(sock)
            sock.close()
        self.loop.close()

    def _kill_agent(self) -> None:
        if self.agent is not None and self.agent.poll() is None:
            os.killpg(self.agent.pid, signal.SIGKILL)
            self.agent.wait(AGENT_EXIT_S)
