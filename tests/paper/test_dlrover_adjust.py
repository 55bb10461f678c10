"""DLRover's rules for a running job against the paper's own numbers: sections 4.2 (adjust) and 5.4, figure 6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from strategies.dlrover import adjust as rules_of
from strategies.dlrover.adjust import Finding, Growth, JobNow, Rules, adjust
from strategies.dlrover.plan import Limits
from strategies.dlrover.used import after_server_oom
from strategies.parts.scaling.changes import AddWorkers, Replace, Resize, StopWaiting
from strategies.parts.scaling.usage import Given
from strategies.protocol import NodeId
from tests.support.brain import GIB, PAPER, given, job, observed, using

EVEN = (85.1 - 2 * 14.9) / 6
"""Of Wide & Deep's 85.1 server cores two servers use 14.9 each (figure 6), the others this."""
WIDE_AND_DEEP = job((24, 3, 2.3), (16, [EVEN, 14.9, 14.9, EVEN, EVEN, EVEN, EVEN, EVEN]))
XDEEPFM = job((8, 20, 18.3), (16, [13.7, 13.7]))
"""Table 1, rows "optimize": 27.4 of 32 server cores."""

Case = tuple[Mapping[NodeId, Given], Mapping[NodeId, float]]


def found(
    case: Case, update_cores: float, changed: Mapping[NodeId, float] | None = None, **about: Any
) -> Finding | None:
    """What is found for this job, where some nodes use other cores."""
    nodes, cores = case
    settings = {name: about.pop(name) for name in {field.name for field in fields(Rules)} & about.keys()}
    uses = using(
        {**cores, **(changed or {})}, busy_frac=about.pop("busy_frac", {}), memory_bytes=about.pop("memory", {})
    )
    now = JobNow(usage=observed(nodes, uses), update_cores=update_cores, limits=PAPER, **about)
    return adjust(now, Rules(**settings))


# ---- hot servers ---------------------------------------------------------------------------------------------------


def test_hot_servers_of_wide_and_deep_get_24_cores() -> None:
    """Section 4.2: "we replace PS-2 and PS-3 with pods with 24 CPU cores": 14.9 / 85.1 * 5.7 * 24 = 23.95."""
    hot = found(WIDE_AND_DEEP, 5.7)
    assert hot is not None
    assert hot.rule == "hot server"
    assert hot.changes == tuple(
        Replace(node=node, cores=24, memory_bytes=8 * GIB) for node in (NodeId.server(1), NodeId.server(2))
    )
    assert hot.numbers["server:1 needed"] == pytest.approx(23.95, abs=0.005)
    assert hot.numbers["over_total"] == 16, "the paper's own replacement exceeds its 200 cores"


@pytest.mark.parametrize(("used", "rule"), [(14.4, "hot server"), (14.3, "loaded server")])
def test_hot_begins_at_nine_tenths(used: float, rule: str) -> None:
    """Section 4.2: "exceeds a predefined threshold like 0.9"; below, its load above the others' still counts (5.4)."""
    one = found(WIDE_AND_DEEP, 5.7, {NodeId.server(1): used, NodeId.server(2): EVEN}, iterations=400)
    assert one is not None
    assert one.rule == rule
    assert [change.node for change in one.changes if isinstance(change, Replace)] == [NodeId.server(1)]


def test_only_the_last_three_observations_make_a_server_hot() -> None:
    """Beyond the paper: how long a server has to be hot is open."""
    nodes, cores = WIDE_AND_DEEP
    calm = using({**cores, NodeId.server(1): EVEN, NodeId.server(2): EVEN})
    usage = observed(nodes, calm, times=2)
    for _ in range(3):
        usage.observe(nodes, using(cores))
    now = JobNow(usage=usage, update_cores=5.7, limits=PAPER)
    assert rules_of.hot_server(now, Rules()) is not None
    usage.observe(nodes, calm)
    assert rules_of.hot_server(now, Rules()) is None


# ---- idle servers --------------------------------------------------------------------------------------------------


def test_idle_servers_of_xdeepfm_get_two_more_workers() -> None:
    """Section 4.2: "adding more 2 workers" to 8 with 27.4 of 32 cores used: ceil(32 / (27.4 / 8)) = 10."""
    idle = found(XDEEPFM, 3.1, iterations=395_500)
    assert idle is not None
    assert idle.rule == "idle servers"
    (more,) = idle.changes
    assert isinstance(more, AddWorkers)
    assert (more.count, more.cores, more.low_priority) == (2, 20, 2), "192 of 200 cores are taken: both are above"
    assert idle.update_cores == pytest.approx(3.425)
    assert idle.numbers["util"] == pytest.approx(0.856, abs=5e-4)


def test_what_fits_into_the_total_is_of_normal_priority() -> None:
    """Section 4.2: workers are of low priority once the job "exhausted its CPU quota"."""
    idle = found(job((4, 20, 18.3), (16, [10.0, 10.0])), 5.0)
    assert idle is not None
    (more,) = idle.changes
    assert isinstance(more, AddWorkers)
    assert (more.count, more.low_priority) == (3, 0), "88 free cores take four workers of 20"


@pytest.mark.parametrize(("iterations", "count"), [(100, 2), (99, 1), (81, 1), (80, None), (64, None), (None, 2)])
def test_no_more_than_the_square_root_of_the_iterations(iterations: int | None, count: int | None) -> None:
    """Section 4.2: min(s_total / s_hat, sqrt K) - N_w."""
    idle = found(XDEEPFM, 3.1, iterations=iterations)
    assert (None if idle is None else idle.numbers["wanted_workers"] - 8) == count


@pytest.mark.parametrize(("each", "idle"), [(14.39, True), (14.4, False)])
def test_idle_begins_below_nine_tenths(each: float, idle: bool) -> None:
    """Beyond the paper: "sometimes" idle has no number; its own case is 27.4 of 32."""
    now = found(XDEEPFM, 1.0, {NodeId.server(0): each, NodeId.server(1): each})
    assert (now is not None) == idle


def test_new_workers_get_the_most_memory_that_one_has_used_and_a_fifth() -> None:
    """Section 4.2: memory "from the observation on the actual used memory of running workers"."""
    idle = found(XDEEPFM, 3.1, memory={NodeId.worker(3): 5 * GIB})
    assert idle is not None
    assert [change.memory_bytes for change in idle.changes if isinstance(change, AddWorkers)] == [6 * GIB]


def test_workers_that_did_not_help_are_the_last() -> None:
    """Departure: the bare rule would continue to sqrt(K) workers, however little each adds."""
    grown = Growth(workers=4, server_cores_used=26.0)
    assert found(XDEEPFM, 3.1, growth=grown) is None, "twice as many workers, 5 % more"
    assert found(XDEEPFM, 3.1, growth=grown, min_gain=0.0) is not None
    assert found(XDEEPFM, 3.1, growth=Growth(workers=4, server_cores_used=22.0)) is not None
    assert found(XDEEPFM, 3.1, growth=Growth(workers=8, server_cores_used=27.4)) is not None, "none was granted"


def test_servers_that_wait_for_a_slow_one_do_not_want_workers() -> None:
    """Departure: idle servers come before a straggling one in the paper; taken so, they would get 72 more workers."""
    nodes, cores = job((24, 3, 0.8), (16, [4.0] * 8))
    slow = {NodeId.server(number): 0.25 for number in range(1, 8)} | {NodeId.server(0): 1.0}
    moved = found((nodes, cores), 5.7, busy_frac=slow)
    assert moved is not None
    assert moved.changes == (Replace(node=NodeId.server(0), cores=16, memory_bytes=8 * GIB, elsewhere=True),)
    bare = found((nodes, cores), 5.7)
    assert bare is not None
    assert [change.count for change in bare.changes if isinstance(change, AddWorkers)] == [72]


def test_a_server_that_is_busy_with_more_load_and_has_cores_to_spare_keeps_nobody_waiting() -> None:
    """Section 4.2: idle cores are for more workers. A server with more load is busy for longer, which does not make its
    machine slow (5.4); if its cores suffice, nothing is wrong. Taken as slow, it kept the job from growing:
    0.47 of all server cores were in use, and no rule applied."""
    nodes, cores = job((24, 3, 2.3), (16, [11.2] + [7.0] * 7))
    busy = {NodeId.server(0): 0.7} | {NodeId.server(number): 0.4 for number in range(1, 8)}
    idle = found((nodes, cores), 2.5, busy_frac=busy)
    assert idle is not None
    assert idle.rule == "idle servers"
    assert [change.count for change in idle.changes if isinstance(change, AddWorkers)] == [28]
    alike = found((nodes, cores), 2.5, {NodeId.server(0): 7.0}, busy_frac=busy)
    assert alike is not None
    assert alike.rule == "slow server", "without more load it is its machine"


# ---- stragglers ----------------------------------------------------------------------------------------------------

BUSY = job((8, 20, 18.3), (16, [15.0, 15.0, 15.0, 15.0]))
"""Nothing idles, and 8 * 7.5 cores for four servers of 16: no server needs more than it has."""


def test_a_straggling_worker_is_left_alone() -> None:
    """Section 5.4: it "would dispatch fewer data shards to this worker"; nothing is done to it."""
    assert found(BUSY, 7.5, {NodeId.worker(0): 4.6}, idle_s={NodeId.worker(0): 599.0}) is None


def test_a_worker_without_progress_is_not_waited_for() -> None:
    """Beyond the paper: a worker that hangs draws no shards and returns none."""
    hanging = found(BUSY, 7.5, idle_s={NodeId.worker(0): 600.0, NodeId.worker(1): 599.0})
    assert hanging is not None
    assert hanging.changes == (StopWaiting(node=NodeId.worker(0)),)


@pytest.mark.parametrize(("busy", "moves"), [(0.6, True), (0.59, False)])
def test_straggling_begins_at_one_and_a_half_times_the_mean(busy: float, moves: bool) -> None:
    """Beyond the paper: of four with .3333 each of the others: .6 is 1.5 times their mean of .4."""
    times = {NodeId.server(0): busy} | {NodeId.server(number): 1 / 3 for number in (1, 2, 3)}
    assert (found(BUSY, 7.5, busy_frac=times) is not None) == moves


def test_servers_that_do_nothing_are_neither_idle_nor_slow() -> None:
    """Beyond the paper: nothing is known before the first update."""
    nothing = {NodeId.server(number): 0.0 for number in range(4)}
    assert found(BUSY, 7.5, nothing, busy_frac=nothing) is None


def test_the_first_match_wins() -> None:
    """Section 4.2, then 5.4: a job in which each rule matches once those before it do not."""
    nodes, cores = job((8, 20, 18.3), (16, [15.9, 9.0, 9.0, 9.0]))
    about: dict[str, Any] = {"idle_s": {NodeId.worker(0): 700.0}}
    slow = {NodeId.server(1): 0.9}
    hot = found((nodes, cores), 7.5, busy_frac=slow, **about)
    hanging = found((nodes, cores), 7.5, busy_frac=slow, hot_util=1.0, **about)
    loaded = found((nodes, cores), 7.5, busy_frac=slow, hot_util=1.0)
    moved = found((nodes, cores), 3.0, busy_frac=slow, hot_util=1.0)
    idle = found((nodes, cores), 3.0, hot_util=1.0, **about)
    rules = [one.rule for one in (hot, idle, hanging, loaded, moved) if one is not None]
    assert rules == ["hot server", "idle servers", "hanging worker", "loaded server", "slow server"]


# ---- out of memory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "change"),
    [
        (7.0, Resize(role="server", count=8, cores=16, memory_bytes=8 * GIB)),
        (3.0, Replace(node=NodeId.server(2), cores=16, memory_bytes=16 * GIB)),
    ],
    ids=["even", "uneven"],
)
def test_later_it_depends_on_how_even_the_servers_are(others: float, change: object) -> None:
    """Beyond the paper: more servers would not relieve one that holds a large tensor: (8 - 4.25) / 8 > .2."""
    nodes = given("worker", 2, 20) | given("server", 4, 16)
    used = {NodeId.server(number): int(others * GIB) for number in (0, 1, 3)}
    assert after_server_oom(NodeId.server(2), nodes, used, False, PAPER) == change
    doubled = after_server_oom(NodeId.server(2), nodes, used, True, PAPER)
    assert isinstance(doubled, Resize)


def test_twice_as_many_servers_share_the_cores_that_there_are() -> None:
    """Beyond the paper: doubled servers may exceed C_total."""
    nodes = given("worker", 2, 12) | given("server", 2, 8)
    assert after_server_oom(
        NodeId.server(0), nodes, {}, True, Limits(cores_total=40, cores_max=16, server_cores=8)
    ) == Resize(role="server", count=4, cores=4, memory_bytes=8 * GIB)
    crowded = given("worker", 3, 12) | given("server", 2, 2)
    assert after_server_oom(
        NodeId.server(0), crowded, {}, True, Limits(cores_total=39, cores_max=16, server_cores=2)
    ) == Replace(node=NodeId.server(0), cores=2, memory_bytes=16 * GIB)
