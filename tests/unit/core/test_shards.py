"""The data service: TODO, DOING and DONE account for every sample."""

from __future__ import annotations

import json
from collections import Counter
from math import ceil
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from runtime.core.data.shards import Cut, Epoch, Range, Shards, cut_epoch
from tests.unit.core.sharding import ShardsMachine, samples_of

MACHINE = settings(max_examples=12, stateful_step_count=30, phases=[Phase.generate])
"""Failures are not shrunk: that can take minutes, and thirty steps can be read."""


def machine_of(policy_: str, overlap_: bool = False) -> type[ShardsMachine]:
    class Machine(ShardsMachine):
        policy, overlap = policy_, overlap_

    return Machine


@pytest.mark.few(2)
@pytest.mark.parametrize("policy", ["dynamic", "even", "shared"])
@pytest.mark.parametrize("overlap", [False, True])
def test_every_sample_is_accounted_for(policy: str, overlap: bool) -> None:
    """TODO, DOING and DONE divide every open epoch among them, whatever happens in whatever order."""
    run_state_machine_as_test(machine_of(policy, overlap), settings=MACHINE)


def make_shards(num_samples: int = 12, shard_samples: int = 4, num_workers: int = 2, **options: object) -> Shards:
    """A service of two epochs, three shards of four samples each."""
    options = {"policy": "dynamic", "epochs": 2, "seed": 0, **options}
    cut = cut_epoch(str(options["policy"]), num_samples, shard_samples, num_workers)
    return Shards(cut, **options)  # type: ignore[arg-type]


def drain(shards: Shards, workers: int = 2, num_samples: int = 3) -> Counter[tuple[int, int, int]]:
    """Take and apply until it is finished; how often each sample was handed out."""
    used: Counter[tuple[int, int, int]] = Counter()
    work_id = 1000
    while not shards.finished:
        ranges = shards.take(work_id, work_id % workers, num_samples)
        used.update(sample for work in ranges for sample in samples_of(work))
        if ranges:
            shards.applied(work_id)
        work_id += 1
        assert work_id < 10_000, "it does not come to an end"
    return used


def test_the_number_of_shards_is_antdts() -> None:
    """AntDT: K = ceil(N / (B M)), shard k at offset k B M. 50,000 samples, B = 512, M = 4: 25 shards, the last
    of 848."""
    cut = cut_epoch("dynamic", 50_000, 512 * 4, 8)
    assert (cut.num_shards, cut.length(24), cut.offset(24)) == (25, 848, 24 * 2048)
    assert {cut.length(shard) for shard in range(24)} == {2048}


@given(st.sampled_from(["dynamic", "even"]), st.integers(1, 500), st.integers(1, 60), st.integers(1, 20))
def test_shards_tile_the_epoch(policy: str, num_samples: int, shard_samples: int, num_workers: int) -> None:
    cut = cut_epoch(policy, num_samples, shard_samples, num_workers)
    ends = [cut.offset(shard) + cut.length(shard) for shard in range(cut.num_shards)]
    assert [cut.offset(shard) for shard in range(cut.num_shards)] == [0, *ends[:-1]]
    assert ends[-1] == num_samples
    lengths = [cut.length(shard) for shard in range(cut.num_shards)]
    if policy == "even":
        assert cut.num_shards == num_workers
        assert max(lengths) - min(lengths) <= 1
    else:
        assert cut.num_shards == ceil(num_samples / shard_samples)
        assert set(lengths[:-1]) <= {shard_samples}


def test_the_order_of_shards_is_a_matter_of_seed_and_epoch() -> None:
    def order(seed: int) -> list[int]:
        shards = make_shards(50, 1, seed=seed)
        return [shards.take(work_id, 0, 1)[0].shard for work_id in range(50)]

    assert sorted(order(1)) == list(range(50))
    assert order(1) == order(1) != order(2)
    shards = make_shards(50, 1, seed=1)
    first = [shards.take(0, 0, 50), shards.applied(0)][0]
    assert [work.shard for work in first] == order(1) != [work.shard for work in shards.take(1, 0, 50)]


def test_fresh_shards_come_before_what_came_back() -> None:
    shards = make_shards()
    back = shards.take(0, 0, 4)
    assert shards.returned(0, to_holder=False) == 4
    order = [shards.take(work_id, 1, 4) for work_id in (1, 2, 3)]
    assert order[2] == back
    assert shards.take(4, 1, 1) == ()


def test_with_overlap_the_next_epoch_begins_when_nothing_fresh_is_left() -> None:
    shards = make_shards(overlap=True)
    shards.take(0, 0, 11)
    assert [work.epoch for work in shards.take(1, 1, 2)] == [1], "a worker's own shard is not for others"
    assert shards.applied(0) == 0
    assert shards.newest_epoch == 1


def test_who_was_late_gets_other_samples_and_an_epoch_does_not_wait_for_it() -> None:
    """Worker 0 draws the last shard of epoch 0 and is late: the next one to draw gets it, worker 0 continues with
    epoch 1. It used to get its own samples back, and epoch 0 stayed open until nobody else had anything to do."""
    shards = make_shards(overlap=True, epochs=3)
    for work_id in (0, 1):
        shards.take(work_id, 1, 4)
        shards.applied(work_id)
    (last,) = shards.take(2, 0, 4)
    (ahead,) = shards.take(3, 1, 4)
    assert (last.epoch, ahead.epoch) == (0, 1)
    shards.returned(2, to_holder=False)
    (other,) = shards.take(4, 0, 4)
    assert other.epoch == 1
    assert shards.take(5, 1, 4) == (last,)
    assert shards.applied(5) == 1


@pytest.mark.parametrize("policy", ["dynamic", "even", "shared"])
def test_a_state_is_plain_data_and_brings_everything_back(policy: str) -> None:
    """Work that is out when the state is taken is handed out again, to whom it belonged, in the same order."""
    shards = make_shards(policy=policy)
    shards.take(0, 0, 3)
    before = shards.take(1, 1, 3)
    shards.take(2, 0, 2)
    shards.applied(0)
    state = json.dumps(shards.state())
    shards.applied(1)
    copy = make_shards(policy=policy)
    for restored in (copy, shards):
        restored.load_state(json.loads(state))
        assert json.dumps(restored.state()) == state
        assert restored.take(9, 1, 3) == before
        restored.applied(9)
        assert sum(drain(restored).values()) == 24 - 6


def test_who_finds_the_queue_empty_gets_half_of_what_another_has_drawn() -> None:
    """Worker 0 draws 8 samples and begins 1; worker 1 needs 6: half of 7, of the 4 left, of the 2 left."""
    shards = make_shards(num_samples=8, shard_samples=8, policy="shared", epochs=1)
    (begun,) = shards.take(0, 0, 1)
    assert (begun.start, begun.stop) == (0, 1)
    assert [(part.start, part.stop) for part in shards.take(1, 1, 6)] == [(5, 8), (3, 5), (2, 3)]
    assert shards.take(2, 1, 6) == (), "the last one stays with whom it belongs to"
    assert [(part.start, part.stop) for part in shards.take(3, 0, 5)] == [(1, 2)]
    others = make_shards(num_samples=8, shard_samples=8, epochs=1)
    others.take(0, 0, 1)
    assert others.take(1, 1, 6) == (), "of other policies nobody shares"


class LooksAtAll(Shards):
    """Finds who has most by counting every queue."""

    def _share(self, taker: int) -> Range | None:
        sizes = {worker: sum(part.samples for part in queue) for worker, queue in sorted(self.local.items())}
        self._donors = [(-sizes[donor], donor) for donor in sorted(sizes, key=lambda one: -sizes[one])[:1]]
        return super()._share(taker)


def one_step(shards: Shards, work_id: int, step: str, worker: int, number: int) -> None:
    """Take, apply, return, leave, or (``h``) exchange the queues of two workers."""
    out = sorted(shards.out)
    if step == "t":
        shards.take(work_id, worker, number)
    elif step == "a" and out:
        shards.applied(out[number % len(out)])
    elif step == "r" and out:
        shards.returned(out[number % len(out)], to_holder=bool(worker % 2))
    elif step == "d":
        shards.leave(worker)
    elif step == "h":
        mine, other = shards.local.get(worker, ()), shards.local.get(number % 5, ())
        shards.holds(worker, other)
        shards.holds(number % 5, mine)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("tttttttardbmh"), st.integers(0, 4), st.integers(1, 9)), min_size=20, max_size=60
    )
)
def test_the_giver_is_who_has_most(steps: list[tuple[str, int, int]]) -> None:
    """Whatever was taken, applied, returned, lost, marked (``m``) or brought back (``b``) before."""
    cut = cut_epoch("shared", 60, 20, 5)
    both = [kind(cut, policy="shared", epochs=2, seed=0) for kind in (Shards, LooksAtAll)]
    marks = [one.state() for one in both]
    for work_id, (step, worker, number) in enumerate(steps):
        for one, state in zip(both, marks, strict=True):
            if step == "b":
                one.load_state(state)
            else:
                one_step(one, work_id, step, worker, number)
        if step == "m":
            marks = [one.state() for one in both]
        assert both[0].out == both[1].out
        assert both[0].state() == both[1].state()


def test_a_shard_takes_no_more_samples_in_two_pieces_than_it_has() -> None:
    epoch = Epoch(Cut(8, 2, 4))
    epoch.applied(Range(0, 1, 0, 3))
    with pytest.raises(RuntimeError, match=r"shard 1 of epoch 0: more samples applied than it has \(4\)"):
        epoch.applied(Range(0, 1, 1, 3))


def test_what_came_back_of_the_elder_epoch_comes_first_wherever_it_stands() -> None:
    shards = make_shards(num_samples=4, shard_samples=2, num_workers=3, overlap=True)
    works = [shards.take(work_id, work_id % 2, 2) for work_id in range(4)]
    assert [work.epoch for (work,) in works] == [0, 0, 1, 1]
    shards.returned(2, to_holder=False)
    shards.returned(0, to_holder=False)
    assert shards.take(4, 2, 2) == works[0]


def drawn(**changes: Any) -> Shards:
    """Three shards of 40 samples: 24 samples of worker 0 are applied, and worker 1 has begun another shard."""
    shards = Shards(cut_epoch("dynamic", 120, 40, 2), policy="dynamic", epochs=1, seed=0, **changes)
    for work in range(6):
        shards.take(work, 0, 4)
        shards.applied(work)
    shards.take(100, 1, 4)
    return shards


def test_a_lost_workers_shard_is_computed_again_with_what_was_applied() -> None:
    """AntDT, section V-C2: the DOING shard of a lost worker becomes TODO, at the end of the queue."""
    shards = drawn()
    shards.take(50, 0, 4)
    mine = shards.out[50][1][0].shard
    shards.returned(50, to_holder=True)
    assert shards.repeat(0) == shards.samples_repeated == 24
    assert [(one.work.shard, one.work.start, one.work.stop) for one in shards.requeued] == [(mine, 0, 40)]
    assert not shards.local[0]
    assert shards.take(200, 0, 40)[0].shard != mine, "the third shard comes first"
    assert shards.take(201, 0, 40) == (Range(0, mine, 0, 40),)


def test_what_waits_to_be_applied_elsewhere_is_not_repeated() -> None:
    """Its gradient will count, so the shard is DONE when the rest has been applied again; no sample is missing."""
    shards = drawn()
    shards.take(50, 0, 4)
    assert shards.repeat(0) == 24
    assert [(one.work.start, one.work.stop) for one in shards.requeued] == [(0, 24), (28, 40)]
    shards.applied(50)
    for work in range(300, 340):
        if shards.take(work, 1, 4):
            shards.applied(work)
    shards.applied(100)
    assert shards.finished
    assert shards.samples_applied == 120 + 24


def test_static_parts_are_no_shards() -> None:
    """The whole part of a worker is not begun again."""
    shards = Shards(cut_epoch("even", 120, 40, 2), policy="even", epochs=1, seed=0)
    shards.take(0, 0, 4)
    shards.applied(0)
    assert shards.repeat(0) == 0
    assert not shards.requeued
