"""MLfabric's order against the slides' own loop (slides 10 to 13), in exact arithmetic on drawn networks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strategies.mlfabric.fluid import Update
from strategies.mlfabric.order import plan

Taken = dict[str, list[tuple[Fraction, Fraction, Fraction]]]
"""(begin, end, rate) that earlier transfers have reserved of every link."""
Segment = tuple[Fraction, Fraction, Fraction]


def transfer(update: Update, links: dict[str, int], taken: Taken) -> list[Segment]:
    """At every instant as fast as its path allows: what the bottleneck has left."""
    begin, left = Fraction(update.ready_s), Fraction(update.size_bytes)
    steps = sorted({begin} | {end for name in update.path for one in taken[name] for end in one[:2] if end > begin})
    found = list[Segment]()
    for start, end in pairwise([*steps, None]):
        assert start is not None
        rate = min(
            links[name] - sum((one[2] for one in taken[name] if one[0] <= start < one[1]), Fraction(0))
            for name in update.path
        )
        if rate:
            done = start + left / rate
            if end is None or done <= end:
                return [*found, (start, done, rate)]
            found.append((start, end, rate))
            left -= (end - start) * rate
    raise AssertionError("the last step has no end")


def by_the_slides(
    pending: Sequence[Update], links: dict[str, int], version: int, tau_max: float, tolerance: Fraction | None
) -> Iterator[tuple[str, int]]:
    """("sent", "missed" or "idle", update) in the order of the slides' iterations i = 0, 1, ...

    ``dl(g) = v(g) + tau_max - v_init``. An update that is due in an iteration goes first; it is dropped if the shortest
    transfer would be applied more than ``tolerance`` earlier, and so is one whose deadline has passed."""
    left, taken, slot, last = list(pending), Taken({name: [] for name in links}), 0, Fraction(0)
    while left:
        for update in [one for one in left if one.version + tau_max - version < slot]:
            left.remove(update)
            yield "missed", update.id
        ways = {one.id: transfer(one, links, taken) for one in left}
        if not ways:
            return
        ends = sorted({max(last, way[-1][1]) for way in ways.values()} | {way[-1][1] for way in ways.values()})
        assume(all(after - before > Fraction(1, 10**6) for before, after in pairwise(ends)))  # floats cannot tell them
        shortest = min(left, key=lambda one: (ways[one.id][-1][1], one.id))
        due = [one for one in left if one.version + tau_max - version == slot]
        chosen = min(due, key=lambda one: (ways[one.id][-1][1], one.id)) if due else shortest
        left.remove(chosen)
        late = max(last, ways[chosen.id][-1][1]) - max(last, ways[shortest.id][-1][1])
        if tolerance is not None and late > tolerance:
            yield "idle", chosen.id
            continue
        for name in chosen.path:
            taken[name] += ways[chosen.id]
        last, slot = max(last, ways[chosen.id][-1][1]), slot + 1
        yield "sent", chosen.id


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[Update], dict[str, int], int]:
    """Workers with uplinks of their own and one link into the server, with sizes and rates that seldom tie."""
    version, count = draw(st.integers(5, 12)), draw(st.integers(1, 7))
    links = {"in": draw(st.sampled_from([101, 199]))}
    links |= {f"up{number}": draw(st.sampled_from([23, 47, 97, 151])) + number for number in range(count)}
    pending = [
        Update(
            id=number,
            worker=number,
            version=version - draw(st.integers(0, 5)),
            size_bytes=draw(st.integers(20, 180)),
            ready_s=draw(st.sampled_from([0.0, 0.0, 0.5, 1.25])),
            path=(f"up{number}", "in"),
        )
        for number in range(count)
    ]
    return pending, links, version


@settings(max_examples=150)
@given(case=networks(), tau_max=st.integers(2, 14), tolerance=st.sampled_from([None, 0, 1, 3]))
def test_the_order_is_that_of_the_slides(
    case: tuple[list[Update], dict[str, int], int], tau_max: int, tolerance: int | None
) -> None:
    """Slides 10 to 13: shortest transfer first, deadlines, drops."""
    pending, links, version = case
    wanted = list(by_the_slides(pending, links, version, tau_max, None if tolerance is None else Fraction(tolerance)))
    order = plan(
        pending,
        {name: float(rate) for name, rate in links.items()},
        now_s=0.0,
        version=version,
        tau_max=tau_max,
        idle_tolerance_s=math.inf if tolerance is None else float(tolerance),
    )
    assert [slot.update.id for slot in order.slots] == [name for what, name in wanted if what == "sent"]
    assert {(drop.reason, drop.update.id) for drop in order.drops} == {one for one in wanted if one[0] != "sent"}
