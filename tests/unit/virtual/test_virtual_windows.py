"""Whole jobs under a plan that disturbs what is under way, by worked numbers: throttled, cut off, stopped, killed."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.cluster.device import DeviceProfile
from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.virtual.clock import MACHINE
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.model_state import NoModelState
from strategies.basic.asp import ASP
from strategies.basic.backup_workers import BackupWorkers
from strategies.basic.bsp import BSP
from strategies.protocol import Strategy
from tests.support.harness import make_run_spec
from tests.support.invariants import problems
from tests.support.labs import run_alone
from tests.support.restarting import Restarting
from tests.unit.virtual.test_virtual_session import (
    IDEAL,
    QUARTER,
    RESTART,
    Strike,
    Tape,
    ledger,
    unregister,
    uses,
    virtual_job,
)

pytestmark = pytest.mark.usefixtures("even_quotas")
QUARTER_WORK = Costs(compute_base_s=0.25)
FOREVER = 1e4
PLACES = [["worker:0", "worker:1"], ["worker:2", "worker:3", "server:0"], ["server:1"]]
"""Tasks of three hosts."""


def planned(*windows: tuple[str, str, float, float, float]) -> Schedule:
    """Of (kind, target, start_s, end_s, magnitude)."""
    disturbances = [
        Disturbance(kind=kind, target=target, start_s=start_s, end_s=end_s, magnitude=magnitude)  # type: ignore[arg-type]
        for kind, target, start_s, end_s, magnitude in windows
    ]
    return Schedule(build_plan("test", 0, FOREVER, disturbances))


def hosts_of(num_workers: int = 4, num_servers: int = 2, **fields: Any) -> Hosts:
    return parse_hosts({"count": 3, "placement": PLACES, **fields}, num_workers, num_servers)


class Job:
    """One epoch of rounds of four workers, and what it left."""

    def __init__(
        self,
        *windows: tuple[str, str, float, float, float],
        strategy: Strategy | None = None,
        costs: Costs = IDEAL,
        device: DeviceProfile | None = QUARTER,
        rounds: int = 16,
        num_bytes: int = 0,
        hosts: Hosts | None = None,
        lease_s: float = math.inf,
        strikes: tuple[tuple[float, Strike], ...] = (),
        **changes: Any,
    ) -> None:
        strategy, job = strategy or BSP(), virtual_job(4, 4 * rounds, **{"num_servers": 2, **changes})
        self.tape = Tape()
        without = num_bytes or not job.checkpoint_every_s
        model_state = NoModelState(num_bytes // 4, None) if without else ledger(job, strategy)
        spec = make_run_spec(job, strategy, self.tape)
        about: dict[str, Any] = {"hosts": hosts, "lease_s": lease_s}
        self.session = VirtualSession(spec, planned(*windows), model_state, costs, device, **about)
        for at_s, hit in strikes:
            self.session.clock.at(at_s, MACHINE, hit, self.session)
        self.outcome: Outcome = run_alone(self.session)
        assert (self.outcome.status, problems(self.tape.plain())) == ("done", [])

    @property
    def t(self) -> float:
        return self.outcome.t

    def times(self, kind: str, **about: Any) -> list[float]:
        """Of events or notes of one type, those with the given fields."""
        lines = [(line["t"], line.get("event") or line["note"]) for line in self.tape.plain()]
        return [t for t, received in lines if received["type"] == kind and about.items() <= received.items()]


# ---- processors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "later_s"),
    [((0.0, 4.0), 3.0), ((0.125, 0.375), 0.1875), ((0.25, 0.5), 0.1875), ((0.25, 1.25), 0.75), ((4.0, 9.0), 0.0)],
)
def test_rounds_take_as_long_as_the_throttled_worker(window: tuple[float, float], later_s: float) -> None:
    """A quarter is left of its core, also in the middle of an iteration: while it lasts, 3/4 of the time is lost."""
    throttled = Job(("cpu", "worker:1", *window, 0.25), costs=QUARTER_WORK, device=None)
    assert throttled.t == pytest.approx(4.0 + later_s)


@pytest.mark.parametrize(
    ("window", "later_s"),
    [((0.0, 4.0), 3.0), ((0.125, 0.375), 0.1875), ((0.25, 1.25), 0.75), ((4.0, 9.0), 0.0)],
)
@pytest.mark.parametrize(("costs", "device"), [(QUARTER_WORK, None), (IDEAL, QUARTER)])
def test_rounds_take_as_long_as_the_worker_whose_gpu_is_shared(
    window: tuple[float, float], later_s: float, costs: Costs, device: DeviceProfile | None
) -> None:
    """As with a quarter of a core, for a measured time of computing and for an emulated device."""
    assert Job(("gpu", "worker:1", *window, 0.25), costs=costs, device=device).t == pytest.approx(4.0 + later_s)


def test_other_work_on_a_gpu_slows_computing_alone() -> None:
    """An iteration loads for 1/8 s and computes for 1/8 s, of which a quarter is left: 1/8 + 1/2."""
    costs = Costs(data_base_s=0.125, compute_base_s=0.125)
    assert Job(("gpu", "worker:1", 0.0, FOREVER, 0.25), costs=costs, device=None).t == pytest.approx(16 * 0.625)
    assert Job(("cpu", "worker:1", 0.0, FOREVER, 0.25), costs=costs, device=None).t == pytest.approx(16 * 1.0)


def test_a_processor_and_a_gpu_that_are_shared_do_not_add_up() -> None:
    """An eighth is left of the device, a quarter of the processor: computing uses both at once."""
    both = (("gpu", "worker:1", 0.0, FOREVER, 0.125), ("cpu", "worker:1", 0.0, FOREVER, 0.25))
    assert Job(*both, costs=QUARTER_WORK, device=None).t == pytest.approx(16 * 2.0)


def test_windows_on_hosts_reach_all_gpus_there() -> None:
    hosts = hosts_of(cpu_cores=None)
    job = Job(
        ("gpu", "host:0", 0.0, FOREVER, 0.5), costs=QUARTER_WORK, device=None, hosts=hosts, strategy=ASP(data="even")
    )
    assert [job.times("Arrived")[:6]] == [[0.25, 0.25, 0.5, 0.5, 0.5, 0.5]]
    assert Job(("gpu", "host:0", 0.0, 2.0, 0.5), costs=QUARTER_WORK, device=None, hosts=hosts).t == pytest.approx(5.0)


@pytest.mark.parametrize(("host", "before_s", "after_s"), [("host:0", 0.5, 0.25), ("host:2", 0.25, 0.5)])
def test_who_starts_on_another_host_leaves_what_is_on_the_gpus_there(
    host: str, before_s: float, after_s: float
) -> None:
    """Worker 0 goes from host 0 to host 2 at 1.1 s; half of the GPUs of one of them is taken until 3 s."""
    job = Job(
        ("gpu", host, 0.0, 3.0, 0.5),
        costs=QUARTER_WORK,
        device=None,
        hosts=hosts_of(cpu_cores=None),
        strategy=Restarting(rule="asp", orders=("worker:0@1.1",)),
        rounds=24,
    )
    mine = [event for event in job.tape.received("Arrived") if event["grad"]["worker"] == 0]
    for begin_s, end_s, took_s in ((0.0, 1.1, before_s), (1.1, 3.0, after_s), (3.6, 9.0, 0.25)):
        found = [event["timings"]["compute_s"] for event in mine if begin_s < event["t"] <= end_s]
        assert len(found) > 1
        assert found == pytest.approx([took_s] * len(found))


def test_hosts_divide_their_cores() -> None:
    """Two workers of 1/4 core-second on 0.4 cores: 1.25 s; if one may use a quarter of those, 0.1 cores: 2.5 s."""
    hosts = hosts_of(cpu_cores=4.0, real_cores_per_core=0.1)
    assert Job(costs=QUARTER_WORK, device=None, hosts=hosts).t == pytest.approx(16 * 1.25)
    throttled = Job(("cpu", "worker:1", 0.0, FOREVER, 0.25), costs=QUARTER_WORK, device=None, hosts=hosts)
    assert throttled.t == pytest.approx(16 * 2.5)
    both = Job(("cpu", "host:1", 0.0, FOREVER, 0.5), costs=QUARTER_WORK, device=None, hosts=hosts)
    assert both.t == pytest.approx(16 * 2.5)


def test_an_update_contends_with_the_workers_of_its_host() -> None:
    """ASP on one core: two workers have half of it; from 0.25 on the server, updating twice (1/8 each), has a third.

    So all three are through with 1/8 at 0.625, and the server takes the gradients after its second update, at 0.75.
    """
    costs = msgspec.structs.replace(QUARTER_WORK, update_base_s=0.125)
    alone = Job(costs=costs, device=None, strategy=ASP(data="even"), hosts=hosts_of(cpu_cores=None))
    shared = Job(costs=costs, device=None, strategy=ASP(data="even"), hosts=hosts_of(overrides={1: {"cpu_cores": 1.0}}))
    assert alone.times("Arrived")[:4] == [0.25] * 4
    assert shared.times("Arrived")[:4] == pytest.approx([0.25, 0.25, 0.75, 0.75])


def test_a_worker_whose_host_has_a_device_is_paced_by_it() -> None:
    hosts = hosts_of(overrides={0: {"device": {"base_s": 1.0}}})
    assert Job(hosts=hosts).t == pytest.approx(16.0)
    assert Job(hosts=hosts_of()).t == pytest.approx(4.0)


# ---- links ----------------------------------------------------------------------------------------------------------

MB = 1_000_000
PAYLOAD_MB_S = 125 * 1448 / 1514
"""Of a gigabit."""


def test_a_round_on_hosts_takes_what_the_links_say() -> None:
    """4 MB each way in two halves: host 1 sends its half to host 0 and host 2 all of its own, each for four workers.

    Host 0's two workers need 8 MB down and up; host 2's server 8 MB up and down; host 1 sends 4 MB to host 0 and
    receives 4 MB from host 2 for its own workers. All of that goes at once, so hosts 0 and 2 are busy for 8 MB each.
    """
    job = Job(hosts=hosts_of(link_mbps=1000), num_bytes=4 * MB, rounds=4)
    assert job.t == pytest.approx(4 * (0.25 + 2 * 8 / PAYLOAD_MB_S))


def test_a_narrow_link_holds_everybody_up() -> None:
    """A tenth of host 2's: 8 MB take ten times as long, while it lasts; host 0 waits with the others (BSP)."""
    job = Job(("bandwidth", "link:2", 0.0, FOREVER, 0.1), hosts=hosts_of(link_mbps=1000), num_bytes=4 * MB, rounds=4)
    assert job.t == pytest.approx(4 * (0.25 + 2 * 80 / PAYLOAD_MB_S))


def test_a_narrow_route_is_one_way() -> None:
    """From host 2 to host 0 a tenth of its rate for 4 MB: 40 MB's worth for the parameters; gradients as ever."""
    job = Job(("bandwidth", "link:2>0", 0.0, FOREVER, 0.1), hosts=hosts_of(link_mbps=1000), num_bytes=4 * MB, rounds=4)
    assert job.t == pytest.approx(4 * (0.25 + (40 + 8) / PAYLOAD_MB_S))


def test_a_cut_link_stops_transfers_and_nothing_else() -> None:
    """Cut while it computes: no matter. Cut while it pushes: so much later."""
    calm = Job(hosts=hosts_of(link_mbps=1000), num_bytes=4 * MB, rounds=4)
    pulled_s = 8 / PAYLOAD_MB_S
    computing = ("cut", "link:0", pulled_s + 0.01, pulled_s + 0.24, 1.0)
    assert Job(computing, hosts=hosts_of(link_mbps=1000), num_bytes=4 * MB, rounds=4).t == pytest.approx(calm.t)
    pushing = ("cut", "link:0", pulled_s + 0.26, pulled_s + 1.26, 1.0)
    assert Job(pushing, hosts=hosts_of(link_mbps=1000), num_bytes=4 * MB, rounds=4).t == pytest.approx(calm.t + 1.0)


# ---- pauses ---------------------------------------------------------------------------------------------------------


def test_who_stands_still_is_waited_for() -> None:
    """Asleep until 0.5, stopped from 0.375 to 1.375: the second round ends then, and all others are undisturbed."""
    assert Job(("pause", "worker:0", 0.375, 1.375, 1.0)).t == 4.0 + 0.875
    assert Job(("pause", "host:1", 0.375, 1.375, 1.0), hosts=hosts_of()).t == 4.0 + 0.875
    assert Job(("pause", "worker:0", 0.375, 0.4375, 1.0)).t == 4.0, "its device would not have been ready anyway"


def test_a_server_that_stands_still_delivers_late() -> None:
    assert Job(("pause", "server:1", 0.125, 1.25, 1.0)).t == 4.0 + 1.0


CHECKPOINTS = {"checkpoint_every_s": 1.0, "epochs": 3, "rounds": 8}
"""32 samples through 3 epochs, with the ledger of their uses; 90 ms to read a checkpoint."""
LEASE = Costs(pending_s=1.0, launch_s=0.5, control_s=0.01)


def test_who_stands_still_for_longer_than_the_lease_is_fenced() -> None:
    """At 3.0; its next incarnation, due at 4.5, is paused as well until the window closes, and starts then."""
    job = Job(("pause", "worker:2", 1.0, 9.0, 1.0), costs=LEASE, lease_s=2.0)
    assert job.times("Fenced", role="worker", id=2, incarnation=0) == job.times("Exited") == job.times("Lost") == [3.0]
    assert job.times("Joined", worker=2, incarnation=1) == [pytest.approx(9.0 + 0.5 + 0.01)]


def test_the_next_incarnation_starts_as_ever_where_the_window_has_closed() -> None:
    job = Job(("pause", "worker:2", 1.0, 4.0, 1.0), costs=LEASE, lease_s=2.0)
    assert job.times("Joined") == [pytest.approx(3.0 + 1.5 + 0.01)]


@pytest.mark.parametrize("target", ["worker:2", "server:1", "host:1"])
def test_nobody_is_fenced_who_goes_on_in_time(target: str) -> None:
    """As long as the lease is not longer than it; and three pauses in a row are not one."""
    windows = [("pause", target, start_s, start_s + 2.0, 1.0) for start_s in (1.0, 4.0)]
    windows += [("pause", target, 3.0625, 3.9375, 1.0)]
    job = Job(*windows, costs=LEASE, lease_s=2.0, hosts=hosts_of())
    assert job.times("Fenced") == []
    assert job.times("Exited") == []


def test_a_server_that_stands_still_for_longer_than_the_lease_takes_everybody_back() -> None:
    """Lost at 4.3; it is paused until 7.3, starts, reads its part (90 ms) and reports this. And again."""
    windows = [("pause", "server:1", start_s, start_s + 5.0, 1.0) for start_s in (2.3, 8.3)]
    job = Job(*windows, costs=RESTART, lease_s=2.0, **CHECKPOINTS)
    lost = [pytest.approx(4.3), pytest.approx(10.3)]
    assert job.times("Fenced", role="server", id=1) == job.times("ServerLost") == lost
    assert job.times("Restored") == [pytest.approx(end_s + 0.5 + 0.09 + 0.01) for end_s in (7.3, 13.3)]
    assert uses(job.session) == {3.0}


def test_who_is_lost_before_the_coordinator_hears_of_its_silence_is_lost_once() -> None:
    """An accident at 2.99, when the coordinator is busy until 3.0 or later; the lease ends at 3.0."""
    costs = Costs(decision_s=0.5, launch_s=0.25)
    strikes = ((2.99, unregister("worker:0")),)
    window = ("pause", "worker:0", 1.0, 4.0, 1.0)
    job = Job(window, costs=costs, strategy=ASP(data="even"), rounds=8, lease_s=2.0, strikes=strikes)
    assert job.times("Fenced") == []
    assert len(job.times("Lost", worker=0)) == 1


def test_a_second_loss_of_who_waits_to_start_starts_it_once() -> None:
    """Fenced at 3.0, killed from 5.0 to 5.5 in addition, and paused until 6.0."""
    windows = [("pause", "worker:2", 1.0, 6.0, 1.0), ("kill", "worker:2", 5.0, 5.5, 1.0)]
    job = Job(*windows, costs=LEASE, lease_s=2.0)
    assert job.times("Exited") == [3.0, 5.0]
    assert job.times("Joined") == [pytest.approx(6.0 + 0.5 + 0.01)]
    assert job.session.coordinator.members.members[2].incarnation == 2


# ---- killed ---------------------------------------------------------------------------------------------------------

BACK_S = 0.5 + 0.01
"""Launch and report, from the end of the window on; the pending time of the cost model is not that of the plan."""


def test_the_killed_come_back_when_the_plan_schedules_them() -> None:
    job = Job(("kill", "worker:2", 1.6, 4.6, 1.0), costs=RESTART, **CHECKPOINTS)
    assert job.times("Lost", worker=2, incarnation=0, restarting=True) == [1.6]
    assert job.times("Exited", role="worker", id=2, reason="killed by the plan") == [1.6]
    assert job.times("Joined", worker=2, incarnation=1) == [pytest.approx(4.6 + BACK_S)]
    assert uses(job.session) == {3.0}


def test_a_killed_server_comes_back_when_the_plan_schedules_it() -> None:
    job = Job(("kill", "server:0", 2.3, 4.6, 1.0), costs=RESTART, **CHECKPOINTS)
    assert job.times("ServerLost", server=0) == [2.3]
    assert job.times("Restored") == [pytest.approx(4.6 + BACK_S + 0.09)]
    assert uses(job.session) == {3.0}


def test_the_last_server_decides_when_all_go_on() -> None:
    """Whoever was lost last need not be it."""
    windows = [("kill", "server:0", 2.3, 9.0, 1.0), ("kill", "server:1", 3.0, 4.0, 1.0)]
    job = Job(*windows, costs=RESTART, **CHECKPOINTS)
    assert job.times("Restored") == [pytest.approx(9.0 + BACK_S + 0.09)]
    reverse = [("kill", "server:0", 2.3, 4.0, 1.0), ("kill", "server:1", 3.0, 9.0, 1.0)]
    assert Job(*reverse, costs=RESTART, **CHECKPOINTS).times("Restored") == [pytest.approx(9.0 + BACK_S + 0.09)]


def test_what_servers_were_ordered_before_the_loss_is_nobodys_business_after_it() -> None:
    """Updates of a second each, in a queue: the first gradient after it is there when it is computed."""
    costs = Costs(update_base_s=1.0, launch_s=0.5)
    window = ("kill", "server:0", 1.125, 2.0, 1.0)
    job = Job(
        window,
        costs=costs,
        strategy=ASP(data="even"),
        hosts=hosts_of(),
        rounds=4,
        checkpoint_every_s=100.0,
        num_bytes=64,
    )
    assert job.times("Restored") == [2.5]
    assert min(t for t in job.times("Arrived") if t > 2.5) == 2.75


def test_with_a_host_all_its_tasks_die() -> None:
    job = Job(("kill", "host:1", 2.3, 4.0, 1.0), costs=RESTART, hosts=hosts_of(), **CHECKPOINTS)
    assert job.times("Exited") == [2.3] * 3
    assert {(line["role"], line["id"]) for _, line in job.tape.noted("Exited")} == {
        ("server", 0),
        ("worker", 2),
        ("worker", 3),
    }
    assert job.times("Restored") == [pytest.approx(4.0 + BACK_S + 0.09)]
    assert uses(job.session) == {3.0}


@pytest.mark.parametrize(
    ("own", "back_s"), [((2.0, 3.0), 4.0), ((2.0, 6.0), 6.0), ((4.0, 6.0), 6.0), ((0.5, 1.0), 4.0)]
)
def test_windows_of_a_task_and_of_its_host_are_one_where_they_touch(own: tuple[float, float], back_s: float) -> None:
    """Host 0 is down from 1 s to 4 s."""
    windows = [("kill", "host:0", 1.0, 4.0, 1.0), ("kill", "worker:0", *own, 1.0)]
    job = Job(*windows, costs=RESTART, hosts=hosts_of(), **CHECKPOINTS)
    assert job.times("Exited", id=0) == [min(1.0, own[0])]
    assert job.times("Joined", worker=0) == [pytest.approx(back_s + BACK_S)]
    assert job.times("Joined", worker=1) == [pytest.approx(4.0 + BACK_S)]


def test_who_is_killed_while_it_starts_starts_again() -> None:
    """Back would be at 2.11; killed again at 2.0."""
    windows = [("kill", "worker:0", 1.0, 1.6, 1.0), ("kill", "worker:0", 2.0, 3.0, 1.0)]
    job = Job(*windows, costs=RESTART, **CHECKPOINTS)
    assert job.times("Exited", id=0) == [1.0, 2.0]
    assert job.times("Joined") == [pytest.approx(3.0 + BACK_S)]


def test_an_accident_meanwhile_does_not_bring_it_back_earlier() -> None:
    window = ("kill", "worker:0", 1.0, 9.0, 1.0)
    job = Job(window, costs=RESTART, strikes=((2.0, unregister("worker:0")),), **CHECKPOINTS)
    assert job.times("Joined", worker=0) == [pytest.approx(9.0 + BACK_S)]
    window = ("kill", "server:0", 1.0, 9.0, 1.0)
    job = Job(window, costs=RESTART, strikes=((2.0, unregister("server:0", "server:1")),), **CHECKPOINTS)
    assert job.times("Restored") == [pytest.approx(9.0 + BACK_S + 0.09)]


def test_who_has_left_for_good_is_not_scheduled_again() -> None:
    strikes = ((0.5, unregister("worker:0", restarting=False)),)
    job = Job(("kill", "worker:0", 1.0, 2.0, 1.0), costs=RESTART, strikes=strikes, **CHECKPOINTS)
    assert job.times("Joined") == []
    assert job.times("Exited") == [0.5]


def test_the_killed_stand_still_where_their_host_does() -> None:
    """Scheduled at 2.0 on a host that is paused until 5.0: it starts then."""
    windows = [("kill", "worker:0", 1.0, 2.0, 1.0), ("pause", "host:0", 1.5, 5.0, 1.0)]
    job = Job(*windows, costs=RESTART, hosts=hosts_of(), **CHECKPOINTS)
    assert job.times("Joined") == [pytest.approx(5.0 + BACK_S)]


def test_a_killed_worker_leaves_its_links_and_cores_to_the_others() -> None:
    """Two workers of a host share 0.4 cores: 1.25 s each; from 0.625 on one has them to itself: 0.3125 s."""
    hosts = hosts_of(cpu_cores=4.0, real_cores_per_core=0.1)
    window = ("kill", "worker:0", 0.625, 50.0, 1.0)
    job = Job(window, costs=QUARTER_WORK, device=None, strategy=ASP(data="even"), hosts=hosts, rounds=8)
    arrived = [(line["t"], line["event"]["grad"]["worker"]) for line in job.tape.plain() if "timings" in str(line)]
    assert next(t for t, worker in arrived if worker == 1) == pytest.approx(0.625 + 0.3125)


def test_a_coordinator_that_is_busy_hears_of_it_when_it_is_free() -> None:
    """In the order in which it happened, though the window has closed by then."""
    costs = Costs(decision_s=0.5, launch_s=0.25)
    job = Job(("kill", "worker:0", 0.125, 0.25, 1.0), costs=costs, strategy=ASP(data="even"), rounds=4)
    assert job.times("Lost", worker=0) == [0.5]
    assert job.times("Joined", worker=0)[0] >= 1.0 + 0.25


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "strategy", [BSP(), ASP(data="even"), BackupWorkers(num_backup=1)], ids=["bsp", "asp", "backup"]
)
@pytest.mark.parametrize("costs", [RESTART, Costs(decision_s=0.04, control_s=0.01, update_base_s=0.1)], ids=["a", "b"])
def test_whatever_is_killed_every_sample_counts_once(strategy: Strategy, costs: Costs) -> None:
    for start_s in (0.0, 0.3, 0.55, 0.8, 1.0, 1.35):
        windows = [
            ("kill", "host:1", start_s, start_s + 0.4, 1.0),
            ("kill", "worker:2", start_s + 0.2, start_s + 0.7, 1.0),
            ("kill", "server:1", start_s + 0.6, start_s + 0.9, 1.0),
            ("pause", "host:0", start_s + 0.1, start_s + 1.5, 1.0),
            ("cut", "link:2", start_s, start_s + 0.3, 1.0),
        ]
        job = Job(*windows, costs=costs, strategy=strategy, hosts=hosts_of(link_mbps=1), lease_s=1.0, **CHECKPOINTS)
        assert uses(job.session) == {3.0}, start_s


# ---- the same again -------------------------------------------------------------------------------------------------


def test_the_same_plan_gives_the_same_bytes() -> None:
    windows = [
        ("cpu", "host:0", 0.2, 1.7, 0.3),
        ("bandwidth", "link:1", 0.4, 2.0, 0.2),
        ("bandwidth", "link:0>2", 0.1, 1.0, 0.5),
        ("cut", "link:2", 0.5, 0.9, 1.0),
        ("pause", "worker:1", 0.6, 1.1, 1.0),
        ("kill", "host:1", 1.2, 1.6, 1.0),
        ("delay", "worker:0", 0.0, 5.0, 0.1),
    ]
    costs = Costs(compute_base_s=0.1, jitter_sigma=0.3, jitter_rho=0.5, launch_s=0.2, update_base_s=0.01)
    hosts = hosts_of(cpu_cores=4.0, real_cores_per_core=0.1, link_mbps=1, latency_ms=3)
    jobs = [
        Job(*windows, costs=costs, device=None, strategy=ASP(data="even"), hosts=hosts, **CHECKPOINTS) for _ in range(2)
    ]
    first, again = (msgspec.json.encode(job.tape.lines) for job in jobs)
    assert first == again
    noted = [note["active"] for _, note in jobs[0].tape.noted("Injecting")]
    assert len(noted) > 10
