"""Folders below ``launcher.shared_dir``: whose run has been killed they go; those of living runs and of others stay."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.live.joining.shared_folder import OWNER, SharedFolder, remove_left

STORED = ("00000003-server0.ckpt", "00000003-server11.ckpt", ".00000004-server0.ckpt.a1b2", "groups/1-0.0-1.0")


def fill(folder: Path, *names: str) -> None:
    for name in names or STORED:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The folder of a process that was killed while it had stored all kinds of things."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        folder = SharedFolder(tmp_path)
        fill(folder.path)
        os.write(writing, str(folder.path).encode())
        signal.pause()
    path = Path(os.read(reading, 4096).decode())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reading)
    os.close(writing)
    return path


def test_a_run_removes_its_own(tmp_path: Path) -> None:
    folder = SharedFolder(tmp_path)
    fill(folder.path)
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_has_left_is_removed_by_its_agents(killed: Path) -> None:
    remove_left(killed)
    assert not killed.exists()
    remove_left(killed)  # by the second agent


def test_what_a_killed_run_has_left_is_removed_by_the_next(killed: Path, tmp_path: Path) -> None:
    folder = SharedFolder(tmp_path)
    assert list(tmp_path.iterdir()) == [folder.path]
    folder.remove()


def test_the_folder_of_a_living_run_stays(tmp_path: Path) -> None:
    folder = SharedFolder(tmp_path)
    fill(folder.path)
    remove_left(folder.path)
    other = SharedFolder(tmp_path)
    assert all((folder.path / name).exists() for name in STORED)
    other.remove()
    folder.remove()


def of_another_machine(folder: Path) -> None:
    (folder / OWNER).write_text("another boot")


def without_owner(folder: Path) -> None:
    (folder / OWNER).unlink()


def of_a_link(folder: Path) -> None:
    (folder / OWNER).rename(folder / "elsewhere")
    (folder / OWNER).symlink_to("elsewhere")


@pytest.mark.parametrize("change", [of_another_machine, without_owner, of_a_link])
def test_a_folder_whose_run_may_live_stays(change: Callable[[Path], None], killed: Path) -> None:
    change(killed)
    remove_left(killed)
    SharedFolder(killed.parent).remove()
    assert all((killed / name).exists() for name in STORED)


def test_nothing_goes_that_no_run_stores(killed: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    fill(outside, "mine", "00000001-server0.ckpt")
    fill(killed, "best.ckpt")
    for path in (killed / "groups").iterdir():
        path.unlink()
    (killed / "groups").rmdir()
    (killed / "groups").symlink_to(outside)
    remove_left(killed)
    assert sorted(path.name for path in outside.iterdir()) == ["00000001-server0.ckpt", "mine"]
    assert (killed / "best.ckpt").exists()
    link = tmp_path / "stragglab-link"
    link.symlink_to(killed)
    remove_left(link)
    assert (killed / "best.ckpt").exists()
