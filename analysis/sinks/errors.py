"""The error of all sinks."""

from __future__ import annotations


class SinkError(RuntimeError):
    """The sink cannot be used. The message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))
