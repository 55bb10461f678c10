"""After which commands nothing counts until all hold one version again."""

from __future__ import annotations

from analysis.records.nodes import parse_node
from strategies.protocol import Repartition, Restart, Retire


def halts(command: object, *, going_back: bool) -> bool:
    """Whether nothing counts after a command that was carried out, until :class:`Restored`.

    ``going_back``: a note has announced that a loss makes all roll back, which the command then causes.
    """
    if isinstance(command, Restart | Retire):
        return going_back or (isinstance(command, Restart) and parse_node(command.node).role == "server")
    return isinstance(command, Repartition)
