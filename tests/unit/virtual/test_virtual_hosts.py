"""Machines that tasks share, by worked numbers: processors, links, windows that open and close, pauses."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from injectors.plan import Kind
from runtime.api import RunContext
from runtime.cluster.hosts import parse_hosts
from runtime.live import LiveRuntime
from runtime.virtual import VirtualRuntime
from runtime.virtual.clock import MESSAGE, PLAN
from runtime.virtual.compiled._hosts import Sharing
from runtime.virtual.costs import FREE, Carry, Costs
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import PAYLOAD_FRAC, Site, sites_of
from tests.support.clusters import cluster_of

pytestmark = pytest.mark.usefixtures("even_quotas")
MB = 1_000_000
GIGABIT = 125e6  # bytes per second
WIRE = 1514 / 1448
"""Bytes on the wire for a byte of payload."""

Change = tuple[float, str, Kind, float]


def on_hosts(
    placement: dict[str, int], *cores: float, link: float = math.inf, latency_s: float = 0.0
) -> dict[str, Site]:
    """Tasks by the number of their host; a host has so many cores (the last figure is that of all further ones)."""
    numbers = range(max(placement.values()) + 1)
    of = [Site(f"host:{n}", (cores or (math.inf,))[min(n, max(len(cores) - 1, 0))], link, latency_s) for n in numbers]
    return {task: of[number] for task, number in placement.items()}


class Lab:
    """Machines, what happens to them, and when things end."""

    def __init__(self, sites: dict[str, Site], *changes: Change, routes: tuple[str, ...] = ()) -> None:
        self.clock = new_clock()
        self.machines = ModelledMachines(self.clock, sites, routes)
        self.ended: dict[Any, float] = {}
        for t, *change in changes:
            self.clock.at(t, PLAN, self.machines.change, *change)

    def at(self, t: float, act: Callable[..., object], *args: object) -> None:
        self.clock.at(t, PLAN, act, *args)

    def then(self, name: object) -> Callable[[], None]:
        return lambda: self.ended.update({name: self.clock.now})

    def work(self, t: float, task: str, core_seconds: float) -> None:
        self.clock.at(t, PLAN, lambda: self.machines.work(task, core_seconds, self.then(task)))

    def send(
        self,
        t: float,
        source: str,
        target: str,
        num_bytes: int = 4 * MB,
        latency_s: float = 0.0,
        carry: Carry = FREE,
    ) -> None:
        worker = source if source.startswith("worker") else target
        path = (source, target)
        about = (worker, path, num_bytes, latency_s, self.then(path), carry)
        self.clock.at(t, PLAN, lambda: self.machines.send(*about))

    def run(self) -> dict[Any, float]:
        while self.clock.next_s < math.inf:
            self.clock.step()
        return self.ended


def approx(ended: dict[Any, float]) -> Any:
    return pytest.approx(ended, rel=1e-12)


# ---- where tasks are ------------------------------------------------------------------------------------------------

FIELDS = {"count": 3, "cpu_cores": 4.0, "real_cores_per_core": 0.1, "link_mbps": 1000, "latency_ms": 2.0}


def test_hosts_are_sites_in_real_cores_and_payload() -> None:
    sites = sites_of(parse_hosts({**FIELDS, "overrides": {1: {"cpu_cores": None}}}, 3, 1), Costs(), 3, 1)
    assert sites["server:0"] is sites["worker:2"]
    assert sites["worker:0"] == Site("host:0", 0.4, GIGABIT * PAYLOAD_FRAC, 0.002)
    assert sites["worker:1"].cores == math.inf
    assert list(sites) == ["server:0", "worker:0", "worker:1", "worker:2"]


def test_hosts_without_a_limit_have_the_links_of_the_cost_model() -> None:
    hosts = parse_hosts({**FIELDS, "link_mbps": None}, 1, 1)
    assert sites_of(hosts, Costs(), 1, 1)["worker:0"].link_bytes_per_s == math.inf
    assert sites_of(hosts, Costs(link_bytes_per_s=1e6), 1, 1)["worker:0"].link_bytes_per_s == 1e6


def test_without_hosts_everybody_has_a_machine() -> None:
    sites = sites_of(None, Costs(link_bytes_per_s=1e6), 2, 1)
    assert sites == {task: Site(task, math.inf, 1e6, 0.0) for task in ("server:0", "worker:0", "worker:1")}


REAL = "schema: 1\nvalues: {compute_base_s: 0.1}\n"


def test_the_runtime_knows_its_hosts(tmp_path: Path) -> None:
    """An iteration of 0.1 core-seconds on 0.4 cores takes 0.25 s, unless a device says how long it takes."""
    (tmp_path / "real.yaml").write_text(REAL)
    costs = str(tmp_path / "real.yaml")
    runtime = VirtualRuntime(cluster=cluster_of(num_workers=2, costs=costs, hosts=FIELDS))
    assert (runtime.num_hosts, runtime.base_iter_s(8)) == (3, pytest.approx(0.25))
    described = runtime.machine(RunContext(num_servers=1))["hosts"]
    assert [list(host["tasks"]) for host in described] == [["worker:0"], ["worker:1"], ["server:0"]]
    assert (
        VirtualRuntime(
            cluster=cluster_of(num_workers=2, costs=costs, hosts=FIELDS, device={"base_s": 0.5})
        ).base_iter_s(8)
        == 0.5
    )
    assert VirtualRuntime(cluster=cluster_of(num_workers=2, costs=costs, hosts={"count": 1})).base_iter_s(8) == 0.1
    nominal = cluster_of(num_workers=2, costs=costs, hosts=FIELDS, nominal_iter_s=0.06)
    assert VirtualRuntime(cluster=nominal).base_iter_s(8) == 0.06, "as live: one plan for both"
    plain = VirtualRuntime(cluster=cluster_of(num_workers=2, costs=costs))
    assert (plain.num_hosts, plain.base_iter_s(8), plain.machine(RunContext())) == (0, 0.1, {})


@pytest.mark.parametrize(
    ("fields", "base_s"),
    [
        ({"device": {"base_s": 0.5}}, 0.5),
        ({"device": {"base_s": 0.125}}, 0.125),  # less than this processor needs
        ({"hosts": {**FIELDS, "device": {"base_s": 0.5}}}, 0.5),
        ({"hosts": {**FIELDS, "device": {"per_sample_s": 0.25}}, "device": {"base_s": 0.125}}, 2.0),
        ({"nominal_iter_s": 0.06, "hosts": {**FIELDS, "device": {"base_s": 0.5}}}, 0.5),
        ({"nominal_iter_s": 0.06}, 0.06),
    ],
)
def test_delays_in_iterations_are_as_long_live_as_on_the_clock(
    fields: dict[str, Any], base_s: float, tmp_path: Path
) -> None:
    (tmp_path / "real.yaml").write_text(REAL)
    cluster = cluster_of(**{"num_workers": 2, "costs": str(tmp_path / "real.yaml"), "hosts": FIELDS, **fields})
    assert VirtualRuntime(cluster=cluster).base_iter_s(8) == base_s
    assert LiveRuntime(cluster=cluster).base_iter_s(8) == base_s


# ---- processors -----------------------------------------------------------------------------------------------------

ALONE = {"worker:0": 0}
PAIR = {"worker:0": 0, "worker:1": 0}


@pytest.mark.parametrize(
    ("cores", "changes", "seconds"),
    [
        (1.0, [], 1.0),
        (math.inf, [], 1.0),  # one thread
        (4.0, [], 1.0),
        (0.4, [], 2.5),
        (1.0, [("worker:0", 0.25)], 4.0),
        (math.inf, [("worker:0", 0.25)], 4.0),
        (0.4, [("worker:0", 0.25)], 10.0),  # of its own allotment, 0.4 cores
        (4.0, [("worker:0", 0.25)], 4.0),
        (0.4, [("host:0", 0.5)], 5.0),
        (4.0, [("host:0", 0.5)], 1.0),  # two cores are left for one thread
        (0.4, [("host:0", 0.5), ("worker:0", 0.25)], 10.0),  # 0.2 cores for both, of which it may use 0.1
        (0.4, [("host:0", 0.1), ("worker:0", 0.25)], 25.0),
    ],
)
def test_a_core_second_takes(cores: float, changes: list[tuple[str, float]], seconds: float) -> None:
    lab = Lab(on_hosts(ALONE, cores), *((0.0, target, "cpu", level) for target, level in changes))
    lab.work(0.0, "worker:0", 1.0)
    assert lab.run() == approx({"worker:0": seconds})


def test_two_tasks_on_a_host_contend() -> None:
    """1 and 3 core-seconds on one core: half each until 2 s, the rest alone until 4 s; on another host nobody cares."""
    lab = Lab(on_hosts({**PAIR, "worker:2": 1}, 1.0))
    for number, amount in enumerate((1.0, 3.0, 3.0)):
        lab.work(0.0, f"worker:{number}", amount)
    assert lab.run() == approx({"worker:0": 2.0, "worker:2": 3.0, "worker:1": 4.0})


def test_what_one_may_not_use_the_other_gets() -> None:
    """Of one core a quarter, and three quarters; then the one that is left has its quarter still."""
    lab = Lab(on_hosts(PAIR, 1.0), (0.0, "worker:0", "cpu", 0.25))
    lab.work(0.0, "worker:0", 0.5)
    lab.work(0.0, "worker:1", 0.75)
    assert lab.run() == approx({"worker:1": 1.0, "worker:0": 2.0})


@pytest.mark.parametrize(
    ("window", "end_s"),
    [
        ((0.5, 9.0), 2.5),  # half of it is done; the other half takes 2 s
        ((0.5, 1.5), 1.75),  # a quarter of a core-second until it closes, and the last quarter at full speed
        ((1.0, 2.0), 1.0),
    ],
)
@pytest.mark.parametrize("target", ["worker:0", "host:0"])
def test_a_window_changes_what_is_under_way(window: tuple[float, float], end_s: float, target: str) -> None:
    changes: list[Change] = [(window[0], target, "cpu", 0.25), (window[1], target, "cpu", 1.0)]
    lab = Lab(on_hosts(ALONE, 1.0), *changes)
    lab.work(0.0, "worker:0", 1.0)
    assert lab.run() == approx({"worker:0": end_s})


FOUR = {**{f"worker:{number}": number for number in range(4)}, "server:0": 4, "server:1": 5}


def push(worker: int, server: int = 0) -> tuple[str, str]:
    return f"worker:{worker}", f"server:{server}"


# ---- links ----------------------------------------------------------------------------------------------------------


def test_four_megabytes_at_a_gigabit() -> None:
    """Alone 32 ms; four at once share the server's link: 128 ms."""
    for number, seconds in ((1, 0.032), (4, 0.128)):
        lab = Lab(on_hosts(FOUR, link=GIGABIT))
        for worker in range(number):
            lab.send(1.0, *push(worker))
        assert lab.run() == approx({push(worker): 1.0 + seconds for worker in range(number)})


def test_headers_take_their_part_of_the_link() -> None:
    """A host's gigabit is on the wire."""
    lab = Lab(sites_of(parse_hosts({"count": 2, "link_mbps": 1000}, 1, 1), Costs(), 1, 1))
    lab.send(0.0, *push(0))
    assert lab.run() == approx({push(0): 0.032 * WIRE})


def test_slow_uplinks_leave_the_rest_to_the_others() -> None:
    """Uplinks of 20, 100, 100 into a link of 100: 20, 40, 40."""
    rates = {"worker:0": 20.0, "worker:1": 100.0, "worker:2": 100.0, "server:0": 100.0}
    sites = {task: Site(f"host:{number}", link_bytes_per_s=rate) for number, (task, rate) in enumerate(rates.items())}
    lab = Lab(sites)
    for worker, num_bytes in enumerate((20, 40, 40)):
        lab.send(0.0, *push(worker), num_bytes)
    assert lab.run() == approx({push(worker): 1.0 for worker in range(3)})


def test_the_two_directions_do_not_share() -> None:
    lab = Lab(on_hosts(FOUR, link=GIGABIT))
    lab.send(0.0, *push(0))
    lab.send(0.0, *reversed(push(0)))
    assert lab.run() == approx({push(0): 0.032, push(0)[::-1]: 0.032})


def test_tasks_of_a_host_share_its_link_and_need_none_among_themselves() -> None:
    """Two workers of host 0 push through one uplink; the server of host 0 hears its own worker at once."""
    lab = Lab(on_hosts({"worker:0": 0, "worker:1": 0, "server:0": 0, "server:1": 1}, link=GIGABIT, latency_s=1.0))
    lab.send(0.0, *push(0, 1))
    lab.send(0.0, *push(1, 1))
    lab.send(0.0, *push(1, 0), latency_s=0.5)
    assert lab.run() == approx({push(1, 0): 0.5, push(0, 1): 2.064, push(1, 1): 2.064})


def test_latencies_of_both_hosts_and_of_the_message_add_up() -> None:
    lab = Lab(on_hosts(FOUR, link=GIGABIT, latency_s=0.25))
    lab.send(0.0, *push(0), latency_s=0.5)
    assert lab.run() == approx({push(0): 0.032 + 1.0})


def test_a_narrow_link_is_narrow_both_ways_and_at_once() -> None:
    """From 16 ms to 48 ms a quarter is left: 3 MB of 4 MB have gone at 48 ms, in either direction."""
    changes: list[Change] = [(0.016, "link:0", "bandwidth", 0.25), (0.048, "link:0", "bandwidth", 1.0)]
    lab = Lab(on_hosts(FOUR, link=GIGABIT), *changes)
    for path in (push(0), push(0)[::-1], push(1, 1)):
        lab.send(0.0, *path)
    assert lab.run() == approx({push(0): 0.056, push(0)[::-1]: 0.056, push(1, 1): 0.032})


def test_a_cut_link_carries_nothing_until_it_is_restored() -> None:
    """It keeps its rate meanwhile: the levels of both kinds hold."""
    changes: list[Change] = [
        (0.016, "link:0", "cut", 1.0),
        (0.5, "link:0", "bandwidth", 0.5),
        (1.016, "link:0", "cut", 0.0),
    ]
    lab = Lab(on_hosts(FOUR, link=GIGABIT), *changes)
    lab.send(0.0, *push(0))
    lab.send(0.0, *push(1, 1))
    lab.send(0.5, *push(0)[::-1], 1)
    assert lab.run() == approx({push(1, 1): 0.032, push(0)[::-1]: 1.016 + 2 / GIGABIT, push(0): 1.048})


def test_a_narrow_route_is_narrow_for_its_two_ends_only() -> None:
    """A quarter of the sender's rate from host 0 to host 4; not back, and not to host 5."""
    lab = Lab(on_hosts(FOUR, link=GIGABIT), (0.0, "link:0>4", "bandwidth", 0.25), routes=("link:0>4",))
    for path in (push(0), push(0)[::-1], push(1)):
        lab.send(0.0, *path)
    assert lab.run() == approx({push(0)[::-1]: 0.032, push(1): 4 * MB / (0.75 * GIGABIT), push(0): 0.128})


# ---- pauses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["worker:0", "host:0"])
def test_who_stands_still_does_nothing(target: str) -> None:
    """From 0.5 to 2.5: work and a message wait for it, an order waits, and who sleeps until 1.0 wakes up at 2.5."""
    sites = on_hosts({"worker:0": 0, "worker:1": 1, "server:0": 2}, 1.0, link=4.0 * MB)
    lab = Lab(sites, (0.5, target, "pause", 1.0), (2.5, target, "pause", 0.0))
    lab.work(0.0, "worker:0", 1.0)
    lab.send(0.0, *push(0))
    lab.work(0.0, "worker:1", 1.0)
    lab.at(0.0, lab.machines.sleep, "worker:0", 1.0, lab.then("asleep"))
    lab.at(0.0, lab.machines.sleep, "worker:0", 3.0, lab.then("long asleep"))
    lab.at(1.5, lab.machines.awake, "worker:0", lab.then("ordered"))
    assert lab.run() == approx(
        {"worker:1": 1.0, "asleep": 2.5, "ordered": 2.5, "long asleep": 3.0, push(0): 3.0, "worker:0": 3.0}
    )
    assert list(lab.ended)[1:3] == ["asleep", "ordered"]


def test_what_a_dead_process_waited_for_does_not_happen_when_its_successor_continues() -> None:
    lab = Lab(on_hosts(FOUR), (0.5, "worker:0", "pause", 1.0), (2.5, "worker:0", "pause", 0.0))
    lab.at(1.0, lab.machines.awake, "worker:0", lab.then("ordered"))
    lab.at(1.5, lab.machines.forget, "worker:0")
    lab.at(2.0, lab.machines.awake, "worker:0", lab.then("its successor"))
    assert lab.run() == approx({"its successor": 2.5})


def test_a_message_to_who_stands_still_waits_too() -> None:
    """1 MB of each is through when it does; the other message then has the uplink to itself."""
    lab = Lab(on_hosts(FOUR, link=GIGABIT), (0.016, "server:0", "pause", 1.0), (1.016, "server:0", "pause", 0.0))
    lab.send(0.0, *push(0))
    lab.send(0.0, *push(0, 1), 2 * MB)
    assert lab.run() == approx({push(0, 1): 0.024, push(0): 1.016 + 3 * MB / GIGABIT})


def test_whoever_has_two_reasons_stands_still_until_the_last_is_gone() -> None:
    changes: list[Change] = [
        (1.0, "host:0", "pause", 1.0),
        (2.0, "worker:0", "pause", 1.0),
        (3.0, "host:0", "pause", 0.0),
        (4.0, "worker:0", "pause", 0.0),
    ]
    lab = Lab(on_hosts(PAIR, 2.0), *changes)
    for task in PAIR:
        lab.work(0.0, task, 2.0)
    assert lab.run() == approx({"worker:1": 4.0, "worker:0": 5.0})


def test_changes_say_who_stands_still_from_now_on() -> None:
    machines = ModelledMachines(new_clock(), on_hosts(PAIR, 1.0))
    assert machines.change("worker:1", "pause", 1.0) == ["worker:1"]
    assert machines.change("host:0", "pause", 1.0) == ["worker:0"]
    assert machines.change("worker:1", "pause", 0.0) == []
    assert machines.change("host:0", "pause", 0.0) == []
    assert machines.paused_since_s == {}


def test_who_is_stopped_as_its_work_ends_goes_on_later() -> None:
    lab = Lab(on_hosts(ALONE, 1.0), (1.0, "worker:0", "pause", 1.0), (2.0, "worker:0", "pause", 0.0))
    lab.work(0.0, "worker:0", 1.0)
    assert lab.run() == approx({"worker:0": 2.0})


def test_a_quota_that_changes_meanwhile_holds_afterwards() -> None:
    """Paused from 1 s to 2 s, and at half its quota from 1.5 s on."""
    changes: list[Change] = [
        (1.0, "worker:0", "pause", 1.0),
        (1.5, "worker:0", "cpu", 0.5),
        (2.0, "worker:0", "pause", 0.0),
    ]
    lab = Lab(on_hosts(ALONE, 1.0), *changes)
    lab.work(0.0, "worker:0", 2.0)
    assert lab.run() == approx({"worker:0": 4.0})


# ---- the lost -------------------------------------------------------------------------------------------------------


def test_what_the_lost_were_doing_never_ends() -> None:
    """0.45 core-seconds and 0.9 MB of each are done when one is lost; the other has core and link to itself then."""
    lab = Lab(on_hosts({**PAIR, "server:0": 1}, 1.0, link=2.0 * MB, latency_s=1.0), (0.9, "worker:0", "pause", 1.0))
    for worker in range(2):
        lab.work(0.0, f"worker:{worker}", 1.0)
        lab.send(0.0, *push(worker), 3 * MB)
    lab.send(0.0, "server:0", "worker:0", 1)
    lab.at(0.0, lab.machines.sleep, "worker:0", 5.0, lab.then("asleep"))
    lab.at(0.95, lab.machines.awake, "worker:0", lab.then("ordered"))
    lab.at(0.9, lambda: lab.machines.forget("worker:0"))
    lab.at(7.0, lab.machines.change, "worker:0", "pause", 0.0)
    assert lab.run() == approx({"worker:1": 0.9 + 0.55, push(1): 0.9 + 2.1 / 2 + 2.0, "ordered": 7.0})


def test_the_next_incarnation_stands_still_like_the_one_before() -> None:
    lab = Lab(on_hosts(ALONE, 1.0), (1.0, "worker:0", "pause", 1.0), (3.0, "worker:0", "pause", 0.0))
    lab.at(2.0, lab.machines.forget, "worker:0")
    lab.work(2.0, "worker:0", 1.0)
    assert lab.run() == approx({"worker:0": 4.0})


def test_machines_act_before_the_coordinator_hears_of_anything() -> None:
    """Work ends at 1 s, when a message is there, too."""
    clock, seen = new_clock(), list[str]()
    cores = Sharing(clock, {"cores": 1.0})
    clock.at(1.0, MESSAGE, seen.append, "message")
    cores.start("work", 1.0, ("cores",), lambda: seen.append("work"))
    while clock.next_s < math.inf:
        clock.step()
    assert seen == ["work", "message"]
