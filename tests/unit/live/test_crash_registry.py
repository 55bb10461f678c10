"""The crash registry: which runs live, which files are torn, what may not be touched. Needs no control group."""

from __future__ import annotations

import functools
import os
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from runtime.live.machines.crash_registry import (
    CrashRegistry,
    OwningProcess,
    RegisteredRun,
    RegistryRefused,
    is_alive,
    registry_dir,
    standing,
    start_ticks,
    this_process,
)
from runtime.live.machines.janitor import Directory, identify, reap, run_id_of
from stragglab.commands import cleanup

RUN_ID, OTHER_ID = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "stragglab"


@pytest.fixture
def registry(state: Path) -> CrashRegistry:
    return CrashRegistry()


def made(tmp_path: Path, run_id: str = RUN_ID) -> Directory:
    """A directory with the name of a run's (no control group, so that it can only be removed while it is empty)."""
    path = tmp_path / "groups" / f"stragglab-{run_id}"
    path.mkdir(parents=True)
    return identify(str(path))


def dead() -> OwningProcess:
    """A process that has ended."""
    return msgspec.structs.replace(this_process(), start_ticks=1)


def test_the_name_of_no_run_is_refused() -> None:
    name = f"stragglab-{RUN_ID}"
    wrong = (f"/a/{name}/b", f"/a/{name}/", f"/a/{name}0", "/a/stragglab-0123456789ABCDEF", f"/a\n/{name}")
    for path in ("/", "", name, f"/a/{RUN_ID}", "/a/stragglab-", *wrong):
        with pytest.raises(ValueError, match="hex digits"):
            run_id_of(path)
        assert reap([(path, 0, 0)], 0.0) == []


def entry(owner: OwningProcess, *directories: Directory) -> RegisteredRun:
    return RegisteredRun(run_id=RUN_ID, owner=owner, directories=list(directories))


def test_a_process_that_has_ended_is_not_even_as_a_zombie() -> None:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        owner = msgspec.structs.replace(this_process(), pid=child.pid, start_ticks=start_ticks(child.pid) or 0)
        assert standing(entry(owner)) == "running"
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert standing(entry(owner)) == "crashed"
    assert standing(entry(owner)) == "crashed"


def test_a_process_with_a_blank_and_a_parenthesis_in_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = " ".join(str(number) for number in range(4, 30))
    monkeypatch.setattr(Path, "read_text", lambda _: f"7 (a) b (c) S {fields}\n")
    assert start_ticks(7) == 22
    monkeypatch.setattr(Path, "read_text", lambda _: f"7 (a) b (c) Z {fields}\n")
    assert start_ticks(7) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "running"),
        ({"start_ticks": 1}, "crashed"),  # the number is somebody else's now
        ({"boot_id": "another"}, "rebooted"),
        ({"machine": "another", "boot_id": "another"}, "elsewhere"),
        ({"machine": "another"}, "elsewhere"),
        ({"pid_namespace": 1}, "elsewhere"),
    ],
)
def test_who_is_alive(change: dict[str, object], expected: str) -> None:
    owner = entry(msgspec.structs.replace(this_process(), **change))
    assert standing(owner) == expected
    assert is_alive(owner) == (expected == "running")


def test_what_is_added_is_read_back_and_the_newest_about_a_directory_counts(
    registry: CrashRegistry, tmp_path: Path
) -> None:
    directory = made(tmp_path)
    registry.add(this_process(), RUN_ID, (directory[0], 0, 0))
    registry.add(this_process(), RUN_ID, (f"/elsewhere/stragglab-{RUN_ID}", 1, 2))
    registry.add(this_process(), RUN_ID, directory)
    (found,) = registry.entries()
    assert found.owner == this_process()
    assert sorted(found.directories) == sorted([directory, (f"/elsewhere/stragglab-{RUN_ID}", 1, 2)])
    assert os.listdir(registry.path) == [f"{RUN_ID}.json"]


def test_nobody_else_may_look(registry: CrashRegistry, state: Path, tmp_path: Path) -> None:
    registry.add(this_process(), RUN_ID, made(tmp_path))
    assert registry.path == state == registry_dir()
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE((state / f"{RUN_ID}.json").stat().st_mode) == 0o600


def test_without_xdg_it_is_in_the_home_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for word in ("", "relative/ones/do/not/count"):
        monkeypatch.setenv("XDG_STATE_HOME", word)
        assert registry_dir() == tmp_path / ".local" / "state" / "stragglab"


@pytest.mark.parametrize("break_it", ["open", "link", "file"])
def test_a_registry_that_others_could_have_written_is_refused(state: Path, tmp_path: Path, break_it: str) -> None:
    state.parent.mkdir()
    if break_it == "open":
        state.mkdir()
        state.chmod(0o770)
    elif break_it == "link":
        (tmp_path / "target").mkdir(mode=0o700)
        state.symlink_to(tmp_path / "target")
    else:
        state.touch()
    with pytest.raises(RegistryRefused, match=r"remove it|XDG_STATE_HOME"):
        CrashRegistry()
    assert cleanup.main([]) == 2


def test_the_directory_of_another_run_is_refused(registry: CrashRegistry, tmp_path: Path) -> None:
    registry.add(dead(), RUN_ID, made(tmp_path))
    for run_id, path in ((RUN_ID, f"/a/stragglab-{RUN_ID}"), (OTHER_ID, f"/a/stragglab-{RUN_ID}")):
        with pytest.raises(ValueError, match="every run has"):
            registry.add(this_process(), run_id, (path, 1, 2))
    (found,) = registry.entries()
    assert found.owner == dead()


@pytest.mark.parametrize("how", ["cut", "empty", "foreign", "link", "fifo"])
def test_a_torn_file_is_read_as_none_and_harms_nobody(registry: CrashRegistry, tmp_path: Path, how: str) -> None:
    directory = made(tmp_path)
    registry.add(dead(), RUN_ID, directory)
    registry.add(dead(), OTHER_ID, made(tmp_path, OTHER_ID))
    path = registry.path / f"{RUN_ID}.json"
    text = path.read_bytes()
    path.unlink()
    if how == "link":
        (tmp_path / "copy").write_bytes(text)
        path.symlink_to(tmp_path / "copy")
    elif how == "fifo":
        os.mkfifo(path)
    else:
        foreign = text.replace(f"stragglab-{RUN_ID}".encode(), f"stragglab-{OTHER_ID}".encode())
        path.write_bytes({"cut": text[:-9], "empty": b"", "foreign": foreign}[how])
    assert [found.run_id for found in registry.entries()] == [OTHER_ID]
    assert registry.torn() == [path.name]
    registry.reap_crashed()
    assert Path(directory[0]).is_dir()


def test_half_a_file_is_nothing_until_it_is_old(registry: CrashRegistry) -> None:
    half = registry.path / f".{RUN_ID}.new"
    half.write_bytes(b"{")
    (registry.path / "README").touch()
    assert (registry.entries(), registry.torn()) == ([], [])
    os.utime(half, (0, 0))
    assert registry.torn() == [half.name]
    registry.discard(half.name)
    assert registry.torn() == []


ELSEWHERE = {"machine": "another"}
REBOOTED = {"boot_id": "another"}


@pytest.mark.parametrize(
    ("owner", "announced", "below", "left"),
    [
        ({}, True, "", (False, 0)),
        ({}, True, "below", (True, 1)),  # it belongs to somebody
        ({}, False, "host-0/worker-0", (False, 0)),
        (ELSEWHERE, False, "", (True, 1)),
        (REBOOTED, False, "", (True, 0)),  # there is only the file
    ],
)
def test_what_a_run_has_left_is_removed_as_far_as_it_is_known_to_be_its_own(
    registry: CrashRegistry, tmp_path: Path, owner: dict[str, str], announced: bool, below: str, left: tuple[bool, int]
) -> None:
    """``announced``: before it was made. ``left``: whether the directory is there, and how many entries are."""
    directory = made(tmp_path)
    Path(directory[0], below).mkdir(parents=True, exist_ok=True)
    about = (directory[0], 0, 0) if announced else directory
    registry.add(msgspec.structs.replace(dead(), **owner), RUN_ID, about)
    (entry,) = registry.entries()
    assert (registry.reap(entry, 0.0) if not owner else registry.reap_crashed()) == [directory[0]] * (
        announced and left[0]
    )
    assert (Path(directory[0], below).is_dir(), len(registry.entries())) == left


def test_a_directory_that_was_made_anew_is_somebody_elses(registry: CrashRegistry, tmp_path: Path) -> None:
    path, device, inode = made(tmp_path)
    for wrong in ((path, device, inode + 1), (path, device + 1, inode)):
        registry.add(dead(), RUN_ID, wrong)
        assert registry.reap_crashed() == []
        assert Path(path).is_dir()
        assert registry.entries() == []


def test_a_link_is_not_followed(registry: CrashRegistry, tmp_path: Path) -> None:
    target, device, inode = made(tmp_path)
    link = tmp_path / f"stragglab-{RUN_ID}"
    link.symlink_to(target)
    inside = Path(target, "below")
    outside = tmp_path / "outside"
    outside.mkdir()
    registry.add(dead(), RUN_ID, (str(link), device, inode))
    assert registry.reap_crashed() == []
    assert link.is_symlink()
    inside.symlink_to(outside)
    registry.add(dead(), RUN_ID, (target, device, inode))
    assert registry.reap(registry.entries()[0], 0.0) == [target]
    assert outside.is_dir()


def cleaned(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[str]]:
    code = cleanup.main(list(argv))
    return code, capsys.readouterr().out.splitlines()


def test_cleanup_with_nothing_to_clean_makes_nothing(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cleaned(capsys, "--reap") == (0, [f"nothing: no run was ever registered in {state}"])
    assert not state.exists()
    CrashRegistry()
    assert cleaned(capsys) == (0, [f"nothing: no run is registered in {state}"])


def test_cleanup_shows_and_then_removes_what_crashed(
    registry: CrashRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, running = made(tmp_path), made(tmp_path, OTHER_ID)
    registry.add(dead(), RUN_ID, directory)
    registry.add(this_process(), OTHER_ID, running)
    with pytest.raises(ValueError, match="is running"):
        registry.reap(next(one for one in registry.entries() if one.run_id == OTHER_ID))
    elsewhere = msgspec.structs.replace(dead(), machine="another")
    registry.add(elsewhere, "0" * 16, (f"/a/stragglab-{'0' * 16}", 1, 2))
    registry.add(msgspec.structs.replace(dead(), boot_id="b"), "1" * 16, (f"/a/stragglab-{'1' * 16}", 1, 2))
    (registry.path / f"{'2' * 16}.json").write_bytes(b"{")
    code, lines = cleaned(capsys)
    assert code == 0
    ends = ["--reap removes that", "--reap removes it from the registry", "left alone", "--reap removes it"]
    assert [line.rpartition(": ")[2] for line in lines] == ["left alone; clean up there", *ends]
    assert Path(directory[0]).is_dir()
    code, lines = cleaned(capsys, "--reap")
    assert code == 0
    ends = ["removed", "removed from the registry", "left alone", "removed"]
    assert [line.rpartition(": ")[2] for line in lines] == ["left alone; clean up there", *ends]
    assert (Path(directory[0]).exists(), Path(running[0]).exists()) == (False, True)
    assert [len(cleaned(capsys)[1]), len(registry.entries())] == [2, 2]


def test_cleanup_that_fails_says_so(
    registry: CrashRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = made(tmp_path)
    Path(directory[0], "file").touch()
    registry.add(dead(), RUN_ID, directory)
    monkeypatch.setattr(CrashRegistry, "reap", functools.partialmethod(CrashRegistry.reap, patience_s=0.0))
    code, (line,) = cleaned(capsys, "--reap")
    assert code == 1
    assert f"could not remove {directory[0]}; try again" in line
    assert len(registry.entries()) == 1
