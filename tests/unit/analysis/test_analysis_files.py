"""Files appear whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from analysis import files
from analysis.files import natural, write_file
from analysis.records.log import RecordError
from analysis.reports.report import finish_run
from tests.support.records import bsp_story

ROOT = Path(__file__).resolve().parents[3]


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "summary.json"
    assert write_file(path, "one") == path
    write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["summary.json"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()
    names = ["a10", "a" + "9" * 5000, "a9", "a\N{SUPERSCRIPT TWO}", "a009b", "a"]
    assert sorted(names, key=natural) == [names[number] for number in (5, 2, 4, 0, 1, 3)]


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_works_where_there_are_no_nameless_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, data: bytes) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(files, "_write_nameless", refuse)
    write_file(tmp_path / "a", "one")
    write_file(tmp_path / "a", "two")
    assert (tmp_path / "a").read_text() == "two"
    assert os.listdir(tmp_path) == ["a"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "a", "old")

    def fail(*_: object) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk on fire"):
        write_file(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_kill_before_the_name_is_given_leaves_nothing(tmp_path: Path) -> None:
    code = """
import os, pathlib, signal, sys
from analysis import files
files._give_name = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
files.write_file(pathlib.Path(sys.argv[1]), b"x" * 1_000_000)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["columns", "tables", "figures"])
def test_nothing_is_written_out_of_a_record(name: str, tmp_path: Path) -> None:
    """Records come from others, too, and a link could lead anywhere."""
    outside, run = tmp_path / "outside", bsp_story().write(tmp_path / "run")
    outside.mkdir()
    (run / name).symlink_to(outside)
    with pytest.raises(RecordError, match="is a link, and would be written through"):
        finish_run(run)
    assert list(outside.iterdir()) == []
