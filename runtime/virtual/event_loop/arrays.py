"""The compiled loop of one job, with its arrays as numpy sees them, and what it calls now and then."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from injectors.schedule import Schedule
from runtime.core.data.permutation import permute
from runtime.core.data.shards import Epoch
from runtime.core.job import Keeps, RecordSink
from runtime.record.columns import ColumnRecorder
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.tasks.host_servers import HostServers
from runtime.virtual.tasks.host_workers import HostWorkers
from runtime.virtual.tasks.replicas import Replicas
from runtime.virtual.tasks.servers import Servers
from runtime.virtual.tasks.workers import Workers
from strategies.protocol import AnyCommand, AnyEvent, NodeId

WHOLE = frozenset({
    "drawn", "iterations", "incarnations", "profiles", "server_updates", "shuffled", "row_integers"
})  # fmt: skip
"""The arrays that hold int64; the others hold float64."""
POLICIES = "dynamic", "shared", "even"


@final
class Arrays:
    """``loop`` is a ``Loop`` of ``_events.c``; its arrays are attributes of this object."""

    def __init__(self, session: VirtualSession, module: ModuleType) -> None:
        job = session.spec.job
        self.session, self.module = session, module
        self.loop: Any = module.Loop(job.num_workers, job.num_servers)
        self.room = module.ROOM
        self.on_hosts = isinstance(session.workers, HostWorkers)
        self._views: dict[str, NDArray[Any]] = {}

    def __getattr__(self, name: str) -> NDArray[Any]:
        """An array of the loop, by the name that it has there."""
        if name not in self._views:
            kind = np.int64 if name in WHOLE else np.float64
            self._views[name] = np.frombuffer(getattr(self.loop, name), kind)
        return self._views[name]


@final
class Delays:
    """What the plan asks of all nodes of a ``role``, in two arrays that follow the time."""

    def __init__(
        self, schedule: Schedule, role: str, delay_s: NDArray[np.float64], slowdown_frac: NDArray[np.float64]
    ) -> None:
        self.schedule, self._delay_s, self._slowdown_frac = schedule, delay_s, slowdown_frac
        self._targets = [str(NodeId(role, number)) for number in range(len(delay_s))]
        self.begin()

    def begin(self) -> None:
        """Forget the time: the next one may be any."""
        found = ((place, self.schedule.delays_of(target)) for place, target in enumerate(self._targets))
        self._delays = {place: delays for place, delays in found if delays is not None}
        self._next = [(-math.inf, place) for place in self._delays]  # (when what is asked changes, of whom), a heap
        self._delay_s[:] = self._slowdown_frac[:] = 0.0

    def follow(self, t: float) -> float:
        """Look up what is asked at ``t``, which never decreases; returns when that changes."""
        while self._next and self._next[0][0] <= t:
            place = self._next[0][1]
            (self._delay_s[place], self._slowdown_frac[place]), until = self._delays[place].from_on(t)
            heapq.heapreplace(self._next, (until, place))
        return self._next[0][0] if self._next else math.inf


def connect(arrays: Arrays, workers: Workers | HostWorkers, servers: Servers | HostServers | Replicas) -> None:
    """Give the loop all that it calls, and the numbers that do not change."""
    session, loop, record = arrays.session, arrays.loop, arrays.session.record
    core, costs, job = session.coordinator, session.costs, session.spec.job
    executor, ledger, shards = core.executor, core.ledger, core.shards
    loop.decision_s, loop.control_s, loop.overshoot_s = costs.decision_s, costs.control_s, costs.sleep_overshoot_s
    loop.update_base_s, loop.update_per_byte_s = costs.update_base_s, costs.update_per_byte_s
    loop.transfer_s = 0.0 if workers.shares_memory else costs.transfer_s(workers.model_bytes)
    loop.shares_memory, loop.jitters = workers.shares_memory, bool(costs.jitter_sigma) and isinstance(workers, Workers)
    loop.declares_stuck = job.stuck_after_s is not None
    distinct = list(dict.fromkeys(workers.profiles.values()))
    arrays.profiles[:] = [distinct.index(workers.profiles[worker]) for worker in range(job.num_workers)]
    loop.handle, loop.grads = core.strategy.handle, ledger.grads
    loop.remember, loop.histories = ledger.remember, ledger.histories(job.num_workers)
    loop.pace = pacer(workers) if isinstance(workers, Workers) else None
    keeps = keeps_of(record)
    loop.keeps_rows, loop.keeps_lines = keeps == "rows", keeps in ("all", "answers")
    loop.write_rows = partial(write_rows, arrays, record)
    loop.write_line = teller(session, keeps)
    loop.are_replicas = isinstance(servers, Replicas)
    if isinstance(servers, Replicas):
        loop.ring_s, loop.step_s = servers.update_takes_s(job.num_workers)
    loop.note_held = lambda t, worker: record.note(t, "Starved", worker=worker)
    loop.note_epoch = lambda t, epoch: record.note(t, "EpochStarted", epoch=epoch)
    loop.finish = executor.done
    loop.shuffle = shuffler(arrays)
    loop.new_epoch = lambda: books_of(Epoch(shards.cut))
    cut = shards.cut
    loop.num_samples, loop.num_shards = cut.num_samples, cut.num_shards
    loop.shard_samples = -1 if cut.shard_samples is None else cut.shard_samples
    loop.policy, loop.overlap = POLICIES.index(shards.policy), shards.overlap
    loop.epochs = -1 if shards.epochs is None else shards.epochs
    loop.draw = drawer(arrays, workers)
    loop.learn = learner(arrays)
    loop.learns = session.learner.progress is not None  # type: ignore[attr-defined]


def keeps_of(record: RecordSink) -> Keeps:
    """How much of an exchange with the strategy a record keeps; one that does not say gets everything.

    A subclass with an ``event`` of its own says it again: what its base class keeps is not known of it.
    """
    for kind in type(record).__mro__:
        if {"keeps", "event"} & {*vars(kind)}:
            keeps: Keeps = vars(kind).get("keeps", "all")
            return keeps
    return "all"


def teller(session: VirtualSession, keeps: Keeps) -> Callable[[float, AnyEvent, Sequence[AnyCommand], int], None]:
    """Tells the record of an exchange, as ``Dialogue`` does; the rows of arrivals are written by themselves."""
    record, strategy, dialogue = session.record, session.coordinator.strategy, session.coordinator.dialogue

    def tell(t: float, event: AnyEvent, answer: Sequence[AnyCommand], version: int) -> None:
        state = strategy.log_state()
        changed = state if state != dialogue.state else None
        dialogue.state = state
        record.event(t, event, answer, version, 0.0, changed)

    if keeps == "all":
        return tell
    if keeps == "rows":
        return lambda t, event, answer, version: record.event(t, event, (), version, 0.0, None)
    return lambda t, event, answer, version: record.event(t, event, answer, version, 0.0, None)


def books_of(epoch: Epoch) -> tuple[Epoch, dict[int, int], bytearray]:
    """An epoch and its books, in which the loop writes."""
    return epoch, epoch.partial, epoch.done


def shuffler(arrays: Arrays) -> Callable[[int, int], None]:
    """Computes the order of some shards of an epoch."""
    shards, order = arrays.session.coordinator.shards, arrays.shuffled

    def shuffle(epoch: int, block: int) -> None:
        places = np.arange(block * len(order), min(shards.cut.num_shards, (block + 1) * len(order)))
        order[: len(places)] = permute(places, shards.cut.num_shards, (shards.seed, epoch))

    return shuffle


def pacer(workers: Workers) -> Callable[[int, int, int], tuple[float, float, float]]:
    """Seconds of a batch: to load it, to compute it, of the device's profile (-1: there is none)."""

    def pace(worker: int, samples: int, accum: int) -> tuple[float, float, float]:
        found = workers.pace(worker, samples, accum)
        return found.data_s, found.real_s, -1.0 if found.paced_s is None else found.paced_s

    return pace


def drawer(arrays: Arrays, workers: Workers | HostWorkers) -> Callable[[int], None]:
    """Draws the next factors of a worker's jitter."""
    factors = arrays.factors.reshape(len(workers.profiles), -1)

    def draw(worker: int) -> None:
        factors[worker] = workers.jitter[worker].block(factors.shape[1])

    return draw


def learner(arrays: Arrays) -> Callable[[int, float, int], None]:
    """Tells the progress model of an update, as ``Executor.apply`` and the port do."""
    session = arrays.session
    job, shards = session.spec.job, session.coordinator.shards
    progress = session.learner.progress  # type: ignore[attr-defined]

    def learn(samples: int, lr_scale: float, samples_applied: int) -> None:
        rate = job.lr * job.lr_at(samples_applied + shards.samples_given_up) * lr_scale
        progress.update(samples, rate / progress.model.lr)

    return learn


def write_rows(arrays: Arrays, record: RecordSink) -> None:
    """Write the rows that the loop has collected; it collects none if nobody keeps any."""
    loop, room = arrays.loop, arrays.room
    rows, loop.rows = loop.rows, 0
    if not rows:
        return
    assert isinstance(record, ColumnRecorder)
    whole, floats = arrays.row_integers.reshape(-1, room), arrays.row_floats.reshape(-1, room)
    columns = dict(zip(arrays.module.ROW_INTEGERS, whole[:, :rows], strict=True))
    columns |= dict(zip(arrays.module.ROW_FLOATS, floats[:, :rows], strict=True))
    if not arrays.on_hosts:
        del columns["cpu_s"]
    record.rows.block(columns)
