"""The leak oracle: what a test must not leave behind, and the fixtures that hold every live test to it."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.live.machines.crash_registry import CrashRegistry, is_alive, registry_dir
from tests.support.runs import SESSION, Run, alive, every_pid

GRACE_S = 1.0
"""However a run ends: so long afterwards nothing of it may be left."""
SHARED_MEMORY = Path("/dev/shm")
MEMFD = "/memfd:stragglab"
KNOWN_DOTS = {".hydra"}

Start = Callable[..., Run]


@pytest.fixture(autouse=True)
def leak_oracle(tmp_path: Path) -> Iterator[None]:
    """Nothing may be left of what a test does."""
    oracle = Oracle(tmp_path)
    yield
    left = oracle.settle()
    assert not left, "left behind:\n" + "\n".join(left)


@pytest.fixture
def start(tmp_path: Path, leak_oracle: None) -> Iterator[Start]:
    """Starts runs below the test's directory, ``start("name", *overrides)``; what still runs at the end is killed."""
    started: list[Run] = []

    def begin(name: str, *overrides: str, **more: object) -> Run:
        started.append(Run(tmp_path / name, *overrides, **more))  # type: ignore[arg-type]
        return started[-1]

    yield begin
    for run in started:
        run.kill()


class Oracle:
    """Remembers how things were; :meth:`leaks` names what has come since and is a leak."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.memory = set(SHARED_MEMORY.iterdir())
        self.listening = listening_of(os.getpid())
        self.num_memfds = num_own_memfds()
        self.before = {what: look() for what, look in KERNEL_THINGS.items()}

    def leaks(self) -> list[str]:
        found = []
        for pid, words in marked_processes().items():
            held = [*listening_of(pid), *{link for link in open_files(pid) if link.startswith(MEMFD)}]
            found.append(f"process {pid} ({words}), holding {', '.join(sorted(held)) or 'nothing'}")
        found += [f"port {where} in the tests' own process" for where in listening_of(os.getpid()) - self.listening]
        if num_own_memfds() > self.num_memfds:
            found.append("memory file in the tests' own process")
        new = set(SHARED_MEMORY.iterdir()) - self.memory
        found += [f"shared memory {path}" for path in sorted(new) if "stragglab" in path.name or not is_held(path)]
        for what, look in KERNEL_THINGS.items():
            found += [f"{what} {one}" for one in sorted(look() - self.before[what])]
        return found + [f"file {path}" for path in temporary_files(self.directory)]

    def settle(self, grace_s: float = GRACE_S) -> list[str]:
        """What is still left when the grace has passed."""
        deadline = time.monotonic() + grace_s
        while (found := self.leaks()) and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.05)
        return found


def control_groups() -> set[str]:
    """Directories that runs have made in the hierarchies of control groups."""
    roots = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*/")]
    found = {path for root in roots for path in _below(root) if path.name.startswith("stragglab-")}
    return {str(path) for path in found if not path.name.endswith(strangers())}


def _below(root: Path) -> list[Path]:
    """Our own directories at or below one; others come and go meanwhile."""
    return [Path(folder) for folder, _, _ in os.walk(root) if _is_ours(folder)]


def _is_ours(folder: str) -> bool:
    try:
        return os.stat(folder).st_uid == os.geteuid()
    except OSError:
        return False


def interfaces() -> set[str]:
    """Network interfaces of the tests' own namespace; their queues go with them."""
    return set(os.listdir("/sys/class/net"))


def mounts() -> set[str]:
    """Mount points of the tests' own namespace."""
    return {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}


def named_namespaces() -> set[str]:
    """Network namespaces that somebody has given a name, which keeps them."""
    return set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set()


def crash_ledger() -> set[str]:
    """What runs write down outside for the case that they cannot clean up themselves."""
    if not registry_dir().is_dir():
        return set()
    return {
        name for name in os.listdir(registry_dir()) if not name.endswith(tuple(f"{run}.json" for run in strangers()))
    }


def strangers() -> tuple[str, ...]:
    """Ids of living runs that are not of this session: somebody else may work on the same machine."""
    if not registry_dir().is_dir():
        return ()
    ours = marked_processes()
    return tuple(one.run_id for one in CrashRegistry().entries() if is_alive(one) and one.owner.pid not in ours)


KERNEL_THINGS: dict[str, Callable[[], set[str]]] = {
    "control group": control_groups,
    "network interface": interfaces,
    "mount": mounts,
    "network namespace": named_namespaces,
    "entry of the crash registry": crash_ledger,
}


def marked_processes() -> dict[int, str]:
    """Living processes of the runs of this session, stopped ones included, with their command lines."""
    wanted = f"{SESSION}={os.getpid()}".encode()
    found = {}
    for pid in every_pid():
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if pid != os.getpid() and wanted in environ and alive(pid):
            found[pid] = words.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def open_files(pid: int) -> list[str]:
    found = []
    try:
        entries = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []
    for entry in entries:
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{entry}"))
        except OSError:
            continue
    return found


def listening_of(pid: int) -> set[str]:
    """Where a process listens: ``tcp 127.0.0.1:4711``, ``unix @name``."""
    inodes = {link[8:-1] for link in open_files(pid) if link.startswith("socket:[")}
    return {where for inode, where in listening_sockets().items() if inode in inodes}


def listening_sockets() -> dict[str, str]:
    """Inode -> where it listens, for all TCP and unix sockets of this machine."""
    found = {}
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == "0A":
                found[fields[9]] = f"{table} {readable(fields[1])}"
    for row in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = row.split()
        if int(fields[3], 16) & 0x10000:
            found[fields[6]] = f"unix {fields[7] if len(fields) > 7 else '(no name)'}"
    return found


def readable(address: str) -> str:
    """``0100007F:1267`` as ``127.0.0.1:4711``; addresses of IPv6 stay as they are."""
    host, _, port = address.partition(":")
    if len(host) == 8:
        host = ".".join(str(byte) for byte in reversed(bytes.fromhex(host)))
    return f"{host}:{int(port, 16)}"


def num_own_memfds() -> int:
    """Memory files that are open in this process."""
    return sum(link.startswith(MEMFD) for link in open_files(os.getpid()))


def is_held(path: Path) -> bool:
    """Whether a living process has a file open or mapped (then it is somebody's work, not a leak)."""
    for pid in every_pid():
        try:
            maps = Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            continue
        if str(path) in maps or str(path) in open_files(pid):
            return True
    return False


def temporary_files(directory: Path) -> list[Path]:
    """Whatever lies in a run's TMPDIR, and whatever is hidden or partial elsewhere below ``directory``."""
    found = []
    for path in sorted(directory.rglob("*")):
        parents = path.relative_to(directory).parts[:-1]
        hidden = path.name.startswith(".") and path.name not in KNOWN_DOTS
        if hidden or path.suffix in (".tmp", ".partial") or any(part.endswith("-tmp") for part in parents):
            found.append(path)
    return found
