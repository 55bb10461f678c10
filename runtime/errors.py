"""Errors for people: what is wrong, where it was set, what to do."""

from __future__ import annotations


class ConfigError(ValueError):
    """A setting that cannot be used. The message is one line: the setting, its value, the cure."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))
