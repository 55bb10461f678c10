"""Warnings to readers of results as a summary keeps them, and the joint warnings of many runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Warned(NamedTuple):
    """One warning. ``what`` is the same for all runs, ``detail`` of this one, ``share`` says which of two is worse."""

    what: str
    detail: str = ""
    share: float = 0.0

    @property
    def text(self) -> str:
        """The warning in one line."""
        return ": ".join(filter(None, (self.what, self.detail)))


def in_summary(found: Sequence[Warned]) -> dict[str, Any]:
    """As a summary has them: ``warning`` for people (null: there is none), and its parts."""
    return {"warning": "; ".join(one.text for one in found) or None, "warnings": [one._asdict() for one in found]}


def stored_warnings(summary: Mapping[str, Any]) -> list[Warned]:
    """The warnings of a summary."""
    return [Warned(**each) for each in summary.get("warnings") or ()]


def together(found: Iterable[Sequence[Warned]], of: str) -> list[Warned]:
    """The warnings of many (``of``: ``runs``, ``jobs``), each once: how many have it, and the worst of them."""
    by_what: dict[str, list[Warned]] = {}
    for each in found:
        for one in each:
            by_what.setdefault(one.what, []).append(one)
    return [_worst(alike, of) for alike in by_what.values()]


def _worst(alike: Sequence[Warned], of: str) -> Warned:
    worst = max(alike, key=lambda one: one.share)
    return worst._replace(what=f"{len(alike)} of its {of}: {worst.what}")
