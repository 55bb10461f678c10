"""How much of another process's silence counts: only time in which we could have heard it (pure)."""

from __future__ import annotations

AGENT_HEARTBEAT_S = 0.5
"""Seconds between two heartbeats on the link to an agent that has joined."""


class Listening:
    """Our own checks for silent peers. One comes far too late if we were stopped, or the machine was suspended.

    Then the others may have been stopped as well, or their messages have not been read yet. So such a gap counts as one
    period: no peer is lost for it, and a peer that stays silent is lost all the same, however busy we are.
    """

    def __init__(self, period_s: float, lease_s: float, now_s: float) -> None:
        """``period_s``: between two looks; ``lease_s``: the silence after which a process counts as lost."""
        self.period_s = period_s
        self._longest_s = lease_s / 2 + period_s
        self._looked_s = now_s

    def restart(self, now_s: float) -> None:
        """The clock was set, or nobody has looked so far."""
        self._looked_s = now_s

    def missed_s(self, now_s: float) -> float:
        """Look; returns the seconds since the last look that count for nobody, to add to the times of last words."""
        gap_s, self._looked_s = now_s - self._looked_s, now_s
        return gap_s - self.period_s if gap_s > self._longest_s else 0.0
