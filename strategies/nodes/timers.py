"""When a timer that has fired is the one that was set last (pure)."""

from __future__ import annotations

TOO_EARLY_S = 1e-3
"""By how much less a timer is still that one: a clock may round."""


def is_due(t: float, due_s: float) -> bool:
    """Whether what is due at ``due_s`` may be done at time ``t``; an earlier timer has been replaced by a later one."""
    return t >= due_s - TOO_EARLY_S
