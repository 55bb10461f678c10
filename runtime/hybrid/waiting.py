"""The operations that each operation of a training step waits for (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from runtime.hybrid.nodes import BEGIN, MESSAGES, OPTIMIZER, SYNC, Node, Size, node_of, nodes_of, taken
from runtime.hybrid.schedules import BACKWARD, FORWARD, WEIGHT, Pass

Waits = defaultdict[Node, list[Node]]


def waits_of(passes: Sequence[Sequence[Pass]], size: Size, *, blocking: bool) -> Waits:
    """The operations that each one waits for: its rank's last one, and messages of other ranks.

    Args:
        passes: of each stage, in their order.
        size: numbers of stages and chunks.
        blocking: a rank waits until its messages have been taken.
    """
    waits: Waits = defaultdict(list)
    messages = [node for node in nodes_of(passes, size, blocking=blocking) if node.kind in MESSAGES]
    into = {size.receiver_of(message): message for message in messages}
    for stage, order in enumerate(passes):
        before, owed = [Node(BEGIN, stage)], None
        for node in (node_of(one, stage) for one in order):
            if blocking:
                before = _exchange(owed, into.get(node), before, size, waits)
            waits[node] += [*before, *_inputs(node, into, size)]
            before, owed = [node], size.message_of(node)
            if owed is not None:
                waits[owed].append(node)
        if blocking:
            before = _exchange(owed, None, before, size, waits)
        _finish(stage, order, before, waits)
    return waits


def _inputs(node: Node, into: Mapping[Node, Node], size: Size) -> list[Node]:
    """The message that a pass waits for, and its micro-batch's earlier pass through the chunk."""
    earlier = {FORWARD: (), BACKWARD: (FORWARD,), WEIGHT: (BACKWARD,)}[node.kind]
    inputs = [node._replace(kind=kind) for kind in earlier]
    if node in into:
        inputs.append(into[node])
    elif size.stages == 1 and node.kind != WEIGHT:  # chunks of one stage follow each other without messages
        chunk = node.chunk - 1 if node.kind == FORWARD else node.chunk + 1
        inputs += [node._replace(chunk=chunk)] if 0 <= chunk < size.chunks else []
    return inputs


def _exchange(sent: Node | None, received: Node | None, before: list[Node], size: Size, waits: Waits) -> list[Node]:
    """The operations that a rank's next pass waits for after these messages between it and its neighbours."""
    for messages in _groups(sent, received, size):
        if sent in messages:  # the rank prepares its own message first, then all of them pass
            waits[sent] += before
            waits[taken(sent)].append(sent)
            before = [sent]
        for message in messages:
            waits[taken(message)] += before
        before = [taken(message) for message in messages]
    return before


def _groups(sent: Node | None, received: Node | None, size: Size) -> Iterator[list[Node]]:
    """The messages of a rank between two passes: with the same neighbour together, else one by one."""
    if sent is not None and received is not None and size.receiver_of(sent).stage == received.stage:
        yield [sent, received]
    else:
        yield from ([one] for one in (sent, received) if one is not None)


def _finish(stage: int, order: Sequence[Pass], before: list[Node], waits: Waits) -> None:
    """The sums of a stage's gradients, one after another as they become complete, and its optimizer."""
    kind = WEIGHT if any(one.kind == WEIGHT for one in order) else BACKWARD
    last = {one.chunk: node_of(one, stage) for one in order if one.kind == kind}
    complete = sorted(last.values(), key=lambda node: order.index(Pass(node.kind, node.micro_batch, node.chunk)))
    summed: list[Node] = []
    for node in complete:
        sync = Node(SYNC, stage, 0, node.chunk)
        waits[sync] += [node, *summed]
        summed = [sync]
    waits[Node(OPTIMIZER, stage)] += [*before, *summed]
