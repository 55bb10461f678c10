"""Which core of this machine each pinned host runs on (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runtime.cluster.hosts import Host


def cores_of(hosts: Iterable[Host], cores: Sequence[int]) -> dict[int, int]:
    """The core of every pinned host, by its number: the largest quota first, each on the least promised core.

    Tasks that do not move between cores use less processor time, and nobody works at the same moment as another task of
    its host, as on a machine of one core.
    """
    promised = dict.fromkeys(cores, 0.0)
    found = {}
    for host in sorted((host for host in hosts if host.pinned), key=lambda host: -(host.cores or 0.0)):
        core = min(cores, key=lambda core: promised[core])
        promised[core] += host.cores or 0.0
        found[host.number] = core
    return found
