"""What is measured on a GPU: every job can be started on the fake device, and what they say is judged as written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from runtime.live.machines.mechanisms import Missing
from scripts.gpu import gpu_measurements as measurements
from scripts.gpu import measure_gpu
from scripts.gpu.gpu_measurements import NUM_WORKERS, SIZES, live_jobs, predicted, virtual_jobs
from stragglab.grids.grid import JobFailed


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
    assert list(predicted("fake", live=False)) == ["bsp", "asp", "bsp_hog"]
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
    assert measurements.spent(run).found == found


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
    monkeypatch.setattr(measurements, "spent", lambda run: row._replace(what="parts"))
    assert [one.what for one in measurements.rows("fake", some)] == ["stragglers", "parts", "fidelity of JCT, asp"]
    assert list(measurements.rows("fake", {})) == []
