"""Members of jobs for tests."""

from __future__ import annotations

from runtime.core.layout import Layout
from runtime.core.membership import Membership
from runtime.core.recovery.automaton import Recovery
from runtime.core.recovery.rules import Rules


def members_of(num_workers: int, num_servers: int = 1, num_replicas: int = 0) -> Membership:
    """Nobody is there yet."""
    return Membership(Layout.initial(num_workers, num_servers, (), num_replicas))


def ring_of(num_workers: int) -> Membership:
    """Replicas that sum updates."""
    members = members_of(num_workers, 0)
    members.ring = members.layout.workers
    return members


def recovery_of(rules: Rules, num_workers: int, num_servers: int, auxiliaries: tuple[str, ...] = ()) -> Recovery:
    """Of a job of these tasks."""
    return Recovery(rules, members_of(num_workers, num_servers, rules.num_replicas), auxiliaries)
