"""A session on a GPU: most wanted first, what is done is kept, and nothing is begun that has no time left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import psutil
import pytest

from runtime.live.machines.mechanisms import Missing
from scripts.gpu import gpu_measurements as measurements
from scripts.gpu import gpu_session, measure_gpu
from scripts.gpu.gpu_measurements import NUM_WORKERS, PARTS, SIZES, live_jobs, predicted_jobs, virtual_jobs
from scripts.gpu.gpu_session import ENDED, run_step
from scripts.gpu.gpu_steps import Step, steps
from stragglab.grids.grid import JobFailed

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


def test_a_machine_without_a_gpu_says_so_and_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def runner(words: Any, log: Path) -> int:
        raise AssertionError("nothing is run")

    look = lambda name: Missing(reason=f"no {name} here", cure="")  # noqa: E731
    assert measure_gpu.main(["-o", str(tmp_path / "out")], runner, look) == 0
    assert capsys.readouterr().out == "skipped: no gpu here\n"


def test_the_jobs_of_both_devices_are_the_same_but_for_their_size(tmp_path: Path) -> None:
    for _ in range(2):
        measure_gpu.store_images(tmp_path, 40)
    assert [path.name.partition("_")[0] for path in tmp_path.iterdir()] == ["cifar10"], "images are there once"
    jobs = {device: live_jobs(device, Path("/images")) for device in SIZES}
    for kind in ("shares_", "live_"):
        names = [[name for name in jobs[device] if name.startswith(kind)] for device in SIZES]
        assert names[0] == names[1]
        assert len(names[0]) == 3
    for device, found in jobs.items():
        assert all(f"backend.device={device}" in words for words in found.values())
        assert all(sum(word.startswith("straggler=") for word in words) == 1 for words in found.values())
    assert list(predicted_jobs("fake", live=False)) == ["bsp", "asp", "bsp_hog"]
    virtual = virtual_jobs("fake", Path("/images"), Path("/costs.yaml"))
    assert all(not word.startswith("backend.device") for words in virtual.values() for word in words)
    assert {measurements.part_of(name) for name in jobs["cuda"]} == set(measurements.PARTS)
    small, large, between = SIZES["cuda"].each
    assert small < between < large, "predicted, not repeated"


def alone(*times_s: float) -> Any:
    rows = pd.DataFrame({"samples": 8, "compute_s": times_s})
    return SimpleNamespace(tables=SimpleNamespace(iterations=rows))


def test_launches_and_parts_of_an_iteration_are_medians_in_milliseconds() -> None:
    assert measurements.launches(alone(0.01, 0.01, 0.5), alone(0.003)).found == "one by one 10.00 ms, at once 3.00 ms"
    names = [*measurements.SPENT.values(), "stage_s"]
    rows = [{"samples": 8, **{name: scale * (i + 1) for i, name in enumerate(names)}} for scale in (1e-3, 2e-3, 9e-3)]
    run: Any = SimpleNamespace(tables=SimpleNamespace(iterations=pd.DataFrame([*rows, {"samples": 0}])))
    found = "waiting 2.00, loading 4.00, pulling 6.00, computing 8.00, sending 10.00 (of it copies 12.00)"
    assert measurements.iteration_parts(run).found == found


def ended(seconds: float) -> Any:
    return SimpleNamespace(end_s=seconds)


def test_a_batch_that_is_too_small_costs_more_per_sample() -> None:
    (flat,) = measurements.saturation({8: alone(0.01, 0.01, 0.5), 32: alone(0.011)})
    (line,) = measurements.saturation({8: alone(0.01), 32: alone(0.04)})
    assert (flat.holds, line.holds) == (True, False)
    assert flat.found == "8: 10.00 ms, 32: 11.00 ms"


def test_idle_times_must_be_in_the_papers_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "idle_frac", lambda run: run)
    ordered: Any = {"bsp": 0.3, "lb_bsp_gpu": 0.2, "antdt_dd": 0.1}
    assert measurements.idle_order(ordered).holds
    assert not measurements.idle_order(ordered | {"antdt_dd": 0.25}).holds


def test_stragglers_are_told_by_computing_alone() -> None:
    rows = [
        {"iteration": i, "worker": k, "samples": 8, "assigned_samples": 8, "compute_s": 1.3 if k == i == 0 else 1.0}
        for i in range(4)
        for k in range(NUM_WORKERS)
    ]
    run: Any = SimpleNamespace(tables=SimpleNamespace(iterations=pd.DataFrame(rows)))
    row = measurements.gpu_stragglers(run)
    assert (row.found, row.holds) == ("25.0% of 4 iterations", None)


def test_fidelity_is_within_five_per_cent() -> None:
    rows = list(measurements.fidelity({"a": (ended(10.0), ended(10.4)), "b": (ended(10.0), ended(9.4))}))
    found = ("live 10.00 s, virtual 10.40 s (+4.0%)", "live 10.00 s, virtual 9.40 s (-6.0%)")
    assert [(row.holds, row.found) for row in rows] == list(zip((True, False), found, strict=True))
    assert [line[-1] for line in measurements.cells(rows)] == ["yes", "NO"]


def test_a_part_that_fails_keeps_no_other_from_being_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report comes after each part, and the hogs at the end."""
    done: list[str] = []

    def measure(part: str, *_: Any) -> None:
        done.append(part)
        if part == measurements.FIDELITY:
            raise JobFailed("a run failed")

    monkeypatch.setattr(measure_gpu, "measure", measure)
    monkeypatch.setattr(measure_gpu, "existing", lambda device, out: {})
    monkeypatch.setattr(measure_gpu, "report", lambda *_: done.append("report"))
    monkeypatch.setattr(measure_gpu.calibrate_injectors, "main", lambda *_: done.append("hogs") or 0)
    words = ["--device", "fake", "-o", str(tmp_path)]
    assert measure_gpu.main(words) == 1
    assert done == ["fidelity", "saturation", "report", "shares", "report", "hogs"]
    done.clear()
    assert measure_gpu.main([*words, "--part", "shares"]) == 0
    assert done == ["shares", "report"]


def test_what_is_not_complete_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    some: Any = {"live_asp": ended(10.0), "virtual_asp": ended(10.1), "live_bsp": ended(9.0)}
    some |= dict.fromkeys(("fit_16", "alone_2"))
    row = measurements.Row("stragglers", "", "", None)
    monkeypatch.setattr(measurements, "gpu_stragglers", lambda run: row)
    monkeypatch.setattr(measurements, "iteration_parts", lambda run: row._replace(what="parts"))
    assert [one.what for one in measurements.rows("fake", some)] == ["stragglers", "parts", "fidelity of JCT, asp"]
    assert list(measurements.rows("fake", {})) == []
