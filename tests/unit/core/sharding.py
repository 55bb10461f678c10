"""A model of the data service that keeps every sample by itself, and the machine that holds :class:`Shards` to it.

The model knows of each sample of each open epoch whether it is TODO, DOING (under which work) or DONE. What the real
service says about itself (:meth:`Shards.state`: ranges, bits and counts) must describe the same sets.
"""

from __future__ import annotations

import base64
import copy
import json
from collections import Counter
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runtime.core.data.permutation import permute_one
from runtime.core.data.shards import Cut, Range, Shards, cut_epoch

Sample = tuple[int, int, int]
"""Epoch, shard, position."""


def samples_of(work: Range) -> list[Sample]:
    """The samples of a range."""
    return [(work.epoch, work.shard, position) for position in range(work.start, work.stop)]


class Model:
    """Every sample by itself: ``doing`` by work; ``done`` and ``given_up`` (by request) are for good."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut
        self.doing: dict[int, list[Sample]] = {}
        self.done: set[Sample] = set()
        self.given_up: set[Sample] = set()

    def epoch_samples(self, epoch: int) -> set[Sample]:
        lengths = [self.cut.length(shard) for shard in range(self.cut.num_shards)]
        return {(epoch, shard, position) for shard, length in enumerate(lengths) for position in range(length)}

    def is_done(self, epoch: int) -> bool:
        """Every sample of the epoch."""
        return self.epoch_samples(epoch) <= self.done

    def num_epochs_done(self) -> int:
        """Epochs of which every sample is done."""
        return sum(self.is_done(epoch) for epoch in {sample[0] for sample in self.done})

    def shards_done(self) -> int:
        """Shards of which every sample is done, over all epochs."""
        found = Counter((epoch, shard) for epoch, shard, _ in self.done)
        return sum(count == self.cut.length(shard) for (_, shard), count in found.items())

    def take(self, work_id: int, ranges: tuple[Range, ...]) -> None:
        taken = [sample for work in ranges for sample in samples_of(work)]
        busy = {sample for samples in self.doing.values() for sample in samples}
        assert len(set(taken)) == len(taken), "handed out twice at once"
        assert not busy & set(taken), "handed out while somebody else has it"
        assert not self.done & set(taken), "handed out again after it was done"
        assert all(sample in self.epoch_samples(sample[0]) for sample in taken), "no such sample"
        self.doing[work_id] = taken

    def finish(self, work_id: int, *, given_up: bool = False) -> None:
        samples = self.doing.pop(work_id)
        self.done.update(samples)
        if given_up:
            self.given_up.update(samples)


def not_done(shards: Shards) -> list[Sample]:
    """TODO and DOING as the service's own state has them: ranges, and shards of which nothing was drawn yet."""
    state = shards.state()
    queues = [state["requeued"], *state["local"].values()]
    found = [sample for queue in queues for row in queue for sample in samples_of(Range(*row))]
    for number, epoch in state["open"].items() if shards.policy != "even" else ():
        for position in range(epoch["next_shard"], shards.cut.num_shards):
            shard = permute_one(position, shards.cut.num_shards, (shards.seed, int(number)))
            found += samples_of(Range(int(number), shard, 0, shards.cut.length(shard)))
    return found


def counted(shards: Shards) -> dict[tuple[int, int], int]:
    """(epoch, shard) -> samples applied, as the service's own state has them: DONE bits and counts of the others."""
    found = {}
    for number, epoch in shards.state()["open"].items():
        bits = np.unpackbits(np.frombuffer(base64.b64decode(epoch["done"]), np.uint8), count=shards.cut.num_shards)
        for shard in range(shards.cut.num_shards):
            length = shards.cut.length(shard)
            found[int(number), shard] = length if bits[shard] else epoch["partial"].get(str(shard), 0)
    return found


class ShardsMachine(RuleBasedStateMachine):
    """Any sequence of what can happen to the service. Subclasses choose the policy."""

    make: type[Shards] = Shards
    policy = "dynamic"
    overlap = False

    @initialize(
        num_samples=st.integers(4, 16),
        shard_samples=st.integers(1, 6),
        num_workers=st.integers(1, 4),
        epochs=st.integers(1, 3),
        seed=st.integers(0, 3),
    )
    def begin(self, num_samples: int, shard_samples: int, num_workers: int, epochs: int, seed: int) -> None:
        cut = cut_epoch(self.policy, num_samples, shard_samples, num_workers)
        self.options: dict[str, Any] = {"policy": self.policy, "epochs": epochs, "seed": seed, "overlap": self.overlap}
        self.shards = self.make(cut, **self.options)
        self.model = Model(cut)
        self.num_workers = num_workers
        self.workers = list(range(num_workers))
        self.next_work = 0
        self.saved = [(b"", self.model)][:0]

    @rule(pick=st.integers(0, 3), num_samples=st.integers(1, 5))
    def take(self, pick: int, num_samples: int) -> None:
        worker, work_id = self.workers[pick % len(self.workers)], self.next_work
        self.next_work += 1
        ranges = self.shards.take(work_id, worker, num_samples)
        if ranges:
            self.model.take(work_id, ranges)
        taken = sum(work.samples for work in ranges)
        assert taken <= num_samples
        assert taken == num_samples or not self.shards.take(work_id + 1_000_000, worker, 1), "less than there was"
        if not self.overlap:
            assert all(work.epoch == self.model.num_epochs_done() for work in ranges), "the fence"

    @precondition(lambda self: self.model.doing)
    @rule(pick=st.integers(0, 9))
    def applied(self, pick: int) -> None:
        work_id, before = self.chosen(pick), self.model.num_epochs_done()
        self.model.finish(work_id)
        assert self.shards.applied(work_id) == self.model.num_epochs_done() - before

    @precondition(lambda self: any(len(samples) > 1 for samples in self.model.doing.values()))
    @rule(pick=st.integers(0, 9), kept=st.integers(1, 4))
    def divide(self, pick: int, kept: int) -> None:
        """The first samples stay with the work."""
        able = [work_id for work_id, samples in sorted(self.model.doing.items()) if len(samples) > 1]
        work_id, rest = able[pick % len(able)], self.next_work
        self.next_work += 1
        samples = self.model.doing[work_id]
        kept = min(kept, len(samples) - 1)
        self.shards.divide(work_id, kept, rest)
        self.model.doing[work_id], self.model.doing[rest] = samples[:kept], samples[kept:]
        for one in (work_id, rest):
            worker, ranges = self.shards.out[one]
            assert (worker, [sample for work in ranges for sample in samples_of(work)]) == (
                self.shards.out[work_id][0],
                self.model.doing[one],
            )

    @precondition(lambda self: self.model.doing)
    @rule(pick=st.integers(0, 9), to_holder=st.booleans())
    def returned(self, pick: int, to_holder: bool) -> None:
        work_id = self.chosen(pick)
        to_holder = to_holder and self.shards.out[work_id][0] in self.workers
        assert self.shards.returned(work_id, to_holder=to_holder) == len(self.model.doing.pop(work_id))

    @precondition(lambda self: self.model.doing)
    @rule(pick=st.integers(0, 9))
    def forgotten(self, pick: int) -> None:
        work_id = self.chosen(pick)
        assert self.shards.forget(work_id) == len(self.model.doing[work_id])
        self.model.finish(work_id, given_up=True)

    @precondition(lambda self: len(self.workers) > 1)
    @rule(pick=st.integers(0, 3))
    def left(self, pick: int) -> None:
        self.shards.leave(self.workers.pop(pick % len(self.workers)))

    @rule()
    def saved_now(self) -> None:
        self.saved.append((json.dumps(self.shards.state()).encode(), copy.deepcopy(self.model)))

    @precondition(lambda self: self.saved)
    @rule(pick=st.integers(0, 9), fresh=st.booleans())
    def restored(self, pick: int, fresh: bool) -> None:
        """Into the same object, or into a new one."""
        state, model = self.saved[pick % len(self.saved)]
        self.model = copy.deepcopy(model)
        self.model.doing = {}
        self.shards = self.make(self.model.cut, **self.options) if fresh else self.shards
        self.shards.load_state(json.loads(state))
        for worker in set(range(self.num_workers)) - set(self.workers):
            self.shards.leave(worker)

    def chosen(self, pick: int) -> int:
        """One of the works that are out."""
        works = sorted(self.model.doing)
        return works[pick % len(works)]

    @invariant()
    def every_sample_of_every_open_epoch_is_in_one_place(self) -> None:
        if self.policy != "even" or not self.overlap:
            assert len(self.shards.open) <= 1 + self.overlap
        found = Counter(not_done(self.shards))
        open_samples = set().union(*(self.model.epoch_samples(epoch) for epoch in self.shards.open))
        assert found == Counter(open_samples - self.model.done)

    @invariant()
    def what_is_done_is_counted(self) -> None:
        done = Counter((epoch, shard) for epoch, shard, _ in self.model.done)
        assert counted(self.shards) == {key: done[key] for key in counted(self.shards)}
        assert self.shards.samples_applied == len(self.model.done - self.model.given_up)
        assert self.shards.samples_passed == len(self.model.done)
        assert self.shards.shards_done == self.model.shards_done()
        assert self.shards.epochs_done == self.model.num_epochs_done()

    @invariant()
    def nothing_is_open_when_all_is_done(self) -> None:
        finished = self.model.num_epochs_done() == self.options["epochs"]
        assert self.shards.finished == finished
        assert bool(self.shards.open) != finished

    def teardown(self) -> None:
        """Those who are left can always bring it to an end; then every sample of every epoch is done."""
        if not hasattr(self, "shards"):
            return
        for work_id in sorted(self.model.doing):
            self.applied(0) if work_id % 2 else self.returned(0, False)
        for turn in range(1000):
            if self.shards.finished:
                break
            self.take(turn, 5)
            while self.model.doing:
                self.applied(0)
        every = set().union(*(self.model.epoch_samples(epoch) for epoch in range(self.options["epochs"])))
        assert self.model.done == every
