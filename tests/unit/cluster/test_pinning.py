"""Cores of pinned hosts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.cluster.pinning import cores_of
from runtime.errors import ConfigError

FOUR = {"count": 4, "cpu_cores": 4.0, "real_cores_per_core": 0.1}


def hosts_of(**fields: Any) -> Hosts:
    return parse_hosts({**FOUR, **fields}, 4, 2)


def heaviest(quotas: Sequence[float], chosen: Sequence[int]) -> float:
    """What the most promised core has to give."""
    return max(sum(quota for quota, core in zip(quotas, chosen, strict=True) if core == one) for one in set(chosen))


def test_equal_hosts_are_dealt_out() -> None:
    assert cores_of(hosts_of(pin=True).hosts, [0, 1]) == {0: 0, 1: 1, 2: 0, 3: 1}


def test_hosts_have_cores_of_this_process_only() -> None:
    assert cores_of(hosts_of(pin=True).hosts, [3, 7]) == {0: 3, 1: 7, 2: 3, 3: 7}


def test_the_largest_is_placed_first() -> None:
    """0.1, 0.1, 0.8 and 0.6 cores: 0.8 on one core, all others on the other."""
    sizes = {number: {"cpu_cores": cores} for number, cores in enumerate((1.0, 1.0, 8.0, 6.0))}
    assert cores_of(hosts_of(pin=True, overrides=sizes).hosts, [0, 1]) == {2: 0, 3: 1, 0: 1, 1: 1}


def test_hosts_that_are_not_pinned_run_anywhere() -> None:
    assert cores_of(hosts_of().hosts, [0, 1]) == {}


@given(st.lists(st.integers(1, 10), min_size=1, max_size=6), st.integers(1, 3))
def test_no_core_is_promised_much_more_than_need_be(sizes: list[int], count: int) -> None:
    """Largest first is within 4/3 - 1/(3m) of the best of all choices (Graham 1969), here tried one by one."""
    overrides = {number: {"cpu_cores": float(cores)} for number, cores in enumerate(sizes)}
    hosts = parse_hosts({**FOUR, "count": len(sizes), "pin": True, "overrides": overrides}, 1, 1)
    found = cores_of(hosts.hosts, range(count))
    assert set(found) == set(range(len(sizes)))
    best = min(heaviest(sizes, chosen) for chosen in itertools.product(range(count), repeat=len(sizes)))
    assert heaviest(sizes, [found[number] for number in range(len(sizes))]) <= best * (4 / 3 - 1 / (3 * count)) + 1e-9


@pytest.mark.parametrize(
    ("fields", "has"),
    [({"real_cores_per_core": 0.3}, "1.2 cores of this machine"), ({"cpu_cores": None}, "no limit")],
)
def test_a_host_of_more_than_one_core_cannot_be_pinned(fields: dict[str, Any], has: str) -> None:
    with pytest.raises(ConfigError, match=rf"^cluster\.hosts\.pin: host 0 has {has}, and a host that is pinned"):
        hosts_of(pin=True, **fields)


def test_it_is_described_where_it_is_so() -> None:
    assert [one.get("pinned") for one in hosts_of(pin=True).describe()] == [True] * 4
    assert "pinned" not in hosts_of().describe()[0]
