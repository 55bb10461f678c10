"""The stateful data sharding service: which worker trains on which samples, and which are applied (pure).

An epoch of N samples is K shards. A shard is TODO until a worker needs data (then DOING, in that worker's local queue)
and DONE once **every** sample of it has been applied: "pushed" would not do, since a pushed gradient may be dropped.
Samples of a lost worker or a dropped gradient return to the tail of the queue and are never given up, so each sample
of an epoch is applied at least once, and exactly once as long as parameters are restored together with this state.
A worker whose gradient was dropped gets other samples, if there are any: a straggler that drew its own again would be
late again, and hold their epoch open until the others have nothing left to do.

With ``failover=whole_shards`` the unit is the shard, as in AntDT: of a lost worker's shard all samples are TODO again,
also those that were applied (``repeat``).

Policies: ``dynamic``, a queue from which workers draw; ``shared``, the same, and a worker that finds it empty gets half
of what the worker with the most samples has drawn and not begun (very different batch sizes would otherwise leave the
last shards to the slowest); ``even``, a static part of every epoch for each worker.

Source: AntDT's stateful dynamic data sharding (TODO/DOING/DONE).
"""

from __future__ import annotations

import base64
import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import ceil
from typing import Any, NamedTuple

import msgspec
import numpy as np

from runtime.core.data.permutation import permute_one


class Range(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Samples at the shuffled positions ``start`` .. ``stop`` (exclusive) of one shard of one epoch."""

    epoch: int
    shard: int
    start: int
    stop: int

    @property
    def samples(self) -> int:
        """The number of samples of the range."""
        return self.stop - self.start

    def cut(self, samples: int) -> tuple[Range, Range]:
        """The first ``samples`` of the range, and the rest."""
        middle = self.start + samples
        return Range(self.epoch, self.shard, self.start, middle), Range(self.epoch, self.shard, middle, self.stop)


class Cut(msgspec.Struct, frozen=True, gc=False):
    """The division of an epoch: shard k is ``length(k)`` samples from ``offset(k)`` on."""

    num_samples: int
    num_shards: int
    shard_samples: int | None
    """Fixed length (the last shard is shorter), or None for parts that differ by at most one sample."""

    def offset(self, shard: int) -> int:
        """The first sample of a shard."""
        if self.shard_samples is not None:
            return shard * self.shard_samples
        share, rest = divmod(self.num_samples, self.num_shards)
        return shard * share + min(shard, rest)

    def length(self, shard: int) -> int:
        """The number of samples of a shard."""
        fixed = self.shard_samples
        if fixed is None:
            share, rest = divmod(self.num_samples, self.num_shards)
            return share + (shard < rest)
        left = self.num_samples - shard * fixed
        return fixed if left > fixed else left


def cut_epoch(policy: str, num_samples: int, shard_samples: int, num_workers: int) -> Cut:
    """``dynamic`` and ``shared``: K = ceil(N / shard_samples) shards; ``even``: one static part for each worker."""
    if policy == "even":
        return Cut(num_samples, num_workers, None)
    return Cut(num_samples, ceil(num_samples / shard_samples), shard_samples)


def samples_of(ranges: Sequence[Range]) -> int:
    """The number of samples of these ranges together."""
    total = 0
    for work in ranges:
        total += work.stop - work.start
    return total


class Returned(NamedTuple):
    """Samples returned to the queue, and the worker that had them (-1: unknown)."""

    work: Range
    worker: int = -1


class Epoch:
    """The ledger of one epoch: how much of every shard has been applied, and which shards are DONE."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut
        self.next_shard = 0
        self.partial: dict[int, int] = {}
        self.done = bytearray(cut.num_shards)
        self.num_done = 0

    def applied(self, work: Range) -> None:
        """Book the samples of ``work`` as applied; raises ``RuntimeError`` if its shard already has them all."""
        shard = work.shard
        length, applied = self.cut.length(shard), work.stop - work.start
        if self.partial:
            applied += self.partial.pop(shard, 0)
        if self.done[shard] or applied > length:
            raise RuntimeError(f"shard {shard} of epoch {work.epoch}: more samples applied than it has ({length})")
        if applied == length:
            self.done[shard] = 1
            self.num_done += 1
        else:
            self.partial[shard] = applied


class Shards:
    """TODO, DOING and DONE of the epochs that are open (one; more only with ``overlap``).

    Args:
        cut: how an epoch is cut into shards.
        policy: ``dynamic`` or ``even``.
        epochs: number of epochs; None for no end.
        seed: of the order of the shards (the order inside a shard is the worker's business, same seed).
        overlap: open the next epoch when no free sample is left, although work of the last is still out.
    """

    def __init__(self, cut: Cut, *, policy: str, epochs: int | None, seed: int, overlap: bool = False) -> None:
        self.cut, self.policy, self.epochs, self.seed, self.overlap = cut, policy, epochs, seed, overlap
        self.open: dict[int, Epoch] = {}
        self.epochs_opened = 0
        self.epochs_done = 0
        self.samples_applied = 0
        self.samples_given_up = 0
        self.samples_repeated = 0
        self.shards_done = 0
        self.departed: set[int] = set()
        self.requeued: deque[Returned] = deque()
        self.local: dict[int, deque[Range]] = {}
        self.out: dict[int, tuple[int, tuple[Range, ...]]] = {}
        self._donors: list[tuple[int, int]] | None = None
        """Heap of (-samples, worker): no queue is longer than its entry says. None: queues may have grown."""
        self._open_next()

    @property
    def finished(self) -> bool:
        """Whether every sample of every epoch has been applied."""
        return self.epochs is not None and self.epochs_done >= self.epochs

    @property
    def samples_passed(self) -> int:
        """Samples applied or given up: the job's progress through the data, on which schedules depend."""
        return self.samples_applied + self.samples_given_up

    @property
    def newest_epoch(self) -> int:
        """The number of the epoch opened last."""
        return self.epochs_opened - 1

    def take(self, work_id: int, worker: int, num_samples: int) -> tuple[Range, ...]:
        """Hand out up to ``num_samples`` samples under ``work_id``; empty when no data is free now."""
        local = self.local.get(worker)
        if local is None:
            local = self.local[worker] = deque()
        taken: tuple[Range, ...] = ()
        missing = num_samples
        while missing and (local or self._draw(local, worker)):
            head = local.popleft()
            samples = head.stop - head.start
            if samples > missing:
                head, tail = head.cut(missing)
                local.appendleft(tail)
                samples = missing
            taken += (head,)
            missing -= samples
        if taken:
            self.out[work_id] = (worker, taken)
        return taken

    def applied(self, work_id: int) -> int:
        """Book the work as applied. Returns the number of epochs that this completed."""
        _, ranges = self.out.pop(work_id)
        before = self.epochs_done
        for work in ranges:
            epoch = self.open[work.epoch]
            done = epoch.num_done
            epoch.applied(work)
            self.samples_applied += work.stop - work.start
            self.shards_done += epoch.num_done - done
            if epoch.num_done == epoch.cut.num_shards:
                del self.open[work.epoch]
                self.epochs_done += 1
        if not self.open and not self.finished:
            self._open_next()
        return self.epochs_done - before

    def divide(self, work_id: int, samples: int, rest_id: int) -> None:
        """Leave the first ``samples`` samples of a work to it; the rest is handed out under ``rest_id`` from now on."""
        worker, ranges = self.out[work_id]
        kept: list[Range] = []
        for place, work in enumerate(ranges):
            if work.samples > samples:
                head, tail = work.cut(samples)
                self.out[work_id] = worker, (*kept, head) if samples else tuple(kept)
                self.out[rest_id] = worker, (tail, *ranges[place + 1 :])
                return
            kept.append(work)
            samples -= work.samples

    def returned(self, work_id: int, *, to_holder: bool) -> int:
        """Return unapplied work: to the tail, or to the front of its restarting holder's own queue."""
        worker, ranges = self.out.pop(work_id)
        if to_holder:
            self._donors = None
            self.local.setdefault(worker, deque()).extendleft(reversed(ranges))
        else:
            self.requeued.extend(Returned(work, worker) for work in ranges)
        return samples_of(ranges)

    def forget(self, work_id: int) -> int:
        """Give up work by request (a lossy method): it counts as done without being applied."""
        samples = samples_of(self.out[work_id][1])
        self.applied(work_id)
        self.samples_applied -= samples
        self.samples_given_up += samples
        return samples

    def repeat(self, worker: int) -> int:
        """Make every shard of a lost worker's own queue TODO again, with its applied samples, and return their number.

        AntDT's DDS does that (section V-C2), whose unit is the shard; static parts are no shards. Parts that other
        workers have, or that wait to be applied, are not repeated. Its work in progress has been returned before.
        """
        if self.policy == "even":
            return 0
        again = 0
        for epoch, shard in dict.fromkeys((work.epoch, work.shard) for work in self.local.get(worker, ())):
            applied = self.open[epoch].partial.pop(shard, 0)
            self.local[worker] = deque(one for one in self.local[worker] if (one.epoch, one.shard) != (epoch, shard))
            start = 0
            for begun, ended in [*self._elsewhere(epoch, shard), (length := self.cut.length(shard), length)]:
                if begun > start:
                    self.requeued.append(Returned(Range(epoch, shard, start, begun)))
                start = ended
            again += applied
        self._donors = None
        self.samples_repeated += again
        return again

    def _elsewhere(self, epoch: int, shard: int) -> list[tuple[int, int]]:
        """Starts and stops of the unapplied parts of a shard that are handed out or queued, in order."""
        handed = (ranges for _, ranges in self.out.values())
        queued = (one.work for one in self.requeued)
        every = chain(chain.from_iterable(handed), chain.from_iterable(self.local.values()), queued)
        return sorted((one.start, one.stop) for one in every if (one.epoch, one.shard) == (epoch, shard))

    def leave(self, worker: int) -> None:
        """A worker has left: its drawn samples go to the others."""
        self.departed.add(worker)
        self.requeued.extend(Returned(work, worker) for work in self.local.pop(worker, ()))

    def back(self, worker: int) -> None:
        """A worker has returned: from the next epoch on it has its part."""
        self.departed.discard(worker)

    def holds(self, worker: int, ranges: Iterable[Range]) -> None:
        """Make these the samples of a worker's own queue, as somebody else has kept its account."""
        self._donors = None
        self.local[worker] = deque(ranges)

    def _draw(self, local: deque[Range], worker: int) -> bool:
        """Move the head of the queue into a worker's local queue.

        Fresh shards come first, then returned samples; but samples of an older epoch precede the newer epoch, or they
        would hold theirs open. Samples that this very worker returned come last, for the same reason.
        """
        if (found := self._take_queued(worker)) is not None:
            self._donors = None
            local.append(found)
        elif self.policy == "shared" and (half := self._share(worker)) is not None:
            local.append(half)
        elif self._may_open_next():
            self._open_next()
            return bool(local) or ((self.policy != "even" or bool(self.requeued)) and self._draw(local, worker))
        elif self.requeued:
            self._donors = None
            local.append(self.requeued.popleft().work)
        else:
            return False
        return True

    def _take_queued(self, worker: int) -> Range | None:
        """The next range of the queue, except those that this worker has returned."""
        if not self.requeued:
            return self._fresh()
        others: Iterator[int] = (place for place, one in enumerate(self.requeued) if one.worker != worker)
        older: list[int] = []
        if len(self.open) > 1:  # else all returned samples belong to one epoch, and there may be many
            waiting, newest = list(others), self.newest_epoch
            older = [place for place in waiting if self.requeued[place].work.epoch < newest]
            others = iter(older or waiting)
        if not older and (fresh := self._fresh()) is not None:
            return fresh
        place = next(others, None)
        if place is None:
            return None
        found = self.requeued[place].work
        del self.requeued[place]
        return found

    def _share(self, taker: int) -> Range | None:
        """Take half of the samples of the worker with the longest own queue (the first of several), from its end.

        At the end of an epoch every worker asks, so who has most is kept in a heap, as far as taking makes it wrong.
        """
        if self._donors is None:
            self._donors = [(-samples_of(queue), worker) for worker, queue in self.local.items()]
            heapq.heapify(self._donors)
        donors = self._donors
        while donors:
            known, donor = donors[0]
            has = samples_of(self.local.get(donor, ()))
            if has == -known:
                break
            heapq.heapreplace(donors, (-has, donor))
        if not donors or has < 2:
            return None
        last = self.local[donor].pop()
        given = min(last.samples, has // 2)
        if given < last.samples:
            self.local[donor].append(Range(last.epoch, last.shard, last.start, last.stop - given))
        heapq.heapreplace(donors, (given - has, donor))
        heapq.heappush(donors, (-given, taker))
        return Range(last.epoch, last.shard, last.stop - given, last.stop)

    def _may_open_next(self) -> bool:
        """Whether the next epoch may open: after the last one, or one epoch ahead with ``overlap``.

        Static parts have no queue in common, so there each worker goes through its epochs on its own.
        """
        all_opened = self.epochs is not None and self.epochs_opened >= self.epochs
        if not self.overlap or not self.open or all_opened:
            return False
        return self.policy == "even" or self.newest_epoch == min(self.open)

    def _fresh(self) -> Range | None:
        number = self.newest_epoch
        epoch = self.open.get(number)
        if self.policy == "even" or epoch is None or epoch.next_shard >= epoch.cut.num_shards:
            return None
        shard = permute_one(epoch.next_shard, epoch.cut.num_shards, (self.seed, number))
        epoch.next_shard += 1
        return Range(number, shard, 0, epoch.cut.length(shard))

    def _open_next(self) -> None:
        number = self.epochs_opened
        self.epochs_opened += 1
        self.open[number] = Epoch(self.cut)
        if self.policy == "even":
            for part in range(self.cut.num_shards):
                work = Range(number, part, 0, self.cut.length(part))
                if part in self.departed:
                    self.requeued.append(Returned(work))
                else:
                    self.local.setdefault(part, deque()).append(work)

    def state(self) -> dict[str, Any]:
        """The unapplied work as plain data; handed-out work counts as returned to its holder, in order."""
        local = {worker: list(queue) for worker, queue in self.local.items()}
        for work_id in sorted(self.out, reverse=True):
            worker, ranges = self.out[work_id]
            local[worker] = [*ranges, *local.get(worker, ())]
        return {
            "epochs_opened": self.epochs_opened,
            "epochs_done": self.epochs_done,
            "samples_applied": self.samples_applied,
            "samples_given_up": self.samples_given_up,
            "shards_done": self.shards_done,
            "requeued": [msgspec.to_builtins(one.work) for one in self.requeued],
            "local": {str(worker): msgspec.to_builtins(queue) for worker, queue in local.items()},
            "open": {str(number): _epoch_state(epoch) for number, epoch in self.open.items()},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore a :meth:`state`, with nothing handed out."""
        self.epochs_opened = state["epochs_opened"]
        self.epochs_done = state["epochs_done"]
        self.samples_applied = state["samples_applied"]
        self.samples_given_up = state["samples_given_up"]
        self.shards_done = state["shards_done"]
        self.requeued = deque(map(Returned, _ranges(state["requeued"])))
        self.local = {int(worker): deque(_ranges(queue)) for worker, queue in state["local"].items()}
        self._donors = None
        self.open = {int(number): _load_epoch(self.cut, epoch) for number, epoch in state["open"].items()}
        self.out = {}


def _ranges(rows: Iterable[Any]) -> list[Range]:
    return [msgspec.convert(row, Range) for row in rows]


def _epoch_state(epoch: Epoch) -> dict[str, Any]:
    done = np.packbits(np.frombuffer(epoch.done, dtype=np.uint8)).tobytes()
    partial = {str(shard): applied for shard, applied in epoch.partial.items()}
    return {"next_shard": epoch.next_shard, "partial": partial, "done": base64.b64encode(done).decode()}


def _load_epoch(cut: Cut, state: dict[str, Any]) -> Epoch:
    epoch = Epoch(cut)
    bits = np.frombuffer(base64.b64decode(state["done"]), dtype=np.uint8)
    epoch.done = bytearray(np.unpackbits(bits, count=cut.num_shards).tobytes())
    epoch.num_done = sum(epoch.done)
    epoch.next_shard = state["next_shard"]
    epoch.partial = {int(shard): applied for shard, applied in state["partial"].items()}
    return epoch
