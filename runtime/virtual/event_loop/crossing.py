"""A session's state goes into the compiled loop, and comes back: the same as if Python had come there."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import Any, final

from runtime.core import inputs
from runtime.core.data.shards import Range, Returned
from runtime.core.job import ComputeOrder
from runtime.core.ledger import Order
from runtime.record.columns import ColumnRecorder
from runtime.virtual.clock import MACHINE, MESSAGE, Entry
from runtime.virtual.event_loop.arrays import Arrays, Delays, books_of, write_rows
from runtime.virtual.event_loop.obstacles import OURS, is_known, present_obstacle
from runtime.virtual.tasks.host_servers import HostServers
from runtime.virtual.tasks.host_workers import HostWorkers
from runtime.virtual.tasks.iteration import Iteration
from runtime.virtual.tasks.model_state import NOTHING
from runtime.virtual.tasks.replicas import Replicas
from runtime.virtual.tasks.servers import Servers
from runtime.virtual.tasks.workers import Workers
from strategies.protocol import Grad, Timings

OF_ORDER = ("id", "worker", "iteration", "version", "assigned_samples", "samples")
"""Numbers of a gradient that the ledger has while it is computed, too."""
KNOWN = frozenset(Iteration.__struct_fields__) - {"cpu_s"}
"""Of the numbers of a work, those of an iteration; no processors are modelled where iterations are in Python."""


@final
class Crossing:
    """``loop``: of ``arrays``, which is empty as long as Python drives the job."""

    def __init__(
        self,
        arrays: Arrays,
        module: Any,
        workers: Workers | HostWorkers,
        servers: Servers | HostServers | Replicas,
    ) -> None:
        self.arrays, self.loop, self.module = arrays, arrays.loop, module
        self.session = arrays.session
        self.workers, self.servers = workers, servers
        self.rows = self.session.record if isinstance(self.session.record, ColumnRecorder) else None
        """Where gradients become rows; None: nowhere."""
        self._reported = [name for name in module.TIMES if name != "cpu_s" or arrays.on_hosts]
        """The times that a worker reports."""
        self.chain: Any = None
        """Of workers on hosts, which then continues by itself."""
        if isinstance(workers, HostWorkers):
            self.chain = workers.chain
            self._capsule = self.loop.join(self.chain.join(NOTHING))
        schedule, loop = self.session.schedule, self.loop
        of_workers = Delays(schedule, "worker", arrays.delay_s, arrays.slowdown_frac)
        of_servers = Delays(schedule, "server", arrays.server_delay_s, arrays.server_slowdown)
        self._delays = of_workers, of_servers
        loop.look_up = lambda t: setattr(loop, "look_s", of_workers.follow(t))
        loop.look_up_servers = lambda t: setattr(loop, "look_servers_s", of_servers.follow(t))

    # ---- into the loop -----------------------------------------------------------------------------------------------

    def obstacle(self) -> str | None:
        """Why the loop cannot take the next step; None if it can."""
        return present_obstacle(self.session, len(self.arrays.iterations), len(self.arrays.server_bytes))

    def enter(self) -> None:
        """Move the state of the job into the loop."""
        session, loop, core = self.session, self.loop, self.session.coordinator
        executor, timeline = core.executor, session.clock.timeline
        loop.now, loop.t = session.clock.now, core.course.t
        loop.busy_until_s, loop.serving, loop.serves = session.turns.busy_until_s, session.turns.serving, False
        loop.version, loop.next_grad, loop.begun = executor.version, executor.next_grad_id, False
        loop.timers, loop.sequence, loop.over = core.promised.timers, timeline.sequence, False
        self._enter_workers()
        self._enter_servers()
        self._enter_plan()
        self._enter_data()
        self.coming = {order.grad_id: order for order in core.ledger.busy.values()}
        foreign = [entry for entry in timeline.lift() if not self._enter_entry(entry)]
        timeline.lay(session.clock, foreign)
        for _, args in session.turns.inbox:
            kind, about, given = self._entry_of(args[0])
            loop.add_waiting(kind, about, given)
        if self.chain is not None:
            for worker, iteration in self.workers.under_way.items():
                iteration.place = self._add_work(core.ledger.busy[worker], Timings())  # type: ignore[attr-defined]
            self.chain.loop = self._capsule
        for grad in core.ledger.grads.values():
            t, event = (0.0, None) if self.rows is None else self.rows.open_rows.pop(grad.id)
            times = Timings() if event is None else event.timings  # which only rows need
            self._add_work(Order(**_of_grad(grad)), times, event or grad, t=t)
        for worker, command in core.ledger.held.items():
            loop.hold(worker, command)

    def _enter_workers(self) -> None:
        arrays, workers, few = self.arrays, self.workers, self.module.FEW
        members, iterations = self.session.coordinator.members.members, self.session.coordinator.executor.iterations
        for worker in range(len(members)):
            arrays.idle_since_s[worker] = workers.idle_since_s[worker]
            arrays.iterations[worker] = iterations[worker]
            arrays.incarnations[worker] = members[worker].incarnation
            factors, used = workers.jitter[worker].rest
            arrays.drawn[worker] = used if factors else few
            if factors:
                arrays.factors[worker * few : (worker + 1) * few] = factors

    def _enter_servers(self) -> None:
        arrays, servers, loop = self.arrays, self.servers, self.loop
        if isinstance(servers, Servers):
            arrays.server_free_s[:] = servers.free_s
            loop.idle_s = servers.idle_s
        elif isinstance(servers, Replicas):
            loop.idle_s, loop.summed_s = servers.idle_s, servers.summed_s
        arrays.server_bytes[:] = servers.num_bytes
        self.share_reports()

    def _enter_plan(self) -> None:
        for delays in self._delays:
            delays.begin()
        self.loop.look_s = self.loop.look_servers_s = -math.inf

    def _enter_entry(self, entry: Entry) -> bool:
        """Enter what the loop can carry out; False for what is Python's."""
        when_s, priority, number, action, args = entry
        session, module = self.session, self.module
        kind, about, given = module.SERVE, 0, None
        if isinstance(self.workers, Workers) and action == self.workers.pushed and not args[0].void:
            kind, about = module.PUSHED, self._add_iteration(args[0])
        elif action == session.tell and is_known(session, session.coordinator.receive, args):
            kind, about, given = self._entry_of(args[0])
        elif action != session.turns.serve:
            return False
        self.loop.add_entry(when_s, priority, number, kind, about, given)
        return True

    def _entry_of(self, given: Any) -> tuple[int, int, str | None]:
        if isinstance(given, inputs.TimerFired):
            return self.module.WOKE, 0, given.tag.removeprefix(OURS)
        order = self.coming[given.grad_id]
        return self.module.ARRIVED, self._add_work(order, given.timings), None

    def _add_iteration(self, iteration: Iteration) -> int:
        order = iteration.order
        del self.workers.under_way[order.worker]
        return self._add_work(
            self.coming[order.grad_id],
            iteration,
            accum=order.accum,
            delay_s=order.delay_s,
            slowdown_frac=order.slowdown_frac,
            loaded_s=iteration.loaded_s,
            since_s=iteration.since_s,
        )

    def _add_work(self, about: Order, times: Timings | Iteration, event: Any = None, **more: float) -> int:
        """Enter a Compute in progress, or a gradient that may be used; what is not given is 0."""
        numbers = {name: getattr(about, "grad_id" if name == "id" else name) for name in OF_ORDER}
        numbers |= {name: getattr(times, name, None) for name in self.module.TIMES}
        ranges = [(*_ends(work), -1) for work in self.session.coordinator.shards.out[about.grad_id][1]]
        place: int = self.loop.add_work({"accum": 1, **numbers, **more}, event, ranges)
        return place

    def _enter_data(self) -> None:
        shards, loop = self.session.coordinator.shards, self.loop
        loop.epochs_opened, loop.epochs_done = shards.epochs_opened, shards.epochs_done
        loop.samples_applied, loop.shards_done = shards.samples_applied, shards.shards_done
        for worker, queue in shards.local.items():
            loop.add_samples(worker, [(*_ends(work), -1) for work in queue])
        loop.add_samples(-1, [(*_ends(work), worker) for work, worker in shards.requeued])
        for number, epoch in shards.open.items():
            loop.add_epoch(number, epoch.next_shard, epoch.num_done, books_of(epoch))

    # ---- and back ----------------------------------------------------------------------------------------------------

    def share_reports(self) -> None:
        """Give the loop what the servers have done since their last report."""
        arrays = self.arrays
        if not isinstance(self.servers, Servers):
            return
        for place, (updates, busy_s, injected_s) in enumerate(self.servers.reported):
            arrays.server_updates[place] = updates
            arrays.server_busy_s[place], arrays.server_injected_s[place] = busy_s, injected_s

    def show(self) -> None:
        """What a report needs: version and the servers' work."""
        arrays = self.arrays
        self.session.coordinator.executor.version = self.loop.version
        if not isinstance(self.servers, Servers):
            return
        of_servers = zip(
            arrays.server_updates.tolist(),
            arrays.server_busy_s.tolist(),
            arrays.server_injected_s.tolist(),
            strict=True,
        )
        self.servers.reported[:] = map(list, of_servers)

    def leave(self, *, full: bool = False) -> None:
        """Move the state of the job back; ``full``: no row can be written any more."""
        session, loop, core = self.session, self.loop, self.session.coordinator
        executor, ledger = core.executor, core.ledger
        if not full:
            write_rows(self.arrays, session.record)
        works, entries, waiting, held = loop.leave()
        if self.chain is not None:
            self.chain.loop = None
        self.show()
        session.clock.now, core.course.t = loop.now, loop.t
        session.turns.busy_until_s, session.turns.serving = loop.busy_until_s, loop.serving
        executor.next_grad_id, core.promised.timers = loop.next_grad, loop.timers
        if loop.begun:
            executor.progressed()
        self._leave_workers()
        if isinstance(self.servers, Servers):
            self.servers.free_s[:], self.servers.idle_s = self.arrays.server_free_s.tolist(), loop.idle_s
        elif isinstance(self.servers, Replicas):
            self.servers.idle_s, self.servers.summed_s = loop.idle_s, loop.summed_s
        orders = {place: _Work(*work) for place, work in works.items()}
        self._leave_data(orders.values())
        ledger.busy.clear()
        for work in sorted(orders.values(), key=lambda work: work.id):
            if work.event is None:
                ledger.busy[work.worker] = work.order()
            elif self.rows is not None and work.event is not loop.event:  # the current one is being decided on
                self.rows.open_rows[work.id] = (work.t, work.event)
        ledger.held.clear()
        ledger.held.update(held)
        timeline = session.clock.timeline
        timeline.lay(session.clock, [self._laid(entry, orders) for entry in entries])
        timeline.sequence = max(timeline.sequence, loop.sequence)
        session.turns.inbox.clear()
        for kind, about, given in waiting:
            session.turns.inbox.append((core.receive, (self._input(kind, about, given, orders),)))

    def _leave_data(self, works: Iterable[_Work]) -> None:
        shards, loop = self.session.coordinator.shards, self.loop
        local, requeued, epochs = loop.leave_data()
        shards.epochs_opened, shards.epochs_done = loop.epochs_opened, loop.epochs_done
        shards.samples_applied, shards.shards_done = loop.samples_applied, loop.shards_done
        for worker, ranges in enumerate(local):
            if ranges or worker in shards.local:
                shards.holds(worker, (Range(*work[:4]) for work in ranges))
        shards.requeued = deque(Returned(Range(*work[:4]), work[4]) for work in requeued)
        shards.open = {}
        for number, next_shard, num_done, epoch in epochs:
            epoch.next_shard, epoch.num_done = next_shard, num_done
            shards.open[number] = epoch
        shards.out = {
            work.id: (work.worker, tuple(Range(*one[:4]) for one in work.ranges))
            for work in sorted(works, key=lambda work: work.id)
        }

    def _leave_workers(self) -> None:
        arrays, workers, few = self.arrays, self.workers, self.module.FEW
        iterations = self.session.coordinator.executor.iterations
        drawn, factors = arrays.drawn.tolist(), arrays.factors.tolist()
        for worker, (idle_since_s, done) in enumerate(
            zip(arrays.idle_since_s.tolist(), arrays.iterations.tolist(), strict=True)
        ):
            if self.chain is None:
                workers.idle_since_s[worker] = idle_since_s
            if done:
                iterations[worker] = done
            if self.loop.jitters:
                workers.jitter[worker].rest = factors[worker * few : (worker + 1) * few], drawn[worker]

    def _laid(self, entry: tuple[Any, ...], works: dict[int, _Work]) -> Entry:
        when_s, priority, number, kind, about, given = entry
        session, module = self.session, self.module
        if kind == module.PUSHED and isinstance(self.workers, Workers):
            return when_s, MACHINE, number, self.workers.pushed, (self._iteration(works[about]),)
        if kind == module.SERVE:
            return when_s, MESSAGE, number, session.turns.serve, ()
        return when_s, priority, number, session.tell, (self._input(kind, about, given, works),)

    def _input(self, kind: int, about: int, given: str | None, works: dict[int, _Work]) -> inputs.AnyInput:
        if kind == self.module.WOKE:
            return inputs.TimerFired(f"{OURS}{given}")
        work = works[about]
        return inputs.GradientArrived(work.id, work.worker, work.timings(self._reported), *NOTHING)

    def _iteration(self, work: _Work) -> Iteration:
        core = self.session.coordinator
        order = ComputeOrder(
            grad_id=work.id,
            worker=work.worker,
            incarnation=core.members.members[work.worker].incarnation,
            version=work.version,
            ranges=core.shards.out[work.id][1],
            accum=work.accum,
            delay_s=work.delay_s,
            slowdown_frac=work.slowdown_frac,
        )
        times = {name: getattr(work, name) for name in (*self.module.TIMES, "loaded_s", "since_s") if name in KNOWN}
        self.workers.under_way[work.worker] = iteration = Iteration(order, NOTHING, **times)
        return iteration


@final
class _Work:
    """A Compute in progress or a gradient, as the loop shows it: with the numbers of ``state.h`` as attributes."""

    def __init__(self, numbers: dict[str, float], event: Any, ranges: list[tuple[int, ...]]) -> None:
        self.__dict__.update(numbers, event=event, ranges=ranges)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def order(self) -> Order:
        """As the ledger has it."""
        return Order(grad_id=self.id, **{name: getattr(self, name) for name in OF_ORDER if name != "id"})

    def timings(self, names: Iterable[str]) -> Timings:
        """As the worker reports them."""
        return Timings(**{name: getattr(self, name) for name in names})


def _ends(work: Range) -> tuple[int, int, int, int]:
    return work.epoch, work.shard, work.start, work.stop


def _of_grad(grad: Grad) -> dict[str, int]:
    return {"grad_id" if name == "id" else name: getattr(grad, name) for name in OF_ORDER}
