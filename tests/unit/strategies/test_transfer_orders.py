"""The order of transfers, aggregation and replication: brute force, laws, what fairness means, torch's optimizer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.mlfabric.bandwidths import SERVERS, Bandwidths
from strategies.mlfabric.fluid import Reservations, Slot, Update, fair_finishes, fair_rates, solo_s
from strategies.mlfabric.order import Aggregator, group, plan
from strategies.mlfabric.replicas import Lag, to_replicate
from strategies.parts.sending.subtrees import Tree, build, going_direct, has_moved
from strategies.protocol import Started
from tests.support.examples import examples
from tests.support.reference_fluid import Demand
from tests.unit.virtual.test_fair_rates import unfair

MB = 1e6


def update(
    number: int, version: int = 0, size: float = 100.0, ready_s: float = 0.0, path: Sequence[str] = ()
) -> Update:
    links = tuple(path) or (f"up{number}", "in")
    return Update(id=number, worker=number, version=version, size_bytes=size * MB, ready_s=ready_s, path=links)


def star(*uplinks: float, into: float = 100.0) -> dict[str, float]:
    return {"in": into * MB} | {f"up{number}": rate * MB for number, rate in enumerate(uplinks)}


@st.composite
def cases(draw: st.DrawFn, most: int = 7) -> tuple[list[Update], dict[str, float], int]:
    """Updates of workers with uplinks of their own, versions at most the present one."""
    version = draw(st.integers(0, 12))
    count = draw(st.integers(0, most))
    rates = draw(st.lists(st.integers(5, 200), min_size=count, max_size=count))
    pending = [
        update(
            number,
            version=draw(st.integers(max(0, version - 8), version)),
            size=draw(st.integers(1, 150)),
            ready_s=draw(st.sampled_from([0.0, 0.0, 0.5, 2.25])),
        )
        for number in range(count)
    ]
    return pending, star(*rates), version


@examples(20)
@given(case=cases())
def test_what_is_reserved_fits_on_every_link_and_carries_every_byte(
    case: tuple[list[Update], dict[str, float], int],
) -> None:
    pending, links, version = case
    slots = plan(pending, links, now_s=0.0, version=version, tau_max=9, idle_tolerance_s=math.inf).slots
    assert_lawful(slots, links)


def assert_lawful(slots: Sequence[Slot], links: dict[str, float]) -> None:
    for slot in slots:
        sent = sum((end - start) * rate for start, end, rate in slot.segments)
        assert sent == pytest.approx(slot.update.size_bytes, rel=1e-6)
    ends = sorted({time for slot in slots for start, end, _ in slot.segments for time in (start, end)})
    for name, capacity in links.items():
        users = [segment for slot in slots if name in slot.update.path for segment in slot.segments]
        for before, after in pairwise(ends):
            middle = (before + after) / 2
            assert sum(rate for start, end, rate in users if start <= middle < end) <= capacity * (1 + 1e-6)


@examples(20)
@given(sizes=st.lists(st.integers(1, 300), min_size=1, max_size=5))
def test_on_one_link_no_order_has_a_smaller_mean(sizes: list[int]) -> None:
    """All orders of up to five transfers by brute force; Smith's rule says the same."""
    pending = [update(number, size=size, path=("in",)) for number, size in enumerate(sizes)]
    slots = plan(pending, {"in": 100 * MB}, now_s=0.0, version=0, tau_max=math.inf).slots
    best = min(sum(np.cumsum(order)) for order in permutations(sizes)) / 100
    assert sum(slot.commit_s for slot in slots) == pytest.approx(best)


def test_what_is_under_way_keeps_its_links_and_its_place() -> None:
    first = plan([update(0)], star(25, 100), now_s=0.0, version=3, tau_max=9).slots
    then = plan([update(1)], star(25, 100), now_s=1.0, version=3, tau_max=9, running=first).slots
    assert (first[0].commit_s, first[0].version) == (4.0, 3)
    assert (then[0].version, then[0].start_s, then[0].segments[0][2]) == (4, 1.0, 75 * MB)
    assert then[0].finish_s == pytest.approx(1 + 100 / 75)
    assert then[0].commit_s == 4.0  # in order, though it has arrived


@pytest.mark.parametrize(
    ("pending", "links", "message"),
    [
        ([update(0)], {"in": 1.0}, "update 0: its path has up0, which is not a known link"),
        ([update(0)], {"in": 1.0, "up0": 0.0}, r"link up0: 0.0 bytes/s, must be positive and finite"),
        ([update(0, size=-1.0)], star(1.0), r"update 0: size_bytes=-1000000.0, must be 0 or more"),
        ([update(0), update(0)], star(1.0), "two pending updates have the same id"),
    ],
)
def test_what_cannot_be_planned_is_refused(pending: list[Update], links: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        plan(pending, links, now_s=0.0, version=0, tau_max=4)


@pytest.mark.parametrize("rates", [(0.1, 0.2), (0.1, 0.7)])
def test_a_link_that_is_reserved_to_the_last_is_full(rates: tuple[float, float]) -> None:
    """In floats it has a few 1e-17 left, or less than nothing: nothing can be sent before it is free."""
    capacity = round(sum(rates), 1)
    network = Reservations({"in": capacity}, 0.0)
    for rate in rates:
        network.reserve(("in",), [(0.0, 10.0, rate)])
    assert network.open_s(("in",), 0.0) == 10.0
    assert network.segments(("in",), 5 * capacity, 0.0) == ((10.0, 15.0, capacity),)


Paths = st.lists(
    st.sets(st.sampled_from("abcd"), min_size=1).map(lambda some: tuple(sorted(some))), min_size=1, max_size=5
)


@settings(max_examples=20)
@given(paths=Paths, rates=st.tuples(*[st.integers(1, 20)] * 4))
def test_fair_rates_are_max_min_fair(paths: list[tuple[str, ...]], rates: tuple[int, ...]) -> None:
    """Nobody gets more than a link has, and everybody has the largest rate on a link that is full."""
    links = dict(zip("abcd", map(float, rates), strict=True))
    assert unfair(links, [Demand(path) for path in paths], fair_rates(paths, links)) == []


@examples(20)
@given(case=cases(), solo=st.booleans())
def test_sharing_is_no_faster_than_alone_and_loses_no_capacity(
    case: tuple[list[Update], dict[str, float], int], solo: bool
) -> None:
    pending, links, _ = case
    some = pending[:1] if solo else pending
    ends = fair_finishes(some, links)
    for one, end in zip(some, ends, strict=True):
        assert end >= (one.ready_s + solo_s(one, links)) * (1 - 1e-9)
    if solo and some:
        assert ends[0] == pytest.approx(some[0].ready_s + solo_s(some[0], links))
    if all(one.ready_s == 0 and links[one.path[0]] >= links["in"] for one in some) and some:
        assert max(ends) == pytest.approx(sum(one.size_bytes for one in some) / links["in"])


PLACES = {"server:0": "host:0", "worker:0": "host:0", "worker:1": "host:1", "aggregator:0": "host:1"}


def bandwidths() -> Bandwidths:
    begun = Started(
        t=0.0,
        workers=(0, 1),
        batch_samples=(1, 1),
        num_servers=1,
        places=PLACES,
        links={"host:0": 80.0, "host:1": 40.0},
    )
    return Bandwidths(begun, smoothing=0.5)


def test_transfers_tell_of_uplinks() -> None:
    links = bandwidths()
    links.note_time(1, planned_s=1.0, send_s=2.0)
    assert links.links([1]) == {"host:1": 30.0, SERVERS: 80.0}
    _, of_aggregators = links.aggregators(1)
    assert of_aggregators == {"into host:1": 30.0, "host:1": 30.0}
    # It takes next to no time: as a rate that would be more than any number
    links = bandwidths()
    links.note_time(0, planned_s=1.0, send_s=1e-320)
    assert links.links([0]) == {"host:0": pytest.approx(80.0), SERVERS: 80.0}
    links = bandwidths()
    assert links.links([1, 2]) == {"host:1": 40.0, "worker:2": 60.0, SERVERS: 80.0}
    links.place(2, "host:1")
    assert links.path(2) == links.path(1)
    assert links.links([1, 2]) == {"host:1": 40.0, SERVERS: 80.0}


@st.composite
def orders(draw: st.DrawFn) -> tuple[list[Update], dict[str, float], list[Aggregator]]:
    count = draw(st.integers(0, 8))
    sizes = draw(st.lists(st.integers(1, 100), min_size=count, max_size=count))
    ready = draw(st.lists(st.sampled_from([0.0, 0.0, 1.5, 4.0]), min_size=count, max_size=count))
    aggregators = draw(st.integers(0, 2))
    names = [
        "server",
        *(f"up{k}" for k in range(count)),
        *(f"{way}{k}" for k in range(aggregators) for way in ("in", "out")),
    ]
    links = {name: float(draw(st.integers(5, 100))) for name in names}
    order = [
        Update(id=k, worker=k, version=0, size_bytes=size, ready_s=at, path=(f"up{k}", "server"))
        for k, (size, at) in enumerate(zip(sizes, ready, strict=True))
    ]
    ways = [Aggregator(name=f"a{k}", inward=(f"in{k}",), outward=(f"out{k}", "server")) for k in range(aggregators)]
    return order, links, ways


@examples(20)
@given(case=orders())
def test_groups_keep_the_order_and_nobody_waits_for_an_aggregate(
    case: tuple[list[Update], dict[str, float], list[Aggregator]],
) -> None:
    order, links, ways = case
    found = group(order, links, now_s=0.0, server=("server",), aggregators=ways)
    assert [member.id for one in found for member in one.members] == [one.id for one in order]
    delivered = 0.0
    for one in found:
        assert (one.via is None) == (len(one.members) == 1)
        if one.via is not None:
            assert max(member.ready_s for member in one.members) <= one.gathered_s <= delivered
        assert one.arrived_s >= delivered
        delivered = one.arrived_s
    assert all(a.gathered_s <= b.gathered_s for a, b in pairwise([one for one in found if one.via == "a0"]))
    assert bool(ways) or len(found) == len(order)


@pytest.mark.long(like="test_just_as_many_go_to_the_replica_as_the_bound_needs")
@settings(max_examples=15)  # torch is slow to step
@given(
    seed=st.integers(0, 2**31),
    momentum=st.sampled_from([0.0, 0.5, 0.9, 0.99]),
    steps=st.lists(st.booleans(), max_size=20),
)
def test_the_bound_is_above_the_distance_of_two_optimizers_of_torch(
    seed: int, momentum: float, steps: list[bool]
) -> None:
    """True: the server applies a random gradient; False: the replica applies the oldest that it lacks."""
    chance = torch.Generator().manual_seed(seed)
    models = [torch.zeros(3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    rate = 0.1
    server, replica = (torch.optim.SGD([model], lr=rate, momentum=momentum) for model in models)
    lag, missing = Lag(momentum=momentum), list[torch.Tensor]()
    for of_server in steps:
        if of_server:
            gradient = torch.randn(3, generator=chance, dtype=torch.float64)
            missing.append(gradient)
            models[0].grad, lag = gradient, lag.after_update(rate * float(gradient.norm()))
            server.step()
        elif missing:
            models[1].grad, lag = missing.pop(0), lag.after_replication()
            replica.step()
        assert float((models[0] - models[1]).detach().norm()) <= lag.bound * (1 + 1e-9) + 1e-12


@given(
    norms=st.lists(st.floats(0.01, 10), max_size=6),
    after=st.floats(0.01, 10),
    momentum=st.sampled_from([0.0, 0.9]),
    div_max=st.floats(0.1, 50),
)
def test_just_as_many_go_to_the_replica_as_the_bound_needs(
    norms: list[float], after: float, momentum: float, div_max: float
) -> None:
    lag = Lag(momentum=momentum, norms=tuple(norms), carried=1.0)
    count = to_replicate(lag, after, div_max)
    bounds = [(lag := lag.after_update(after)).bound]
    while lag.norms:
        bounds.append((lag := lag.after_replication()).bound)
    assert bounds[count] <= div_max or count == len(norms) + 1
    assert all(bound > div_max for bound in bounds[:count])


def test_a_momentum_that_never_ends_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^momentum=1.0: must be 0 or more and below 1$"):
        Lag(momentum=1.0)


@examples(20)
@given(latencies=st.dictionaries(st.integers(0, 99), st.floats(0, 1), max_size=40), fanout=st.integers(1, 5))
def test_everyone_is_in_the_tree_once_and_nobody_has_too_many_children(
    latencies: dict[int, float], fanout: int
) -> None:
    tree = build(latencies, fanout)
    assert sorted(tree.parents) == sorted(latencies)
    assert all(len(tree.children(node)) <= fanout for node in (None, *latencies))
    for worker, above in tree.parents.items():
        assert above is None or latencies[above] <= latencies[worker]
    depth: dict[int | None, int] = {None: 0}
    for worker, above in tree.parents.items():
        depth[worker] = depth[above] + 1
    depths = list(depth.values())[1:]
    assert depths == sorted(depths)  # level by level
    if fanout > 1 and latencies:  # a level is begun only when the one above is full
        assert max(depths) == math.ceil(math.log(len(latencies) * (fanout - 1) / fanout + 1, fanout) - 1e-9)


def test_when_the_tree_is_built_again_and_who_goes_direct() -> None:
    built = {0: 0.010, 1: 0.020}
    assert not has_moved(built, {0: 0.0119, 1: 0.0161})
    assert has_moved(built, {0: 0.0121, 1: 0.020})
    assert has_moved(built, {0: 0.010})
    tree = Tree({0: None, 1: 0, 2: 0, 3: 1})
    assert going_direct(tree, {0: 1.0, 1: 1.4, 2: 1.6, 3: 1.5}, wait_s=0.5) == {2}
    assert going_direct(tree, {0: 1.0, 1: 1.4}, wait_s=0.5) == {2, 3}
    assert going_direct(tree, {1: 1.4, 3: 1.5}, wait_s=0.5) == frozenset()
