"""Runs forked from a warm process: what they are told, what they answer, and that none outlives its program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import warm as script
from tests.runs import ROOT
from tests.unit.test_compare_children import gone, wait_for

QUICK = ("cluster=virtual", "workload.epochs=1", "eval_every_s=null", "straggler=transient", "draw=false", "view=none")
SERVE = """
import sys, types
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from scripts import warm
warm.ROOT = Path(sys.argv[2])
for name in ("run", "torch"):
    sys.modules[name] = types.ModuleType(name)
warm.serve()
"""


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> script.WarmRunner:
    """Its run.py is another one, and lies in ``tmp_path``."""
    real = subprocess.Popen

    def start(words: list[str], **given: object) -> subprocess.Popen[str]:
        return real([words[0], "-c", SERVE, str(ROOT), str(tmp_path)], **given)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(script.subprocess, "Popen", start)
    return script.WarmRunner()


def test_it_runs_what_it_is_told_and_says_how_it_ended(tmp_path: Path, runner: script.WarmRunner) -> None:
    (tmp_path / "run.py").write_text(
        "import os, sys\nprint(sys.argv[1:], __name__, os.getsid(0) == os.getpid())\nsys.exit(int(sys.argv[1]))\n"
    )
    with runner:
        assert [runner([code, "a b"], tmp_path / f"log{code}") for code in ("3", "0")] == [3, 0]
    assert (tmp_path / "log3").read_text() == "['3', 'a b'] __main__ True\n"


def test_one_that_breaks_is_not_the_end_of_the_others(tmp_path: Path, runner: script.WarmRunner) -> None:
    (tmp_path / "run.py").write_text(
        "import os, signal, sys\n"
        "if sys.argv[1] == 'raise': raise ValueError('broke')\n"
        "if sys.argv[1] == 'die': os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with runner:
        codes = [runner([how], tmp_path / how) for how in ("raise", "die", "end")]
    assert codes == [1, -signal.SIGKILL, 0]
    assert "ValueError: broke" in (tmp_path / "raise").read_text()


def test_nothing_outlives_it(tmp_path: Path, runner: script.WarmRunner) -> None:
    """Neither the warm process nor a run that is under way, however the context is left."""
    (tmp_path / "run.py").write_text(
        "import os, time\n"
        f"open({str(tmp_path / 'pid.new')!r}, 'w').write(str(os.getpid()))\n"
        f"os.rename({str(tmp_path / 'pid.new')!r}, {str(tmp_path / 'pid')!r})\n"
        "time.sleep(600)\n"
    )

    class Interrupted(script.WarmRunner):
        """Ctrl-C comes while it waits for the exit code."""

        answers = 0

        def _answer(self) -> int:
            self.answers += 1
            if self.answers == 2:
                wait_for((tmp_path / "pid").exists)
                raise KeyboardInterrupt
            return super()._answer()

    with pytest.raises(KeyboardInterrupt), Interrupted() as stopped:
        stopped([], tmp_path / "log")
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: gone(pid))


def test_a_warm_record_is_that_of_a_cold_run(tmp_path: Path) -> None:
    """The same bytes, but for what says where and when it ran."""
    with script.WarmRunner() as warm:
        for name in ("one", "two"):
            assert warm([*QUICK, f"hydra.run.dir={tmp_path / name}"], tmp_path / "log") == 0, (
                tmp_path / "log"
            ).read_text()
    cold = [sys.executable, str(ROOT / "run.py"), *QUICK, f"hydra.run.dir={tmp_path / 'cold'}"]
    subprocess.run(cold, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
    events, plans = (
        {(tmp_path / name / file).read_bytes() for name in ("one", "two", "cold")}
        for file in ("events.jsonl", "plan.json")
    )
    assert (len(events), len(plans)) == (1, 1)
