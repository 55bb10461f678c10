"""A real driver (``run.py launcher=join``) with agents, workers and a server that only answer: the coordinator's pace.

256 agents and 1,024 workers are sockets of one process here, which obeys as the real ones would but computes nothing:
what is measured is the driver, from a worker's report to its next order, on loopback and with its record as always.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import msgspec

from runtime.live.agent.dialing import dial
from runtime.live.joining import wire
from runtime.live.joining.data import prepare
from runtime.live.joining.facts import look_here
from runtime.live.joining.token import new_token, read_token
from runtime.live.transport import messages as m
from runtime.live.transport.address import Address, connect
from runtime.live.transport.auth import Identity, call
from runtime.live.transport.channel import LoopChannel
from runtime.live.transport.task_spec import TaskSpec
from strategies.protocol import Timings
from tests.support.runs import ROOT, every_pid

HOST = "127.0.0.1"
WARM_UP_S = 3.0
ALIVE_S = 0.5
SLICES = 16
"""Parts of a heartbeat's period in which a part of all tasks speaks."""


def turnaround(num_agents: int, num_workers: int, think_s: float, duration_s: float) -> dict[str, float]:
    """Orders per second, and the median and 99th percentile of seconds from a report to the worker's next order.

    ``think_s``: from an order to its report, half of it more or less, so that workers do not speak all at once; 0: as
    soon as possible, which shows the most that the driver does.
    Core fractions: processor time per second, of the driver with what it has started, of the process here, and of
    everybody else, who should not be there.
    """
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
        free.close()
        token = Path(folder, "token")
        new_token(token)
        with Path(folder, "output").open("wb") as output:
            driver = subprocess.Popen(
                _command(folder, port, num_agents, num_workers), cwd=ROOT, stdout=output, stderr=output
            )
            try:
                fakes = Fakes(read_token(str(token), "token"), port, think_s)
                fakes.join(num_agents)
                fakes.serve(lambda: fakes.orders >= num_workers, driver)
                fakes.serve_for(WARM_UP_S, driver)
                fakes.begin()
                begun_s, before = time.perf_counter(), _used_s(driver.pid)
                fakes.serve_for(duration_s, driver)
                took_s = time.perf_counter() - begun_s
                own_s = time.process_time() - fakes.own_s
                driver_s, all_s = (after - earlier for after, earlier in zip(_used_s(driver.pid), before, strict=True))
                orders, waits = fakes.orders, sorted(fakes.waits)
                driver.send_signal(signal.SIGINT)
                fakes.serve(lambda: driver.poll() is not None, None)
            except (OSError, RuntimeError) as error:
                output.flush()
                said = Path(folder, "output").read_text()[-2000:]
                raise RuntimeError(f"{error}: {said}") from error
            finally:
                driver.kill()
                driver.wait()
    return {
        "orders_per_s": orders / took_s,
        "median_s": median(waits),
        "p99_s": quantiles(waits, n=100)[98],
        "driver_core_frac": driver_s / took_s,
        "fakes_core_frac": own_s / took_s,
        "others_core_frac": max(0.0, all_s - own_s - driver_s) / took_s,
    }


def _command(folder: str, port: int, num_agents: int, num_workers: int) -> list[str]:
    join = ("launcher=join", f"launcher.nodes={num_agents}", f"launcher.listen={HOST}", f"launcher.port={port}")
    size = (
        f"cluster.num_workers={num_workers}",
        "topology.num_servers=1",
        f"workload.global_batch_samples={num_workers}",
    )
    never = ("workload.epochs=null", "workload.eval_every_s=null", "eval_every_s=null", "checkpoint_every_s=null")
    quiet = ("cluster.device=null", "draw=false", "view=none", f"hydra.run.dir={folder}/run")
    patient = ("runtime.lease_s=30", "runtime.start_deadline_s=120", "launcher.lease_s=60")  # all start in one process
    job = (
        "workload=ledger",
        "workload.task.num_samples=1024000",
        "backend=numpy",
        "straggler=none",
        "strategy=asp",
        *size,
        *never,
        *quiet,
        *patient,
    )
    return [sys.executable, "run.py", *join, f"launcher.token_file={folder}/token", *job]


def _used_s(pid: int) -> tuple[float, float]:
    """Processor seconds until now: of a process with all that it has started, and of everybody on this machine."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    parents, spent_s = {}, {}
    for one in every_pid():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            parents[one], spent_s[one] = int(fields[1]), sum(map(int, fields[11:15])) * tick_s
    family = [one for one in spent_s if pid in _ancestry(one, parents)]
    return sum(spent_s[one] for one in family), sum(map(int, Path("/proc/stat").read_text().split()[1:4])) * tick_s


def _ancestry(pid: int, parents: dict[int, int]) -> set[int]:
    """A process, who has started it, who has started that, and so on."""
    found = set()
    while pid in parents:
        found.add(pid)
        pid = parents[pid]
    return found


class Fakes:
    """All agents and tasks. Each connection has a channel and what obeys its messages."""

    def __init__(self, token: bytes, port: int, think_s: float) -> None:
        self.token, self.port, self.think_s = token, port, think_s
        self.selector = selectors.DefaultSelector()
        self.agents: list[LoopChannel] = []
        self.tasks: deque[LoopChannel] = deque()
        self.spec: TaskSpec | None = None
        self.secret = b""
        self.due: list[tuple[float, int, LoopChannel, int, int]] = []
        """When which worker reports which gradient."""
        self.reported_s: dict[int, float] = {}
        self.waits: list[float] = []
        self.orders, self.own_s = 0, 0.0
        self.random = random.Random(0)
        self._sequence, self._pids = count(), count(1000)
        self._alive_s = self._beat_s = 0.0
        self._prepared: wire.Prepared | None = None

    def join(self, num_agents: int) -> None:
        """Connect, and say who they are: all are this machine."""
        facts = look_here(HOST, capabilities=False)
        for _ in range(num_agents):
            sock = dial(HOST, self.port, self.token, 60.0)
            channel = LoopChannel(sock, wire.decode)
            self.agents.append(channel)
            self._watch(channel, self._joining)
            channel.send(m.encode(wire.Enlist(facts=facts)))

    def begin(self) -> None:
        """Count from here on."""
        self.waits, self.orders, self.own_s = [], 0, time.process_time()

    def serve_for(self, seconds: float, driver: Any) -> None:
        until = time.monotonic() + seconds
        self.serve(lambda: time.monotonic() >= until, driver)

    def serve(self, done: Any, driver: Any, limit_s: float = 120.0) -> None:
        """Obey until ``done()``; raises ``RuntimeError`` if the driver ends before, or it takes too long."""
        until = time.monotonic() + limit_s
        while not done():
            if (driver is not None and driver.poll() is not None) or time.monotonic() > until:
                raise RuntimeError(f"after {self.orders} orders to {len(self.tasks)} tasks the driver ends or hangs")
            wait_s = 0.05 if not self.due else min(0.05, max(0.0, self.due[0][0] - time.monotonic()))
            for key, _ in self.selector.select(wait_s):
                channel, obey = key.data
                try:
                    for message in channel.receive():
                        obey(channel, message)
                except OSError:
                    self.selector.unregister(channel.sock)
                    channel.sock.close()
            self._periodic()

    def _periodic(self) -> None:
        now = time.monotonic()
        while self.due and self.due[0][0] <= now:
            _, _, channel, worker, grad_id = heapq.heappop(self.due)
            self._report(channel, worker, grad_id)
        if self.spec and now - self._alive_s >= ALIVE_S:
            self._alive_s = now
            self._say(self.agents, wire.Alive())
        if self.spec and now - self._beat_s >= self.spec.heartbeat_s / SLICES:
            self._beat_s = now
            some = [self.tasks[number] for number in range(-(-len(self.tasks) // SLICES))]
            self.tasks.rotate(-len(some))
            self._say(some, m.Heartbeat())

    @staticmethod
    def _say(channels: list[LoopChannel], message: m.Message) -> None:
        data = m.encode(message)
        for channel in channels:
            if channel.sock.fileno() >= 0:
                with contextlib.suppress(OSError):  # the end is noticed when it is read
                    channel.send(data)

    def _watch(self, channel: LoopChannel, obey: Any) -> None:
        self.selector.register(channel.sock, selectors.EVENT_READ, (channel, obey))

    def _connect(self, identity: Identity, obey: Any) -> LoopChannel:
        sock = connect(self.spec.coordinator)
        call(sock, self.secret, identity)
        channel = LoopChannel(sock)
        self._watch(channel, obey)
        if identity.role != "agent":
            self.tasks.append(channel)
        return channel

    # ---- orders ------------------------------------------------------------------------------------------------------

    def _joining(self, channel: LoopChannel, message: m.Message) -> None:
        match message:
            case wire.Prepare():
                self._prepared = self._prepared or prepare(message.task)
                channel.send(m.encode(self._prepared))
            case wire.Reach():
                channel.send(m.encode(wire.Reached(number=message.number)))
            case wire.Begin():
                self.spec = msgspec.msgpack.decode(message.spec, type=TaskSpec)
                self.secret = wire.secret_of(self.token, message.salt)
                agent = self._connect(Identity("agent", self.spec.agent), self._agent)
                agent.send(m.encode(m.AgentReady(import_s=0.0, versions={})))
            case wire.Finish():
                channel.send(m.encode(wire.Ended(reason="exit code 0")))
            case wire.Refused():
                raise RuntimeError(message.reason)

    def _agent(self, channel: LoopChannel, message: m.Message) -> None:
        match message:
            case m.Launch(role=role, id=number, incarnation=incarnation):
                about = {"role": role, "id": number, "incarnation": incarnation, "pid": next(self._pids)}
                channel.send(m.encode(m.Forked(**about)))
                task = self._connect(Identity(role, number, incarnation), lambda at, what: self._task(at, what, number))
                address = Address(transport="tcp", host=HOST, port=9) if role == "server" else None
                task.send(m.encode(m.TaskReady(num_parameters=self._prepared.num_samples, address=address)))

    def _task(self, channel: LoopChannel, message: m.Message, number: int) -> None:
        match message:
            case m.Work(order=order):
                now = time.monotonic()
                self.orders += 1
                if (since := self.reported_s.pop(number, None)) is not None:
                    self.waits.append(now - since)
                think_s = self.think_s * self.random.uniform(0.5, 1.5)
                heapq.heappush(self.due, (now + think_s, next(self._sequence), channel, number, order.grad_id))
            case m.Attach():
                channel.send(m.encode(m.Attached(generation=message.generation)))
            case m.LoadCheckpoint():
                loaded = m.Loaded(id=message.id, generation=message.generation, version=0, state=b"")
                channel.send(m.encode(loaded))
            case m.SaveCheckpoint():
                channel.send(m.encode(m.Saved(id=message.id, seconds=0.0)))
            case m.EvaluateVersion():
                channel.send(m.encode(m.VersionEvaluated(ticket=message.ticket, metrics={"mean_uses": 1.0})))

    def _report(self, channel: LoopChannel, worker: int, grad_id: int) -> None:
        timings = Timings(compute_s=self.think_s)
        self.reported_s[worker] = time.monotonic()
        report = m.Report(grad_id=grad_id, timings=timings, loss=1.0, sqr_norm=1.0, finite=True)
        self._say([channel], report)
