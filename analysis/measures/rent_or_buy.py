"""When to restart a straggler whose end nobody knows: rent or buy.

Karlin, Manasse, Rudolph and Sleator, Competitive Snoopy Caching (Algorithmica 1988): a rule that buys as soon as the
rent has cost as much as the price pays at most twice as much as the best decision in hindsight, and no deterministic
rule has a smaller factor. Greyhound (ATC 2025) escalates its cures of slow jobs by the same rule.
"""

from __future__ import annotations

import numpy as np

from analysis.measures.slow_steps import Floats


def restart_after(lost_s: Floats, restart_s: float) -> int | None:
    """The number of slow steps after which a restart is due; None: they have cost less than a restart.

    With n steps of cost L in all the rule costs at most 2 min(L, ``restart_s``), and the cost of one step more.

    Args:
        lost_s: [steps] seconds that each step has lost since the straggler began, 0 or more.
        restart_s: seconds that a restart costs.
    """
    due = np.flatnonzero(np.cumsum(lost_s) >= restart_s)
    return int(due[0]) + 1 if len(due) else None
