"""The agent: a zygote that imports the framework once and forks all tasks from it.

It only imports: it creates no tensor and runs no operation, so the parent never owns a thread pool for which a child
would wait forever; ``OMP_NUM_THREADS`` and similar variables are set before the imports, because numpy's BLAS would
otherwise start a thread at import. A fork takes about 5 ms, a cold start with torch 900 ms.

Run as ``python -m runtime.live.tasks.agent`` with a :class:`TaskSpec` on its standard input. It dies with its
supervisor, and everything it has forked dies with it.

A backend that must not be forked once imported (``fork_safe``) is not imported here: a task that computes with it is
forked like all others and then executes a new interpreter (:mod:`runtime.live.tasks.cold`).
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import math
import os
import select
import selectors
import signal
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn

import msgspec

from runtime.containment.process import default_signals, die_with, keep_freed_memory
from runtime.importing import importing
from runtime.live.tasks.cold import become_cold
from runtime.live.tasks.roles import run_role
from runtime.live.tasks.task_end import tell_end
from runtime.record.logs import open_log, remove_empty_logs
from strategies.protocol import AGGREGATOR, NodeId

TAIL_BYTES = 4096
TIED_S = 10.0
"""Seconds within which a child ties its life to ours: microseconds, even where many wait for a processor."""


def main() -> None:
    """Entry point of the agent."""
    die_with(int(sys.argv[1]))
    keep_freed_memory()
    spec_bytes = sys.stdin.buffer.read()
    from runtime.live.transport.task_spec import TaskSpec

    spec = msgspec.msgpack.decode(spec_bytes, type=TaskSpec)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(spec.threads)
    Agent(spec).run()


class Agent:
    """Forks tasks on command, reaps them, and reports their ends."""

    def __init__(self, spec: object) -> None:
        from injectors.actuators.throttles import Throttles
        from runtime.live.tasks.hogs import Hogs
        from runtime.live.transport import buffers
        from runtime.live.transport.address import connect
        from runtime.live.transport.auth import Identity, call
        from runtime.live.transport.channel import LoopChannel
        from runtime.live.transport.task_spec import TaskSpec

        assert isinstance(spec, TaskSpec)
        self.spec = spec
        self.hogs = Hogs(spec.hogs)
        self.buffers_fd = buffers.create() if spec.transport == "shm" or spec.num_replicas else -1
        self.tasks: dict[int, tuple[str, int, int]] = {}
        self.selector = selectors.DefaultSelector()
        wake_read, self.wake_write = os.pipe()
        for fd in (wake_read, self.wake_write):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        self.wake_read = wake_read
        self.throttles = Throttles()
        self._sample_s = self._beat_s = time.monotonic()
        """When to say next what tasks use, and that we are here."""
        self.import_s, versions = self._import()
        sock = connect(spec.coordinator)
        call(sock, spec.secret, Identity("agent", spec.agent))
        self.channel = LoopChannel(sock)
        self.selector.register(sock, selectors.EVENT_READ, "control")
        self.selector.register(wake_read, selectors.EVENT_READ, "child")
        self.versions = versions

    def _import(self) -> tuple[float, dict[str, str]]:
        from runtime.config.instantiate import instantiate

        begun = time.perf_counter()
        with importing():
            backend = instantiate(self.spec.backend)
            self.computes_cold = not backend.fork_safe
            names = backend.preload() if backend.fork_safe else [backend.framework]
            names += instantiate(self.spec.task).preload()
            from runtime.live.tasks.collectives.choice import preload

            names += preload(self.spec.collective, self.spec.run_dir)
            import runtime.live.tasks.aggregator
            import runtime.live.tasks.replica
            import runtime.live.tasks.server  # noqa: F401
            from runtime.live.tasks.auxiliary import work_of
            from runtime.live.transport.auxiliaries import AUXILIARIES

            for role in AUXILIARIES:
                work_of(role)
        versions = {name: version_of(name) for name in sorted({"numpy", *names})}
        return time.perf_counter() - begun, versions

    def run(self) -> None:
        """Serve until the coordinator is gone."""
        from runtime.live.transport.messages import AgentReady

        self._start_hogs()
        self.tell(AgentReady(import_s=self.import_s, versions=self.versions))
        while True:
            wait_s = min(self.throttles.tick(time.monotonic()), self._sample(), self._beat())
            for key, _ in self.selector.select(wait_s):
                if key.data == "child":
                    os.read(self.wake_read, 4096)
                elif key.data == "hog":
                    self._read_hog(key.fileobj)
                elif not self._serve():
                    self._end()
            self._reap()

    def _start_hogs(self) -> None:
        if self.hogs.wanted:
            self.hogs.start(self._become_hog)
            for sock in self.hogs.sockets:
                self.selector.register(sock, selectors.EVENT_READ, "hog")

    def _read_hog(self, sock: object) -> None:
        assert isinstance(sock, socket.socket)
        result = self.hogs.read(sock)
        if sock.fileno() < 0:
            self.selector.unregister(sock)
        if result is not None:
            self.tell(result)

    def _beat(self) -> float:
        """Say that we are here when it is time; returns the seconds until the next time."""
        if (now := time.monotonic()) >= self._beat_s:
            from runtime.live.transport.messages import Heartbeat

            self.tell(Heartbeat())
            self._beat_s = now + self.spec.heartbeat_s
        return max(0.0, self._beat_s - now)

    def _sample(self) -> float:
        """Say what tasks use when it is time; returns the seconds until the next time."""
        if self.spec.sample_every_s is None:
            return math.inf
        if (now := time.monotonic()) >= self._sample_s:
            from runtime.live.tasks.usage import cpu_s, resident_bytes
            from runtime.live.transport.messages import Sampled

            used = [
                (str(NodeId(role, number)), pid, cpu_s(pid), resident_bytes(pid))
                for pid, (role, number, _) in self.tasks.items()
            ]
            self.tell(Sampled(at_s=now, tasks=tuple(used)))
            self._sample_s = now + self.spec.sample_every_s
        return max(0.0, self._sample_s - now)

    def tell(self, message: object) -> None:
        from runtime.live.transport.messages import Message, encode

        assert isinstance(message, Message)
        if self.channel.send(encode(message)):
            os.set_blocking(self.channel.sock.fileno(), True)
            self.channel.flush()
            os.set_blocking(self.channel.sock.fileno(), False)

    def _serve(self) -> bool:
        from runtime.live.transport.messages import Freeze, Goodbye, KillTask, Launch, Occupy, Throttle

        try:
            for message in self.channel.receive():
                match message:
                    case Launch():
                        if message.place is not None:
                            self.spec.places[str(NodeId(message.role, message.id))] = message.place
                        self._launch(message.role, message.id, message.incarnation)
                    case KillTask():
                        self._kill((message.role, message.id, message.incarnation))
                    case Throttle() | Freeze():
                        self._actuate(message)
                    case Occupy():
                        self._occupy(message.target, message.taken_frac)
                    case Goodbye():
                        return False
        except ConnectionError:
            return False
        return True

    def _launch(self, role: str, number: int, incarnation: int) -> None:
        from runtime.errors import no_process
        from runtime.live.tasks.gpu_access import refuse_touched_driver
        from runtime.live.transport.messages import Exited, Forked

        refuse_touched_driver()
        agent = os.getpid()
        tied, tells_tied = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            for fd in (tied, tells_tied):
                os.close(fd)
            words = no_process(error)
            self.tell(
                Exited(role=role, id=number, incarnation=incarnation, pid=0, exit_code=1, signal=0, last_line=words)
            )
            return
        if pid == 0:
            os.close(tied)
            self._become(agent, tells_tied, role, number, incarnation)
        os.close(tells_tied)
        self._await_tied(tied, pid)
        os.close(tied)
        self.tasks[pid] = (role, number, incarnation)
        self.throttles.started(str(NodeId(role, number)), self.spec.place(role, number).host, pid)
        self.tell(Forked(role=role, id=number, incarnation=incarnation, pid=pid))

    def _await_tied(self, tied: int, pid: int) -> None:
        """A rule may stop the child at once, and it could outlive us before its life is tied to ours.

        One that somebody else has stopped before that is killed, and reported as any that dies.
        """
        until_s = time.monotonic() + TIED_S
        while not select.select([tied], [], [], self._beat())[0]:
            if time.monotonic() > until_s:
                os.kill(pid, signal.SIGKILL)
                return

    def _become(self, agent: int, tells_tied: int, role: str, number: int, incarnation: int) -> None:
        """Run the task in the child; never returns."""
        from runtime.live.tasks.gpu_access import surroundings_of
        from runtime.live.tasks.hog_process import share_turns

        exit_code = 1
        try:
            die_with(agent)
            os.close(tells_tied)
            self._leave(self.spec.place(role, number), self._log(role, number, incarnation))
            os.environ.update(surroundings_of(self.spec, role, number, os.environ))
            share_turns(self.spec, self.hogs, role, number)
            if self.computes_cold and role not in ("server", AGGREGATOR):  # these only add vectors
                become_cold(self.spec, self.buffers_fd, role, number, incarnation)
            run_role(self.spec, self.buffers_fd, role, number, incarnation)
            exit_code = 0
            with contextlib.suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
        except BaseException as error:  # noqa: BLE001  (whatever it is: this process must not continue as an agent)
            exit_code = tell_end(error)
        finally:
            os._exit(exit_code)

    def _become_hog(self, device: int, number: int, sock: socket.socket) -> NoReturn:
        """Be a hog in the child; never returns."""
        from runtime.live.tasks.hog_process import hog_main
        from runtime.live.tasks.hogs import log_name
        from runtime.live.transport.task_spec import Place

        exit_code = 1
        try:
            die_with(os.getppid())
            self._leave(Place(), Path(self.spec.run_dir) / "logs" / log_name(device, number))
            hog_main(self.spec, self.hogs, device, sock)
            exit_code = 0
        except BaseException as error:  # noqa: BLE001  (as above)
            exit_code = tell_end(error)
        finally:
            os._exit(exit_code)

    def _leave(self, place: object, path: Path) -> None:
        """Enter a task's place, and give up the agent's signals, connections and standard output."""
        default_signals()
        enter(place)
        self.channel.sock.close()
        self.selector.close()
        for sock in self.hogs.sockets:
            sock.close()
        for fd in (self.wake_read, self.wake_write):
            os.close(fd)
        log = open_log(path)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)

    def _log(self, role: str, number: int, incarnation: int) -> Path:
        return Path(self.spec.run_dir) / "logs" / f"{role}-{number}.{incarnation}.log"

    def _kill(self, task: tuple[str, int, int]) -> None:
        for pid, known in self.tasks.items():
            if known == task:
                os.kill(pid, signal.SIGKILL)

    def _actuate(self, message: object) -> None:
        """Throttle or freeze, and report what is in effect."""
        from runtime.live.transport.messages import Actuated, Freeze, Throttle

        assert isinstance(message, Throttle | Freeze)
        kind, by = ("cpu", message.by) if isinstance(message, Throttle) else ("pause", "signal")
        achieved, problem = None, ""
        try:
            if isinstance(message, Throttle):
                achieved = self.throttles.set_cpu(message.target, message.cores, message.by, message.running_cores)
            else:
                achieved = self.throttles.freeze(message.target, message.on)
        except (OSError, ValueError) as error:
            problem = str(error)
        self.tell(Actuated(target=message.target, kind=kind, by=by, achieved=achieved, problem=problem))

    def _occupy(self, target: str, taken_frac: float) -> None:
        """Let hogs take a part of a GPU; they report the part in effect when they have read it."""
        from runtime.live.transport.messages import Actuated

        try:
            self.hogs.order(target, taken_frac)
        except OSError as error:
            self.tell(Actuated(target=target, kind="gpu", by="hog", achieved=None, problem=str(error)))

    def _reap(self) -> None:
        from runtime.live.transport.messages import Exited

        while self.tasks or self.hogs.pids:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            if self.throttles.reaped(pid, status) or pid not in self.tasks:  # a hog, whose socket says so
                continue
            role, number, incarnation = self.tasks.pop(pid)
            self.throttles.ended(str(NodeId(role, number)), pid)
            log = self._log(role, number, incarnation)
            signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            self.tell(
                Exited(
                    role=role,
                    id=number,
                    incarnation=incarnation,
                    pid=pid,
                    exit_code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
                    signal=signalled,
                    last_line=last_line(log),
                )
            )
            if log.exists() and not log.stat().st_size:
                log.unlink()

    def _end(self) -> None:
        self.throttles.close()
        for pid in (*self.tasks, *self.hogs.pids):
            os.kill(pid, signal.SIGKILL)
        for pid in (*self.tasks, *self.hogs.pids):
            os.waitpid(pid, 0)
        remove_empty_logs(Path(self.spec.run_dir) / "logs")
        os._exit(0)


def enter(place: object) -> None:
    """Become a process of a host: enter its groups, then its network, then drop unneeded privileges."""
    from runtime.containment.linux import drop_privileges
    from runtime.live.transport.task_spec import Place

    assert isinstance(place, Place)
    for path in place.cgroup_files:
        with open(path, "wb", buffering=0) as file:
            file.write(b"0")
    if place.namespace_fd >= 0:
        from runtime.live.hosts.netns import enter as enter_network

        enter_network(place.namespace_fd)
    if os.geteuid() == 0:
        drop_privileges()


def version_of(distribution: str) -> str:
    """Version of the distribution of this name or, as some packagers name it, ``NAME-cpu``."""
    for name in (distribution, f"{distribution}-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "unknown"


def last_line(log: Path) -> str:
    """The last line that a task printed, for error messages."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""


if __name__ == "__main__":
    main()
