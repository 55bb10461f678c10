"""Control groups: CPU quotas and memory limits for groups of processes, alike with versions 1 and 2.

All groups of a run lie below one directory per hierarchy, named ``stragglab-<run id>``. Its place is found in /proc;
whether it works, by trying (:meth:`Hierarchy.probe`). Every limit is read back.
"""

from __future__ import annotations

import errno
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from runtime.live.machines.cgroup_files import (
    PERIOD_US,
    V1,
    V2,
    GroupFiles,
    Kernel,
    Kind,
    QuotaRefused,
    Throttled,
    explain,
    quota_of,
)

__all__ = ["Cgroup", "CgroupUnavailable", "Hierarchy", "QuotaRefused", "Throttled", "find", "run_group"]

Register = Callable[[Path], None]
"""Called with a run's directory before it is created, and again afterwards: ``janitor_process.register``."""

PREFIX = "stragglab-"
ROUNDING = 1e-3
PROBE_CORES, PROBE_BYTES = 0.01, 64 * 2**20
REMOVE_S = 1.0
"""Seconds for which a group may remain busy after its last process has died."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
DELEGATED = "run as root, or where systemd delegates it: systemd-run --user --scope -p Delegate=yes COMMAND"


class CgroupUnavailable(RuntimeError):
    """This machine or user cannot set such limits: ``reason`` and ``cure``, a line each."""

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(f"{reason}; {cure}")
        self.reason, self.cure = reason, cure


# ---- a group --------------------------------------------------------------------------------------------------------


class Cgroup:
    """A group of processes, in all hierarchies that it needs: with version 1, one for each kind of limit.

    Of the quotas of a group and of those above it, the least applies. Groups remember the requested limits, so all
    changes must be made through the objects of one process.
    """

    def __init__(self, parts: dict[Kind, GroupFiles], above: Cgroup | None = None) -> None:
        self.parts, self.above = parts, above
        self.below: list[Cgroup] = []
        self.period_us: int = PERIOD_US if above is None else above.period_us
        """Usual period of its quota, and of the quotas of groups made within it from now on."""
        self.wanted: float | None = None
        """Requested cores; None: no limit."""
        self.hidden = False
        """Version 1 refuses a group more than the one above has; then it is set to "unlimited", which is equivalent."""

    @property
    def paths(self) -> list[Path]:
        """The group's directories in all hierarchies."""
        return list(dict.fromkeys(part.path for part in self.parts.values()))

    @property
    def path(self) -> Path:
        """The group's directory in the first hierarchy."""
        return self.paths[0]

    @property
    def process_files(self) -> tuple[str, ...]:
        """Files to each of which a process writes ``0`` to enter the group."""
        return tuple(str(path / "cgroup.procs") for path in self.paths)

    def create(self, name: str) -> Cgroup:
        """Create a group within this one, which then must hold no processes itself."""
        group = Cgroup({kind: part.below(name, kind) for kind, part in self.parts.items()}, self)
        self.below.append(group)
        return group

    def enter(self) -> None:
        """Move the calling process here, before it has threads or much memory, which remains accounted elsewhere."""
        for file in self.process_files:
            self._any().kernel.write(Path(file), "0")

    def procs(self) -> list[int]:
        """Processes in the group that the caller can see; groups below are not included."""
        return [int(pid) for pid in self._any().get("cgroup.procs").split() if pid != "0"]

    def set_cores(self, cores: float | None) -> float | None:
        """Limit the group to ``cores``; None: as many as the groups above have.

        Returns the cores that the kernel now enforces. Raises :class:`QuotaRefused`, and changes nothing,
        if the kernel does not enforce the request.
        """
        quota, before = quota_of(cores, self.period_us), (self.wanted, self.hidden)
        bound = math.inf if self.above is None else self.above.bound()
        part = self.parts["cpu"]
        self.wanted, self.hidden = cores, part.version == 1 and (cores or 0.0) > bound
        try:
            for group in self._within():
                group._hide()
            part.set_quota(quota_of(None, self.period_us) if self.hidden else quota)
            held = self._check_held(None if self.hidden else cores)
        except (OSError, QuotaRefused) as error:
            self.wanted, self.hidden = before
            why = "; ".join(explain(error)) if isinstance(error, OSError) else str(error)
            raise QuotaRefused(f"{part.path}: {_words(cores)} requested: {why}") from error
        finally:
            for group in self._within():
                group._show()
        return None if cores is None else min(bound, math.inf if held is None else held)

    def cores(self) -> float | None:
        """The quota that the kernel enforces for this group alone."""
        return self.parts["cpu"].quota().cores

    def set_share(self, frac: float | None) -> float:
        """Give the group a weight among its siblings in proportion to ``frac``, above 0 and up to 1; None: the default.

        Of the groups that want the processor now, each gets a part of its parent's share by its weight. Returns the
        share that the kernel holds, in the same unit. Raises :class:`QuotaRefused` if it refuses.
        """
        part = self.parts["cpu"]
        try:
            part.set_share(frac)
            return part.share_frac()
        except OSError as error:
            why = "; ".join(explain(error))
            raise QuotaRefused(f"{part.path}: a share of {frac} requested: {why}") from error

    def bound(self) -> float:
        """The least request of the group and those above, in cores; infinite if there is none."""
        own = math.inf if self.wanted is None else self.wanted
        return own if self.above is None else min(own, self.above.bound())

    def set_memory_bytes(self, limit: int | None) -> int | None:
        """Limit the memory before processes enter. Returns the bytes that the kernel enforces: whole pages."""
        part = self.parts["memory"]
        try:
            part.set_memory(limit)
        except OSError as error:
            why = "; ".join(explain(error))
            raise QuotaRefused(f"{part.path}: {limit} bytes of memory requested: {why}") from error
        held = part.memory_bytes()
        if held != limit and not (limit and held and limit - PAGE_BYTES < held <= limit):
            raise QuotaRefused(f"{part.path}: {limit} bytes of memory requested, the kernel enforces {held}")
        return held

    def memory_kills(self) -> int:
        """Processes of the group that the kernel has killed because its memory was used up."""
        return self.parts["memory"].memory_kills()

    def throttled(self) -> Throttled:
        """The throttling of the group so far."""
        return self.parts["cpu"].throttled()

    def usage_s(self) -> float | None:
        """Processor seconds so far; None where the hierarchy does not count them."""
        return self.parts.get("cpuacct", self.parts["cpu"]).usage_s()

    def remove(self, within_s: float | None = None) -> None:
        """Remove the group with all below; their processes must have ended. Raises ``OSError`` if one has not.

        ``within_s``: for how long it may remain busy; None: ``REMOVE_S``.
        """
        deadline = time.monotonic() + (REMOVE_S if within_s is None else within_s)
        for part in self.parts.values():
            _remove(part.path, part.kernel, deadline)
        self.below.clear()
        if self.above is not None:
            self.above.below.remove(self)

    def _any(self) -> GroupFiles:
        return next(iter(self.parts.values()))

    def _within(self) -> Iterator[Cgroup]:
        """All groups below, each before those below it."""
        for group in self.below:
            yield group
            yield from group._within()

    def _hide(self) -> None:
        """Lift this group's quota before a group above gets less."""
        if self.parts["cpu"].version == 1 and not self.hidden and (self.wanted or 0.0) > self.bound():
            self.parts["cpu"].set_quota(quota_of(None, self.period_us))
            self.hidden = True

    def _show(self) -> None:
        """Set the requested quota again if the groups above have more."""
        if self.hidden and self.wanted is not None and self.wanted <= self.bound():
            self.parts["cpu"].set_quota(quota_of(self.wanted, self.period_us))
            self.hidden = False

    def _check_held(self, asked: float | None) -> float | None:
        held = self.cores()
        same = held == asked or (asked and held and abs(held - asked) <= ROUNDING * asked)
        if not same:
            raise QuotaRefused(f"the kernel enforces {_words(held)}; use one that keeps CPU quotas")
        return held


def _remove(path: Path, kernel: Kernel, deadline: float) -> None:
    if not path.is_dir():
        return
    for below in [entry for entry in path.iterdir() if entry.is_dir()]:
        _remove(below, kernel, deadline)
    while True:
        try:
            return kernel.remove(path)
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.005)


def _words(cores: float | None) -> str:
    return "unlimited cores" if cores is None else f"{cores:g} cores"


# ---- where groups can be made ---------------------------------------------------------------------------------------


class Hierarchy:
    """A directory (``base``) in which this process may create groups with limits of one kind."""

    def __init__(self, kind: Kind, base: GroupFiles) -> None:
        self.kind, self.base, self.version = kind, base.path, base.version
        self.files = base

    def create(self, run_id: str, register: Register | None = None) -> Cgroup:
        """Create the group of a run in this hierarchy alone; :func:`run_group` uses several."""
        return _create([self], run_id, register)

    def probe(self) -> None:
        """Test the hierarchy with a temporary group; raises :class:`CgroupUnavailable`.

        Meanwhile no registry knows of that group: a SIGKILL would leave it behind, empty.
        """
        group = self.create(os.urandom(8).hex())
        try:
            if self.kind == "cpu":
                group.set_cores(PROBE_CORES)
            else:
                group.set_memory_bytes(PROBE_BYTES)
        except QuotaRefused as error:
            reason, _, cure = str(error).rpartition("; ")
            raise CgroupUnavailable(reason, cure) from error
        finally:
            group.remove()


def run_group(run_id: str, cpu: bool = True, memory: bool = False, register: Register | None = None) -> Cgroup:
    """Create the group of a run for the limits that it needs; raises :class:`CgroupUnavailable`.

    ``run_id``: 16 hexadecimal digits, from 64 random bits. ``register`` is called with each of its directories.
    """
    kinds: list[Kind] = [*(["cpu"] if cpu else []), *(["memory"] if memory else [])]  # type: ignore[list-item]
    found = [find(kind) for kind in kinds]
    if cpu and (counting := counting_apart(found[0])):
        found.append(counting)
    return _create(found, run_id, register)


def counting_apart(limits: Hierarchy, **where: Any) -> Hierarchy | None:
    """The hierarchy that counts processor time, if the one with the quotas does not; None also if there is none.

    ``where``: as for :func:`find`.
    """
    if limits.version == 2 or limits.files.has("cpuacct.usage"):
        return None
    try:
        return find("cpuacct", **where)
    except CgroupUnavailable:
        return None


def _create(hierarchies: Sequence[Hierarchy], run_id: str, register: Register | None) -> Cgroup:
    group = Cgroup({})
    for hierarchy in hierarchies:
        path = hierarchy.base / f"{PREFIX}{run_id}"
        try:
            if register is not None:
                register(path)
            group.parts[hierarchy.kind] = hierarchy.files.below(path.name, hierarchy.kind)
            if register is not None:
                register(path)
        except BaseException as error:
            group.remove()
            if not isinstance(error, OSError):
                raise
            reason, cure = explain(error)
            raise CgroupUnavailable(f"cannot make {path}: {reason}", cure) from error
    return group


class _Mount(NamedTuple):
    version: int
    path: Path
    options: list[str]


def find(
    kind: Kind = "cpu",
    mounts_text: str | None = None,
    self_cgroup_text: str | None = None,
    root: Path = Path("/"),
    kernel: Kernel | None = None,
) -> Hierarchy:
    """Find where groups with limits of this kind can be created; raises :class:`CgroupUnavailable`.

    By default as ``/proc/self/mounts`` and ``/proc/self/cgroup`` say; paths in them are taken below ``root``.
    """
    kernel = kernel or Kernel()
    mounts = list(_mounts(_own("mounts") if mounts_text is None else mounts_text, root))
    own = _positions(_own("cgroup") if self_cgroup_text is None else self_cgroup_text)
    refusal = CgroupUnavailable("no control groups are mounted", "mount them: mount -t cgroup2 none /sys/fs/cgroup")
    for mount in mounts:
        if mount.version == 1 and kind not in mount.options:
            continue
        try:
            return _in_v2(kind, mount, own, kernel) if mount.version == 2 else _in_v1(kind, mount, own, kernel)
        except CgroupUnavailable as error:
            refusal = error
    raise refusal


def _own(name: str) -> str:
    try:
        return Path("/proc/self", name).read_text()
    except OSError:
        return ""


def _mounts(text: str, root: Path) -> Iterator[_Mount]:
    """Mounts, version 2 first: a controller is in one hierarchy only, and the last reason found is reported."""
    rows = [line.split() for line in text.splitlines()]
    for version, name in ((2, "cgroup2"), (1, "cgroup")):
        for row in rows:
            if row[2:3] == [name]:
                where = row[1].encode().decode("unicode_escape")
                yield _Mount(version, root / where.lstrip("/"), row[3].split(","))


def _positions(text: str) -> dict[str, str]:
    """The group of this process by controller; version 2 has an empty name."""
    rows = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]
    return {controller: path for _, names, path in rows for controller in names.split(",")}


def _position(mount: _Mount, position: str) -> Path:
    """The path of our group below a mount, which in a container may begin at the container's own group."""
    inner = mount.path / position.lstrip("/")
    return inner if ".." not in inner.parts and inner.is_dir() else mount.path


def _in_v1(kind: Kind, mount: _Mount, own: dict[str, str], kernel: Kernel) -> Hierarchy:
    path = _position(mount, own.get(kind, "/"))
    if "ro" in mount.options:
        raise CgroupUnavailable(f"{mount.path} is mounted read-only", "mount it read-write (a container: --privileged)")
    if not kernel.writable(path):
        raise CgroupUnavailable(f"no permission to make control groups in {path}", "run as root")
    return Hierarchy(kind, V1(path, kernel))


def _in_v2(kind: Kind, mount: _Mount, own: dict[str, str], kernel: Kernel) -> Hierarchy:
    """The nearest group, from ours upwards, in which groups with this limit can be made.

    Our own group holds this process, so it cannot hold groups with limits unless it is the root. One that offers both
    kinds is preferred: a process is in one group of this hierarchy for all kinds, so all must be found there.
    """
    path = _position(mount, own.get("", "/"))
    chain = [path, *path.parents[: len(path.relative_to(mount.path).parts)]]
    if "ro" in mount.options:
        raise CgroupUnavailable(f"{mount.path} is mounted read-only", "mount it read-write (a container: --privileged)")
    both: set[str] = {"cpu", "memory"}
    for wanted in (both, {str(kind)}):
        for above in chain:
            if _obstacle(above, wanted, kernel) is None:
                return Hierarchy(kind, V2(above, kernel))
    offering = [above for above in chain if kind in _words_of(above / "cgroup.controllers", kernel)]
    raise _obstacle((offering or chain)[0], {kind}, kernel) or CgroupUnavailable(f"{path} is in change", "try again")


def _obstacle(path: Path, wanted: set[str], kernel: Kernel) -> CgroupUnavailable | None:
    if missing := sorted(wanted - _words_of(path / "cgroup.controllers", kernel)):
        return CgroupUnavailable(f"the controller {missing[0]} is not offered in {path}", DELEGATED)
    if not (kernel.writable(path) and kernel.writable(path / "cgroup.subtree_control")):
        return CgroupUnavailable(f"no permission to make control groups in {path}", DELEGATED)
    given = _words_of(path / "cgroup.subtree_control", kernel)
    is_root = not (path / "cgroup.type").exists()
    if not (is_root or wanted <= given) and _words_of(path / "cgroup.procs", kernel):
        cure = "move them to a group of their own below it, or start the run in a scope of systemd"
        return CgroupUnavailable(f"the processes in {path} are in the way of groups with limits", cure)
    return None


def _words_of(path: Path, kernel: Kernel) -> set[str]:
    try:
        return set(kernel.read(path).split())
    except OSError:
        return set()
