"""Orders about a worker's links, which a thread carries out at once.

The worker itself reads orders between iterations only; a push that is under way at the start or the end of a window
must become slower or quicker then, not when it is over.
"""

from __future__ import annotations

from typing import final

from runtime.live.tasks.client import Channel
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import LinksPaced, Message, PaceLinks


@final
class LinkOrders:
    """``takes`` is called by the thread that reads the control channel."""

    def __init__(self, links: ServerLinks, channel: Channel) -> None:
        self.links, self.channel = links, channel

    def takes(self, message: Message) -> bool:
        """Whether it is about links, and therefore carried out and answered by now."""
        if not isinstance(message, PaceLinks):
            return False
        try:
            answer = LinksPaced(order=message.order, achieved=self.links.pace_towards(message.towards))
        except OSError as error:
            answer = LinksPaced(order=message.order, achieved={}, problem=str(error))
        self.channel.tell(answer)
        return True
