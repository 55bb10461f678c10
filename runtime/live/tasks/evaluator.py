"""The evaluator: evaluates snapshots of the parameters in parallel to training, at a lower priority."""

from __future__ import annotations

import hashlib
from pathlib import Path

from runtime.backends.base import Model
from runtime.live.transport.frames import as_bytes
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import EvaluateVersion, VersionEvaluated
from runtime.live.transport.task_spec import TaskSpec
from runtime.record.checkpoint import publish_array


class Evaluations:
    """Held-out metrics of the parameters; on demand also their fingerprint, and a copy on the disk."""

    obeys = EvaluateVersion

    def __init__(self, spec: TaskSpec, model: Model) -> None:
        self.model = model

    def prepare(self) -> None:
        """Nothing: the model has the held-out data."""

    def carry_out(self, order: EvaluateVersion, links: ServerLinks) -> VersionEvaluated:
        """Save them first, as scores may be given up; the fingerprint is the SHA-256 of the parameters' bytes."""
        if order.save_to:
            publish_array(Path(order.save_to), links.params)
        metrics = self.model.evaluate()
        digest = hashlib.sha256(as_bytes(links.params)).hexdigest() if order.digest else ""
        return VersionEvaluated(ticket=order.ticket, metrics=metrics, sha256=digest)
