"""The evaluator: evaluates snapshots of the parameters in parallel to training, at a lower priority."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from runtime.backends.base import Model
from runtime.live.tasks.client import serve
from runtime.live.tasks.worker import run_task
from runtime.live.transport.auth import Identity
from runtime.live.transport.channel import BlockingChannel
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import EvaluateVersion, Message, VersionEvaluated
from runtime.live.transport.task_spec import TaskSpec
from runtime.record.checkpoint import publish_array


class Evaluator:
    """A client of the servers like a worker; the coordinator orders the delivery of a snapshot."""

    def __init__(self, spec: TaskSpec, channel: BlockingChannel, model: Model, links: ServerLinks) -> None:
        self.spec, self.channel, self.model, self.links = spec, channel, model, links
        os.nice(spec.evaluator_niceness)

    def run(self) -> None:
        """Serve until the coordinator sends ``Goodbye``."""
        serve(self.channel, self.links, self._obey)

    def _obey(self, order: Message) -> Message:
        if not isinstance(order, EvaluateVersion):
            raise RuntimeError(f"an evaluator cannot obey {order}")
        self.links.receive_params(order.ticket)
        self.model.attach(self.links.params, self.links.grad)
        metrics = self.model.evaluate()
        digest = hashlib.sha256(self.links.params.tobytes()).hexdigest() if order.digest else ""
        if order.save_to:
            publish_array(Path(order.save_to), self.links.params)
        return VersionEvaluated(ticket=order.ticket, metrics=metrics, sha256=digest)


def evaluator_main(spec: TaskSpec, identity: Identity, board_fd: int) -> None:
    """Entry point of an evaluator process."""
    run_task(spec, identity, board_fd, Evaluator)
