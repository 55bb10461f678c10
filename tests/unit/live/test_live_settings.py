"""What a live runtime takes for its deadlines and for the evaluator, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.errors import ConfigError
from runtime.live.control.settings import num_computing, start_deadline_s
from runtime.live.runtime import LiveRuntime
from tests.support.clusters import cluster_of
from tests.support.harness import make_job


@pytest.mark.parametrize(
    ("given", "on_hosts", "num_cold", "expected"),
    [
        (None, False, 0, 60.0),
        (None, True, 0, 120.0),
        (None, False, 5, 210.0),
        (None, True, 2, 180.0),
        (None, False, 64, 300.0),
        (7.0, True, 9, 7.0),
    ],
)
def test_a_start_deadline_that_was_not_given_allows_for_cold_starts(
    given: float | None, on_hosts: bool, num_cold: int, expected: float
) -> None:
    assert start_deadline_s(given, on_hosts=on_hosts, num_cold=num_cold) == expected


def test_workers_evaluator_and_scorer_compute() -> None:
    assert num_computing(make_job(num_workers=4)) == 5
    assert num_computing(make_job(num_workers=4, validation_samples=10)) == 6


@pytest.mark.parametrize(
    ("lease_s", "hosts", "expected"), [(None, None, 2.0), (None, {"count": 2}, 4.0), (9.0, None, 9.0)]
)
def test_a_lease_that_was_not_given_suits_the_cluster(lease_s: Any, hosts: Any, expected: float) -> None:
    assert LiveRuntime(cluster=cluster_of(num_workers=1, hosts=hosts), lease_s=lease_s).longest_silence_s == expected


def test_a_cluster_that_is_only_modelled_has_no_live_runs() -> None:
    with pytest.raises(ConfigError, match=r"^runtime=live: .* \(a thousand nodes\); choose runtime=virtual"):
        LiveRuntime(cluster=cluster_of(num_workers=1, only_modelled="a thousand nodes"))


@pytest.mark.parametrize("setting", ["worker_cores", "server_cores"])
def test_cores_of_the_start_are_only_modelled(setting: str) -> None:
    with pytest.raises(ConfigError, match=rf"^runtime=live: cluster\.{setting} is only modelled"):
        LiveRuntime(cluster=cluster_of(num_workers=1, **{setting: 2.0}))
