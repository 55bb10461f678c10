"""The scorer: computes reference gradients on the held-out samples, and pushes them to the servers.

It is separate from the evaluator: workers wait for scores, which must not wait for an evaluation, nor have its
low priority.
"""

from __future__ import annotations

from typing import Any

from runtime.backends.base import Model, micro_batches
from runtime.core.holdout import Holdout
from runtime.live.tasks.client import serve
from runtime.live.tasks.worker import run_task
from runtime.live.transport.auth import Identity
from runtime.live.transport.channel import BlockingChannel
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import ComputeReference, Message, ReferenceReady
from runtime.live.transport.task_spec import TaskSpec


class Scorer:
    """A client of the servers like a worker; it pushes their reference."""

    def __init__(self, spec: TaskSpec, channel: BlockingChannel, model: Model, links: ServerLinks) -> None:
        self.channel, self.model, self.links = channel, model, links
        total = spec.num_samples + spec.validation_samples
        self.indices = Holdout(total, spec.validation_samples, spec.seed).indices
        self.batch: Any = None

    def run(self) -> None:
        """Serve until the coordinator sends ``Goodbye``."""
        serve(self.channel, self.links, self._obey)

    def _obey(self, order: Message) -> Message:
        if not isinstance(order, ComputeReference):
            raise RuntimeError(f"a scorer cannot obey {order}")
        if self.batch is None:
            self.batch = self.model.batch(self.indices)
        self.links.receive_params(order.ticket)
        self.model.attach(self.links.params, self.links.grad)
        self.model.gradient(self.batch, micro_batches(len(self.indices), 1))
        self.links.push(order.ticket)
        return ReferenceReady(ticket=order.ticket)


def scorer_main(spec: TaskSpec, identity: Identity, board_fd: int) -> None:
    """Entry point of a scorer process."""
    run_task(spec, identity, board_fd, Scorer)
