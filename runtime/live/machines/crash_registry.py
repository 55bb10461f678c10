"""The crash registry: directories of runs that could outlive them if their janitor is killed together with them.

One JSON file per run below ``$XDG_STATE_HOME/stragglab`` (``~/.local/state/stragglab``), readable by its owner only.
The janitor removes a run from it. Entries of processes that no longer live are cleaned up when the next run starts, or
by ``python run.py cleanup``: by the registry only, never by the look of a name.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from runtime.errors import ConfigError
from runtime.live.machines.janitor import PATIENCE_S, PREFIX, Directory, reap, run_id_of, unregister

MAX_BYTES = 1 << 20
STALE_S = 60.0
"""Age after which an incomplete file has lost its writer: writing takes milliseconds."""
START_PATIENCE_S = 1.0
Standing = Literal["running", "crashed", "rebooted", "elsewhere"]
"""``rebooted``: the machine has been rebooted since. ``elsewhere``: a run of another machine or container."""


class RegistryRefused(ConfigError):
    """The registry's directory cannot be used or trusted."""


class OwningProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A unique identification of a process."""

    machine: str
    pid_namespace: int
    """The process' PID namespace; its ids are valid here only if it is ours, too."""
    boot_id: str
    pid: int
    start_ticks: int
    """Start time after the boot, from ``/proc/<pid>/stat``."""


class RegisteredRun(msgspec.Struct, frozen=True, kw_only=True):
    """Directories of one run. ``owner``: the outer process, with which all others end."""

    run_id: str
    owner: OwningProcess
    directories: list[Directory]


# ---- running processes ----------------------------------------------------------------------------------------------


def start_ticks(pid: int) -> int | None:
    """Start time of a process; None if it has ended (a zombie, too)."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else int(words[19])


def this_process() -> OwningProcess:
    """The identification of the calling process."""
    pid = os.getpid()
    return OwningProcess(
        machine=os.uname().nodename,
        pid_namespace=_pid_namespace(),
        boot_id=boot_id(),
        pid=pid,
        start_ticks=start_ticks(pid) or 0,
    )


def _pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def boot_id() -> str:
    """Return this machine's boot: equal for all of its containers, and for no other machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def standing(entry: RegisteredRun) -> Standing:
    """The state of a run. Machines and containers may share a home directory, and so a registry."""
    owner = entry.owner
    if owner.machine != os.uname().nodename:
        return "elsewhere"
    if owner.boot_id != boot_id():
        return "rebooted"
    if owner.pid_namespace != _pid_namespace():
        return "elsewhere"
    return "running" if start_ticks(owner.pid) == owner.start_ticks else "crashed"


def is_alive(entry: RegisteredRun) -> bool:
    """Whether its owner still runs."""
    return standing(entry) == "running"


# ---- the registry ---------------------------------------------------------------------------------------------------


class CrashRegistry:
    """The registry's files in ``path``; raises :class:`RegistryRefused` if that cannot be used or trusted."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or registry_dir()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise RegistryRefused(
                f"{self.path}: the crash registry cannot be kept there ({error.strerror}); set XDG_STATE_HOME to a "
                "directory that you can write"
            ) from None
        with self._open_directory():
            pass

    def claim(self, owner: OwningProcess, run_id: str) -> RegisteredRun:
        """The entry of ``owner``'s run; raises ``ValueError`` if the run belongs to another process."""
        with self._open_directory() as folder:
            entry = self._read(folder, run_id) or RegisteredRun(run_id=run_id, owner=owner, directories=[])
        if entry.owner != owner:
            raise ValueError(f"run {run_id} is process {entry.owner.pid}'s; every run has a random run_id of its own")
        return entry

    def add(self, owner: OwningProcess, run_id: str, directory: Directory) -> None:
        """Register a directory that a run of ``owner`` creates or has created."""
        entry = self.claim(owner, run_id)
        if run_id_of(directory[0]) != run_id:
            raise ValueError(f"{directory[0]}: is another run's; every run has a directory named after its run_id")
        others = [known for known in entry.directories if known[0] != directory[0]]
        with self._open_directory() as folder:
            self._write(folder, RegisteredRun(run_id=run_id, owner=owner, directories=[*others, directory]))

    def entries(self) -> list[RegisteredRun]:
        """All registered runs, living and crashed; torn files are omitted."""
        with self._open_directory() as folder:
            found = [self._read(folder, name.removesuffix(".json")) for name in _run_files(folder)]
        return [entry for entry in found if entry is not None]

    def torn(self) -> list[str]:
        """Names of invalid files: only a power cut leaves these, and no control group survives that."""
        with self._open_directory() as folder:
            found = [name for name in _run_files(folder) if self._read(folder, name.removesuffix(".json")) is None]
            return found + _stale_halves(folder)

    def reap(self, entry: RegisteredRun, patience_s: float = PATIENCE_S) -> list[str]:
        """Kill and remove what a crashed run left, and its entry. Returns the directories that remain."""
        what = standing(entry)
        if what in ("running", "elsewhere"):
            raise ValueError(f"run {entry.run_id} is {what}; only directories of crashed runs may be removed")
        left: list[str] = []
        if what == "crashed":  # control groups do not survive a reboot
            left = reap(entry.directories, patience_s)
        if not left:
            unregister(str(self.path), entry.run_id)
        return left

    def reap_crashed(self) -> list[str]:
        """Remove what crashed runs left; called when a run starts. Returns the directories that remain."""
        crashed = [entry for entry in self.entries() if standing(entry) in ("crashed", "rebooted")]
        return [path for entry in crashed for path in self.reap(entry, START_PATIENCE_S)]

    def discard(self, name: str) -> None:
        """Remove a torn file."""
        with self._open_directory() as folder:
            os.unlink(name, dir_fd=folder)

    @contextlib.contextmanager
    def _open_directory(self) -> Iterator[int]:
        """The directory, which only we may write: its files determine what is killed."""
        try:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise RegistryRefused(
                f"{self.path}: must be a directory of yours and no link ({error.strerror}); remove it"
            ) from None
        try:
            about = os.fstat(folder)
            if about.st_uid != os.geteuid() or about.st_mode & 0o077:
                raise RegistryRefused(f"{self.path}: must be yours alone; chown and chmod 700 it, or remove it")
            yield folder
        finally:
            os.close(folder)

    def _read(self, folder: int, run_id: str) -> RegisteredRun | None:
        try:
            descriptor = os.open(
                f"{run_id}.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
            )
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
                return None
            try:
                entry = msgspec.json.decode(file.read(MAX_BYTES), type=RegisteredRun)
                consistent = all(run_id_of(path) == run_id == entry.run_id for path, _, _ in entry.directories)
            except (ValueError, RecursionError):
                return None
        return entry if consistent else None

    def _write(self, folder: int, entry: RegisteredRun) -> None:
        """Replace a file atomically: either the old or the new one exists at any moment."""
        half = f".{entry.run_id}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(half, dir_fd=folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(half, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(msgspec.json.encode(entry))
        os.rename(half, f"{entry.run_id}.json", src_dir_fd=folder, dst_dir_fd=folder)


def registry_dir() -> Path:
    """The directory of program state by the XDG base directory specification."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state") / "stragglab"


def _run_files(folder: int) -> list[str]:
    return [name for name in sorted(os.listdir(folder)) if _is_of_a_run(name, ".json")]


def _stale_halves(folder: int) -> list[str]:
    """Incomplete files of runs that were killed while writing."""
    found = []
    for name in sorted(os.listdir(folder)):
        with contextlib.suppress(FileNotFoundError):
            age_s = time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
            if name.startswith(".") and _is_of_a_run(name[1:], ".new") and age_s > STALE_S:
                found.append(name)
    return found


def _is_of_a_run(name: str, suffix: str) -> bool:
    try:
        return name.endswith(suffix) and bool(run_id_of(f"/{PREFIX}{name.removesuffix(suffix)}"))
    except ValueError:
        return False
