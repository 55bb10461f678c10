"""Nodes of an execution trace of Chakra: what one rank computes, sends and receives.

Source of the format: mlcommons/chakra, ``schema/protobuf/et_def.proto``; each message follows its length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reading.errors import Unreadable
from reading.protobuf import Value, as_signed, fields, varint

COMPUTING, SENDING, RECEIVING, COLLECTIVE = 4, 5, 6, 7
"""Types of nodes."""
_NUMBER, _TYPE, _MICROS, _ATTRIBUTE = 1, 3, 7, 10
_AFTER = (4, 5)
"""Fields of a node: those after which it comes, by control and by data."""


class Node(NamedTuple):
    """One node; a field without a number counts as 0."""

    number: int
    kind: int
    micros: int
    after: tuple[int, ...]
    """Numbers of the nodes that it waits for."""
    words: dict[bytes, int]
    """Its attributes that are numbers."""


def nodes(data: bytes) -> Iterator[Node]:
    """The nodes of a trace, in the order of the file, with the file's own description as a node of kind 0.

    Raises:
        Unreadable: the trace is damaged.
    """
    for message in _messages(data):
        plain = dict.fromkeys((_NUMBER, _TYPE, _MICROS), 0)
        words: dict[bytes, int] = {}
        after: list[int] = []
        for number, value in fields(message):
            if number == _ATTRIBUTE and isinstance(value, bytes):
                words |= _attribute(value)
            elif number in _AFTER:
                after += _numbers(value)
            elif number in plain:
                plain[number] = value if isinstance(value, int) else 0
        yield Node(plain[_NUMBER], plain[_TYPE], plain[_MICROS], tuple(after), words)


def _attribute(message: bytes) -> dict[bytes, int]:
    """The name of an attribute, and its number if it has one."""
    found = dict(fields(message))
    name = found.get(1, b"")
    numbers = [value for number, value in found.items() if number > 1 and isinstance(value, int)]
    return {name: as_signed(numbers[0])} if isinstance(name, bytes) and numbers else {}


def _numbers(value: Value) -> Iterator[int]:
    """One number, or many after each other."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = varint(value, at)
        yield number


def _messages(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        length, at = varint(data, at)
        if length > len(data) - at:
            raise Unreadable("is damaged (it ends within a node)")
        yield data[at : at + length]
        at += length
