"""A control channel that a thread reads, so that some orders are carried out while the task computes or sends."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import final

from runtime.live.transport.channel import BlockingChannel
from runtime.live.transport.messages import Message


@final
class SplitChannel:
    """A worker's control channel without the orders that ``takes`` carries out, and returns true for."""

    def __init__(self, channel: BlockingChannel, takes: Callable[[Message], bool]) -> None:
        self.channel, self.takes = channel, takes
        self._messages: queue.SimpleQueue[Message | ConnectionError] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="control", daemon=True).start()

    def tell(self, message: Message) -> None:
        """Send a message; raises ``ConnectionError`` when the coordinator is gone."""
        self.channel.tell(message)

    def receive(self) -> Message | None:
        """The next message; raises ``ConnectionError`` when the coordinator is gone."""
        message = self._messages.get()
        if isinstance(message, ConnectionError):
            self._messages.put(message)  # no other will come
            raise message
        return message

    def is_readable(self) -> bool:
        """Whether :meth:`receive` would not wait."""
        return not self._messages.empty()

    def _read(self) -> None:
        while True:
            try:
                message = self.channel.receive()
                if message is not None and not self.takes(message):
                    self._messages.put(message)
            except OSError as error:  # also where the rest of a message does not come
                self._messages.put(ConnectionResetError(str(error)))
                return
