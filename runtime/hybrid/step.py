"""The graph of one training step of replicas with pipeline stages and tensor ranks (pure).

A step is: every stage's passes in the order of the schedule, messages between stages, the sum of each chunk's
gradients over all replicas as soon as the last replica has them, while other passes go on, and each stage's optimizer.
Tensor ranks of a stage work in lockstep: each pass takes as long as on the slowest of them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from runtime.hybrid.graph import Floats, Graph
from runtime.hybrid.nodes import BEGIN, MESSAGES, OPTIMIZER, PASSES, SYNC, TAKEN, Node, Size, nodes_of
from runtime.hybrid.schedules import BACKWARD, FORWARD, WEIGHT, Pass, orders
from runtime.hybrid.waiting import Waits, waits_of

SENDS = ("free", "blocking", "channel")
BRIEF_FRAC = 0.01
"""Part of the shortest pass: the time of a message by which the order of a channel's messages is found."""


@dataclass(frozen=True)
class Step:
    """One step of a pipeline.

    Attributes:
        stages: of the pipeline.
        micro_batches: of one replica and step.
        schedule: see :mod:`runtime.hybrid.schedules`.
        chunks: of layers on each stage.
        sends: how a message keeps its ranks busy. ``free``: not at all. ``blocking``: its sender spends its time on it
            and then waits until the receiver takes it; a rank exchanges messages with the same neighbour both ways at
            once. ``channel``: not at all, but the link between two stages carries one message at a time, in either
            direction, in the order in which messages would be ready if each were brief.
        parts: relative work of a forward pass, of the backward pass for activations, and for weights.

    Raises:
        ValueError: a field is invalid, or the fields do not fit together; one line with the cure.
    """

    stages: int
    micro_batches: int
    schedule: str = "1f1b"
    chunks: int = 1
    sends: str = "free"
    parts: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        if self.sends not in SENDS:
            raise ValueError(f"sends={self.sends}: must be {', '.join(SENDS[:-1])} or {SENDS[-1]}")
        if len(self.parts) != 3 or not min(self.parts) > 0:
            raise ValueError(f"parts={list(self.parts)}: must be three numbers above 0")
        _ = self.passes  # whose errors are about settings
        try:
            _ = self.graph
        except ValueError:
            raise ValueError(
                f"sends={self.sends}: stages of schedule={self.schedule} wait for each other; set sends=free"
            ) from None

    @property
    def size(self) -> Size:
        """Numbers of stages and chunks."""
        return Size(self.stages, self.chunks)

    @property
    def blocking(self) -> bool:
        """Whether a rank waits until its messages have been taken."""
        return self.sends == "blocking"

    @cached_property
    def passes(self) -> list[list[Pass]]:
        """The passes of each stage, in their order."""
        return orders(self.schedule, self.stages, self.micro_batches, self.chunks)

    @property
    def last_pass(self) -> str:
        """The kind of pass with which a micro-batch's gradients of weights are complete."""
        return WEIGHT if any(one.kind == WEIGHT for one in self.passes[0]) else BACKWARD

    @cached_property
    def nodes(self) -> list[Node]:
        """The operations, by their number in the graph."""
        return nodes_of(self.passes, self.size, blocking=self.blocking)

    @cached_property
    def places(self) -> dict[Node, int]:
        """The number of each operation in the graph."""
        return {node: place for place, node in enumerate(self.nodes)}

    @cached_property
    def graph(self) -> Graph:
        """The operations with what each waits for; ``sync`` waits for all replicas."""
        waits = waits_of(self.passes, self.size, blocking=self.blocking)
        if self.sends == "channel":
            self._share_links(waits)
        return self._graph(waits)

    def _graph(self, waits: Waits) -> Graph:
        joint = [place for place, node in enumerate(self.nodes) if node.kind == SYNC]
        return Graph([[self.places[one] for one in waits[node]] for node in self.nodes], joint)

    def _share_links(self, waits: Waits) -> None:
        """Messages between two stages wait for each other."""
        brief_s = BRIEF_FRAC * min(self.parts)
        ends = self._graph(waits).ends(self.seconds(*self.parts, message_s=brief_s))[:, 0]
        links: dict[frozenset[int], list[Node]] = defaultdict(list)
        for node in self.nodes:
            if node.kind in MESSAGES:
                links[frozenset((node.stage, self.size.receiver_of(node).stage))].append(node)
        for messages in links.values():
            messages.sort(key=lambda one: (ends[self.places[one]], self.places[one]))
            for earlier, later in itertools.pairwise(messages):
                waits[later].append(earlier)

    def seconds(self, *parts_s: Floats | float, **others_s: Any) -> Floats:
        """[operations, ...]: the durations that :meth:`rows` lists, in one array for :meth:`Graph.ends`.

        The further axes are broadcast against each other; the first of them is the replicas.
        """
        rows = self.rows(*parts_s, **others_s)
        found = np.empty((len(rows), *np.broadcast_shapes((1,), *{row.shape for row in rows})))
        for place, row in enumerate(rows):
            found[place] = row
        return found

    def rows(
        self,
        forward_s: Floats | float,
        backward_s: Floats | float,
        weight_s: Floats | float,
        *,
        message_s: Floats | Sequence[float] | float = 0.0,
        sync_s: Floats | float = 0.0,
        optimizer_s: Floats | float = 0.0,
        ready_s: Floats | float = 0.0,
        factor: Floats | float = 1.0,
    ) -> list[Floats]:
        """The duration of each operation, for :meth:`Graph.alone`; equal operations share an array.

        In all arguments an axis of length 1 has the same values for all.

        Args:
            forward_s: [stages, micro-batches, ...]: of a micro-batch's forward pass through a whole stage.
            backward_s: the same, of its gradients of activations.
            weight_s: the same, of its gradients of weights; without a split, a backward pass takes both.
            message_s: [stages, 2, ...]: of a message from each stage to the next one, and to the one before.
            sync_s: [stages, ...]: of the sum of a stage's gradients, from the last replica's readiness.
            optimizer_s: [stages, ...].
            ready_s: [stages, ...]: when each stage may begin: the end of its last step.
            factor: [stages, tensor ranks, ...]: by which each rank's passes take longer; the largest of a stage counts.
        """
        split = self.last_pass == WEIGHT
        slowest = _wide(factor, 2).max(axis=1)
        whole = {
            FORWARD: _wide(forward_s, 2),
            BACKWARD: _wide(backward_s, 2) if split else _wide(backward_s, 2) + _wide(weight_s, 2),
            WEIGHT: _wide(weight_s, 2),
        }
        others = {BEGIN: _wide(ready_s, 1), SYNC: _wide(sync_s, 1) / self.chunks, OPTIMIZER: _wide(optimizer_s, 1)}
        others |= dict.fromkeys(TAKEN.values(), np.zeros(1))
        messages = _wide(message_s, 2)

        @cache
        def of_pass(kind: str, stage: int, micro_batch: int) -> Floats:
            return _at(whole[kind], stage, micro_batch) / self.chunks * _at(slowest, stage)

        rows = list[Floats]()
        for kind, stage, micro_batch, _ in self.nodes:
            if kind in PASSES:
                rows.append(of_pass(kind, stage, micro_batch if whole[kind].shape[1] > 1 else 0))
            elif kind in MESSAGES:
                rows.append(_at(messages, stage, MESSAGES.index(kind)))
            else:
                rows.append(_at(others[kind], stage))
        return rows

    def released_s(self, ends: Floats) -> Floats:
        """[stages, ...]: when each stage of each replica has its own gradients, from :meth:`Graph.ends`.

        The sum of a stage's gradients over the replicas begins at the latest of them.
        """
        mine: dict[int, list[int]] = defaultdict(list)
        for place, node in enumerate(self.nodes):
            if node.kind == self.last_pass:
                mine[node.stage].append(place)
        return np.stack([ends[mine[stage]].max(axis=0) for stage in range(self.stages)])

    def ended_s(self, ends: Floats) -> Floats:
        """[stages, ...]: when each stage's optimizer ends; ``ready_s`` of the next step."""
        return ends[[self.places[Node(OPTIMIZER, stage)] for stage in range(self.stages)]]


def _wide(values: Floats | Sequence[float] | float, axes: int) -> Floats:
    """The values with at least so many axes."""
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(array.shape + (1,) * max(0, axes - array.ndim))


def _at(values: Floats, *place: int) -> Floats:
    """The values at a place, where an axis of length 1 has the same ones for all."""
    for one in place:
        values = values[one if len(values) > 1 else 0]
    return values
