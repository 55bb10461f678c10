"""Stragglab's own side of every comparison: six adapters, called by the harness as the peers are.

Each runs in a driver process of its own (launch.py: new session, one thread per process, time-out, everything with its
token killed afterwards), so it may fork, start an agent, import torch. It returns JSON-able numbers, prints nothing
after its last child has gone, and leaves no process behind: one that outlives ``launch.GRACE_S`` is an error.

By hand::

    cd tests
    PYTHONPATH=.. python -m bench.driver ours push_pull '{"transport": "tcp", "nbytes": 1000000, "iterations": 100}'
"""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench import models
from bench.launch import Unavailable
from bench.peers.apart import two_machines
from bench.stats import block_median, median_gap
from bench.tasks import ROUNDS
from injectors.plan import build_plan
from injectors.schedule import Schedule
from runtime.api import RunSpec
from runtime.config.instantiate import instantiate
from runtime.core.layout import Layout
from runtime.live.hosts import netns
from runtime.live.hosts.network import Network
from runtime.live.runtime import LiveRuntime
from runtime.live.tasks.server import Server
from runtime.live.tasks.store import Store
from runtime.live.transport.address import LOOPBACK
from runtime.live.transport.auth import Identity
from runtime.live.transport.buffers import SharedBuffers
from runtime.live.transport.buffers import create as create_buffers
from runtime.live.transport.hub import Hub
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import Goodbye, TaskReady, Update
from runtime.live.transport.secured import new_certificate
from runtime.live.transport.task_spec import Place, TaskSpec
from runtime.record.recorder import Fanout, Recorder
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.protocol import Apply, Arrived, Lost, Strategy
from tests.support.clusters import cluster_of
from tests.support.harness import make_job

WARM_UP = 5
BACKENDS = {
    "torch": "runtime.backends.torch.TorchBackend",
    "tensorflow": "runtime.backends.tensorflow.TensorflowBackend",
}
NO_STRAGGLERS = Schedule(build_plan("none", 0, 1.0, []))


def push_pull(transport: str, nbytes: int, iterations: int) -> float:
    """Median seconds (``stats.median_gap``) of one push and one pull of ``nbytes`` each, one worker and one server.

    As ``peers.bare_sockets``: the worker hands ``nbytes`` of gradient to the server, which holds all of it before
    ``nbytes`` of parameters are delivered in full to the worker; no update is computed. The real classes on both ends:
    a server process, this process as its worker and its coordinator. With ``tcp`` an iteration has one small message
    more than the bare sockets, the coordinator's order to deliver, which waits for the gradient at the server (on one
    machine there is no receipt). With ``shm`` no byte is copied at
    all (gradient and parameters are read where they lie), so what is measured is the hand-over.
    """
    return _push_pull(transport, nbytes, iterations)


def push_pull_apart(nbytes: int, iterations: int, tls: bool = False) -> float:
    """As :func:`push_pull` over tcp, as between joined machines: worker and coordinator in one network namespace, the
    server in another one. The server says when it has the whole gradient. ``tls``: all connections are encrypted."""
    with two_machines() as network:
        netns.enter(network.namespace_fds[0])
        return _push_pull("tcp", nbytes, iterations, network, new_certificate() if tls else "")


def _push_pull(
    transport: str, nbytes: int, iterations: int, network: Network | None = None, certificate: str = ""
) -> float:
    num_floats, secret, loop = nbytes // 4, os.urandom(32), Loop()
    said: list[Any] = []
    here, there = (LOOPBACK, LOOPBACK) if network is None else network.addresses
    about = (lambda _: True, lambda _, m: said.append(m), lambda _: None)
    hub = Hub(loop, secret, transport, 0, "", *about, host=here, certificate=certificate)
    buffers_fd = create_buffers() if transport == "shm" else -1
    buffers = SharedBuffers(buffers_fd, num_floats, 1) if transport == "shm" else None
    pid = os.fork()
    if pid == 0:
        try:
            if network is not None:
                netns.enter(network.namespace_fds[1])
            store = Store(np.zeros(num_floats, np.float32), {"name": "sgd"}, buffers)
            spec = msgspec.structs.replace(
                _bare_spec(hub, secret, transport),
                places={"server:0": Place(address=there)},
                certificate=certificate,
            )
            Server(spec, Identity("server", 0), store, num_floats).run()
        finally:
            os._exit(0)
    while not any(isinstance(message, TaskReady) for message in said):
        loop.turn(0.1)
    links = ServerLinks(num_floats, secret, Identity("worker", 0), buffers)
    links.same_machine = network is None
    links.attach(0, [said[0].address], [(0, num_floats)])
    stamps = [_exchange(hub, links, ticket) for ticket in range(iterations + WARM_UP + 1)][WARM_UP:]
    links.close()
    hub.send(("server", 0), Goodbye())
    os.waitpid(pid, 0)
    hub.close()
    loop.close()
    return median_gap(stamps)


def _exchange(hub: Hub, links: ServerLinks, ticket: int) -> float:
    """One iteration: the gradient of the last delivery is handed over, and dropped with the order for the next one."""
    links.push(ticket)
    hub.send(("server", 0), Update(drop=(ticket,), deliver=(("worker", 0, 0, ticket + 1),)))
    links.receive_params(ticket + 1)
    return time.perf_counter()


def _bare_spec(hub: Hub, secret: bytes, transport: str) -> TaskSpec:
    return TaskSpec(
        run_dir=tempfile.gettempdir(),
        coordinator=hub.address,
        secret=secret,
        heartbeat_s=0.5,
        transport=transport,
        seed=0,
        num_workers=1,
        layout=Layout.initial(1, 1),
        num_samples=1,
        shard_samples=1,
        num_shards=1,
        validation_samples=0,
        optimizer={"name": "sgd"},
        backend={},
        task={},
        device=None,
    )


class Watch:
    """A record that keeps what the adapters ask for: when updates, arrivals and losses happened, and the notes."""

    def __init__(self) -> None:
        self.updates_s: list[float] = []
        self.arrivals: list[tuple[float, Arrived]] = []
        self.lost_s = 0.0
        self.notes: list[tuple[float, str, dict[str, Any]]] = []
        self.wall: dict[str, float] = {}

    def event(self, t: float, event: Any, commands: Any, version: int, decide_us: float, state: object) -> None:
        if any(isinstance(command, Apply) for command in commands):
            self.updates_s.append(t)
        if isinstance(event, Arrived):
            self.arrivals.append((t, event))
        elif isinstance(event, Lost):
            self.lost_s = t

    def note(self, t: float, kind: str, /, **fields: Any) -> None:
        """Keep it, with the wall clock of the first of its kind."""
        self.notes.append((t, kind, fields))
        self.wall.setdefault(kind, time.monotonic())


def _run(
    transport: str,
    model: str,
    num_workers: int,
    num_servers: int,
    iterations: int,
    *,
    collective: str = "",
    transfer_bits: int = 32,
    framework: str = "torch",
    device: str = "cpu",
    exact: bool = True,
    graphs: bool = False,
    strategy: Strategy | None = None,
    watch: Watch | None = None,
    tick: Callable[[float], None] = lambda t: None,
    max_time_s: float = 600.0,
    recorder_of: Callable[[Path], Any] = Recorder,
) -> tuple[Watch, dict[str, Any]]:
    """A whole job (BSP if no ``strategy`` is given) through the live runtime, recorded as always; returns what was seen
    and its outcome."""
    os.environ["STRAGGLAB_ALLOW_TARGETS"] = "bench"
    watch = watch or Watch()
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder)
        for name in ("logs", "checkpoints"):
            (run_dir / name).mkdir()
        recorder = recorder_of(run_dir)
        backend = {"_target_": BACKENDS[framework], "num_threads": 1, "device": device}
        backend |= ({} if exact else {"exact": False}) | ({"graphs": True} if graphs else {})
        task = {"_target_": "bench.tasks.BenchTask", "model": model, "num_workers": num_workers}
        spec = RunSpec(
            job=make_job(
                num_workers=num_workers,
                num_servers=num_servers,
                num_samples=models.BATCH * num_workers * ROUNDS,
                global_batch_samples=models.BATCH * num_workers,
                epochs=-(-iterations // ROUNDS),
                max_time_s=max_time_s,
                lr=models.LEARNING_RATE,
            ),
            strategy=strategy or BSP(),
            record=Fanout(recorder, watch),
            run_dir=run_dir,
            transport=transport,
            collective=collective,
            transfer_bits=transfer_bits,
            backend=instantiate(backend),
            task=instantiate(task),
            backend_spec=backend,
            task_spec=task,
            optimizer={"name": "sgd", "lr": models.LEARNING_RATE},
            save_parameters_to=None,
            tick=tick,
        )
        gpus = None if device == "cpu" else {"devices": [0]}
        cluster = cluster_of(num_workers=num_workers, gpus=gpus)
        outcome = LiveRuntime(cluster=cluster).run(spec, NO_STRAGGLERS)
        recorder.close()
    if outcome.status != "done":
        raise RuntimeError(f"the job {outcome.status}: {outcome.reason}")
    return watch, msgspec.to_builtins(outcome)


def bsp_step(
    transport: str,
    model: str,
    num_workers: int,
    num_servers: int,
    iterations: int,
    collective: str = "",
    transfer_bits: int = 32,
    device: str = "cpu",
    exact: bool = True,
    graphs: bool = False,
) -> float:
    """Seconds per BSP iteration in steady state: ``stats.block_median`` of ``iterations`` + 1 stamps, warm-up left out.

    The real path: coordinator, strategy ``bsp``, servers (with a ``collective``: replicas) with SGD
    (``models.LEARNING_RATE``), no pacing, no injection, no periodic evaluation or checkpoint; the recorder as in a
    normal run. An iteration ends when its update is ordered. All workers share one ``device``.
    """
    several = {"collective": collective, "transfer_bits": transfer_bits}
    several |= {"device": device, "exact": exact, "graphs": graphs}
    watch, _ = _run(transport, model, num_workers, num_servers, iterations + WARM_UP + 1, **several)
    return block_median(watch.updates_s[WARM_UP : WARM_UP + iterations + 1])


def tensorflow_step(strategy: str, model: str, num_workers: int, iterations: int) -> float:
    """Seconds for ``num_workers`` gradients in steady state with ``backend=tensorflow`` over tcp and one server.

    ``bsp``: as :func:`bsp_step`. ``asp``: of the updates, each of which is one gradient; data drawn by whoever is free
    (``data=dynamic``), as in the peer.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise Unavailable("tensorflow is not installed (pip install 'stragglab[tensorflow]')")
    rules, per_iteration = (BSP(), 1) if strategy == "bsp" else (ASP(data="dynamic"), num_workers)
    watch, _ = _run("tcp", model, num_workers, 1, iterations + WARM_UP + 1, framework="tensorflow", strategy=rules)
    first, last = WARM_UP * per_iteration, (WARM_UP + iterations) * per_iteration
    return per_iteration * block_median(watch.updates_s[first : last + 1])


def start(num_workers: int) -> dict[str, object]:
    """How a job begins: ``{"ready_s": float, "unique_bytes": [int, ...]}``.

    ``ready_s``: from the end of the framework's import in the agent until the last of the workers has begun its first
    Compute. ``unique_bytes``: per worker at the end of the job, private pages (smaps_rollup) less the workload's own
    buffers (its data, the flat parameters and gradient). Model: ``mlp``.
    """
    watch, outcome = _run("tcp", "mlp", num_workers, 1, 3)
    # The job's clock starts when all workers are attached; the first Compute of all is ordered in that instant.
    begun = watch.wall["EpochStarted"] - watch.wall["Imported"]
    first_pull = max(event.timings.data_s + event.timings.pull_s for _, event in watch.arrivals[:num_workers])
    floats = sum(parameter.numel() for parameter in models.build("mlp").parameters())
    data_bytes = sum(part.numel() * part.element_size() for part in models.batch("mlp", 0)) * num_workers * ROUNDS
    own = 2 * 4 * floats + data_bytes
    unique = [size - own for name, size in outcome["memory"].items() if name.startswith("worker")]
    return {"ready_s": begun + first_pull, "unique_bytes": unique}


def restart(num_workers: int) -> float:
    """Seconds from the SIGKILL of one computing worker until its next incarnation has begun a Compute."""
    watch = Watch()
    killed_s: list[float] = []

    def kill_worker_0(t: float) -> None:
        if not killed_s and t > 1.0:
            pids = [
                fields["pid"] for _, kind, fields in watch.notes if kind == "Launched" and fields["role"] == "worker"
            ]
            killed_s.append(t)
            os.kill(pids[0], signal.SIGKILL)

    _run("tcp", "mlp", num_workers, 1, 1_000_000, watch=watch, tick=kill_worker_0, max_time_s=4.0)
    reborn = next((t, event) for t, event in watch.arrivals if event.grad.incarnation == 1)
    timings = reborn[1].timings
    return reborn[0] - timings.compute_s - timings.send_s - killed_s[0]


class TimedRecorder(Recorder):
    """Counts the CPU time that recording takes."""

    spent_s = 0.0

    def event(self, *arguments: Any) -> None:
        begun = time.thread_time()
        super().event(*arguments)
        TimedRecorder.spent_s += time.thread_time() - begun

    def note(self, *arguments: Any, **fields: Any) -> None:
        begun = time.thread_time()
        super().note(*arguments, **fields)
        TimedRecorder.spent_s += time.thread_time() - begun


def recording_core_frac(num_workers: int, duration_s: float) -> float:
    """CPU seconds that the recorder uses per second of a running job (0.01 = 1 % of a core).

    Telemetry (timings of every iteration, busy times of the servers) travels in messages that are sent anyway; what it
    costs beyond them is its place in the record. The job is unpaced, so it records far more often than a paced one.
    """
    _run("tcp", "mlp", num_workers, 1, 1_000_000, max_time_s=duration_s, recorder_of=TimedRecorder)
    return TimedRecorder.spent_s / duration_s
