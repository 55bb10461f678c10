"""From a cluster's description to hosts: units, placement, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.cluster.hosts import Placement, parse_hosts, parse_machines
from runtime.errors import ConfigError

FOUR = {"count": 4, "cpu_cores": 4.0, "real_cores_per_core": 0.1, "link_mbps": 1000}


def test_units_are_those_of_this_machine() -> None:
    hosts = parse_hosts({**FOUR, "latency_ms": 2, "memory_mb": 512, "device": {"base_s": 0.5}}, 4, 2)
    one = hosts.hosts[0]
    assert one.cores == pytest.approx(0.4)
    assert hosts.cores == pytest.approx(1.6)
    assert one.link_bytes_per_s == 125e6
    assert one.latency_s == pytest.approx(0.002)
    assert one.memory_bytes == 512 * 2**20
    assert one.device.seconds(100) == 0.5


@pytest.mark.parametrize(
    ("placement", "count", "expected"),
    [
        ("spread", 4, {"server:0": 3, "server:1": 2, "worker:0": 0, "worker:1": 1, "worker:2": 2}),
        ("spread", 5, {"server:0": 4, "server:1": 3, "worker:0": 0, "worker:1": 1, "worker:2": 2}),
        ("spread", 2, {"server:0": 1, "server:1": 0, "worker:0": 0, "worker:1": 1, "worker:2": 0}),
        ("pack", 2, {"server:0": 0, "server:1": 0, "worker:0": 0, "worker:1": 1, "worker:2": 1}),
        ("pack", 9, {"server:0": 0, "server:1": 1, "worker:0": 2, "worker:1": 3, "worker:2": 4}),
    ],
)
def test_placement(placement: str, count: int, expected: dict[str, int]) -> None:
    hosts = parse_hosts({"count": count, "placement": placement}, 3, 2)
    assert hosts.host_of == expected
    for host in hosts.hosts:
        assert list(host.tasks) == [task for task in expected if expected[task] == host.number]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"count": 0}, "cluster.hosts.count=0: must be"),
        ({"cpu_cores": 0.0}, "cluster.hosts.cpu_cores=0.0"),
        ({"cpu_cores": 5000.0}, "cluster.hosts.cpu_cores=5000.0"),
        ({"cpu_cores": 0.05}, "makes 0.005 cores of this machine for host 0"),
        ({"real_cores_per_core": 0}, "cluster.hosts.real_cores_per_core=0"),
        ({"link_mbps": 0}, "cluster.hosts.link_mbps=0"),
        ({"latency_ms": -1}, "cluster.hosts.latency_ms=-1"),
        ({"device": {"speed": 3}}, "cluster.hosts.device: has no speed"),
        ({"placement": "random"}, "cluster.hosts.placement=random"),
        ({"placement": [[], [], [], [], []]}, "cluster.hosts.placement: lists 5 hosts, and there are 4"),
        ({"placement": [["worker:0"]]}, "cluster.hosts.placement: server:0 is not placed"),
        ({"placement": [["worker:0"], ["worker:0"]]}, "worker:0 is on host 0 and on host 1"),
        ({"overrides": {4: {}}}, "cluster.hosts.overrides.4: there is no such host"),
        ({"overrides": {1: {"cores": 1.0}}}, "cluster.hosts.overrides.1.cores"),
        ({"overrides": {1: {"device": {"bas_s": 1.0}}}}, "cluster.hosts.overrides.1.device: has no bas_s"),
        ({"hostz": 3}, "cluster.hosts.hostz"),
    ],
)
def test_refused_with_one_line(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_hosts({**FOUR, **change}, 2, 1)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_task_moves_to_the_host_with_the_fewest_tasks_but_its_own() -> None:
    placement = Placement(parse_hosts({"count": 3, "placement": "pack"}, 4, 1))
    assert placement.tasks_on == [["server:0", "worker:0"], ["worker:1", "worker:2"], ["worker:3"]]
    assert placement.move("worker:3")
    assert placement.tasks_on == [["server:0", "worker:0", "worker:3"], ["worker:1", "worker:2"], []]
    assert placement.move("worker:0")
    assert (placement.host_of["worker:0"], placement.host("worker:0").number) == (2, 2)


def test_a_task_that_moves_takes_its_cores_along_or_stays() -> None:
    """Two hosts of 0.4 cores: the other one is too full, until somebody there has less."""
    placement = Placement(parse_hosts({**FOUR, "count": 2}, 2, 1))
    placement.allocate("worker:0", 0.3)
    placement.allocate("worker:1", 0.2)
    assert not placement.move("worker:0")
    assert placement.host_of["worker:0"] == 0
    placement.allocate("worker:1", 0.1)
    assert placement.move("worker:0")
    assert (placement.cores_left(0), placement.cores_left(1)) == (pytest.approx(0.4), pytest.approx(0.0))


GPUS = {"count": 3, "gpus": 2, "overrides": {2: {"gpus": 0}}}


@pytest.mark.parametrize(
    ("placement", "workers", "line"),
    [
        ("spread", 5, r"^cluster.num_workers=5: every worker needs a GPU, and the 3 hosts have 4; "),
        (
            [[], ["worker:0"], ["server:0", "worker:1"]],
            2,
            r"^cluster.hosts.placement: puts 1 workers on host 2, which has 0",
        ),
    ],
)
def test_more_workers_than_gpus_are_refused(placement: Any, workers: int, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        parse_hosts({**GPUS, "placement": placement}, workers, 1)


def test_machines_are_the_hosts_without_tasks() -> None:
    machines = parse_machines({**GPUS, "placement": [["worker:0"]]})
    assert [host.tasks for host in machines.hosts] == [(), (), ()]
    placed = machines.with_tasks({"server:0": 2, "worker:0": 1})
    assert [host.tasks for host in placed.hosts] == [(), ("worker:0",), ("server:0",)]
    assert placed.host_of == {"server:0": 2, "worker:0": 1}
