"""AntDT-ND: Wang et al., ICDE 2024, sections VI-A and VII-A5: its decisions, and stragglers of each kind."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from injectors.plan import Disturbance, Kind, build_plan
from runtime.cluster.hosts import parse_hosts
from runtime.core import inputs
from runtime.core.scheduling import ConstantPending
from runtime.virtual.costs import Costs
from strategies.antdt.antdt_nd import AntDTND
from strategies.antdt.detector import slow
from strategies.basic.bsp import BSP
from strategies.protocol import Apply, Arrived, Compute, Drop, Joined, Restart, Restored, Started
from tests.contract.catalogue import MODES, make, scenario
from tests.paper.test_antdt_nd_equal_work import SHIPPED
from tests.support.faults import Crash, Outage
from tests.support.harness import HeapRun, Seconds, make_job, samples_of
from tests.support.laws import Complaints
from tests.support.virtual_runs import VirtualRun, World

LAPTOP: dict[str, Any] = {
    "short_window_s": 60.0,
    "long_window_s": 120.0,
    "decide_every_s": 30.0,
    "report_iters": 2,
    "min_records": 3,
    "cooldown_s": 120.0,
    "max_pending_s": 60.0,
}
"""Windows for iterations of about a second."""
PUBLISHED = AntDTND(**LAPTOP, judge="published", times="bpt")
"""The paper's rule and no more; ``test_antdt_nd_equal_work.py`` is about the rest."""


def played(seconds: Seconds | list[float], strategy: Any = None, **options: Any) -> HeapRun:
    """A job of 4 workers with a batch of 256 for 400 s."""
    changes = {name: options.pop(name) for name in ("num_servers", "epochs", "num_samples") if name in options}
    job = make_job(
        global_batch_samples=256, batches_per_shard=10, max_time_s=options.pop("max_time_s", 400.0), **changes
    )
    return HeapRun(strategy or AntDTND(**LAPTOP), job, seconds, **options).run()


def linear(*bpt_s: float) -> Seconds:
    """Workers that need so many seconds for 64 samples: duration is linear in the batch (section VI-A, figure 8)."""
    return lambda worker, order: bpt_s[worker] * samples_of(order) / 64


def delayed(*sleep_s: float, cured: bool = True) -> Seconds:
    """A second for 64 samples, and a sleep that a restart leaves behind (section VII-A4), or not."""
    return lambda worker, order: samples_of(order) / 64 + (0.0 if cured and order.incarnation else sleep_s[worker])


def decisions(run: HeapRun) -> list[tuple[float, str]]:
    """When the words of a decision changed."""
    words = [(line.event.t, line.state["decided"]) for line in run.lines if line.state]
    return [now for before, now in pairwise(words) if now[1] != before[1]]


def rounds(run: HeapRun) -> list[tuple[float, dict[int, int]]]:
    """Sizes of every round by worker: what is ordered at the start, after a restore, and together with an update."""
    found = []
    for line in run.lines:
        sizes = {command.worker: command.num_samples for command in line.commands if isinstance(command, Compute)}
        update = any(isinstance(command, Apply) for command in line.commands)
        if sizes and (update or isinstance(line.event, Started | Restored)):
            found.append((line.event.t, sizes))
    return found


def unbalanced(run: HeapRun) -> Complaints:
    """Rounds whose sizes do not sum to the global batch."""
    wanted = run.job.global_batch_samples
    return [f"t={t:g}: {sizes}" for t, sizes in rounds(run) if sum(sizes.values()) != wanted]


def changes(run: HeapRun) -> list[tuple[float, list[int]]]:
    """When sizes changed, and to what."""
    seen = [(t, list(sizes.values())) for t, sizes in rounds(run)]
    return seen[:1] + [now for before, now in pairwise(seen) if now[1] != before[1]]


def restarts(run: HeapRun) -> list[tuple[float, str]]:
    return [(t, node) for t, node, _ in run.restarts]


@pytest.mark.parametrize("ratio", [1.3, 1.5])
def test_the_bound_on_slowness_against_each_other_worker(ratio: float) -> None:
    """Section VI-A: slow are those whose time is at least lambda times the average over all workers, themselves among
    them: of n workers one is found that is lambda (n - 1) / (n - lambda) times as slow as each of the others."""
    for num_workers in (2, 3, 8, 30):
        bound = ratio * (num_workers - 1) / (num_workers - ratio)
        others = dict.fromkeys(range(1, num_workers), 1.0)
        assert slow({0: bound + 1e-3, **others}, ratio) == [0]
        assert slow({0: bound - 1e-3, **others}, ratio) == []


def test_a_transient_straggler_gets_the_batch_that_it_finishes_in_time() -> None:
    """Section VI-A, Eq. 3. Batch processing times 1.0, 1.1, 0.9 and 2.5 s of 64 samples each: mean 1.375 s, bound
    2.0625 s, so worker 3 is a straggler; throughputs 64, 58.18, 71.11 and 25.6 samples/s; min max B_i / v_i (Eq. 3)
    of 256 samples gives 75, 68, 83 and 30, from one round to the next, and times of 1.167 to 1.172 s."""
    run = played(linear(1.0, 1.1, 0.9, 2.5), max_time_s=100.0)
    assert [sizes for _, sizes in changes(run)] == [[64] * 4, [75, 68, 83, 30]]
    assert decisions(run)[1][1] == "ADJUST_BS: slow worker:3"
    times = [event.timings.compute_s for event in run.received(Arrived)[-4:]]
    assert (min(times), max(times)) == pytest.approx((1.167, 1.172), abs=5e-4)
    assert unbalanced(run) == []


def test_equal_workers_are_bsp() -> None:
    """Section VI-A: the dummy action None if no straggler is detected. What remains is BSP, order for order."""
    nd, bsp = played([1.0] * 4), played([1.0] * 4, BSP(data="shared"))
    assert {words for _, words in decisions(nd)} == {"NONE"}
    assert [c for c in nd.commands if isinstance(c, Compute | Apply | Drop)] == bsp.commands


def test_sizes_are_even_again_when_all_are_equally_fast() -> None:
    """Beyond the paper (``judge=published``): even sizes return after two decisions without a transient straggler, with
    throughputs within 10 %, and stay as long as throughputs differ."""
    bpt_s = linear(1.0, 1.0, 1.0, 4.0)
    run = played(lambda worker, order: bpt_s(worker if order.version < 20 else 0, order), PUBLISHED)
    assert [sizes for _, sizes in changes(run)] == [[64] * 4, [79, 79, 79, 19], [64] * 4]
    assert decisions(run)[-2][1] == "ADJUST_BS to even sizes"
    assert restarts(run) == []
    assert changes(played(bpt_s, PUBLISHED))[-1][1] == [79, 79, 79, 19]


def test_a_persistent_straggler_is_killed_and_its_work_goes_to_the_others() -> None:
    """Section VI-A: KILL_RESTART if slow over the long window. The others take all of the batch at once; the new
    worker enters with B / N = 64, and three decisions later sizes are even."""
    run = played(delayed(0, 3, 0, 0), launch_s=40.0)
    assert restarts(run) == [(120.0, "worker:1")]
    sizes = [(t, by_worker) for t, by_worker in rounds(run)]
    away = [list(by_worker) for t, by_worker in sizes if 121 < t < 160]
    assert away
    assert all(workers == [0, 2, 3] for workers in away)
    back = next(by_worker for t, by_worker in sizes if t >= 160)
    assert back == {0: 64, 1: 64, 2: 64, 3: 64}
    assert sizes[-1][1] == {0: 64, 1: 64, 2: 64, 3: 64}
    assert unbalanced(run) == []


def test_nobody_is_killed_while_the_cluster_is_busy() -> None:
    """Section VI-A: "... and the cluster is not busy, when the job pending time is acceptable". Sizes are adjusted."""
    busy, idle = (played(delayed(0, 3, 0, 0), scheduler=ConstantPending(pending_s=wait)) for wait in (61.0, 59.0))
    assert (restarts(busy), restarts(idle)) == ([], [(120.0, "worker:1")])
    assert any("pending for 61 s; ADJUST_BS" in words for _, words in decisions(busy))
    assert min(changes(busy)[-1][1]) < 40
    assert next(event.t for event in idle.received(Joined)) == 120.0 + 59.0 + 1.0


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", MODES)
def test_rounds_are_whole_whatever_happens(mode: str) -> None:
    """Sum of sizes = global batch in every round: with crashes, departures, outages and restarts by the strategy."""
    killed = 0
    for seed in range(4):
        hurry = {"short_window_s": 5.0, "long_window_s": 6.0, "decide_every_s": 2.0, "cooldown_s": 4.0}
        counts = {"report_iters": 1, "min_records": 2, "warmup_iters": 0}
        run = scenario(make("antdt_nd", **hurry, **counts), 5, mode, seed).run()
        assert unbalanced(run) == []
        killed += sum(isinstance(command, Restart) for command in run.commands)
    assert killed > 3
    assert unbalanced(played([1.0] * 4, BSP(), faults=[Crash(10.5, 2, None)])), "negative control"


class Serving(HeapRun):
    """Servers tell every half second; ``busy_s[j]`` seconds per update of server j, a tenth of that after a restart."""

    def __init__(self, busy_s: list[float], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.busy_s = list(busy_s)
        self.push(0.5, 2, self.tell)

    def tell(self, t: float) -> None:
        for server, busy_s in enumerate(self.busy_s):
            self.core.receive(
                t, inputs.ServerBusy(server, self.core.version, updates=4, busy_s=4 * busy_s, injected_s=0.0)
            )
        self.push(t + 0.5, 2, self.tell)

    def server_is_lost(self, t: float, news: inputs.ServerLost) -> None:
        self.busy_s[news.server] /= 10
        super().server_is_lost(t, news)


def serving(busy_s: list[float], seconds: Any = (1.0,) * 4, **settings: Any) -> Serving:
    job = make_job(num_servers=len(busy_s), global_batch_samples=256, batches_per_shard=10, max_time_s=200.0)
    run = Serving(busy_s, AntDTND(**{**LAPTOP, **settings}), job, seconds)
    run.run()
    return run


def test_a_persistent_server_is_restarted_before_workers() -> None:
    """Section VI-A: servers likewise by their own times, over the long window; of 3 one must be twice as slow.
    Section VI-A lists servers first. The worker's turn comes when its window is mature again: the pause does not
    count as its time. Departure from section VI-A: ``min_update_s``."""
    run = serving([0.1, 0.1, 0.21])
    assert restarts(run) == [(120.0, "server:2")]
    assert [event.version for event in run.received(Restored)] == [run.checkpoints[0][0]]
    assert restarts(serving([0.1, 0.1, 0.19])) == []
    assert restarts(serving([0.1])) == []
    run = serving([0.01, 0.01, 0.1], delayed(0, 3, 0, 0))
    assert [node for _, node in restarts(run)] == ["server:2", "worker:1"]
    assert restarts(run)[0][0] == 120.0
    assert unbalanced(run) == []
    assert restarts(serving([0.001, 0.001, 0.01])) == [(120.0, "server:2")]
    assert restarts(serving([0.001, 0.001, 0.01], min_update_s=0.02)) == []


def test_decisions_continue_after_an_outage() -> None:
    """Section VII-A5: one decision per period. Timers that fire while the job is paused are void; afterwards exactly
    one timer is set."""
    for down_s in (5.0, 100.0):
        run = played(delayed(0, 3, 0, 0), AntDTND(**LAPTOP), faults=[Outage(25.0, down_s)], max_time_s=600.0)
        assert [node for _, node in restarts(run)] == ["worker:1"]
        timers = [command.at_s for line in run.lines for command in line.commands if hasattr(command, "at_s")]
        late = [at_s for at_s in timers if at_s > 25 + down_s + 31]
        assert {round(after - before, 6) for before, after in pairwise(late)} == {30.0}


HOSTS: dict[str, Any] = {
    "count": 8,
    "cpu_cores": 1.0,
    "real_cores_per_core": 1.0,
    "link_mbps": 100.0,
    "latency_ms": 0.0,
    "placement": "spread",
}


def killed(target: str, kind: Kind, magnitude: float, every_s: float = 1e9, **settings: Any) -> str | None:
    """The first node that is restarted, of 4 workers and 2 servers; windows are open for 3/4 of ``every_s``."""
    job = make_job(
        num_servers=2,
        global_batch_samples=128,
        num_samples=25_000,
        max_time_s=60.0,
        metric="mean_uses",
        batches_per_shard=4,
    )
    times = [start * every_s for start in range(int(60 / every_s) + 1)]
    windows = [
        Disturbance(start_s=t, end_s=t + 0.75 * every_s, target=target, kind=kind, magnitude=magnitude) for t in times
    ]
    world = World(
        job=job,
        costs=Costs(compute_base_s=0.02, compute_per_sample_s=0.00125, update_base_s=0.001, link_bytes_per_s=None),
        profile=None,
        transport="tcp",
        plan=build_plan("one", 0, 60.0, windows),
        accidents=(),
        hosts=parse_hosts(HOSTS, 4, 2),
    )
    run = VirtualRun(world, AntDTND(**SHIPPED, **settings))
    assert not run.refused
    return next((c["node"] for line in run.lines for c in line.get("commands", ()) if c["type"] == "Restart"), None)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("target", "kind", "magnitude", "every_s", "settings", "node"),
    [
        ("worker:1", "cpu", 0.2, 1e9, {}, "worker:1"),
        ("link:1", "bandwidth", 0.02, 1e9, {}, "worker:1"),
        ("worker:1", "pause", 1.0, 0.2, {}, "worker:1"),
        ("server:1", "delay", 0.1, 1e9, {}, "server:1"),
        ("link:1", "bandwidth", 0.02, 1e9, {"times": "bpt"}, None),
        ("worker:1", "delay", 1e-6, 1e9, {}, None),
    ],
)
def test_a_straggler_of_each_kind_is_detected(
    target: str, kind: Kind, magnitude: float, every_s: float, settings: dict[str, str], node: str | None
) -> None:
    """Sections III and VII-A4: stragglers by processor, link, pause and server; the paper's T_i^w, computing alone,
    does not see a link, and nobody is restarted where none is slow."""
    assert killed(target, kind, magnitude, every_s, **settings) == node
