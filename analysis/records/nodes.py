"""Nodes and targets as records write them: ``worker:1``, ``server:0``, ``host:2``, ``link:2``, ``link:0>2``."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

TASKS = ("worker", "server")


class Node(NamedTuple):
    """``numbers``: a route (``link:0>2``) has two, everything else one; a target of an unknown form has none."""

    role: str
    numbers: tuple[int, ...]

    @property
    def number(self) -> int:
        """Return the number of a task, host or link; of a route, its sending host's."""
        return self.numbers[0]

    @property
    def is_task(self) -> bool:
        """Whether it is a worker or a server."""
        return self.role in TASKS

    def __str__(self) -> str:
        """As records write it."""
        return f"{self.role}:{'>'.join(map(str, self.numbers))}"


def parse_node(text: object) -> Node:
    """The node or target that ``text`` names; of a form that this version does not know, only the role is read."""
    role, _, numbers = str(text).partition(":")
    parts = numbers.split(">")
    return Node(role, tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ())


def role_of(names: pd.Series) -> pd.Series:
    """The role of every name in a column of texts."""
    return names.map(lambda text: parse_node(text).role)


def number_of(names: pd.Series) -> pd.Series:
    """The number of every name in a column of texts, int64."""
    return names.map(lambda text: parse_node(text).number).astype("int64")


def worker_name(number: Any) -> str:
    """The text by which records name this worker."""
    return str(Node("worker", (int(number),)))


def server_name(number: Any) -> str:
    """The text by which records name this server."""
    return str(Node("server", (int(number),)))
