"""Names of tasks: one for every worker and server, parsed where texts come in and written where they go out."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

AGGREGATOR = "aggregator"
_TEXT = re.compile("([a-z]+):(0|[1-9][0-9]{0,8})")


class NodeId(NamedTuple):
    """Role and number of a node; its text is ``worker:1``. ``worker:2`` comes before ``worker:10``.

    A number names one node for the whole job: a node that joins later has a new number. A new process of the same node
    is another *incarnation* of it.
    """

    role: str
    """``worker`` or ``server``; ``aggregator``: it sums gradients on their way; in telemetry ``host``, in a runtime the
    role of an auxiliary task."""
    number: int

    def __str__(self) -> str:
        """The text that plans, records, settings and commands use."""
        return f"{self.role}:{self.number}"

    @classmethod
    def parse(cls, text: str) -> NodeId:
        """The node that ``text`` names; ``ValueError`` for anything but a role, a colon and a number."""
        return _parse_text(text)

    @classmethod
    def worker(cls, number: int) -> NodeId:
        """The worker with this number."""
        return cls("worker", number)

    @classmethod
    def server(cls, number: int) -> NodeId:
        """The server with this number."""
        return cls("server", number)

    @classmethod
    def aggregator(cls, number: int) -> NodeId:
        """The aggregator with this number."""
        return cls(AGGREGATOR, number)


@lru_cache(maxsize=4096)
def _parse_text(text: str) -> NodeId:
    """Telemetry asks for the same names again and again."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r}: not a node; write a role and a number, such as worker:1")
    return NodeId(found[1], int(found[2]))
