"""A session on a GPU: most wanted first, what is done is kept, and nothing is begun that has no time left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from runtime.live.machines.mechanisms import Missing
from scripts.gpu import gpu_session
from scripts.gpu.gpu_measurements import PARTS
from scripts.gpu.gpu_session import ENDED, run_step
from scripts.gpu.gpu_steps import Step, steps

ALL = [step.name for step in steps("fake", Path("/out"))]


class Scripted:
    """Runs nothing; steps named in ``codes`` end with these."""

    def __init__(self, **codes: int) -> None:
        self.codes, self.ran, self.limits_s = codes, list[str](), list[float]()

    def __call__(self, step: Step, device: str, most_s: float, output: Path) -> int:
        self.ran.append(step.name)
        self.limits_s.append(most_s)
        output.write_text("words\n")
        return self.codes.get(step.name, 0)


def session(folder: Path, runner: Scripted, *words: str) -> int:
    return gpu_session.main(["--device", "fake", "-o", str(folder), *words], runner)


def test_all_steps_run_once_and_failed_ones_again_after_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Scripted(hogs=1, two_devices=5)  # 5: pytest has skipped all
    assert session(tmp_path, first) == 1
    assert first.ran == ALL
    assert capsys.readouterr().out.endswith("failed: hogs; the same command continues\n")
    (tmp_path / "steps" / "shares.txt").write_text("half of its wor")
    second = Scripted()
    assert session(tmp_path, second) == 0
    assert second.ran == ["shares", "hogs"], "who was interrupted comes before who failed"
    assert session(tmp_path, Scripted(hogs=1)) == 0, "nothing is left"


def test_no_step_has_more_time_than_there_is_and_none_begins_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(gpu_session.time, "monotonic", lambda: now_s[0])

    class Lasting(Scripted):
        def __call__(self, step: Step, device: str, most_s: float, output: Path) -> int:
            now_s[0] += most_s
            return super().__call__(step, device, most_s, output)

    runner = Lasting()
    assert session(tmp_path, runner, "--minutes", "4.5") == 1
    most_s = [step.most_s for step in steps("fake", tmp_path)]
    assert runner.ran == ALL[:2]
    assert runner.limits_s == [most_s[0], 270 - 2 * gpu_session.GRACE_S - most_s[0]]
    assert f"not run: {', '.join(ALL[2:])}; the same command continues" in capsys.readouterr().out


def test_steps_cover_every_test_and_every_part_within_minutes() -> None:
    """Selected by name, so that a test that is renamed or added would be left out."""
    root = Path(__file__).parents[3]
    all_steps = steps("cuda", Path("/out"))
    assert max(step.most_s for step in all_steps) <= 180
    for file in ("tests/live/test_gpu.py", "tests/bench/test_bench_gpu.py"):
        names = {
            line.split("(")[0][4:] for line in (root / file).read_text().splitlines() if line.startswith("def test_")
        }
        if "bench" in file:
            names = {f"{name}[{kernels}" for name in names for kernels in ("free", "graphs", "exact")}
        chosen = [step.words[-1].split(" or ") for step in all_steps if file in step.words]
        counts = {name: sum(any(word in name for word in words) for words in chosen) for name in names}
        assert set(counts.values()) == {1}, counts
    parts = [step.words[step.words.index("--part") + 1] for step in all_steps if "--part" in step.words]
    assert sorted(parts) == sorted(PARTS)


def test_a_process_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    output = tmp_path / "output"
    code = "import subprocess, sys, time; subprocess.Popen(['sleep', '60']); print('begun', flush=True); time.sleep(60)"
    assert run_step(Step("", "", ("-c", code), 9), "fake", 1.0, output) == ENDED
    assert output.read_text().startswith("begun\n")
    code = "import os; print(os.environ['STRAGGLAB_GPU_DEVICE'])"
    assert run_step(Step("", "", ("-c", code), 9), "fake", 9, output) == 0
    assert output.read_text() == "fake\n"


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGKILL])
def test_a_session_that_is_killed_leaves_nothing(ends: int, tmp_path: Path) -> None:
    """Nor what a step has started in a group of its own, as tests start runs, which is asked to end by nobody then."""
    code = "import subprocess, time; print(subprocess.Popen(['sleep', '60'], process_group=0).pid, flush=True); "
    code += "time.sleep(60)"
    output, session = tmp_path / "output", os.fork()
    if session == 0:
        run_step(Step("", "", ("-c", code), 60), "fake", 60.0, output)
        os._exit(0)
    await_true(lambda: output.exists() and output.read_text().endswith("\n"))
    left = int(output.read_text())
    assert psutil.pid_exists(left)
    os.kill(session, ends)
    os.waitpid(session, 0)
    await_true(lambda: not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE)


def await_true(what: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 30.0
    while not what():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_without_a_gpu_it_says_so_and_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    look = lambda name: Missing(reason=f"no {name} here", cure="")  # noqa: E731
    assert gpu_session.main(["-o", str(tmp_path / "out")], Scripted(), look) == 0
    assert capsys.readouterr().out == "skipped: no gpu here\n"
