"""A task's heartbeat, sent by a thread because a long computation or an injected sleep must not look like a crash."""

from __future__ import annotations

import contextlib
import threading
from typing import Protocol

from runtime.live.transport.messages import Heartbeat, encode

_HEARTBEAT = encode(Heartbeat())


class Sender(Protocol):
    """A channel to which two threads may send."""

    def send(self, data: bytes) -> object: ...


def start_heartbeat(channel: Sender, period_s: float) -> None:
    """Start to send heartbeats until the process or the connection ends."""
    pause = threading.Event()

    def beat() -> None:
        with contextlib.suppress(OSError):
            while not pause.wait(period_s):
                channel.send(_HEARTBEAT)

    threading.Thread(target=beat, name="heartbeat", daemon=True).start()
