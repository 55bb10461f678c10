"""The control files of one group in one hierarchy of control groups, versions 1 and 2, and the kernel's limits."""

from __future__ import annotations

import contextlib
import errno
import math
import os
from pathlib import Path
from typing import Literal, NamedTuple

from runtime.cluster.hosts import USUAL_PERIOD_S

Kind = Literal["cpu", "memory", "cpuacct"]
"""Of limits; ``cpuacct`` only counts, and is of its own where version 1 mounts it apart from ``cpu``."""

PERIOD_US = round(USUAL_PERIOD_S * 1e6)
"""The usual period.

Hosts may have other ones (``cluster.hosts.quota_period_ms``): of a period's quota the kernel gives a processor up to
5 ms at once, so the first task that asks gets all of a smaller one, and another task on another processor waits.
"""
MIN_QUOTA_US, MAX_PERIOD_US = 1_000, 1_000_000
"""The kernel's limits: a small quota needs a longer period."""
MIN_CORES = MIN_QUOTA_US / MAX_PERIOD_US
DEFAULT_SHARES, DEFAULT_WEIGHT = 1024, 100
"""Of a group of version 1 and 2 that nobody has given another."""
DEFAULT_FRAC = 0.01
"""The part as which the default counts, so that parts down to a ten-thousandth can be set with version 2."""
_UNLIMITED_BYTES = 1 << 62


class QuotaRefused(ValueError):
    """The kernel does not enforce the requested limit."""


class Quota(NamedTuple):
    """``quota_us`` of processor time in every ``period_us``; None: unlimited."""

    quota_us: int | None
    period_us: int

    @property
    def cores(self) -> float | None:
        return None if self.quota_us is None else self.quota_us / self.period_us


class Throttled(NamedTuple):
    """Since the group was created: periods with demand, periods that were throttled, and for how long.

    The time, summed over processors, is counted at its end, so the number may be ahead of it.
    """

    num_periods: int
    num_throttled: int
    throttled_s: float


def quota_of(cores: float | None, usual_us: int = PERIOD_US) -> Quota:
    """The quota for ``cores``: in every ``usual_us``, or longer if it would be too small.

    From one to another of the same usual period, one number never shrinks while the other never grows.
    """
    if cores is None:
        return Quota(None, usual_us)
    if not MIN_CORES <= cores < math.inf:
        raise QuotaRefused(f"{cores:g} cores: the least quota is {MIN_CORES:g}; use that, or None for unlimited")
    period_us = max(usual_us, round(MIN_QUOTA_US / cores))
    return Quota(max(MIN_QUOTA_US, round(cores * period_us)), period_us)


class Kernel:
    """Access to the kernel's control files; tests use a fake instead."""

    def read(self, path: Path) -> str:
        """The content of a control file."""
        return path.read_text()

    def write(self, path: Path, text: str) -> None:
        """One write to an existing control file, which the kernel accepts or refuses as a whole."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def make(self, path: Path) -> None:
        """Create a group without limits."""
        path.mkdir()

    def remove(self, path: Path) -> None:
        """Remove a group without processes and groups."""
        path.rmdir()

    def writable(self, path: Path) -> bool:
        """Whether this user may write to a path."""
        return os.access(path, os.W_OK, effective_ids=True)


class GroupFiles:
    """A group's directory in one hierarchy; :class:`V1` and :class:`V2` know its files."""

    version = 0

    def __init__(self, path: Path, kernel: Kernel) -> None:
        self.path, self.kernel = path, kernel

    def get(self, name: str) -> str:
        """The content of a control file of the group."""
        return self.kernel.read(self.path / name).strip()

    def put(self, name: str, value: object) -> None:
        """Write a control file of the group."""
        self.kernel.write(self.path / name, str(value))

    def has(self, name: str) -> bool:
        """Whether the kernel has this control file."""
        return (self.path / name).exists()

    def below(self, name: str, kind: Kind) -> GroupFiles:
        """The group of this name below, for this kind of limit; it is created if missing."""
        path = self.path / name
        if not path.is_dir():
            self.kernel.make(path)
        return type(self)(path, self.kernel)

    def stat(self) -> dict[str, int]:
        """The counters of ``cpu.stat`` by name."""
        return self.counters("cpu.stat")

    def counters(self, name: str) -> dict[str, int]:
        """The counters of a control file, one a line, by name."""
        return {name: int(value) for name, value in (line.split() for line in self.get(name).splitlines())}

    def quota(self) -> Quota:
        """The quota that the kernel enforces."""
        raise NotImplementedError

    def set_quota(self, quota: Quota) -> None:
        """Set the quota; if refused with an ``OSError``, nothing has changed."""
        raise NotImplementedError

    def share_frac(self) -> float:
        """The weight of the group among its siblings, as a part of the largest in use; by default a hundredth."""
        raise NotImplementedError

    def set_share(self, frac: float | None) -> None:
        """Set that weight, above 0 and up to 1; None: the default."""
        raise NotImplementedError

    def memory_bytes(self) -> int | None:
        """The memory limit that the kernel enforces."""
        raise NotImplementedError

    def set_memory(self, limit: int | None) -> None:
        """Limit the memory, swap included where the kernel counts it."""
        raise NotImplementedError

    def memory_kills(self) -> int:
        """Processes that the kernel has killed because the memory limit was reached."""
        raise NotImplementedError

    def throttled(self) -> Throttled:
        """The throttling so far."""
        raise NotImplementedError

    def usage_s(self) -> float | None:
        """Processor seconds so far, if this hierarchy counts them."""
        raise NotImplementedError


class V1(GroupFiles):
    """Version 1: one hierarchy for each controller, or for two or three together."""

    version = 1

    def quota(self) -> Quota:
        """The quota, where -1 means unlimited."""
        quota_us = int(self.get("cpu.cfs_quota_us"))
        return Quota(None if quota_us < 0 else quota_us, int(self.get("cpu.cfs_period_us")))

    def set_quota(self, quota: Quota) -> None:
        """Two writes, of which the first is never refused if both together are valid.

        Between the two, "unlimited" remains so, and a change from one quota to another passes a value in between (see
        :func:`quota_of`), so it is at most what the groups above have and at least what those below have.
        """
        if quota.quota_us is None:
            self.put("cpu.cfs_quota_us", -1)
            return
        before_us = self.get("cpu.cfs_period_us")
        self.put("cpu.cfs_period_us", quota.period_us)
        try:
            self.put("cpu.cfs_quota_us", quota.quota_us)
        except OSError:
            self.put("cpu.cfs_period_us", before_us)
            raise

    def share_frac(self) -> float:
        return int(self.get("cpu.shares")) / (DEFAULT_SHARES / DEFAULT_FRAC)

    def set_share(self, frac: float | None) -> None:
        """Set the shares, of which the kernel takes 2 at least."""
        self.put("cpu.shares", max(2, round(DEFAULT_SHARES * (frac or DEFAULT_FRAC) / DEFAULT_FRAC)))

    def memory_bytes(self) -> int | None:
        """The memory limit; unlimited is a number of pages larger than any memory."""
        limit = int(self.get("memory.limit_in_bytes"))
        return None if limit >= _UNLIMITED_BYTES else limit

    def set_memory(self, limit: int | None) -> None:
        """Limit memory and swap, in an order in which their sum is never below memory alone."""
        held = self.memory_bytes()
        names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
        if limit is None or (held is not None and limit > held):
            names.reverse()
        for name in names:
            if self.has(name):
                self.put(name, -1 if limit is None else limit)

    def memory_kills(self) -> int:
        return self.counters("memory.oom_control").get("oom_kill", 0)

    def throttled(self) -> Throttled:
        stat = self.stat()
        return Throttled(stat["nr_periods"], stat["nr_throttled"], stat["throttled_time"] / 1e9)

    def usage_s(self) -> float | None:
        """Processor seconds, in the hierarchy where ``cpuacct`` is mounted."""
        with contextlib.suppress(FileNotFoundError):
            return int(self.get("cpuacct.usage")) / 1e9
        return None


class V2(GroupFiles):
    """Version 2: one hierarchy, in which processes may only be in groups without groups below."""

    version = 2

    def below(self, name: str, kind: Kind) -> GroupFiles:
        """The group below, after the controller was enabled for it: groups have those that the one above delegates."""
        if kind not in self.get("cgroup.subtree_control").split():
            self.put("cgroup.subtree_control", f"+{kind}")
        return super().below(name, kind)

    def quota(self) -> Quota:
        quota_us, period_us = self.get("cpu.max").split()
        return Quota(None if quota_us == "max" else int(quota_us), int(period_us))

    def set_quota(self, quota: Quota) -> None:
        """Set quota and period in one write."""
        self.put("cpu.max", f"{'max' if quota.quota_us is None else quota.quota_us} {quota.period_us}")

    def share_frac(self) -> float:
        return int(self.get("cpu.weight")) / (DEFAULT_WEIGHT / DEFAULT_FRAC)

    def set_share(self, frac: float | None) -> None:
        """Set the weight, of which the kernel takes 1 to 10,000."""
        self.put("cpu.weight", max(1, round(DEFAULT_WEIGHT * (frac or DEFAULT_FRAC) / DEFAULT_FRAC)))

    def memory_bytes(self) -> int | None:
        limit = self.get("memory.max")
        return None if limit == "max" else int(limit)

    def set_memory(self, limit: int | None) -> None:
        """Limit the memory; a limited group does not swap."""
        self.put("memory.max", "max" if limit is None else limit)
        if self.has("memory.swap.max"):
            self.put("memory.swap.max", "max" if limit is None else 0)

    def memory_kills(self) -> int:
        return self.counters("memory.events").get("oom_kill", 0)

    def throttled(self) -> Throttled:
        stat = self.stat()
        return Throttled(stat["nr_periods"], stat["nr_throttled"], stat["throttled_usec"] / 1e6)

    def usage_s(self) -> float | None:
        return self.stat()["usage_usec"] / 1e6


def explain(error: OSError) -> tuple[str, str]:
    """(reason, cure) for the kernel's error when a limit cannot be set."""
    match error.errno:
        case errno.EINVAL:
            return "more than the groups above have is refused", "ask for less"
        case errno.EROFS:
            return "the control groups are mounted read-only", "mount them read-write (a container: --privileged)"
        case errno.EACCES | errno.EPERM:
            return "no permission", "run as root"
        case errno.ENOENT:
            return "this kernel lacks this limit", "use a kernel with CONFIG_CFS_BANDWIDTH and CONFIG_MEMCG"
        case errno.EBUSY:
            return "the group is in use", "end the processes in it, or move them to a group of their own"
    return error.strerror or str(error), "see what the kernel log says"
