"""The parts of a machine's link: equal ones, never more than the link's rate in all, on any placement."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.link_flows import rates_of_flows


def test_connections_share_equally_and_a_route_is_one_direction() -> None:
    """Workers 1 and 3 are on machine 1, server 0 on machine 0, server 2 on machine 2."""
    placed = {"worker:1": 1, "worker:3": 1, "server:0": 0, "server:2": 2}
    rates = rates_of_flows(placed, {"link:1": 8.0})
    assert len(rates) == 8
    assert set(rates.values()) == {2.0}
    assert rates_of_flows(placed, {"link:1>2": 8.0}) == {
        ("worker:1", "server:2"): 4.0,
        ("worker:3", "server:2"): 4.0,
    }


@st.composite
def placements(draw: st.DrawFn) -> Mapping[str, int]:
    machine = st.integers(0, 3)
    workers, servers = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    names = [*(f"worker:{number}" for number in range(workers)), *(f"server:{number}" for number in range(servers))]
    return {name: draw(machine) for name in names}


@given(placements(), st.dictionaries(st.sampled_from([f"link:{number}" for number in range(4)]), st.floats(1, 1e9)))
def test_no_machine_sends_or_receives_more_than_its_link_carries(
    placed: Mapping[str, int], limits: Mapping[str, float]
) -> None:
    rates = rates_of_flows(placed, limits)
    for target, limit in limits.items():
        machine = int(target.removeprefix("link:"))
        for end in (0, 1):
            shared = [rate for flow, rate in rates.items() if placed[flow[end]] == machine]
            assert sum(shared) <= limit * (1 + 1e-9)
            apart = [
                (one, other)
                for one in placed
                for other in placed
                if {one[:6], other[:6]} == {"worker", "server"} and placed[one] != placed[other]
            ]
            assert len(shared) == sum(placed[pair[end]] == machine for pair in apart), "each of them has a limit"
    if len(limits) == 1 and rates:
        assert sum(rates.values()) == pytest.approx(2 * next(iter(limits.values()))), "one link is used up both ways"
