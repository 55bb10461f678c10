"""Nodes and targets as records write them: ``worker:1``, ``server:0``, ``host:2``, ``link:2``, ``link:0>2``.

Parts of worker 2 are ``rank:(2,1,0)``, tensor rank 0 of stage 1, and ``link:2:(1,2)``, its link between two stages.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pandas as pd

TASKS = ("worker", "server")
PARTS = {"rank": "rank:({},{},{})", "stages": "link:{}:({},{})"}


class Node(NamedTuple):
    """``numbers``: a route (``link:0>2``) has two, a part of a worker three, of which the first is the worker's.

    Everything else has one number; a target of an unknown form has none. The role of a link between stages is
    ``stages``.
    """

    role: str
    numbers: tuple[int, ...]

    @property
    def number(self) -> int:
        """Return the number of a task, host or link; of a route, its sending host's; of a part, its worker's."""
        return self.numbers[0]

    @property
    def is_inside(self) -> bool:
        """Whether it is a part of a worker."""
        return self.role in PARTS

    @property
    def is_task(self) -> bool:
        """Whether it is a worker or a server."""
        return self.role in TASKS

    def __str__(self) -> str:
        """As records write it."""
        if self.is_inside and self.numbers:
            return PARTS[self.role].format(*self.numbers)
        return f"{self.role}:{'>'.join(map(str, self.numbers))}"


def parse_node(text: object) -> Node:
    """The node or target that ``text`` names; of a form that this version does not know, only the role is read."""
    if (part := re.fullmatch(r"rank:\((\d+),(\d+),(\d+)\)|link:(\d+):\((\d+),(\d+)\)", str(text))) is not None:
        return Node("rank" if part[1] else "stages", tuple(int(one) for one in part.groups() if one))
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
