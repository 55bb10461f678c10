"""What a live runtime takes for its deadlines and for the evaluator, and what it refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.errors import ConfigError
from runtime.live.control.lab import refuse_to_share
from runtime.live.control.settings import num_computing, start_deadline_s
from runtime.live.machines import ticks
from runtime.live.machines.mechanisms import NOTHING, TICKS_DEMANDED
from runtime.live.machines.shared import SharedMachines, build_shared
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


def test_what_is_only_modelled_has_no_live_runs() -> None:
    assert num_computing(make_job(num_workers=4)) == 5
    assert num_computing(make_job(num_workers=4, validation_samples=10)) == 6
    with pytest.raises(ConfigError, match=r"^runtime=live: .* \(a thousand nodes\); choose runtime=virtual"):
        LiveRuntime(cluster=cluster_of(num_workers=1, only_modelled="a thousand nodes"))


@pytest.mark.parametrize(
    ("lease_s", "hosts", "expected"), [(None, None, 2.0), (None, {"count": 2}, 4.0), (9.0, None, 9.0)]
)
def test_a_lease_that_was_not_given_suits_the_cluster(lease_s: Any, hosts: Any, expected: float) -> None:
    assert LiveRuntime(cluster=cluster_of(num_workers=1, hosts=hosts), lease_s=lease_s).longest_silence_s == expected


@pytest.mark.parametrize("setting", ["worker_cores", "server_cores"])
def test_cores_of_the_start_are_only_modelled(setting: str) -> None:
    with pytest.raises(ConfigError, match=rf"^runtime=live: cluster\.{setting} is only modelled"):
        LiveRuntime(cluster=cluster_of(num_workers=1, **{setting: 2.0}))


def hosts(**fields: Any) -> Hosts:
    return parse_hosts({"count": 2, "cpu_cores": 1.0, **fields}, 2, 1)


def job(theirs: Hosts | None, disturbed: frozenset[str] = frozenset(), quotas: str = "cgroup") -> Any:
    machines = SimpleNamespace(hosts=theirs, mechanisms=SimpleNamespace(host_quotas=quotas))
    return SimpleNamespace(
        name="j1", machines=machines, spec=SimpleNamespace(around=SimpleNamespace(disturbed=disturbed))
    )


def test_jobs_with_other_tasks_on_the_same_hosts_may_share_them() -> None:
    packed = hosts(placement="pack")
    assert packed.hosts != hosts().hosts
    refuse_to_share(job(packed, frozenset({"worker:1", "server:0"})), hosts())


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (job(hosts(cpu_cores=2.0)), "j1 describes other hosts than its lab"),
        (job(None), "j1 describes other hosts than its lab"),
        (job(hosts(), frozenset({"host:1"})), "disturbs host:1, which j1 shares"),
        (job(hosts(), frozenset({"link:0>1"})), "disturbs link:0>1, which j1 shares"),
        (job(hosts(), quotas="duty"), "needs control groups"),
    ],
)
def test_refused(one: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        refuse_to_share(one, hosts())


@pytest.fixture(autouse=True)
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        def __init__(self) -> None:
            raise OSError("no thread can begin")

    monkeypatch.setattr(ticks, "Ticks", Refused)


def shared_with(ticks_because: str) -> SharedMachines:
    return build_shared(None, msgspec.structs.replace(NOTHING, ticks=True, ticks_because=ticks_because))


def test_a_run_that_may_have_ticks_does_without_and_one_that_must_is_refused() -> None:
    shared = shared_with("runtime.ticks=auto")
    assert (shared.obstacle, shared.no_ticks) == ("", "no thread can begin")
    shared.close()
    shared = shared_with(TICKS_DEMANDED)
    assert shared.obstacle == (
        "runtime.ticks=true: no thread can begin; use runtime.ticks=auto, or runtime.ticks=false"
    )
