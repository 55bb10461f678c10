"""The evaluator: assesses snapshots of the parameters beside the training, at a lower priority."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from runtime.backends.base import Model
from runtime.checkpoint import publish_array
from runtime.live.auth import Identity
from runtime.live.channel import BlockingChannel
from runtime.live.client import serve
from runtime.live.links import ServerLinks
from runtime.live.messages import Assess, Assessed, Message
from runtime.live.task_spec import TaskSpec
from runtime.live.worker import run_task


class Evaluator:
    """Connected to the servers like a worker; the coordinator orders the delivery of a snapshot."""

    def __init__(self, spec: TaskSpec, channel: BlockingChannel, model: Model, links: ServerLinks) -> None:
        self.spec, self.channel, self.model, self.links = spec, channel, model, links
        os.nice(spec.evaluator_niceness)

    def run(self) -> None:
        """Serve until the coordinator says goodbye."""
        serve(self.channel, self.links, self._obey)

    def _obey(self, order: Message) -> Message:
        if not isinstance(order, Assess):
            raise RuntimeError(f"an evaluator cannot obey {order}")
        self.links.receive_params(order.ticket)
        self.model.attach(self.links.params, self.links.grad)
        metrics = self.model.evaluate()
        digest = hashlib.sha256(self.links.params.tobytes()).hexdigest() if order.digest else ""
        if order.save_to:
            publish_array(Path(order.save_to), self.links.params)
        return Assessed(ticket=order.ticket, metrics=metrics, sha256=digest)


def evaluator_main(spec: TaskSpec, identity: Identity, board_fd: int) -> None:
    """The life of an evaluator process."""
    run_task(spec, identity, board_fd, Evaluator)
