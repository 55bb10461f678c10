"""The operations of a training step, and which message leads from one to another (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runtime.hybrid.schedules import BACKWARD, FORWARD, WEIGHT, Pass

BEGIN, ACTIVATIONS, GRADIENTS, SYNC, OPTIMIZER = "begin", "activations", "gradients", "sync", "optimizer"
PASSES, MESSAGES = (FORWARD, BACKWARD, WEIGHT), (ACTIVATIONS, GRADIENTS)
TAKEN = {ACTIVATIONS: "activations taken", GRADIENTS: "gradients taken"}


class Node(NamedTuple):
    """An operation of a step.

    ``begin`` is the time at which a stage may begin; ``activations`` and ``gradients`` are messages, ``stage`` is their
    sender, and their receiver has ``taken`` them when both ranks were ready; ``sync`` is the sum of a chunk's gradients
    over the replicas.
    """

    kind: str
    stage: int
    micro_batch: int = 0
    chunk: int = 0


class Size(NamedTuple):
    """Numbers of stages and of chunks on each. Chunk c of a stage is followed by chunk c of the next one.

    Chunk c of the last stage is followed by chunk c + 1 of the first one.
    """

    stages: int
    chunks: int

    def message_of(self, node: Node) -> Node | None:
        """The message that a pass sends to another stage; None: it sends none."""
        kind, stage, micro_batch, chunk = node
        last, step = (self.stages - 1, 1) if kind == FORWARD else (0, -1)
        if kind == WEIGHT or self.stages == 1 or (stage == last and not 0 <= chunk + step < self.chunks):
            return None
        return Node(ACTIVATIONS if kind == FORWARD else GRADIENTS, stage, micro_batch, chunk)

    def receiver_of(self, message: Node) -> Node:
        """The pass that waits for a message."""
        kind, stage, micro_batch, chunk = message
        if kind == ACTIVATIONS:
            wraps = stage == self.stages - 1
            return Node(FORWARD, 0 if wraps else stage + 1, micro_batch, chunk + wraps)
        wraps = stage == 0
        return Node(BACKWARD, self.stages - 1 if wraps else stage - 1, micro_batch, chunk - wraps)


def taken(message: Node) -> Node:
    """The moment at which a message's receiver, too, is ready for it."""
    return message._replace(kind=TAKEN[message.kind])


def node_of(one: Pass, stage: int) -> Node:
    """A stage's pass as an operation."""
    return Node(one.kind, stage, one.micro_batch, one.chunk)


def nodes_of(passes: Sequence[Sequence[Pass]], size: Size, *, blocking: bool) -> list[Node]:
    """The operations of a step whose stages make these passes; with ``taken`` if sends are blocking."""
    stages = range(size.stages)
    computed = [node_of(one, stage) for stage in stages for one in passes[stage]]
    messages = [message for node in computed if (message := size.message_of(node)) is not None]
    return [
        *(Node(BEGIN, stage) for stage in stages),
        *computed,
        *messages,
        *(taken(one) for one in messages if blocking),
        *(Node(SYNC, stage, 0, chunk) for stage in stages for chunk in range(size.chunks)),
        *(Node(OPTIMIZER, stage) for stage in stages),
    ]
