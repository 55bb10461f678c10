"""What a recovery goes by, where runtimes or jobs differ (pure)."""

from __future__ import annotations

from typing import Literal

import msgspec


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are those of real processes that fail as seldom as one would wish."""

    failover: Literal["shards", "checkpoint"] = "shards"
    """What a lost worker costs: its own samples; or all that was done since the last checkpoint, by everybody."""
    inseparable: bool = False
    """Replicas that cannot go on without one of them, as ``DistributedDataParallel`` itself: a loss ends the run."""
    max_restarts: int | None = None
    """Deaths after which a task is not started again; None: no limit. What plan and strategy want does not count."""
    max_futile: int | None = None
    """Deaths in a row, of a task that had done nothing yet, after which it is given up; None: never."""

    # What the virtual clock decides otherwise, so that its results stay what they were.
    reads_on_return: bool = False
    """With ``failover=checkpoint`` the servers read the checkpoint when a lost worker is back, and once more if another
    is still away when they have. Live, they read while it starts: the virtual clock makes such a loss dearer."""
    plan_ends_wait: bool = False
    """A plan that kills a task that waits for a place takes it out of the scheduler's queue: it starts when the plan
    lets it. Live, it has to wait for both."""
    regroups: bool = False
    """A replica that comes while others agree makes them begin again, with it. Live, it is taken in afterwards."""
