"""The name of a node: its text and back, its order, and what is no name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.protocol import NodeId
from tests.support.examples import examples

NODES = st.builds(NodeId, st.sampled_from(["worker", "server", "host", "scorer"]), st.integers(0, 999_999_999))


@examples(20)
@given(NODES)
def test_a_text_names_the_node_that_wrote_it(node: NodeId) -> None:
    assert NodeId.parse(str(node)) == node


@examples(20)
@given(st.lists(st.integers(0, 999_999_999), unique=True))
def test_nodes_of_one_role_are_in_the_order_of_their_numbers(numbers: list[int]) -> None:
    found = sorted(NodeId.worker(number) for number in numbers)
    assert [node.number for node in found] == sorted(numbers)


@examples(20)
@given(st.text(alphabet="sw:019-* \n", max_size=9))
def test_a_text_that_is_read_is_written_as_it_was(text: str) -> None:
    try:
        node = NodeId.parse(text)
    except ValueError:
        return
    assert str(node) == text


@pytest.mark.parametrize("text", ["", "worker:", ":1", "worker:-1", "worker:01", "worker 1", "w:1:2"])
def test_what_is_no_node_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="not a node; write a role and a number, such as worker:1") as error:
        NodeId.parse(text)
    assert repr(text) in str(error.value)
