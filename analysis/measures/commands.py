"""The commands of a strategy besides the usual ones of every iteration (one run)."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.records.load import Run
from analysis.records.schema import type_of
from strategies.protocol import Apply, Compute, Drop, Evaluate, Partition, Score, Send, Wake

USUAL = (Compute, Send, Apply, Drop, Partition, Score, Wake, Evaluate)
"""Commands that come with every iteration, or do nothing to tasks."""


def commands_to_nodes(run: Run) -> Iterator[tuple[float, str, str]]:
    """(seconds, node or nothing, in words) of every other command: ``Restart worker:3``, ``Checkpoint``."""
    for line in run.notable_lines:
        for command in line.commands:
            if not isinstance(command, USUAL):
                node = str(getattr(command, "node", ""))
                yield line.t, node, f"{type_of(command)} {node}".strip()
