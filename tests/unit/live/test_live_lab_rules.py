"""What jobs that share emulated hosts may not do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.errors import ConfigError
from runtime.live.control.lab import refuse_to_share


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
