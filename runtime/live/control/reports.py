"""Reports of tasks as inputs of the coordinator (pure)."""

from __future__ import annotations

from runtime.core import inputs
from runtime.live.transport.auxiliaries import SCORER
from runtime.live.transport.messages import (
    Busy,
    Followed,
    GradientReady,
    Message,
    NormPart,
    ReferenceReady,
    Report,
    ScoreParts,
)


def input_of(sender: int, message: Message) -> inputs.AnyInput | None:
    """The input in a message of task ``sender``; None if it is not for the coordinator."""
    match message:
        case Report():
            about = (message.loss, message.sqr_norm, message.finite)
            return inputs.GradientArrived(message.grad_id, sender, message.timings, *about, ends_s=message.ends_s)
        case GradientReady():
            held = (message.num_bytes, message.loss, message.sqr_norm)
            return inputs.GradientReady(message.grad_id, sender, message.timings, *held)
        case Busy():
            return inputs.ServerBusy(sender, message.version, message.updates, message.busy_s, message.injected_s)
        case Followed():
            return inputs.Replicated(sender, message.version, message.grad_id)
        case ScoreParts():
            return inputs.ScorePart(sender, message.grad_id, SCORER.number(message.ticket), message.part)
        case NormPart():
            return inputs.NormPart(sender, message.ticket, message.sqr_norm)
        case ReferenceReady():
            return inputs.ReferenceReady(SCORER.number(message.ticket))
    return None
