"""What the scripts that run grids of jobs start, be it a child or a fork: none outlives them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts import grid as script
from tests.support.runs import ROOT

GIVE_UP_S = 60.0
PARENT = """
import signal, sys
from pathlib import Path
from scripts import forks, grid
signal.signal(signal.SIGINT, signal.default_int_handler)
folder, how = Path(sys.argv[1]), sys.argv[2]
for module in (forks, grid):
    module.ROOT, module.GRACE_S = folder, 0.2
try:
    if how == "child":
        grid.run_child([], folder / "log")
    else:
        dict(forks.in_forks(["only"], lambda _: forks.run_here([], folder / "log"), 2))
except KeyboardInterrupt:
    sys.exit(130)
"""
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


def start(folder: Path, how: str, stop: str) -> tuple[subprocess.Popen[bytes], int]:
    """The parent, and the process id of its child."""
    (folder / "run.py").write_text(CHILD.format(stop=stop))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(folder), how], cwd=folder, env=environment)
    wait_for((folder / "pid").exists)
    return parent, int((folder / "pid").read_text())


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


@pytest.mark.parametrize("how", ["child", "fork"])
@pytest.mark.parametrize(
    "stop",
    [pytest.param("raise SystemExit(130)", id="willing", marks=pytest.mark.long), pytest.param("pass", id="stubborn")],
)
def test_ctrl_c_ends_the_child(how: str, stop: str, tmp_path: Path) -> None:
    parent, child = start(tmp_path, how, stop)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(GIVE_UP_S) == 130
    assert (tmp_path / "stopped").exists(), "it is asked before it is killed"
    assert gone(child)


@pytest.mark.parametrize("how", ["child", "fork"])
def test_no_child_outlives_the_script(how: str, tmp_path: Path) -> None:
    parent, child = start(tmp_path, how, "pass")
    parent.kill()
    parent.wait(GIVE_UP_S)
    wait_for(lambda: gone(child))


def test_the_exit_code_is_that_of_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(int(sys.argv[1]))\n")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    assert script.run_child(["3", "a b"], tmp_path / "log") == 3
    assert (tmp_path / "log").read_text() == "['3', 'a b']\n"
