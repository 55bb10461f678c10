"""The common loop of workers and auxiliary tasks: attached to the servers, ordered by the coordinator."""

from __future__ import annotations

from collections.abc import Callable

from runtime.live.transport.channel import BlockingChannel
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import Attach, Attached, Goodbye, LinkLost, Message, Pace, Paced


def serve(channel: BlockingChannel, links: ServerLinks, obey: Callable[[Message], Message | None]) -> None:
    """Serve until the coordinator sends ``Goodbye``: ``obey`` carries out one message and returns the answer, if any.

    The loss of a server meanwhile is reported instead. Raises ``ConnectionError`` when the coordinator is gone.
    """
    while True:
        message = channel.receive()
        if isinstance(message, Goodbye):
            return
        if isinstance(message, Attach):
            channel.tell(attach(links, message))
        elif isinstance(message, Pace):
            channel.tell(Paced(bytes_per_s=links.pace(message.bytes_per_s)))
        elif message is not None and (answer := _answer(links, message, obey)) is not None:
            channel.tell(answer)


def _answer(links: ServerLinks, message: Message, obey: Callable[[Message], Message | None]) -> Message | None:
    generation = links.generation
    try:
        return obey(message)
    except ConnectionError as error:
        return LinkLost(generation=generation, reason=str(error))


def attach(links: ServerLinks, message: Attach) -> Message:
    """Connect to the servers; returns the answer."""
    try:
        links.attach(message.generation, message.servers, message.ranges, message.names)
    except OSError as error:
        return LinkLost(generation=message.generation, reason=str(error))
    return Attached(generation=message.generation)
