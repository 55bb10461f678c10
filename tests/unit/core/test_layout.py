"""The laws of a layout: ranges partition the vector, numbers are never reused, every change has a version."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.layout import Layout
from runtime.core.vectors import CUT_FLOATS, cut_by_shares, server_range
from strategies.protocol import NodeId

SIZES = st.integers(0, 100_000)
SHARES = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8)


def partitions(ranges: list[tuple[int, int]], num_floats: int) -> bool:
    """Whether they follow each other, aligned, from the first float to the last."""
    ends = [0, *(hi for _, hi in ranges)]
    aligned = all(lo % CUT_FLOATS == 0 or lo == num_floats for lo, _ in ranges)
    return aligned and [lo for lo, _ in ranges] == ends[:-1] and ends[-1] == num_floats and ends == sorted(ends)


@given(SIZES, SHARES)
def test_parts_by_share_partition_the_vector(num_floats: int, shares: list[float]) -> None:
    parts = cut_by_shares(num_floats, shares)
    assert len(parts) == len(shares)
    assert partitions(parts, num_floats)
    for (lo, hi), share in zip(parts, shares, strict=True):
        assert hi - lo == pytest.approx(num_floats * share / sum(shares), abs=2 * CUT_FLOATS)


@given(SIZES, st.integers(1, 9), st.floats(1e-3, 1e3))
def test_equal_shares_give_the_even_cut_to_the_float(num_floats: int, num_servers: int, share: float) -> None:
    even = [server_range(num_floats, num_servers, server) for server in range(num_servers)]
    assert cut_by_shares(num_floats, [share] * num_servers) == even
    assert list(Layout.initial(3, num_servers).ranges(num_floats).values()) == even


def change(layout: Layout, data: st.DataObject) -> Layout:
    """Any change that is lawful."""
    idle = [server for server in layout.servers if server not in layout.holders]
    lawful: list[Callable[[], Layout]] = [
        lambda: layout.with_worker(NodeId.worker(layout.next_number("worker") + data.draw(st.integers(0, 2)))),
        lambda: layout.with_server(NodeId.server(layout.next_number("server"))),
    ]
    if layout.workers:
        lawful.append(lambda: layout.without_worker(data.draw(st.sampled_from(layout.workers))))
    if idle:
        lawful.append(lambda: layout.without_server(data.draw(st.sampled_from(idle))))
    if layout.servers:
        picked = data.draw(st.lists(st.sampled_from(layout.servers), min_size=1, unique=True))
        shares = data.draw(st.lists(st.floats(0.1, 9.0), min_size=len(picked), max_size=len(picked)))
        lawful.append(lambda: layout.repartitioned(picked, shares))
    return data.draw(st.sampled_from(lawful))()


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(1, 4), SIZES, st.data())
def test_whatever_changes_the_laws_hold(num_workers: int, num_servers: int, size: int, data: st.DataObject) -> None:
    layout = Layout.initial(num_workers, num_servers)
    seen, gone = set(layout.nodes), set[NodeId]()
    for version in range(1, 9):
        before, layout = layout, change(layout, data)
        assert layout.version == version
        new = set(layout.nodes) - set(before.nodes)
        assert not new & seen, "a number was used again"
        gone |= set(before.nodes) - set(layout.nodes)
        assert not gone & set(layout.nodes), "who has left is back"
        seen |= new
        assert list(layout.workers) == sorted(layout.workers)
        assert list(layout.servers) == sorted(layout.servers)
        assert set(layout.holders) <= set(layout.servers)
        assert partitions(list(layout.ranges(size).values()), size)
        assert all(NodeId(role, layout.next_number(role)) not in seen for role in ("worker", "server"))


def test_a_newcomer_holds_nothing_and_who_holds_something_cannot_leave() -> None:
    one, two = NodeId.server(0), NodeId.server(1)
    grown = Layout.initial(2, 1).with_server(two)
    assert grown.ranges(64) == {one: (0, 64)}
    with pytest.raises(ValueError, match=r"^server:0: holds parameters; repartition the vector among the others"):
        grown.without_server(one)
    moved = grown.repartitioned([two], [1.0])
    assert moved.ranges(64) == {two: (0, 64)}
    assert moved.without_server(one).nodes == (two, NodeId.worker(0), NodeId.worker(1))


REFUSED: list[tuple[str, Callable[[Layout], Layout]]] = [
    ("worker:1: numbers are never reused; the next worker is worker:2", lambda two: two.with_worker(NodeId.worker(1))),
    ("server:0: numbers are never reused; the next worker is worker:2", lambda two: two.with_worker(NodeId.server(0))),
    ("server:1: numbers are never reused; the next server is server:2", lambda two: two.with_server(NodeId.server(1))),
    ("worker:7: there is no such node", lambda two: two.without_worker(NodeId.worker(7))),
    ("server:7: there is no such node", lambda two: two.without_server(NodeId.server(7))),
]


@pytest.mark.parametrize(("words", "wrong"), REFUSED)
def test_what_cannot_be_is_refused(words: str, wrong: Callable[[Layout], Layout]) -> None:
    with pytest.raises(ValueError, match=f"^{words}"):
        wrong(Layout.initial(2, 2))
