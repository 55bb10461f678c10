"""The scheduler that limits what one job may have: worked numbers."""

from __future__ import annotations

import re
from statistics import mean
from typing import Any

import pytest

from runtime.core.quota import Quota
from runtime.core.scheduling import Grant, Request


def request(cores: float | None, *, low: bool = False, in_use: float = 0.0, in_use_low: float = 0.0) -> Request:
    priority: Any = "low" if low else "normal"
    return Request(cpu_cores=cores, priority=priority, in_use_cores=in_use, in_use_low_cores=in_use_low)


BOTH = Quota(cores_total=4, cores_max=6)
TOTAL = Quota(cores_total=4)
"""Without ``cores_max`` low priority gives nothing more."""


@pytest.mark.parametrize(
    ("quota", "asked", "denied"),
    [
        (BOTH, request(4), None),
        (BOTH, request(None, in_use=100), None),
        (BOTH, request(2, in_use=2), None),
        (BOTH, request(2.5, in_use=2), "2.5 cores asked, 2 in use, cores_total=4"),
        (BOTH, request(4, in_use=2, in_use_low=2), None),
        (BOTH, request(4, in_use=3, in_use_low=3), "4 cores asked, 3 in use, cores_max=6"),
        (BOTH, request(2, low=True, in_use=4), None),
        (BOTH, request(3, low=True, in_use=4), "3 cores asked, 4 in use, cores_max=6"),
        *((TOTAL, request(1, low=low, in_use=3, in_use_low=3), None) for low in (False, True)),
        *(
            (TOTAL, request(2, low=low, in_use=3, in_use_low=3), "2 cores asked, 3 in use, cores_total=4")
            for low in (False, True)
        ),
        (Quota(cores_total=0.6), request(0.2, in_use=0.4), None),  # though their sum is more as floats
        (Quota(), request(1e6, in_use=1e6), None),
    ],
    ids=str,
)
def test_what_a_job_may_have(quota: Quota, asked: Request, denied: str | None) -> None:
    assert quota.refuses(asked) == denied


def test_a_large_node_waits_longer_but_at_most_a_week() -> None:
    quota = Quota(pending_s=10.0, pending_s_per_core=5.0)
    assert quota.place(0.0, 0, 0, request(None)) == Grant(pending_s=10.0)
    assert quota.place(0.0, 0, 0, request(8)) == Grant(pending_s=50.0)
    assert quota.place(0.0, 0, 0, request(1e9)).pending_s == 7 * 24 * 3600
    assert (quota.draw_s(0.0, 0, 0), quota.expected_s(0.0)) == (10.0, 10.0)


def test_only_nodes_of_low_priority_are_taken_away_after_exponential_times() -> None:
    quota = Quota(evict_after_s=20.0)
    assert quota.place(0.0, 1, 0, request(None)).evicted_after_s is None
    drawn = [quota.place(0.0, 1, number, request(None, low=True)).evicted_after_s or 0.0 for number in range(2000)]
    assert drawn[0] == quota.place(5.0, 1, 0, request(None, low=True)).evicted_after_s, "by seed and number alone"
    assert 18 < mean(drawn) < 22
    assert Quota().place(0.0, 1, 0, request(None, low=True)).evicted_after_s is None


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"cores_total": 0}, "cores_total=0: must be more than 0, or null"),
        ({"cores_total": 4, "cores_max": float("inf")}, "cores_max=inf: must be more than 0, or null"),
        ({"pending_s": -1}, "pending_s=-1: must be between 0 and 604800 seconds (a week)"),
        ({"pending_s_per_core": 1e9}, "pending_s_per_core=1e+09: must be between 0 and 604800 seconds (a week)"),
        ({"cores_total": 4, "cores_max": 3}, "cores_max=3: must be at least cores_total=4"),
        ({"cores_max": 3}, "cores_max=3: needs cores_total"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_in_one_line(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(complaint)}$"):
        Quota(**fields)
