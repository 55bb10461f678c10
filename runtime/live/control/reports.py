"""Reports of tasks as inputs of the coordinator (pure)."""

from __future__ import annotations

from runtime.core import inputs
from runtime.live.control.port import REFERENCE_TICKETS
from runtime.live.transport.messages import Busy, Message, ReferenceReady, Report, ScoreParts


def input_of(sender: int, message: Message) -> inputs.AnyInput | None:
    """The input in a message of worker, server or scorer ``sender``; None if it is not for the coordinator."""
    match message:
        case Report():
            about = (message.loss, message.sqr_norm, message.finite)
            return inputs.GradientArrived(message.grad_id, sender, message.timings, *about)
        case Busy():
            return inputs.ServerBusy(sender, message.version, message.updates, message.busy_s, message.injected_s)
        case ScoreParts():
            return inputs.ScorePart(sender, message.grad_id, message.ticket - REFERENCE_TICKETS, message.part)
        case ReferenceReady():
            return inputs.ReferenceReady(message.ticket - REFERENCE_TICKETS)
    return None
