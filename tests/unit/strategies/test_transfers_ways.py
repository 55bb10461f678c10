"""Aggregation, replication and the tree: laws for random cases, momentum by torch's optimizer."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.mlfabric.fluid import Update
from strategies.mlfabric.order import Aggregator, group
from strategies.mlfabric.replicas import Lag, to_replicate
from strategies.parts.sending.subtrees import Tree, build, going_direct, moved


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
            models[0].grad, lag = gradient, lag.applied(rate * float(gradient.norm()))
            server.step()
        elif missing:
            models[1].grad, lag = missing.pop(0), lag.replicated()
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
    bounds = [(lag := lag.applied(after)).bound]
    while lag.norms:
        bounds.append((lag := lag.replicated()).bound)
    assert bounds[count] <= div_max or count == len(norms) + 1
    assert all(bound > div_max for bound in bounds[:count])


def test_a_momentum_that_never_ends_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^momentum=1.0: must be 0 or more and below 1$"):
        Lag(momentum=1.0)


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
    assert not moved(built, {0: 0.0119, 1: 0.0161})
    assert moved(built, {0: 0.0121, 1: 0.020})
    assert moved(built, {0: 0.010})
    tree = Tree({0: None, 1: 0, 2: 0, 3: 1})
    assert going_direct(tree, {0: 1.0, 1: 1.4, 2: 1.6, 3: 1.5}, wait_s=0.5) == {2}
    assert going_direct(tree, {0: 1.0, 1: 1.4}, wait_s=0.5) == {2, 3}
    assert going_direct(tree, {1: 1.4, 3: 1.5}, wait_s=0.5) == frozenset()
