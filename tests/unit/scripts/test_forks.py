"""Runs in forks of one process: what they return, that none outlives it, and that their records are the same."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from runtime import house
from stragglab.grids import forks
from stragglab.grids import grid as script
from stragglab.grids.forks import in_forks, run_here
from stragglab.grids.grid import run_child


def test_every_fork_says_how_it_ended(capfd: pytest.CaptureFixture[str]) -> None:
    def work(name: str) -> int:
        if name == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "raises":
            raise ValueError("it broke")
        return len(name)

    found = dict(in_forks(["a", "raises", "killed", "abc"], work, 2))
    assert found == {"a": 1, "raises": 1, "killed": 128 + signal.SIGKILL, "abc": 3}
    assert "it broke" in capfd.readouterr().err


def test_no_more_run_at_a_time_than_asked_for(tmp_path: Path) -> None:
    """Who finds somebody else there for the third time was not to be started."""

    def work(name: str) -> int:
        mine = tmp_path / name
        mine.touch()
        there = len(list(tmp_path.iterdir()))
        time.sleep(0.05)
        mine.unlink()
        return there

    looks = list[int]()
    counts = [code for _, code in in_forks([f"{number}" for number in range(6)], work, 2, lambda: looks.append(1))]
    assert max(counts) <= 2
    assert looks, "this process may look meanwhile"


def test_an_interruption_right_after_a_fork_was_waited_for_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = os.waitpid

    def interrupted(pid: int, options: int) -> tuple[int, int]:
        monkeypatch.setattr(os, "waitpid", wait)
        wait(pid, 0)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "waitpid", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(in_forks(["gone", "other"], len, 2))


def test_none_is_left_when_the_others_are_no_longer_wanted(tmp_path: Path) -> None:
    def work(name: str) -> int:
        if name == "slow":
            (tmp_path / "pid.new").write_text(f"{os.getpid()}")
            (tmp_path / "pid.new").rename(tmp_path / "pid")
            time.sleep(600)
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        return 0

    running = in_forks(["slow", "fast"], work, 2)
    assert next(running) == ("fast", 0)
    running.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.long(like="test_no_more_run_at_a_time_than_asked_for")
def test_a_run_in_a_fork_leaves_the_same_record_as_one_of_its_own(tmp_path: Path) -> None:
    """The same bytes, several at a time or not, but for what says where and when it ran."""
    words = ["runtime=virtual", "workload.epochs=1", "draw=false", "view=none", "strategy=ssp"]

    def work(name: str) -> int:
        runner = run_child if name == "child" else run_here
        return runner([*words, f"hydra.run.dir={tmp_path / name}"], tmp_path / f"{name}.log")

    assert dict(in_forks(["fork", "other"], work, 2)) == {"fork": 0, "other": 0}
    assert work("child") == 0
    for part in ("events.jsonl", "plan.json", ".hydra/config.yaml"):
        assert len({(tmp_path / name / part).read_bytes() for name in ("fork", "other", "child")}) == 1
    assert "record: " in (tmp_path / "fork.log").read_text()


def test_a_program_in_a_fork_is_told_what_a_child_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words, its name, a session and a log of its own; where it breaks the log says so."""
    monkeypatch.setattr(forks, "ROOT", tmp_path)
    (tmp_path / "run.py").write_text(
        "import os, sys\n"
        "print(sys.argv[1:], __name__, os.getsid(0) == os.getpid(), flush=True)\n"
        "sys.exit(3) if sys.argv[1] == 'exit' else int(sys.argv[1])\n"
    )
    words = {"exit": ["exit", "a b"], "end": ["7"], "break": ["seven"]}
    codes = dict(in_forks(list(words), lambda name: run_here(words[name], tmp_path / name), 2))
    assert codes == {"exit": 3, "end": 0, "break": 1}
    assert (tmp_path / "exit").read_text() == "['exit', 'a b'] __main__ True\n"
    assert "ValueError: invalid literal" in (tmp_path / "break").read_text()
    monkeypatch.undo()
    refused = ["runtime=virtual", "strategy.bond=3", f"hydra.run.dir={tmp_path / 'run'}"]
    assert dict(in_forks(["x"], lambda _: run_here(refused, tmp_path / "log"), 1)) == {"x": 2}
    assert (tmp_path / "log").read_text().count("\n") == 1


GIVE_UP_S = 60.0
CHILD = """
import os, signal, time
from pathlib import Path
def stop(*_):
    Path("stopped").touch()
    {stop}
signal.signal(signal.SIGINT, stop)
Path("pid.new").write_text(str(os.getpid()))
os.rename("pid.new", "pid")
time.sleep(600)
time.sleep(600)
"""


def parent(folder: Path, how: str) -> None:
    """What a script does, in a fork of these tests: it does not import everything again."""
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for module in (forks, house):
        where: Any = module
        where.ROOT = folder
    for module in (forks, script):
        patience: Any = module
        patience.GRACE_S = 0.2
    try:
        if how == "child":
            script.run_child([], folder / "log")
        else:
            dict(forks.in_forks(["only"], lambda _: forks.run_here([], folder / "log"), 2))
    except KeyboardInterrupt:
        sys.exit(130)


def start(folder: Path, how: str, stop: str) -> tuple[BaseProcess, int]:
    """The parent, and the process id of its child."""
    (folder / "run.py").write_text(CHILD.format(stop=stop))
    process = get_context("fork").Process(target=parent, args=(folder, how))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads of BLAS: the child uses none
        process.start()
    wait_for((folder / "pid").exists)
    return process, int((folder / "pid").read_text())


def wait_for(that: object) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while not that():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


@pytest.mark.few(1)
@pytest.mark.parametrize("how", ["child", "fork"])
@pytest.mark.parametrize(
    "stop",
    [pytest.param("raise SystemExit(130)", id="willing", marks=pytest.mark.long), pytest.param("pass", id="stubborn")],
)
def test_ctrl_c_ends_the_child(how: str, stop: str, tmp_path: Path) -> None:
    process, child = start(tmp_path, how, stop)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    process.join(GIVE_UP_S)
    assert process.exitcode == 130
    assert (tmp_path / "stopped").exists(), "it is asked before it is killed"
    assert gone(child)


@pytest.mark.parametrize("how", ["child", "fork"])
def test_no_child_outlives_the_script(how: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        (tmp_path / "run.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(int(sys.argv[1]))\n")
        patch.setattr(house, "ROOT", tmp_path)
        assert script.run_child(["3", "a b"], tmp_path / "log") == 3, "the exit code is that of the child"
        assert (tmp_path / "log").read_text() == "['3', 'a b']\n"
    process, child = start(tmp_path, how, "pass")
    process.kill()
    process.join(GIVE_UP_S)
    wait_for(lambda: gone(child))
