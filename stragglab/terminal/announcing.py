"""What a command says before it begins: what it will do, how long that takes here, and where the result is."""

from __future__ import annotations

from stragglab.commands import COMMANDS
from stragglab.grids.forks import processors

MEASURED_ON = 2
"""Processors on which the times in minutes were measured."""


def announcement(word: str) -> str:
    """The line of a command."""
    does, takes, into = COMMANDS[word]
    if isinstance(takes, int):
        there = processors()
        takes = f"about {max(round(takes * MEASURED_ON / there), 1)} min on {there} processors"
    return f"{word}: {does}; takes {takes}; result: {into}"
