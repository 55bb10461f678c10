"""Who may say what to the coordinator: a message out of the mouth of another role is as malformed as random bytes."""

from __future__ import annotations

from runtime.live.transport.messages import (
    Actuated,
    AgentReady,
    Assessed,
    Attached,
    Beat,
    Busy,
    Exited,
    Forked,
    Halted,
    Loaded,
    MalformedMessage,
    Message,
    Referred,
    Report,
    Saved,
    Severed,
    TaskReady,
    Weighed,
)

SAYS: dict[str, frozenset[type[Message]]] = {
    "agent": frozenset({AgentReady, Forked, Exited, Actuated}),
    "worker": frozenset({TaskReady, Beat, Attached, Severed, Report, Halted, Saved}),
    "server": frozenset({TaskReady, Beat, Saved, Loaded, Busy, Weighed}),
    "evaluator": frozenset({TaskReady, Beat, Attached, Severed, Assessed}),
    "scorer": frozenset({TaskReady, Beat, Attached, Severed, Referred}),
}
"""By role; a worker that is a replica also halts, and stores checkpoints."""


def refuse_foreign(role: str, message: Message) -> None:
    """Raises :class:`MalformedMessage`, which ends the speaker's connection, for what is not its to say."""
    if type(message) not in SAYS.get(role, ()):
        raise MalformedMessage(f"{type(message).__name__}, which is not for the {role} to say")
