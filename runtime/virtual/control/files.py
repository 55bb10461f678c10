"""Checkpoints on the virtual clock: their content, and the times of their orders."""

from __future__ import annotations

from typing import Any, NamedTuple, final


class File(NamedTuple):
    """A checkpoint, or the state of replicas: parameters and the data service's state, of one version."""

    version: int
    state: bytes
    dumped: Any


@final
class Files:
    """Checkpoints that are complete or may become so, by number."""

    def __init__(self) -> None:
        self._files: dict[int, File] = {}
        self._asked_s: dict[int, float] = {}

    def add(self, number: int, file: File, asked_s: float) -> None:
        self._files[number], self._asked_s[number] = file, asked_s

    def complete(self, number: int) -> float:
        """Mark a checkpoint as complete, so that older ones are deleted; returns when it was ordered."""
        self._files = {other: file for other, file in self._files.items() if other >= number}
        self._asked_s = {other: asked_s for other, asked_s in self._asked_s.items() if other >= number}
        return self._asked_s[number]

    def read(self, number: int) -> File:
        """The content of a checkpoint; before the first is complete (-1), the initial state."""
        return self._files[max(number, 0)]
