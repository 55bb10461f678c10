"""The choices of a config group."""

from __future__ import annotations

from runtime.house import ROOT


def choices(group: str) -> list[str]:
    """The choices of a config group."""
    return sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml"))
