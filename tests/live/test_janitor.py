"""However the processes of a run are killed, its control groups are removed, and nobody else's."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from runtime.live.machines import janitor, janitor_process
from runtime.live.machines.cgroups import CgroupUnavailable, find
from runtime.live.machines.crash_registry import CrashRegistry
from runtime.live.machines.janitor import identify, reap
from runtime.live.machines.janitor_process import start_janitor
from stragglab.commands import cleanup
from tests.support.runs import ROOT, alive, kill_quietly, marks, until

pytestmark = [pytest.mark.live, pytest.mark.root, pytest.mark.alone]
DEADLINE_S = 60.0
MOMENTS = ("started", "announced", "made", "confirmed", "nested", "inhabited", "stopped")
"""In the life of an owner, one after the other."""

OWNERS = """
import os, signal, subprocess, sys
from runtime.live.machines import janitor, janitor_process
from runtime.live.machines.cgroups import run_group

def owner(run_id, moment):
    def reach(name):
        if name == moment:
            os.write(1, (" ".join(map(str, (ours.pid, *others))) + chr(10)).encode())  # at once: two write here
            while True:
                signal.pause()

    def register(path):
        if path.exists():
            reach("made")
        janitor_process.register(path)
        reach("confirmed" if path.exists() else "announced")

    others = []
    os.dup2(1, 77)  # something that it must not keep open
    ours = janitor_process.the_janitor()
    reach("started")
    group = run_group(run_id, register=register)
    leaf = group.create("host-0").create("worker-0")
    leaf.set_cores(0.5)
    reach("nested")
    for _ in range(2):
        others.append(subprocess.Popen(["sleep", "60"], preexec_fn=leaf.enter, start_new_session=True).pid)
    reach("inhabited")
    os.kill(others[0], signal.SIGSTOP)
    reach("stopped")
    if moment == "forked":
        others.append(os.fork())
        if not others[-1]:
            signal.pause()
    elif moment == "shared":
        ours.share()
        others.append(subprocess.Popen(["sleep", "60"], close_fds=False).pid)
    reach("forked")
    reach("shared")
    signal.pause()

for line in sys.stdin:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        owner(*line.split())
    os.write(1, (str(pid) + chr(10)).encode())
"""


class OwningProcess(NamedTuple):
    """A process that makes groups, paused at some moment of its life."""

    pid: int
    path: Path
    janitor: int
    others: list[int]
    """Two in its groups and, at the last moments, one that holds the writing end."""

    def kill(self) -> None:
        kill_quietly(self.pid)
        until(lambda: not alive(self.pid), "its death")


class Owners:
    """Forks owners from one process that has imported what they need."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.base = find("cpu").base

    def tell(self, moment: str) -> tuple[int, Path]:
        """Start one that will pause at a moment."""
        run_id = os.urandom(8).hex()
        assert self.process.stdin
        self.process.stdin.write(f"{run_id} {moment}\n")
        self.process.stdin.flush()
        return self.numbers()[0], self.base / f"stragglab-{run_id}"

    def start(self, moment: str) -> OwningProcess:
        """Start one and wait until it is there."""
        pid, path = self.tell(moment)
        janitor, *others = self.numbers()
        return OwningProcess(pid, path, janitor, others)

    def numbers(self) -> list[int]:
        """One line of its output."""
        assert self.process.stdout
        return [int(word) for word in self.process.stdout.readline().split()]


@pytest.fixture(autouse=True)
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrashRegistry:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return CrashRegistry()


@pytest.fixture
def owners(tmp_path: Path, registry: CrashRegistry) -> Iterator[Owners]:
    try:
        find("cpu").probe()
    except CgroupUnavailable as error:
        pytest.skip(str(error))
    words = [sys.executable, "-c", OWNERS]
    env = {**os.environ, **marks(tmp_path / "run")}
    with subprocess.Popen(
        words, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Owners(process)
        process.kill()


def nothing_is_left_of(owner: OwningProcess, registry: CrashRegistry) -> None:
    until(lambda: not alive(owner.janitor), "the janitor's end")
    assert not owner.path.exists()
    assert not any(alive(pid) for pid in owner.others)
    assert owner.path.name.removeprefix("stragglab-") not in [entry.run_id for entry in registry.entries()]


def cleaned(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[str]]:
    """Exit code and lines of the command."""
    return cleanup.main(list(argv)), capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("moment", MOMENTS)
def test_whenever_the_owner_is_killed_nothing_is_left(owners: Owners, registry: CrashRegistry, moment: str) -> None:
    owner = owners.start(moment)
    assert owner.path.exists() == (MOMENTS.index(moment) >= MOMENTS.index("made"))
    assert len(registry.entries()) == (moment != "started")
    assert all(alive(pid) for pid in [owner.janitor, *owner.others])
    owner.kill()
    nothing_is_left_of(owner, registry)
    assert os.listdir(registry.path) == []


def test_killed_at_any_moment_twenty_times(owners: Owners, registry: CrashRegistry) -> None:
    random = Random(7)
    for _ in range(20):
        pid, path = owners.tell("never")
        time.sleep(random.uniform(0.0, 0.05))
        kill_quietly(pid)
        until(lambda pid=pid: not alive(pid), "its death")
        until(lambda path=path: not path.exists() and not registry.entries(), f"the removal of {path}")
    until(lambda: os.listdir(registry.path) == [], "the end of the last janitor's work")


@pytest.mark.parametrize("moment", ["forked", "shared"])
def test_whoever_else_holds_the_writing_end_puts_it_off(owners: Owners, registry: CrashRegistry, moment: str) -> None:
    owner = owners.start(moment)
    owner.kill()
    time.sleep(0.2)
    assert owner.path.exists()
    assert all(alive(pid) for pid in [owner.janitor, *owner.others])
    kill_quietly(owner.others[-1])
    nothing_is_left_of(owner, registry)


def test_the_janitor_is_a_small_process_of_its_own(owners: Owners, registry: CrashRegistry) -> None:
    owner = owners.start("inhabited")
    about = Path(f"/proc/{owner.janitor}")
    until(lambda: os.readlink(about / "cwd") == "/" and len(os.listdir(about / "fd")) == 3, "its readiness")
    assert os.getsid(owner.janitor) == owner.janitor
    assert os.readlink(about / "fd" / "0").startswith("pipe:")
    assert {os.readlink(about / "fd" / number) for number in "12"} == {os.devnull}
    libraries = (about / "maps").read_text()
    assert [name for name in ("numpy", "msgspec", "torch", "_json") if name in libraries] == []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(owner.janitor, number)
    owner.kill()
    nothing_is_left_of(owner, registry)


def test_a_run_that_ends_well_dismisses_it_and_without_one_nothing_is_made(
    owners: Owners, registry: CrashRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    janitor = start_janitor()
    group = find("cpu").create("0123456789abcdef", janitor.register)
    assert len(registry.entries()) == 1
    group.remove()
    assert janitor.dismiss()
    assert registry.entries() == []
    monkeypatch.setattr(janitor_process, "_janitors", [])
    with pytest.raises(RuntimeError, match=r"the_janitor\(\) first"):
        find("cpu").create("0123456789abcdef", janitor_process.register)
    janitor = start_janitor()
    kill_quietly(janitor.pid)
    os.waitpid(janitor.pid, 0)
    with pytest.raises(RuntimeError, match="start the run again"):
        find("cpu").create("0123456789abcdef", janitor.register)
    os.close(janitor.writing)
    assert not (find("cpu").base / "stragglab-0123456789abcdef").exists()
    assert janitor.registry.entries() == []


def test_a_run_cannot_entrust_what_is_another_runs(owners: Owners, registry: CrashRegistry) -> None:
    owner = owners.start("inhabited")
    janitor = start_janitor()
    with pytest.raises(ValueError, match="run_id of its own"):
        janitor.register(owner.path)
    assert janitor.dismiss()
    assert all(alive(pid) for pid in owner.others)
    owner.kill()
    nothing_is_left_of(owner, registry)


@pytest.mark.parametrize("moment", ["announced", "made", "stopped"])
def test_when_the_janitor_is_killed_too_the_registry_knows(
    owners: Owners, registry: CrashRegistry, capsys: pytest.CaptureFixture[str], moment: str
) -> None:
    owner = owners.start(moment)
    kill_quietly(owner.janitor)
    owner.kill()
    until(lambda: not alive(owner.janitor), "the janitor's end")
    assert owner.path.exists() == (moment != "announced")
    code, (line,) = cleaned(capsys)
    assert (code, "crashed" in line, str(owner.path) in line) == (0, True, True)
    assert all(alive(pid) for pid in owner.others)
    code, (line,) = cleaned(capsys, "--reap")
    assert (code, line.endswith(": removed")) == (0, True)
    nothing_is_left_of(owner, registry)
    assert os.listdir(registry.path) == []


def test_the_next_run_that_starts_cleans_up(owners: Owners, registry: CrashRegistry) -> None:
    owner = owners.start("inhabited")
    kill_quietly(owner.janitor)
    owner.kill()
    successor = owners.start("started")
    nothing_is_left_of(owner, registry)
    successor.kill()
    nothing_is_left_of(successor, registry)


def test_another_run_is_not_touched(
    owners: Owners, registry: CrashRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = owners.start("inhabited"), owners.start("stopped")
    one.kill()
    nothing_is_left_of(one, registry)
    assert cleaned(capsys, "--reap")[0] == 0
    assert (other.path / "host-0" / "worker-0").is_dir()
    assert all(alive(pid) for pid in [other.janitor, *other.others])
    other.kill()
    nothing_is_left_of(other, registry)


def test_a_group_of_the_same_name_that_the_run_did_not_make_is_not_touched(
    owners: Owners, registry: CrashRegistry
) -> None:
    owner = owners.start("confirmed")
    owner.path.rmdir()
    owner.path.mkdir()
    with inhabitant(owner.path) as process:
        owner.kill()
        until(lambda: not alive(owner.janitor), "the janitor's end")
        assert process.poll() is None
    owner.path.rmdir()
    assert registry.entries() == []


@contextlib.contextmanager
def inhabitant(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group."""
    with subprocess.Popen(["sleep", "60"], preexec_fn=lambda: enter(path)) as process:
        try:
            yield process
        finally:
            process.kill()


def enter(path: Path) -> None:
    (path / "cgroup.procs").write_text("0")


@pytest.mark.parametrize(
    ("hierarchy", "freeze"),
    [("cpu", None), ("freezer", ("freezer.state", "FROZEN")), ("unified", None), ("unified", ("cgroup.freeze", "1"))],
)
def test_nobody_in_a_group_or_below_escapes(hierarchy: str, freeze: tuple[str, str] | None) -> None:
    """Of version 1 one by one, of version 2 all at once; who is frozen as well."""
    path = Path("/sys/fs/cgroup", hierarchy, f"stragglab-{os.urandom(8).hex()}")
    try:
        (path / "below").mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"no such hierarchy here: {error}")
    with inhabitant(path / "below") as process:
        if freeze is not None:
            (path / freeze[0]).write_text(freeze[1])
        assert reap([identify(str(path))]) == []
        assert process.wait(DEADLINE_S) == -signal.SIGKILL
    assert not path.exists()


def test_who_cannot_be_killed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path("/sys/fs/cgroup/cpu", f"stragglab-{os.urandom(8).hex()}")
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no such hierarchy here: {error}")
    monkeypatch.setattr(janitor, "_kill", lambda group: None)
    with inhabitant(path) as process:
        assert reap([identify(str(path))], patience_s=0.05) == [str(path)]
        assert process.poll() is None
    assert reap([identify(str(path))]) == []
