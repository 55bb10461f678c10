"""The scorer: computes reference gradients on the held-out samples, and pushes them to the servers.

It is separate from the evaluator: workers wait for scores, which must neither wait for an evaluation nor have its low
priority.
"""

from __future__ import annotations

from typing import Any

from runtime.backends.base import Model, micro_batches
from runtime.core.data.holdout import Holdout
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import ComputeReference, ReferenceReady
from runtime.live.transport.task_spec import TaskSpec


class References:
    """Gradients of all held-out samples."""

    obeys = ComputeReference

    def __init__(self, spec: TaskSpec, model: Model) -> None:
        self.model = model
        total = spec.num_samples + spec.validation_samples
        self.indices = Holdout(total, spec.validation_samples, spec.seed).indices
        self.batch: Any = None

    def prepare(self) -> None:
        """Load the samples once, before the first parameters arrive."""
        if self.batch is None:
            self.batch = self.model.batch(self.indices)

    def carry_out(self, order: ComputeReference, links: ServerLinks) -> ReferenceReady:
        """Compute the reference and push it like a worker's gradient."""
        self.model.gradient(self.batch, micro_batches(len(self.indices), 1))
        links.push(order.ticket)
        return ReferenceReady(ticket=order.ticket)
