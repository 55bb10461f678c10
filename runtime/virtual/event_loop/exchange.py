"""A session's state goes into the compiled loop, and comes back: the same as if Python had come there.

Fields that both have under one name (``_shared``) are copied either way. Both use the same lists and dicts, so only
the work in progress and the samples are passed one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, final

import numpy as np
from msgspec.structs import astuple

from runtime.core import inputs
from runtime.core.data.permutation import BLOCK, permute
from runtime.core.data.shards import Epoch, Range, Returned
from runtime.core.job import ComputeOrder, Keeps, RecordSink
from runtime.core.ledger import Order
from runtime.record.columns import ColumnRecorder
from runtime.virtual.clock import MACHINE, MESSAGE, Entry
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.event_loop.obstacles import OURS, UNDISTURBED, is_known
from runtime.virtual.tasks.host_servers import HostServers
from runtime.virtual.tasks.host_workers import HostWorkers
from runtime.virtual.tasks.iteration import Iteration
from runtime.virtual.tasks.model_state import NOTHING, NoModelState
from runtime.virtual.tasks.replicas import Replicas
from runtime.virtual.tasks.servers import Servers
from runtime.virtual.tasks.workers import Workers
from strategies.protocol import AnyCommand, AnyEvent, NodeId, Timings

POLICIES = "dynamic", "shared", "even"
OF_ITERATION = frozenset(Iteration.__struct_fields__) - {"cpu_s", "order", "result"}
"""No processors are modelled where iterations are in Python."""


@final
class StateExchange:
    """``loop`` is a ``Loop`` of ``_events.c``, which is empty as long as Python drives the job."""

    def __init__(self, session: VirtualSession, module: ModuleType) -> None:
        workers, servers = session.workers, session.servers
        assert isinstance(workers, Workers | HostWorkers)
        assert isinstance(servers, Servers | HostServers | Replicas)
        self.session, self.module, self.workers, self.servers = session, module, workers, servers
        self.size = session.spec.job.num_workers, session.spec.job.num_servers
        self.loop: Any = module.Loop(*self.size)
        self.rows = session.record if isinstance(session.record, ColumnRecorder) else None
        """Where gradients become rows; None: nowhere."""
        core = session.coordinator
        self._shared: list[tuple[Any, ...]] = [
            (session.clock, "now"),
            (session.clock.timeline, "sequence"),
            (core.course, "t"),
            (session.inbox, "busy_until_s", "serving"),
            (core.executor, "version", "next_grad_id"),
            (core.promised, "timers"),
            (core.shards, "epochs_opened", "epochs_done", "samples_applied", "shards_done"),
        ]
        if not isinstance(servers, HostServers):
            self._shared.append((servers, "idle_s", *(["summed_s"] if isinstance(servers, Replicas) else [])))
        self._connect()
        self.chain: Any = None
        """Of workers on hosts, which then continues by itself."""
        if isinstance(workers, HostWorkers):
            self.chain = workers.chain
            self._capsule = self.loop.join(self.chain.join(NOTHING))
        self._reported = [name for name in module.TIMES if name != "cpu_s" or self.chain is not None]
        """The times that a worker reports."""

    def _connect(self) -> None:
        """Give the loop all functions that it calls, and the numbers that do not change."""
        session, loop, workers, servers = self.session, self.loop, self.workers, self.servers
        core, costs, record = session.coordinator, session.costs, session.record
        shards, cut = core.shards, core.shards.cut
        _copy(costs, loop, "decision_s", "control_s", "sleep_overshoot_s", "update_base_s", "update_per_byte_s")
        _copy(workers, loop, "shares_memory", "idle_since_s")
        loop.transfer_s = 0.0 if workers.shares_memory else costs.transfer_s(workers.model_bytes)
        loop.pace = pacer(workers) if isinstance(workers, Workers) else None
        loop.factors = [jitter.factor for jitter in workers.jitter.values()] if costs.jitter_sigma else None
        loop.are_replicas = isinstance(servers, Replicas)
        if isinstance(servers, Replicas):
            loop.ring_s, loop.step_s = servers.update_takes_s(self.size[0])
        loop.names = [str(NodeId.worker(worker)) for worker in workers.profiles]
        loop.handle, loop.grads = core.strategy.handle, core.ledger.grads
        loop.remember, loop.histories = core.ledger.remember, core.ledger.histories(self.size[0])
        loop.iterations, loop.finish = core.executor.iterations, core.executor.done
        keeps = keeps_of(record)
        loop.keeps_rows, loop.keeps_lines = keeps == "rows", keeps in ("all", "answers")
        loop.write_rows, loop.write_line = self._write_rows, teller(session, keeps)
        loop.note_held = lambda t, worker: record.note(t, "Starved", worker=worker)
        loop.note_epoch = lambda t, epoch: record.note(t, "EpochStarted", epoch=epoch)
        loop.declares_stuck, loop.learn = session.spec.job.stuck_after_s is not None, model_state(session)
        _copy(cut, loop, "num_samples", "num_shards")
        loop.shard_samples = -1 if cut.shard_samples is None else cut.shard_samples
        loop.policy, loop.overlap = POLICIES.index(shards.policy), shards.overlap
        loop.epochs = -1 if shards.epochs is None else shards.epochs
        loop.new_epoch = lambda: books_of(Epoch(cut))

        def shuffle(epoch: int, block: int) -> bytes:
            places = np.arange(block * BLOCK, min(cut.num_shards, (block + 1) * BLOCK))
            return permute(places, cut.num_shards, (shards.seed, epoch)).astype(np.int64).tobytes()

        loop.shuffle = shuffle

    # ---- into the loop -----------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Move the state of the job into the loop."""
        session, loop, core, servers = self.session, self.loop, self.session.coordinator, self.servers
        timeline = session.clock.timeline
        for owner, *names in self._shared:
            _copy(owner, loop, *names)
        loop.serves = loop.begun = loop.over = False
        loop.incarnations = [member.incarnation for member in core.members.members.values()]
        loop.disturb = session.schedule.delay_for if session.schedule.kinds & UNDISTURBED else None
        loop.added = None if session.insides is None else session.insides.added
        loop.server_names, loop.num_bytes, loop.reported = servers.names, servers.num_bytes, servers.reported
        loop.free_s = servers.free_s if isinstance(servers, Servers) else None
        self._enter_data()
        self.coming = {order.grad_id: order for order in core.ledger.busy.values()}
        foreign = [entry for entry in timeline.lift() if not self._enter_entry(entry)]
        timeline.lay(session.clock, foreign)
        for _, args in session.inbox.waiting:
            loop.add_waiting(*self._entry_of(args[0]))
        if self.chain is not None:
            for worker, iteration in self.workers.under_way.items():
                order = core.ledger.busy[worker]
                iteration.place = self._add_work(order.grad_id, order)  # type: ignore[attr-defined]
            self.chain.loop = self._capsule
        for grad in core.ledger.grads.values():
            t, event = (0.0, None) if self.rows is None else self.rows.open_rows.pop(grad.id)
            self._add_work(grad.id, grad, event and event.timings, event=event or grad, t=t)  # times: for rows
        for worker, command in core.ledger.starved.items():
            loop.hold(worker, command)

    def _enter_entry(self, entry: Entry) -> bool:
        """Enter an entry that the loop can carry out; False for Python's entries."""
        when_s, priority, number, action, args = entry
        session, module = self.session, self.module
        known: tuple[Any, ...] = module.SERVE, 0, None
        if isinstance(self.workers, Workers) and action == self.workers.pushed and not args[0].void:
            iteration = self.workers.under_way.pop(args[0].order.worker)
            grad_id = iteration.order.grad_id
            known = module.PUSHED, self._add_work(grad_id, self.coming[grad_id], iteration, iteration.order), None
        elif action == session.tell and is_known(session, session.coordinator.receive, args):
            known = self._entry_of(args[0])
        elif action != session.inbox.serve:
            return False
        self.loop.add_entry(when_s, priority, number, *known)
        return True

    def _entry_of(self, given: Any) -> tuple[int, int, str | None]:
        if isinstance(given, inputs.TimerFired):
            return self.module.WOKE, 0, given.tag.removeprefix(OURS)
        return self.module.ARRIVED, self._add_work(given.grad_id, self.coming[given.grad_id], given.timings), None

    def _add_work(self, grad_id: int, *about: Any, event: Any = None, t: float = 0.0) -> int:
        """Enter a Compute in progress, or a gradient: a number is of the first of ``about`` that has it, else 0."""
        numbers = {"id": grad_id, "t": t}
        for one in about:
            for name in self.module.NUMBERS:
                if name not in numbers and (value := getattr(one, name, None)) is not None:
                    numbers[name] = value
        ranges = self.session.coordinator.shards.out[grad_id][1]
        place: int = self.loop.add_work(numbers, event, [(*astuple(work), -1) for work in ranges])
        return place

    def _enter_data(self) -> None:
        shards, loop = self.session.coordinator.shards, self.loop
        for worker, queue in shards.local.items():
            loop.add_samples(worker, [(*astuple(work), -1) for work in queue])
        loop.add_samples(-1, [(*astuple(work), worker) for work, worker in shards.requeued])
        for number, epoch in shards.open.items():
            loop.add_epoch(number, books_of(epoch))

    def _write_rows(self) -> None:
        """Write the rows that the loop has collected; it collects none if nobody keeps any."""
        loop, module, columns = self.loop, self.module, dict[str, Any]()
        rows, loop.rows = loop.rows, 0
        if not rows or self.rows is None:
            return
        for names, found, kind in (
            (module.ROW_INTEGERS, loop.row_integers, np.int64),
            (module.ROW_FLOATS, loop.row_floats, np.float64),
        ):
            columns |= dict(zip(names, np.frombuffer(found, kind).reshape(len(names), -1)[:, :rows], strict=True))
        if self.chain is None:
            del columns["cpu_s"]
        self.rows.rows.block(columns)

    # ---- and back ----------------------------------------------------------------------------------------------------

    def leave(self, *, full: bool = False) -> None:
        """Move the state of the job back; ``full``: no row can be written any more."""
        session, loop, core = self.session, self.loop, self.session.coordinator
        ledger, timeline = core.ledger, session.clock.timeline
        if not full:
            self._write_rows()
        works, entries, waiting, held = loop.leave()
        if self.chain is not None:
            self.chain.loop = None
        for owner, *names in self._shared:
            _copy(loop, owner, *names)
        if loop.begun:
            core.executor.progressed()
        known = {
            place: SimpleNamespace(**numbers, event=event, ranges=tuple(Range(*one[:4]) for one in ranges))
            for place, (numbers, event, ranges) in works.items()
        }
        in_order = sorted(known.values(), key=lambda work: work.id)
        self._leave_data()
        core.shards.out = {work.id: (work.worker, work.ranges) for work in in_order}
        ledger.busy.clear()
        for work in in_order:
            if work.event is None:
                of_order = {name: value for name, value in vars(work).items() if name in Order.__struct_fields__}
                ledger.busy[work.worker] = Order(grad_id=work.id, **of_order)
            elif self.rows is not None and work.event is not loop.event:  # the current one is being decided on
                self.rows.open_rows[work.id] = (work.t, work.event)
        ledger.starved.clear()
        ledger.starved.update(held)
        timeline.lay(session.clock, [self._laid(entry, known) for entry in entries])
        session.inbox.waiting.clear()
        for kind, about, given in waiting:
            session.inbox.waiting.append((core.receive, (self._input(kind, known.get(about), given),)))

    def _leave_data(self) -> None:
        shards = self.session.coordinator.shards
        local, requeued, epochs = self.loop.leave_data()
        for worker, ranges in enumerate(local):
            if ranges or worker in shards.local:
                shards.holds(worker, (Range(*work[:4]) for work in ranges))
        shards.requeued = deque(Returned(Range(*work[:4]), work[4]) for work in requeued)
        shards.open = {}
        for number, next_shard, num_done, epoch in epochs:
            epoch.next_shard, epoch.num_done = next_shard, num_done
            shards.open[number] = epoch

    def _laid(self, entry: tuple[Any, ...], known: dict[int, SimpleNamespace]) -> Entry:
        when_s, priority, number, kind, about, given = entry
        session, module = self.session, self.module
        if kind == module.PUSHED and isinstance(self.workers, Workers):
            return when_s, MACHINE, number, self.workers.pushed, (self._iteration(known[about]),)
        if kind == module.SERVE:
            return when_s, MESSAGE, number, session.inbox.serve, ()
        return when_s, priority, number, session.tell, (self._input(kind, known.get(about), given),)

    def _input(self, kind: int, work: SimpleNamespace | None, given: str | None) -> inputs.AnyInput:
        if kind == self.module.WOKE or work is None:
            return inputs.TimerFired(f"{OURS}{given}")
        timings = Timings(**{name: getattr(work, name) for name in self._reported})
        return inputs.GradientArrived(work.id, work.worker, timings, *NOTHING)

    def _iteration(self, work: SimpleNamespace) -> Iteration:
        ordered = {name: getattr(work, name) for name in ("worker", "version", "accum", "delay_s", "slowdown_frac")}
        incarnation = self.loop.incarnations[work.worker]
        order = ComputeOrder(grad_id=work.id, incarnation=incarnation, ranges=work.ranges, **ordered)
        times = {name: getattr(work, name) for name in self.module.NUMBERS if name in OF_ITERATION}
        self.workers.under_way[work.worker] = iteration = Iteration(order, NOTHING, **times)
        return iteration


def _copy(source: Any, target: Any, *names: str) -> None:
    for name in names:
        setattr(target, name, getattr(source, name))


def books_of(epoch: Epoch) -> tuple[Epoch, dict[int, int], bytearray, int, int]:
    """An epoch, its books, in which the loop writes, and how far it is."""
    return epoch, epoch.partial, epoch.done, epoch.next_shard, epoch.num_done


def keeps_of(record: RecordSink) -> Keeps:
    """How much of an exchange with the strategy a record keeps; one that does not say gets everything.

    A subclass with an ``event`` of its own must define it again: its base class's value does not apply to it.
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


def pacer(workers: Workers) -> Callable[[int, int, int], tuple[float, float, float]]:
    """Seconds of a batch: to load it, to compute it, of the device's profile (-1: there is none)."""

    def pace(worker: int, samples: int, accum: int) -> tuple[float, float, float]:
        found = workers.pace(worker, samples, accum)
        return found.data_s, found.real_s, -1.0 if found.paced_s is None else found.paced_s

    return pace


def model_state(session: VirtualSession) -> Callable[[int, float, int], None] | None:
    """Tells the progress model of an update, as ``Executor.apply`` and the port do; None: there is none."""
    job, shards, model = session.spec.job, session.coordinator.shards, session.model_state
    if not isinstance(model, NoModelState) or (progress := model.progress) is None:
        return None

    def learn(samples: int, lr_scale: float, samples_applied: int) -> None:
        rate = job.lr * job.lr_at(samples_applied + shards.samples_given_up) * lr_scale
        progress.update(samples, rate / progress.model.lr)

    return learn
