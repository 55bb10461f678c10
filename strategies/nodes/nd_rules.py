"""AntDT-ND's decisions (AntDT section VI-A): which node is restarted, and which speeds the sizes are solved from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import final

from strategies.nodes.restarts import Restarts
from strategies.watching.flags import slow
from strategies.watching.monitor import Monitor

CALM_DECISIONS = 2
"""Decisions without a transient straggler after which sizes may become even again, ..."""
EVEN_RATIO = 1.1
"""... if the fastest worker is less than so many times as fast as the slowest."""


@final
class NDRules:
    """Every decision is told by its words in ``said``, in the order in which it was made.

    Args:
        monitor: what nodes were like lately.
        restarts: who may be restarted.
        ratio: the paper's lambda.
        center: one of ``flags.CENTERS``.
        max_pending_s: seconds that a new worker may be expected to wait for its place.
        min_update_s: seconds per update below which no server is slow.
    """

    def __init__(
        self, monitor: Monitor, restarts: Restarts, ratio: float, center: str, max_pending_s: float, min_update_s: float
    ) -> None:
        self.monitor, self.restarts, self.ratio, self.center = monitor, restarts, ratio, center
        self.max_pending_s, self.min_update_s = max_pending_s, min_update_s
        self.calm = 0

    def _slow(self, seconds: Mapping[int, float]) -> list[int]:
        return slow(seconds, self.ratio, self.center)

    def kill(self, t: float, pending_s: float, said: list[str]) -> str | None:
        """The node to restart at ``t``: a persistent server before a persistent worker, the slowest first."""
        updates_s = self.monitor.mature_updates_s("long")
        servers = [f"server:{one}" for one in self._slow(updates_s) if updates_s[one] >= self.min_update_s]
        workers = [f"worker:{one}" for one in self._slow(self.monitor.mature_bpts_s("long"))]
        transient = [f"worker:{one}" for one in self._slow(self.monitor.mature_bpts_s("short"))]
        self.restarts.watch(t, {*servers, *workers, *transient})
        if workers and pending_s > self.max_pending_s:
            said.append(f"{workers[0]} stays: another would be pending for {pending_s:.3g} s")
            workers = []
        return self.restarts.pick(t, servers, said) or self.restarts.pick(t, workers, said)

    def adjust(
        self, members: Collection[int], adjusted: bool, killed: str | None, said: list[str]
    ) -> dict[int, float] | None:
        """Speeds in samples/s to solve the sizes from; empty: even sizes again; None: sizes stay as they are.

        ``members`` are those of the round, ``adjusted`` says whether their sizes differ. A ``killed`` worker counts no
        more, neither for the mean nor for the sizes.
        """
        bpts_s, speeds = self.monitor.mature_bpts_s("short"), self.monitor.speeds_samples_per_s("short")
        role, _, number = (killed or "").partition(":")
        if role == "worker":
            bpts_s.pop(int(number), None)
            speeds.pop(int(number), None)
        transient = self._slow(bpts_s)
        if transient or role == "worker":
            slowest = ", ".join(f"worker:{one}" for one in transient[:5])
            said.append(f"ADJUST_BS: slow {slowest}" if transient else "ADJUST_BS among the others")
            self.calm = 0
            return speeds
        self.calm += 1
        alike = speeds.keys() >= set(members) and max(speeds.values()) < EVEN_RATIO * min(speeds.values())
        if not adjusted or self.calm < CALM_DECISIONS or not alike:
            return None
        said.append("ADJUST_BS to even sizes")
        return {}
