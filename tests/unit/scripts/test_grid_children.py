"""What the scripts that run grids of jobs start, be it a child or a fork: none outlives them."""

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
