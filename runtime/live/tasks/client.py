"""The common loop of workers and auxiliary tasks: attached to the servers, ordered by the coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from runtime.live.transport.interruptible import Incoming, Interrupted, Orders
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import Attach, Attached, Goodbye, LinkLost, Message, Pace, Paced


class Channel(Incoming, Protocol):
    """The control channel of a client, as its loop needs it."""

    def tell(self, message: Message) -> None:
        """Send a message; raises ``ConnectionError`` when the coordinator is gone."""


def serve(channel: Channel, links: ServerLinks, obey: Callable[[Message], Message | None]) -> None:
    """Serve until the coordinator sends ``Goodbye``: ``obey`` carries out one message and returns the answer, if any.

    The loss of a server meanwhile is reported instead. Waiting for a server of an earlier generation ends: it may be on
    a machine that is gone, and then nothing closes the connection. Raises ``ConnectionError`` when the coordinator is
    gone.
    """

    def ends(message: Message) -> bool:
        return isinstance(message, Goodbye) or (isinstance(message, Attach) and message.generation > links.generation)

    orders = Orders(channel, ends)
    links.look = orders.look
    while True:
        message = orders.next()
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
    except Interrupted:  # by an order that voids this one
        return None
    except ConnectionError as error:
        return LinkLost(generation=generation, reason=str(error))


def attach(links: ServerLinks, message: Attach) -> Message:
    """Connect to the servers; returns the answer."""
    try:
        links.attach(message.generation, message.servers, message.ranges, message.names)
    except OSError as error:
        return LinkLost(generation=message.generation, reason=str(error))
    return Attached(generation=message.generation)
