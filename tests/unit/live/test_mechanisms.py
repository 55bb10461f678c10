"""The mechanisms that a run chooses on machines that lack some capabilities."""

from __future__ import annotations

import re
from typing import Any

import pytest

from runtime.api import RunContext
from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.containment import Isolation
from runtime.errors import ConfigError
from runtime.live.machines.doctor import CAPABILITIES
from runtime.live.machines.mechanisms import Look, Mechanisms, Missing, choose_mechanisms

FOUR = {"count": 4, "cpu_cores": 4.0, "real_cores_per_core": 0.1, "link_mbps": 100}
FAIR = {**FOUR, "fair_queues": True}
WORKER = ("cpu", "worker:0")
LIMIT = {"cpu_by": "cpulimit"}


def lacking(*names: str) -> Look:
    """A machine without these."""
    assert set(names) <= set(CAPABILITIES)
    return lambda name: Missing(reason=f"no {name}", cure=f"get {name}") if name in names else None


def choose(
    without: tuple[str, ...] = (),
    hosts: dict[str, Any] | None = None,
    cpu_by: Any = "auto",
    device: bool = False,
    ticks: Any = "auto",
    hits: tuple[Any, str] | None = None,
    **around: Any,
) -> Mechanisms:
    parsed: Hosts | None = parse_hosts(hosts, 4, 2) if hosts is not None else None
    context = RunContext(num_servers=2, asked=frozenset([hits] if hits else []), **around)
    return choose_mechanisms(parsed, cpu_by, device, context, lacking(*without), ticks)


def test_a_plain_run_needs_nothing_and_latency_is_by_whatever_there_is() -> None:
    assert choose().isolation is Isolation.PROCESSES
    assert choose(("namespaces",)).isolation is Isolation.NONE
    assert choose(containment="none").isolation is Isolation.NONE
    everything = choose(tuple(CAPABILITIES))
    assert (everything.throttles, everything.host_quotas, everything.cgroups) == ("none", "none", False)
    late = {**FOUR, "latency_ms": 5}
    assert choose(hosts=FOUR).latency == "none"
    assert choose(hosts=late).latency == "netem"
    assert choose(("netem",), late).latency == "relay"


@pytest.mark.parametrize(
    ("without", "cpu_by", "hosts", "quotas", "throttles"),
    [
        ((), "auto", FOUR, "cgroup", "cgroup"),
        (("cgroup_cpu",), "auto", FOUR, "duty", "duty"),
        ((), "duty", FOUR, "duty", "duty"),
        ((), "cpulimit", FOUR, "cgroup", "cpulimit"),
        (("cpulimit", "cgroup_cpu"), "duty", FOUR, "duty", "duty"),
        ((), "auto", None, "none", "cgroup"),
        (("cgroup_cpu",), "auto", None, "none", "duty"),
        ((), "cpulimit", None, "none", "cpulimit"),
    ],
)
def test_who_keeps_hosts_and_tasks_to_their_share(
    without: tuple[str, ...], cpu_by: str, hosts: dict[str, Any] | None, quotas: str, throttles: str
) -> None:
    mechanisms = choose(without, hosts, cpu_by, hits=WORKER)
    assert (mechanisms.host_quotas, mechanisms.throttles) == (quotas, throttles)
    assert mechanisms.cgroups == ("cgroup" in (quotas, throttles))


@pytest.mark.parametrize("command", ["Launch", "Allocate"])
def test_allocated_cores_are_limited_by_what_throttles(command: str) -> None:
    none = ("cgroup_cpu",)
    for without, cpu_by, hosts, allocations in (
        ((), "auto", None, "cgroup"),
        ((), "duty", None, "duty"),
        (none, "cpulimit", None, "cpulimit"),
        (none, "auto", FOUR, "duty"),
    ):
        mechanisms = choose(without, hosts, cpu_by, commands=frozenset({command}), hits=WORKER)
        assert (mechanisms.allocations, mechanisms.throttles) == (allocations, allocations)
        assert mechanisms.cpu_groups == (allocations == "cgroup")
        assert choose(without, hosts, cpu_by).allocations == "none"


def test_requested_cores_need_the_weights_of_control_groups_on_hosts_with_cores() -> None:
    asked = {"commands": frozenset({"Launch"}), "cores_as": "request"}
    assert choose(hosts=FOUR, **asked).allocations == "cgroup"
    for without, hosts, cpu_by, words in (
        ((), None, "auto", "strategy.cores_as=request: without hosts there are no cores of which"),
        ((), {**FOUR, "cpu_cores": None}, "auto", "strategy.cores_as=request: host 0 has no number of cores"),
        ((), {**FOUR, "overrides": {2: {"cpu_cores": None}}}, "auto", "strategy.cores_as=request: host 2 has no"),
        ((), FOUR, "duty", "runtime.cpu_by=duty: stops tasks at a limit"),
        ((), FOUR, "cpulimit", "runtime.cpu_by=cpulimit: stops tasks at a limit"),
        (("cgroup_cpu",), FOUR, "auto", "strategy.cores_as=request: no cgroup_cpu; get cgroup_cpu, or use strategy.co"),
    ):
        with pytest.raises(ConfigError, match=f"^{re.escape(words)}"):
            choose(without, hosts, cpu_by, **asked)


@pytest.mark.parametrize(
    ("without", "hosts", "more", "words"),
    [
        (("network",), FOUR, {}, "cluster.hosts: no network; get network, or choose cluster=local"),
        (("links",), FOUR, {}, "cluster.hosts: no links; get links, or choose cluster=local"),
        ((), FOUR, {"containment": "none"}, "containment=none: emulated hosts live in namespaces"),
        ((), FOUR, {"transport": "shm"}, "topology.transport=shm: hosts share no memory"),
        (("cgroup_cpu",), FOUR, {"cpu_by": "cgroup"}, "runtime.cpu_by=cgroup: no cgroup_cpu; get cgroup_cpu"),
        (("cpulimit",), None, {**LIMIT, "hits": WORKER}, "runtime.cpu_by=cpulimit: no cpulimit; get cpulimit"),
        (("cgroup_memory",), {**FOUR, "memory_mb": 256}, {}, "cluster.hosts.memory_mb: no cgroup_memory"),
        (("peers",), FOUR, {"hits": ("bandwidth", "link:0>1")}, "straggler: no peers; get peers, or slow down whole"),
        ((), {**FOUR, "link_mbps": None}, {"hits": ("bandwidth", "link:1")}, "link_mbps=null: link:1 has no rate"),
        ((), FOUR, {**LIMIT, "hits": ("cpu", "host:1")}, "cpu_by=cpulimit: limits single processes, not host:1"),
        (("cgroup_cpu",), FOUR, {**LIMIT, "hits": WORKER}, "cpu_by=cpulimit: would continue what the quotas of"),
        (("peers",), FAIR, {}, "cluster.hosts.fair_queues: no peers; get peers, or set it to false"),
        ((), {**FAIR, "overrides": {2: {"link_mbps": None}}}, {}, "fair_queues: nothing waits at host 2"),
        (("netem",), {**FAIR, "latency_ms": 1}, {}, "cluster.hosts.fair_queues: with a latency by relay"),
        ((), FOUR, {"device": True, "hits": WORKER}, "cluster.device: paces"),
        (("realtime",), FOUR, {"ticks": True}, "runtime.ticks=true: no realtime; get realtime, or use runtime.ticks"),
        ((), None, {"ticks": True}, "runtime.ticks=true: no control group of this run has a quota"),
    ],
)
def test_refused_with_the_missing_piece_and_its_cure(
    without: tuple[str, ...], hosts: dict[str, Any] | None, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as error:
        choose(without, hosts, **more)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("without", "cpu_by", "ticks", "looked_at", "because"),
    [
        ((), "auto", "auto", True, "runtime.ticks=auto"),
        ((), "auto", True, True, "runtime.ticks=true"),
        (("realtime",), "auto", "auto", False, "no realtime"),
        (("realtime",), "auto", False, False, "runtime.ticks=false"),
        ((), "duty", "auto", False, "no control group has a quota"),
    ],
)
def test_quotas_of_control_groups_are_looked_at_often_where_a_thread_may_have_priority(
    without: tuple[str, ...], cpu_by: str, ticks: Any, looked_at: bool, because: str
) -> None:
    found = choose(without, FOUR, cpu_by, ticks=ticks)
    assert (found.ticks, found.ticks_because) == (looked_at, because)
    assert (choose().ticks, choose(hits=WORKER).ticks) == (False, True)  # a throttled task has a quota, without hosts


@pytest.mark.parametrize(("hosts", "least"), [(None, 0.06), (FOUR, 0.1)])
def test_a_level_that_cpulimit_has_no_percent_for_is_refused(hosts: dict[str, Any] | None, least: float) -> None:
    choose((), hosts, "cpulimit", hits=WORKER, cpu_left=frozenset([("worker:0", least)]))
    with pytest.raises(ConfigError, match=r"worker:0 with 0\.01 left: .* use runtime\.cpu_by=cgroup"):
        choose((), hosts, "cpulimit", hits=WORKER, cpu_left=frozenset([("worker:0", 0.01)]))
    choose((), hosts, "cgroup", hits=WORKER, cpu_left=frozenset([("worker:0", 0.01)]))
