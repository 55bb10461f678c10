"""The subjects of a story, as the command line writes them, and the lines of a log about each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.records.nodes import Node, parse_node

ROLES = ("worker", "server", "aggregator", "host", "update", "gradient")
"""Tasks and hosts by their numbers, an update by the version that it made, a gradient by its id."""
MAX_DIGITS = 18


def parse_subject(text: str) -> Node:
    """``worker:3``, ``server:0``, ``update:40``, ``gradient:17``; raises ValueError with the choices."""
    if len(text) <= MAX_DIGITS and text.isascii():
        node = parse_node(text)
        if node.role in ROLES and len(node.numbers) == 1:
            return node
    forms = ", ".join(f"{role}:N" for role in ROLES)
    raise ValueError(f"{text}: must be one of {forms} with a number N, or in a set of jobs the name of a job")


def concerns(fields: Mapping[str, Any], subject: Node) -> bool:
    """Whether an event, a command or a note names the subject, in any of the forms that the record has."""
    if str(subject) in (fields.get("node"), fields.get("task"), fields.get("target")):
        return True
    if subject.role == "worker" and (part := parse_node(fields.get("target"))).is_inside:
        return part.number == subject.number
    if fields.get("role") == subject.role and fields.get("id") == subject.number:
        return True
    if fields.get(subject.role) == subject.number and not isinstance(fields.get(subject.role), bool):
        return True
    servers = fields.get("servers")
    return subject.role == "server" and isinstance(servers, list) and subject.number in servers
