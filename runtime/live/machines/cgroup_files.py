"""The control files of one group in one hierarchy of control groups, versions 1 and 2, and what the kernel takes."""

from __future__ import annotations

import contextlib
import errno
import math
import os
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["cpu", "memory"]

PERIOD_US = 10_000
"""Short, so that a quota looks like a slower processor and not like long pauses."""
MIN_QUOTA_US, MAX_PERIOD_US = 1_000, 1_000_000
"""What the kernel takes: a small quota needs a longer period."""
MIN_CORES = MIN_QUOTA_US / MAX_PERIOD_US
_UNLIMITED_BYTES = 1 << 62


class QuotaRefused(ValueError):
    """The kernel does not hold what was asked for."""


class Quota(NamedTuple):
    """``quota_us`` of processor time in every ``period_us``; None: unlimited."""

    quota_us: int | None
    period_us: int

    @property
    def cores(self) -> float | None:
        return None if self.quota_us is None else self.quota_us / self.period_us


class Throttled(NamedTuple):
    """Since the group was made: periods in which somebody wanted to run, those that were cut short, for how long.

    The time, summed over processors, is counted when it is over, so the number may be ahead of it.
    """

    num_periods: int
    num_throttled: int
    throttled_s: float


def quota_of(cores: float | None) -> Quota:
    """The quota for so many cores. Between any two, one number stays or grows while the other stays or shrinks."""
    if cores is None:
        return Quota(None, PERIOD_US)
    if not MIN_CORES <= cores < math.inf:
        raise QuotaRefused(f"{cores:g} cores: a quota holds {MIN_CORES:g} or more; ask for that, or None for unlimited")
    period_us = max(PERIOD_US, round(MIN_QUOTA_US / cores))
    return Quota(max(MIN_QUOTA_US, round(cores * period_us)), period_us)


class Kernel:
    """The kernel, spoken to through files; tests put one of their own in its place."""

    def read(self, path: Path) -> str:
        """All of a control file."""
        return path.read_text()

    def write(self, path: Path, text: str) -> None:
        """One write to a control file that is there: the kernel takes it or refuses it as a whole."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def make(self, path: Path) -> None:
        """A new group."""
        path.mkdir()

    def remove(self, path: Path) -> None:
        """A group without processes and groups."""
        path.rmdir()

    def writable(self, path: Path) -> bool:
        """Whether this user may."""
        return os.access(path, os.W_OK, effective_ids=True)


class GroupFiles:
    """A group's directory in one hierarchy; :class:`V1` and :class:`V2` know what is in it."""

    version = 0

    def __init__(self, path: Path, kernel: Kernel) -> None:
        self.path, self.kernel = path, kernel

    def get(self, name: str) -> str:
        """What a control file says."""
        return self.kernel.read(self.path / name).strip()

    def put(self, name: str, value: object) -> None:
        """Write a control file."""
        self.kernel.write(self.path / name, str(value))

    def has(self, name: str) -> bool:
        """Whether this kernel has that control file."""
        return (self.path / name).exists()

    def below(self, name: str, kind: Kind) -> GroupFiles:
        """The group below of that name, for that kind of limit; it is made if it is not there."""
        path = self.path / name
        if not path.is_dir():
            self.kernel.make(path)
        return type(self)(path, self.kernel)

    def stat(self) -> dict[str, int]:
        """``cpu.stat``."""
        return {name: int(value) for name, value in (line.split() for line in self.get("cpu.stat").splitlines())}

    def quota(self) -> Quota:
        """What the kernel holds."""
        raise NotImplementedError

    def set_quota(self, quota: Quota) -> None:
        """What is refused with an ``OSError`` has changed nothing."""
        raise NotImplementedError

    def memory_bytes(self) -> int | None:
        """The limit that the kernel holds."""
        raise NotImplementedError

    def set_memory(self, limit: int | None) -> None:
        """Swapping included, where the kernel counts it."""
        raise NotImplementedError

    def throttled(self) -> Throttled:
        """What the quota has cost so far."""
        raise NotImplementedError

    def usage_s(self) -> float | None:
        """Processor time so far, if it is counted here."""
        raise NotImplementedError


class V1(GroupFiles):
    """In version 1 there is a hierarchy for each controller, or for two or three together."""

    version = 1

    def quota(self) -> Quota:
        """Quota -1 means none."""
        quota_us = int(self.get("cpu.cfs_quota_us"))
        return Quota(None if quota_us < 0 else quota_us, int(self.get("cpu.cfs_period_us")))

    def set_quota(self, quota: Quota) -> None:
        """Two writes, of which the first is never refused when both together are lawful.

        Between the two, "unlimited" is still that, and one quota on its way to another is something in between (see
        :func:`quota_of`), so it is no more than the groups above have and no less than those below.
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

    def memory_bytes(self) -> int | None:
        """Unlimited is a number of pages that nobody has."""
        limit = int(self.get("memory.limit_in_bytes"))
        return None if limit >= _UNLIMITED_BYTES else limit

    def set_memory(self, limit: int | None) -> None:
        """Memory and swap together may never be limited to less than memory alone."""
        held = self.memory_bytes()
        names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
        if limit is None or (held is not None and limit > held):
            names.reverse()
        for name in names:
            if self.has(name):
                self.put(name, -1 if limit is None else limit)

    def throttled(self) -> Throttled:
        stat = self.stat()
        return Throttled(stat["nr_periods"], stat["nr_throttled"], stat["throttled_time"] / 1e9)

    def usage_s(self) -> float | None:
        """Only where ``cpuacct`` is mounted together with ``cpu``."""
        with contextlib.suppress(FileNotFoundError):
            return int(self.get("cpuacct.usage")) / 1e9
        return None


class V2(GroupFiles):
    """In version 2 there is one hierarchy, and processes may only be in groups that hold no other groups."""

    version = 2

    def below(self, name: str, kind: Kind) -> GroupFiles:
        """Groups have the controllers that the one above gives them."""
        if kind not in self.get("cgroup.subtree_control").split():
            self.put("cgroup.subtree_control", f"+{kind}")
        return super().below(name, kind)

    def quota(self) -> Quota:
        quota_us, period_us = self.get("cpu.max").split()
        return Quota(None if quota_us == "max" else int(quota_us), int(period_us))

    def set_quota(self, quota: Quota) -> None:
        """Both numbers in one write."""
        self.put("cpu.max", f"{'max' if quota.quota_us is None else quota.quota_us} {quota.period_us}")

    def memory_bytes(self) -> int | None:
        limit = self.get("memory.max")
        return None if limit == "max" else int(limit)

    def set_memory(self, limit: int | None) -> None:
        """A limited group does not swap."""
        self.put("memory.max", "max" if limit is None else limit)
        if self.has("memory.swap.max"):
            self.put("memory.swap.max", "max" if limit is None else 0)

    def throttled(self) -> Throttled:
        stat = self.stat()
        return Throttled(stat["nr_periods"], stat["nr_throttled"], stat["throttled_usec"] / 1e6)

    def usage_s(self) -> float | None:
        return self.stat()["usage_usec"] / 1e6


def explain(error: OSError) -> tuple[str, str]:
    """(reason, cure) of what the kernel says when a limit cannot be set."""
    match error.errno:
        case errno.EINVAL:
            return "more than the groups above have is refused", "ask for less"
        case errno.EROFS:
            return "the control groups are mounted read-only", "mount them read-write (a container: --privileged)"
        case errno.EACCES | errno.EPERM:
            return "no permission", "run as root"
        case errno.ENOENT:
            return "this kernel has no such limit", "use a kernel with CONFIG_CFS_BANDWIDTH and CONFIG_MEMCG"
        case errno.EBUSY:
            return "the group is in use", "end the processes in it, or move them to a group of their own"
    return error.strerror or str(error), "see what the kernel log says"
