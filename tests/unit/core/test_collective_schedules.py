"""Schedules of sums: each is one, whatever the numbers of ranks and blocks; what they cost on idle links."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.collectives.known import SCHEDULES, Summing, schedule_of
from runtime.core.collectives.schedule import Schedule, Transfer, turns_of
from runtime.core.collectives.times import ends_s

NAMES = sorted(SCHEDULES)
POWERS = (2, 4, 8, 16, 32)
ALPHA_S, BETA_S = 3e-3, 0.7
"""Seconds of a message, and of the whole vector."""


def hop_s(frac: float) -> float:
    return ALPHA_S + BETA_S * frac


def duration_s(name: str, size: int) -> float:
    return max(ends_s(schedule_of(name, size), hop_s, [0.0] * size))


@given(name=st.sampled_from(NAMES), size=st.integers(1, 33), blocks=st.integers(1, 5))
def test_every_rank_ends_with_the_share_of_every_rank_once(name: str, size: int, blocks: int) -> None:
    assert schedule_of(name, size, blocks).wrong() is None


@given(
    name=st.sampled_from(NAMES),
    size=st.sampled_from(POWERS),
    blocks=st.integers(1, 3),
    data=st.data(),
)
def test_a_schedule_without_one_of_its_transfers_is_no_sum(
    name: str, size: int, blocks: int, data: st.DataObject
) -> None:
    schedule = schedule_of(name, size, blocks)
    number = data.draw(st.integers(0, len(schedule.rounds) - 1))
    lost = data.draw(st.integers(0, len(schedule.rounds[number]) - 1))
    rounds = list(schedule.rounds)
    rounds[number] = rounds[number][:lost] + rounds[number][lost + 1 :]
    assert Schedule(size, blocks, schedule.parts, tuple(rounds)).wrong() is not None


@pytest.mark.parametrize(
    ("rounds", "why"),
    [
        ([(0, 1)], "at the end part 0 of rank 0 lacks the share of rank 1"),
        ([(0, 1), (1, 0)], "round 1: rank 0 adds the share of rank 0 to part 0 twice"),
        ([(1, 1)], "round 0: rank 1 sends to itself"),
    ],
)
def test_why_a_schedule_is_no_sum(rounds: list[tuple[int, int]], why: str) -> None:
    made = tuple((Transfer(source, target, 0, 1, adds=True),) for source, target in rounds)
    assert Schedule(2, 1, 1, made).wrong() == why


@given(
    name=st.sampled_from(NAMES), size=st.integers(2, 17), blocks=st.integers(1, 4), parameters=st.integers(0, 10_000)
)
def test_what_ranks_send_others_receive_to_the_byte(name: str, size: int, blocks: int, parameters: int) -> None:
    schedule = schedule_of(name, size, blocks)
    assert sum(schedule.part_bytes(parameters)) == 4 * parameters
    turns = turns_of(schedule, parameters)
    received = [(one.target, one.place, one.num_bytes) for own in turns for one in own.sends]
    expected = [(rank, place, each) for rank, own in enumerate(turns) for place, (_, each) in enumerate(own.receives)]
    assert sorted(received) == expected
    assert {(rank, one.target) for rank, own in enumerate(turns) for one in own.sends} == {
        (source, rank) for rank, own in enumerate(turns) for source, _ in own.receives
    }


@pytest.mark.parametrize("size", POWERS)
def test_on_idle_links_each_takes_its_closed_form(size: int) -> None:
    """Thakur et al. 2005, section 4; StragglAR's theorem: what is left once the straggler has come."""
    doublings = log2(size)
    assert duration_s("ring", size) == pytest.approx(2 * (size - 1) * hop_s(1 / size), rel=1e-12)
    assert duration_s("tree", size) == pytest.approx(2 * doublings * hop_s(1), rel=1e-12)
    halving_s = 2 * doublings * ALPHA_S + 2 * (size - 1) / size * BETA_S
    assert duration_s("halving_doubling", size) == pytest.approx(halving_s, rel=1e-12)
    early_s = [-1e3] * (size - 1)
    ends = ends_s(schedule_of("stragglar", size), hop_s, [*early_s, 0.0])
    assert max(ends) == pytest.approx((size - 2 + doublings) * hop_s(1 / (size - 1)), rel=1e-12)


@pytest.mark.parametrize("size", [3, 5, 6, 7, 9, 31])
def test_a_tree_of_any_size_takes_no_more_rounds_than_the_next_power_of_two(size: int) -> None:
    assert duration_s("tree", size) == pytest.approx(2 * ceil(log2(size)) * hop_s(1), rel=1e-12)


def test_while_its_straggler_is_late_the_others_reduce() -> None:
    """n - 2 rounds in which it has no part; with a straggler that comes at once the others hold it up for as long."""
    schedule = schedule_of("stragglar", 8)
    assert schedule.late == 7
    first = next(number for number, transfers in enumerate(schedule.rounds) if any(7 in one[:2] for one in transfers))
    assert first == 6
    together_s = max(ends_s(schedule, hop_s, [0.0] * 8))
    assert together_s == pytest.approx((6 + 9) * hop_s(1 / 7))
    reduced_s = 6 * hop_s(1 / 7)
    assert max(ends_s(schedule, hop_s, [-reduced_s] * 7 + [0.0])) == pytest.approx(9 * hop_s(1 / 7))


def test_who_may_be_late_has_the_last_rank() -> None:
    assert Summing("stragglar", 1, 2).ranked([0, 1, 2, 3]) == [0, 1, 3, 2]
    assert Summing("tree").ranked([0, 1, 2]) == [0, 1, 2]


def test_where_a_collective_has_no_schedule_for_so_many_there_is_a_ring() -> None:
    for name in ("halving_doubling", "stragglar", "gloo"):
        assert schedule_of(name, 3) == schedule_of("ring", 3)


def test_blocks_follow_each_other_on_their_way() -> None:
    """A tree of two ranks: two messages of a quarter and 3 more, instead of two of all."""
    assert max(ends_s(schedule_of("tree", 2, 4), hop_s, [0.0] * 2)) == pytest.approx(5 * hop_s(1 / 4))
