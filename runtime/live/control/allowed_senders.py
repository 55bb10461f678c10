"""Which role may send which messages to the coordinator; any other message counts as malformed."""

from __future__ import annotations

from runtime.live.transport.auxiliaries import AUXILIARIES
from runtime.live.transport.messages import (
    Actuated,
    AgentReady,
    Attached,
    Busy,
    Divergence,
    Exited,
    Followed,
    Forked,
    GradientReady,
    Halted,
    Heartbeat,
    Late,
    LinkLost,
    LinksPaced,
    Loaded,
    MalformedMessage,
    Message,
    NormPart,
    Paced,
    Pushed,
    ReplicationFailed,
    Report,
    Sampled,
    Saved,
    ScoreParts,
    Summed,
    TaskReady,
)
from strategies.protocol import AGGREGATOR

CLIENT: frozenset[type[Message]] = frozenset({TaskReady, Heartbeat, Attached, LinkLost})
"""Messages of every client of the servers."""
MAY_SEND: dict[str, frozenset[type[Message]]] = {
    "agent": frozenset({AgentReady, Heartbeat, Forked, Exited, Actuated, Sampled}),
    "worker": CLIENT
    | {Report, GradientReady, Pushed, ReplicationFailed, Halted, Saved, Paced, LinksPaced, NormPart, Late},
    "server": frozenset(
        {
            TaskReady,
            Heartbeat,
            Saved,
            Loaded,
            Busy,
            ScoreParts,
            NormPart,
            Paced,
            LinksPaced,
            LinkLost,
            Followed,
            Divergence,
        }
    ),
    AGGREGATOR: CLIENT | {Summed},
    **{role.name: CLIENT | {role.answer} for role in AUXILIARIES.values()},
}
"""Messages by role; a worker that is a replica also halts, stores checkpoints, measures and counts losses."""


def refuse_foreign(role: str, message: Message) -> None:
    """Raise :class:`MalformedMessage`, which ends the connection, for a message that this role may not send."""
    if type(message) not in MAY_SEND.get(role, ()):
        raise MalformedMessage(f"{type(message).__name__}, which is not for the {role} to say")
