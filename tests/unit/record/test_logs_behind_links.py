"""Links that somebody puts into a record while a run writes lead nowhere: what is behind them stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from runtime.record.checkpoint import path_of, write_checkpoint
from runtime.record.crash import log_crash
from runtime.record.logs import open_log, remove_empty_logs


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder of another user's, with a file, and an empty one."""
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "worker-0.0.log").write_text("mine\n")
    (tmp_path / "foreign" / "empty.log").touch()
    return tmp_path / "foreign"


def unchanged(foreign: Path) -> bool:
    return {path.name: path.read_text() for path in foreign.iterdir()} == {"worker-0.0.log": "mine\n", "empty.log": ""}


def say(log: Path, words: str, *, fresh: bool = False) -> None:
    with os.fdopen(open_log(log, fresh=fresh), "a") as file:
        file.write(words)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_log_that_is_a_link_is_not_written(tmp_path: Path, foreign: Path, fresh: bool) -> None:
    (tmp_path / "logs").mkdir()
    for name in ("worker-0.0.log", "new.log"):
        (tmp_path / "logs" / name).symlink_to(foreign / name)
        say(tmp_path / "logs" / name, "words", fresh=fresh)
    assert unchanged(foreign)


def test_a_folder_that_is_a_link_is_not_written_and_nothing_in_it_is_removed(tmp_path: Path, foreign: Path) -> None:
    (tmp_path / "logs").symlink_to(foreign)
    say(tmp_path / "logs" / "worker-0.0.log", "words")
    say(tmp_path / "logs" / "another.log", "words")
    remove_empty_logs(tmp_path / "logs")
    assert log_crash(ValueError("broken"), tmp_path).endswith("ValueError: broken")
    assert unchanged(foreign)


def test_of_logs_only_empty_ones_are_removed_and_no_links(tmp_path: Path, foreign: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "empty.log").touch()
    (folder / "full.log").write_text("words")
    (folder / "link.log").symlink_to(foreign / "empty.log")
    remove_empty_logs(folder)
    assert {path.name for path in folder.iterdir()} == {"full.log", "link.log"}


def test_no_checkpoint_is_written_behind_a_link(tmp_path: Path, foreign: Path) -> None:
    (tmp_path / "checkpoints").symlink_to(foreign)
    with pytest.raises(OSError, match="is a link, and would be written through"):
        write_checkpoint(path_of(tmp_path / "checkpoints", 1, 0), 0, b"", {"params": np.zeros(2)})
    assert unchanged(foreign)


def test_another_error_than_a_link_is_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_log(tmp_path / "nowhere" / "a.log")
