"""The order of events of regular asynchronous jobs, in Python: the twin of ``_waves.c``, for where that was not built.

It needs no heap: gradients reach the coordinator in the order in which the servers took them, and those on their way to
the servers are sorted again only when one is earlier than all that were sorted before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, repeat

from runtime.virtual.fast_path.clocks import Clocks
from runtime.virtual.fast_path.notes import Notes
from runtime.virtual.fast_path.waves import Waves

Sent = tuple[float, int, int]
"""When a gradient is at the servers, its number, its worker. At the same time, the one ordered first comes first."""


def follow(run: Waves) -> None:  # noqa: C901 (one loop, unrolled: calls would cost more than what they do)
    """Follow the gradients of a job from one event to the next, until it ends."""
    job, costs, total, limit_s = run.job, run.costs, run.total, run.job.max_time_s
    decision_s, control_s, transfer_s, data_s = costs.decision_s, costs.control_s, run.transfer_s, run.data_s
    overshoot_s, shares_memory = costs.sleep_overshoot_s, run.shares_memory
    notes, updates = Notes(), run.updates
    workers, taken, note_orders = notes.workers, notes.taken_s, notes.ordered.append
    note_grad, note_worker, note_taken = notes.grads.append, workers.append, taken.append
    note_handled, note_idle = notes.handled_s.append, notes.idle_s.append
    note_own = notes.own_s.append
    delayed, own = run.delayed, [own_times(run, worker) for worker in range(job.num_workers)]
    bound = run.staleness_hint.bound
    tick = None if bound is None else Clocks(job.num_workers, bound).tick
    alone = [(worker,) for worker in range(job.num_workers)]

    place, stop, settled, next_grad, landed_grad = 0, run.chunk(), 0, 0, 0
    sent: list[Sent] = []  # the last is the first
    fresh: list[Sent] = []  # not sorted yet; none is before `first_s`
    at_s, grad, worker = math.inf, 0, 0  # the very first of all
    first_s = next_s = math.inf  # the coordinator handles the next gradient
    free_s, reached_s = decision_s, decision_s + control_s
    idle_s = max(reached_s, run.servers.idle_s)  # nobody could tell whether they have been idle before
    ready: Sequence[int] = range(job.num_workers)
    note_orders((place, job.num_workers - 1))
    busy_s, injected_update_s = updates.slowest_s or (0.0, 0.0)
    soon_s = 0.0

    while True:
        for going in ready:
            if next_grad == total:
                break
            own_s = own[going]()
            if own_s is None:  # it has computed its share
                note_orders((place, -1))
                continue
            compute_s = own_s
            if delayed and going in delayed:
                delay_s, slowdown_frac = delayed[going]
                asked_s = delay_s + slowdown_frac * own_s
                injected_s = asked_s + overshoot_s if asked_s > 0 else 0.0
                compute_s = own_s + injected_s
                notes.injected.append((next_grad - landed_grad, injected_s))
            note_own(own_s)
            loaded_s = reached_s + data_s
            pulled_s = idle_s + transfer_s
            if loaded_s > pulled_s:
                pulled_s = loaded_s
            pushed_s = pulled_s + compute_s + transfer_s
            if pushed_s < at_s:
                sent.append((at_s, grad, worker))
                at_s, grad, worker = pushed_s, next_grad, going
            else:
                fresh.append((pushed_s, next_grad, going))
                if pushed_s < first_s:
                    first_s = pushed_s
            next_grad += 1

        while at_s <= next_s:
            taken_s = at_s if at_s >= idle_s or shares_memory else idle_s
            note_grad(grad)
            note_worker(worker)
            note_taken(taken_s)
            if next_s == math.inf:
                next_s = taken_s + control_s
                if next_s < free_s:
                    next_s = free_s
            at_s, grad, worker = sent.pop()
            if first_s < at_s:
                sent += fresh
                sent.append((at_s, grad, worker))
                sent.sort(reverse=True)
                fresh.clear()
                first_s = math.inf
                at_s, grad, worker = sent.pop()

        t = next_s
        if t >= soon_s:
            if (arrived_s := taken[place] + control_s) >= run.scores_s:  # the first evaluation has returned before
                free_s = run.heard_s(free_s)
                next_s, ready = max(arrived_s, free_s), ()
                continue
            if t > limit_s:
                break
            if run.is_due(t):
                updates.settle(notes.handled_s[settled:], idle_s)
                run.count(notes.handled_s[settled:])
                settled = place
                run.look(t)
                busy_s, injected_update_s = updates.slowest_s or (0.0, 0.0)
            soon_s = run.soon_s()
        note_handled(t)
        free_s = t + decision_s
        reached_s = free_s + control_s
        if updates.slowest_s is None:
            idle_s = updates.all(reached_s)
        else:
            idle_s = (idle_s if idle_s > reached_s else reached_s) + busy_s + injected_update_s
        note_idle(idle_s)
        done_by = workers[place]
        place += 1
        if place == stop:
            updates.settle(notes.handled_s[settled:], idle_s)
            run.count(notes.handled_s[settled:])
            run.flights.land(notes.take())
            if not run.continues():
                return
            place, stop, settled, landed_grad = 0, run.chunk(), 0, next_grad
        if place < len(taken):
            next_s = taken[place] + control_s
            if next_s < free_s:
                next_s = free_s
        else:
            next_s = math.inf
        if tick is None:
            ready = alone[done_by]
        else:
            ready = tick(done_by)
            if len(ready) != 1:
                note_orders((place, len(ready) - 1))
    updates.settle(notes.handled_s[settled:], idle_s)
    run.count(notes.handled_s[settled:])
    run.flights.land(notes.take())


def own_times(run: Waves, worker: int) -> Callable[[], float | None]:
    """Returns the computing times of a worker, one after another; None for those beyond its share."""
    found: Iterator[float] = chain.from_iterable(block.tolist() for block in run.own_blocks(worker))
    return chain(islice(found, run.share), repeat(None)).__next__
