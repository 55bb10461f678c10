"""Whether a timer that has fired is the one set last (pure)."""

from __future__ import annotations

TOO_EARLY_S = 1e-3
"""By how much a timer may fire early: a clock may round."""


def is_due(t: float, due_s: float) -> bool:
    """Whether a timer fired at ``t`` is the one due at ``due_s``; an earlier one has been replaced."""
    return t >= due_s - TOO_EARLY_S
