"""Cores that a job has asked for, compared with a sum over all of its nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.core.asked_cores import AskedCores
from strategies.protocol import NodeId

NODES = [NodeId.worker(number) for number in range(4)] + [NodeId.server(0)]
CORES = st.sampled_from([None, 0.5, 1.0, 4.0])
CHANGES = st.tuples(st.sampled_from(NODES), st.sampled_from(["set", "low", "forget"]), CORES)


@given(st.lists(CHANGES, max_size=30), st.sampled_from(NODES))
def test_the_sums_are_over_all_others(changes: list[tuple[NodeId, str, float | None]], asking: NodeId) -> None:
    asked, cores, low = AskedCores(), dict[NodeId, float](), set[NodeId]()
    for node, what, number in changes:
        if what == "low":
            asked.set_low(node)
            low.add(node)
            continue
        if what == "forget":
            asked.forget(node)
            low.discard(node)
        else:
            asked.set(node, number)
        cores.pop(node, None)
        if what == "set" and number is not None:
            cores[node] = number
    others = {node: number for node, number in cores.items() if node != asking}
    assert asked.in_use(without=asking) == (sum(others.values()), sum(others[one] for one in others if one in low))
    assert {node: asked.of(node) for node in NODES} == {node: cores.get(node) for node in NODES}
    assert {node for node in NODES if asked.is_low(node)} == low


def test_a_sum_has_a_term_for_each_different_request_and_none_for_each_node() -> None:
    """A job that began with 10,000 requests added 50 million numbers up, which took a quarter of a minute."""
    times: list[int] = []

    class Cores(float):
        def __rmul__(self, nodes: float) -> float:
            times.append(int(nodes))
            return float(self) * nodes

    asked = AskedCores()
    for number in range(1000):
        asked.set(NodeId.worker(number), Cores(2.0))
    assert asked.in_use(without=NodeId.worker(5)) == (1998.0, 0.0)
    assert set(times) == {999}
    assert len(times) <= 2
