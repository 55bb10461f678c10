"""Which nodes a run had, over all its layouts."""

from __future__ import annotations

from analysis.records.load import Run
from analysis.records.nodes import Node, parse_node
from analysis.records.schema import LayoutChanged


def numbers_of(run: Run, role: str) -> list[int]:
    """Numbers of all ``worker`` or ``server`` nodes that the run ever had; its job names the initial nodes."""
    start = {Node(role, (number,)) for number in range(run.job.get(f"num_{role}s") or 0)}
    layouts = [line.note for line in run.notable_lines if isinstance(line.note, LayoutChanged)]
    later = {parse_node(name) for layout in layouts for name in layout.nodes}
    return sorted(node.number for node in start | later if node.role == role)
