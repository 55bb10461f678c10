"""DLRover's rules for a running job: the paper's numbers, and the formulas of sections 4.2 and 5.4 on drawn jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import ceil, isqrt
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from strategies.dlrover import adjust as rules_of
from strategies.dlrover.adjust import Finding, Growth, JobNow, Rules, adjust
from strategies.dlrover.plan import Limits
from strategies.dlrover.used import after_server_oom
from strategies.parts.scaling.changes import AddWorkers, Replace, Resize
from strategies.parts.scaling.usage import Given
from strategies.protocol import NodeId
from tests.support.brain import GIB, PAPER, given, in_words, job, observed, using

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


def done(case: Case, update_cores: float, **about: Any) -> tuple[str, ...]:
    """The rule and its changes in words; nothing if no rule applies."""
    finding = found(case, update_cores, **about)
    return () if finding is None else (finding.rule, *map(in_words, finding.changes))


def servers(*values: float, first: int = 0) -> dict[NodeId, float]:
    """Of each server, from this one on."""
    return {NodeId.server(number): value for number, value in enumerate(values, start=first)}


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


def test_idle_servers_of_xdeepfm_get_two_more_workers() -> None:
    """Section 4.2: "adding more 2 workers" to 8 with 27.4 of 32 cores used: ceil(32 / (27.4 / 8)) = 10. Their memory is
    "from the observation on the actual used memory of running workers", and a fifth more."""
    idle = found(XDEEPFM, 3.1, iterations=395_500, memory={NodeId.worker(3): 5 * GIB})
    assert idle is not None
    assert idle.rule == "idle servers"
    assert idle.changes == (AddWorkers(count=2, cores=20, memory_bytes=6 * GIB, low_priority=2),), (
        "192 of 200 are taken"
    )
    assert idle.update_cores == pytest.approx(3.425)
    assert idle.numbers["util"] == pytest.approx(0.856, abs=5e-4)


BUSY = job((8, 20, 18.3), (16, [15.0, 15.0, 15.0, 15.0]))
"""Nothing idles, and 8 * 7.5 cores for four servers of 16: no server needs more than it has."""
UNEVEN = job((8, 20, 18.3), (16, [15.9, 9.0, 9.0, 9.0]))
WAITING = job((24, 3, 0.8), (16, [4.0] * 8))
LOADED = job((24, 3, 2.3), (16, [11.2] + [7.0] * 7))
BUSIER = servers(0.7, *[0.4] * 7)
HANGS: dict[str, Any] = {"idle_s": {NodeId.worker(0): 700.0}}
SLOW: dict[str, Any] = {"busy_frac": {NodeId.server(1): 0.9}}
GROWN = Growth(workers=4, server_cores_used=26.0)
RULES: dict[str, tuple[Case, float, dict[str, Any], tuple[str, ...]]] = {
    "4.2, hot: nine tenths": (
        *(WIDE_AND_DEEP, 5.7, {"changed": servers(14.4, EVEN, first=1), "iterations": 400}),
        ("hot server", "server:1: 25"),
    ),
    "4.2 and 5.4, below it: its load above the others' still counts": (
        *(WIDE_AND_DEEP, 5.7, {"changed": servers(14.3, EVEN, first=1), "iterations": 400}),
        ("loaded server", "server:1: 25"),
    ),
    "idle: less than nine tenths": (
        XDEEPFM,
        1.0,
        {"changed": servers(14.39, 14.39)},
        ("idle servers", "1 more, 1 low"),
    ),
    "idle: nine tenths are not": (XDEEPFM, 1.0, {"changed": servers(14.4, 14.4)}, ()),
    "4.2, of low priority once its quota is exhausted: 88 free cores take four workers of 20": (
        *(job((4, 20, 18.3), (16, [10.0, 10.0])), 5.0, {}),
        ("idle servers", "3 more, 0 low"),
    ),
    "departure: twice as many workers, 5 % more work, are the last": (XDEEPFM, 3.1, {"growth": GROWN}, ()),
    "or they did more": (
        *(XDEEPFM, 3.1, {"growth": Growth(workers=4, server_cores_used=22.0)}),
        ("idle servers", "2 more, 2 low"),
    ),
    "departure: who waits for a slow server wants no workers": (
        *(WAITING, 5.7, {"busy_frac": servers(1.0, *[0.25] * 7)}),
        ("slow server", "server:0: 16 elsewhere"),
    ),
    "taken in the paper's order it would want 72": (WAITING, 5.7, {}, ("idle servers", "72 more, 72 low")),
    # taken as slow, it kept the job from growing: 0.47 of all server cores were in use, and no rule applied
    "4.2 and 5.4: more load is no slow machine, and with cores to spare keeps nobody waiting": (
        *(LOADED, 2.5, {"busy_frac": BUSIER}),
        ("idle servers", "28 more, 28 low"),
    ),
    "without more load it is its machine": (
        *(LOADED, 2.5, {"busy_frac": BUSIER, "changed": servers(7.0)}),
        ("slow server", "server:0: 16 elsewhere"),
    ),
    '5.4: a slow worker is left alone, it "would dispatch fewer data shards to this worker"': (
        *(BUSY, 7.5, {"changed": {NodeId.worker(0): 4.6}, "idle_s": {NodeId.worker(0): 599.0}}),
        (),
    ),
    "a worker that hangs is not waited for": (
        *(BUSY, 7.5, {"idle_s": {NodeId.worker(0): 600.0, NodeId.worker(1): 599.0}}),
        ("hanging worker", "worker:0: none"),
    ),
    "slow: .6 is 1.5 times the mean of .4": (
        *(BUSY, 7.5, {"busy_frac": servers(0.6, *[1 / 3] * 3)}),
        ("slow server", "server:0: 16 elsewhere"),
    ),
    "before the first update nothing is known": (
        *(BUSY, 7.5, {"changed": servers(*[0.0] * 4), "busy_frac": servers(*[0.0] * 4)}),
        (),
    ),
    # a job in which each rule applies once those before it do not
    "third, workers that hang": (
        *(UNEVEN, 7.5, {"hot_util": 1.0} | SLOW | HANGS),
        ("hanging worker", "worker:0: none"),
    ),
}
"""By section; what has none is beyond the paper: the job, cores of its updates, what else is known, what is done."""


@pytest.mark.parametrize("row", RULES)
def test_what_is_done(row: str) -> None:
    """Sections 4.2 and 5.4."""
    case, update_cores, about, expected = RULES[row]
    assert done(case, update_cores, **about) == expected


@pytest.mark.parametrize(("iterations", "count"), [(100, 2), (99, 1), (81, 1), (80, None), (64, None), (None, 2)])
def test_no_more_than_the_square_root_of_the_iterations(iterations: int | None, count: int | None) -> None:
    """Section 4.2: min(s_total / s_hat, sqrt K) - N_w."""
    idle = found(XDEEPFM, 3.1, iterations=iterations)
    assert (None if idle is None else idle.numbers["wanted_workers"] - 8) == count


def test_only_the_last_three_observations_make_a_server_hot() -> None:
    """Beyond the paper: how long a server has to be hot is open."""
    nodes, cores = WIDE_AND_DEEP
    calm = using({**cores, **servers(EVEN, EVEN, first=1)})
    usage = observed(nodes, calm, times=2)
    for _ in range(3):
        usage.observe(nodes, using(cores))
    now = JobNow(usage=usage, update_cores=5.7, limits=PAPER)
    assert rules_of.hot_server(now, Rules()) is not None
    usage.observe(nodes, calm)
    assert rules_of.hot_server(now, Rules()) is None


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


def by_the_text(
    workers: int, used: list[float], busy: list[float], update_cores: float, iterations: int | None
) -> tuple[str, Any] | None:
    """Sections 4.2 and 5.4 for servers of 16 cores, as formulas, with the guards that the card names."""
    servers, total = range(len(used)), sum(used)
    needs = [min(ceil(own / total * update_cores * workers), 32) for own in used]
    hot = [server for server in servers if used[server] >= 0.9 * 16]
    loaded = [server for server in servers if used[server] > 1.2 * total / len(used)]
    slow = [server for server in servers if busy[server] >= 1.5 * sum(busy) / len(busy) and server not in loaded]
    if larger := [(server, needs[server]) for server in hot if needs[server] > 16]:
        return "hot server", larger
    if total < 0.9 * 16 * len(used) and not hot and not slow:
        wanted = ceil(16 * len(used) / (total / workers))
        if (wanted := wanted if iterations is None else min(wanted, isqrt(iterations))) > workers:
            return "idle servers", wanted - workers
    if larger := [(server, needs[server]) for server in loaded if needs[server] > 16]:
        return "loaded server", larger
    return ("slow server", slow) if slow else None


@hypothesis.settings(max_examples=100)
@hypothesis.given(
    workers=st.integers(1, 30),
    use=st.floats(0.3, 1.0),
    shapes=st.lists(
        st.tuples(st.sampled_from([1.0, 1.0, 1.07, 1.33, 0.71]), st.sampled_from([1.0, 1.0, 4.3])),
        min_size=1,
        max_size=8,
    ),
    update_cores=st.floats(0.21, 7.9),
    iterations=st.sampled_from([None, 150, 400, 10_000]),
)
def test_what_is_done_is_what_the_text_says(
    workers: int, use: float, shapes: list[tuple[float, float]], update_cores: float, iterations: int | None
) -> None:
    """Sections 4.2 and 5.4, on drawn jobs."""
    used, busy = [min(15.97, 16 * use * load) for load, _ in shapes], [0.21 * slowness for _, slowness in shapes]
    expected = by_the_text(workers, used, busy, update_cores, iterations)
    busy_frac = {NodeId.server(server): own for server, own in enumerate(busy)}
    nodes, cores = job((workers, 3, 2.5), (16, used))
    usage = observed(nodes, using(cores, busy_frac=busy_frac))
    finding = adjust(JobNow(usage=usage, update_cores=update_cores, limits=PAPER, iterations=iterations), Rules())
    if finding is None or expected is None:
        assert (finding, expected) == (None, None)
        return
    replaced = [change for change in finding.changes if isinstance(change, Replace)]
    ours: Any = [(one.node.number, one.cores) for one in replaced]
    if finding.rule == "slow server":
        ours = [one.node.number for one in replaced]
    if finding.rule == "idle servers":
        ours = sum(change.count for change in finding.changes if isinstance(change, AddWorkers))
    assert (finding.rule, ours) == expected
