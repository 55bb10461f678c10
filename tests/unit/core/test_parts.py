"""Rounds of parts: who computes which samples, what counts once, and what is refused."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.data.parts import cut_evenly
from runtime.core.data.shards import Range
from strategies.protocol import Apply, Arrived, Compute, Part, Partition, ProtocolError
from tests.support.harness import Puppet, Rig, make_job

BOTH = (Part(0, 1.0), Part(1, 1.0))


def rig(num_samples: int = 12, epochs: int = 1) -> Rig:
    """Three workers, a puppet, nothing said yet."""
    job = make_job(num_workers=3, global_batch_samples=6, num_samples=num_samples, epochs=epochs)
    return Rig(Puppet(), job).start()


def row(worker: int, *parts: Part) -> Compute:
    return Compute(worker=worker, num_samples=6, parts=parts)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 20))
def test_parts_are_consecutive_and_as_equal_as_can_be(lengths: list[int], num_parts: int) -> None:
    ranges = [Range(0, shard, 0, length) for shard, length in enumerate(lengths)]
    parts = cut_evenly(ranges, num_parts)
    samples = [[(one.shard, at) for one in part for at in range(one.start, one.stop)] for part in parts]
    assert [one for part in samples for one in part] == [(one.shard, at) for one in ranges for at in range(one.stop)]
    sizes = [len(part) for part in samples]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


def test_a_round_that_was_not_applied_is_cut_anew_with_the_same_samples() -> None:
    run = rig(num_samples=24)
    run.say(Partition(num_samples=6, num_parts=1), row(0, Part(0, 1.0)))
    run.say(Partition(num_samples=6, num_parts=2), row(1, Part(0, 1.0)), row(2, Part(1, 1.0)))
    again = run.busy()[1].ranges + run.busy()[2].ranges
    assert sum(one.samples for one in again) == 6
    assert {(one.shard, at) for one in again for at in range(one.start, one.stop)} == {
        (one.shard, at) for one in run.busy()[0].ranges for at in range(one.start, one.stop)
    }
    run.arrive(0)
    with pytest.raises(ProtocolError, match="round 0 is over"):
        run.say(Apply(grads=(0,), weights=(1 / 6,)))


def test_a_short_round_leaves_parts_empty_and_their_workers_arrive_at_once() -> None:
    """Also while others compute: nothing that they could free would help."""
    run = rig(num_samples=7)
    run.say(Partition(num_samples=6, num_parts=2), row(0, *BOTH))
    run.arrive(0)
    begun = (Partition(num_samples=6, num_parts=2), row(0, Part(0, 1.0)), row(1, Part(1, 1.0)))
    run.say(Apply(grads=(0,), weights=(1 / 6,)), *begun)
    assert run.empties() == [1]
    assert run.busy_workers() == [0]
    assert run.received(Arrived)[-1].grad.round == 1


@pytest.mark.parametrize(
    ("coefficient", "weights", "refused"),
    [
        (1.0, (1 / 6, 1 / 6), ""),
        (1.0, (1 / 6, 1 / 6 + 1e-9), ""),
        (1.0, (1 / 6, 1.001 / 6), "not every part of round 0 has the same weight"),
        (1.0, (1 / 6, -1 / 6), "not every part of round 0 has the same weight"),
        (2.0, (1 / 12, 1 / 6), ""),
        (2.0, (1 / 6, 1 / 6), r"0\.166667 to 0\.333333"),
    ],
)
def test_every_part_must_have_the_same_weight(coefficient: float, weights: tuple[float, ...], refused: str) -> None:
    """A part counts its coefficient times the weight of its row."""
    run = rig()
    run.say(Partition(num_samples=6, num_parts=2), row(0, Part(0, coefficient)), row(1, Part(1, 1.0)))
    run.arrive(0)
    run.arrive(1)
    with pytest.raises(ProtocolError, match=refused) if refused else nullcontext():
        run.say(Apply(grads=(0, 1), weights=weights))
    assert refused or run.updates == 1


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([row(0, *BOTH)], "there is no round; begin one with a Partition"),
        ([Partition(num_samples=0, num_parts=2)], "at least one sample and one part"),
        ([Partition(num_samples=6, num_parts=0)], "at least one sample and one part"),
        ([Partition(num_samples=6, num_parts=2), row(0, Part(2, 1.0))], "parts 0 to 1, each"),
        ([Partition(num_samples=6, num_parts=2), row(0, Part(0, 1.0), Part(0, 2.0))], "parts 0 to 1, each"),
        (
            [Partition(num_samples=6, num_parts=2), Compute(worker=0, num_samples=6, accum=2, parts=BOTH)],
            "each part is a micro-batch of its own",
        ),
    ],
)
def test_what_is_unlawful_is_refused(said: list[object], why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        rig().say(*said)


def test_an_update_mixes_no_round_with_anything_else() -> None:
    run = rig(num_samples=24)
    run.say(Partition(num_samples=6, num_parts=1), row(0, Part(0, 1.0)), Compute(worker=1, num_samples=2))
    run.arrive(0)
    run.arrive(1)
    with pytest.raises(ProtocolError, match="are not of one batch"):
        run.say(Apply(grads=(0, 1), weights=(1 / 8, 1 / 8)))
