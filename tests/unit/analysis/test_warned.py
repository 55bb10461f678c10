"""What a run is known not to have done as it was asked to: in its summary, on its page and on the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.experiments.results import warnings_of_live
from analysis.measures.metrics import summarise
from analysis.measures.warning_lines import Warned, together
from analysis.records.load import Run, load_run
from analysis.reports.fidelity import fidelity
from analysis.reports.fidelity_page import verdict
from analysis.reports.finish import finish
from tests.support.pages import Reader
from tests.support.records import Story, bsp_story, disturbance
from tests.unit.analysis.test_fidelity import in_cell

PLAN = (disturbance(0.1, 0.5, "worker:1", 0.1),)


def said(story: Story, folder: Path) -> list[str]:
    """The texts of the warnings; ``warning`` of the summary is all of them in one line."""
    found = summarise(load_run(story.write(folder / "run"), check=True))
    texts = [Warned(**one).text for one in found["warnings"]]
    assert found["warning"] == ("; ".join(texts) or None)
    return texts


def timings(story: Story, worker: int) -> list[dict[str, Any]]:
    arrived = (line["event"] for line in story.lines if line.get("event", {}).get("type") == "Arrived")
    return [event["timings"] for event in arrived if event["grad"]["worker"] == worker]


def noted(story: Story, *notes: tuple[float, str, dict[str, Any]]) -> Story:
    """The story with notes at their times."""
    for t, kind, fields in notes:
        story.note(t, kind, **fields)
    story.lines = [{**line, "seq": seq} for seq, line in enumerate(sorted(story.lines, key=lambda line: line["t"]))]
    return story


def injected(level: float, asked: float, achieved: float, *, late_s: float = 0.0, **more: Any) -> dict[str, Any]:
    about = {"target": "host:1", "kind": "bandwidth", "by": "tc", "level": level, "asked": asked, "achieved": achieved}
    return {**about, "late_s": late_s, "took_s": 0.001, **more}


def test_a_run_that_did_as_asked_has_no_warning(tmp_path: Path) -> None:
    """Of a task that was lost, disturbances may be left behind; a server reports five updates at a time, and nothing is
    known of its last three."""
    story = bsp_story(plan=PLAN)
    for each in timings(story, 2):
        each["overrun_s"] = 0.002  # of some 0.06 s
    notes = ((0.2, "Injected", injected(0.5, 100.0, 101.0)), (0.6, "Injected", injected(1.0, 200.0, 200.0)))
    assert said(noted(story, *notes), tmp_path) == []
    lost = bsp_story(plan=PLAN)
    for each in timings(lost, 1):
        each["injected_s"] = 0.0
    last = lost.lines.pop()
    lost.event(last["t"], "Lost", worker=1, incarnation=0, reason="elsewhere", restarting=True)
    lost.lines.append({**last, "seq": len(lost.lines)})
    assert said(lost, tmp_path / "lost") == []
    assert said(bsp_story(plan=[disturbance(0.0, 1.0, "server:0", 0.01)]), tmp_path / "server") == []


def test_a_worker_that_is_often_later_than_its_device(tmp_path: Path) -> None:
    story = bsp_story(plan=PLAN)
    for each in timings(story, 2):
        each["overrun_s"] = 0.008
    (text,) = said(story, tmp_path)
    assert text.startswith("paced devices could not keep up: 8 of 32 iterations took 0.064 s longer")
    assert text.endswith("worst: worker 2, 9 % of its time")


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_delays_that_were_slept_for_another_time(factor: float, tmp_path: Path) -> None:
    story = bsp_story(plan=PLAN)
    slept = [each for each in timings(story, 1) if each["injected_s"]]
    for each in slept:
        each["injected_s"] *= factor
    (text,) = said(story, tmp_path)
    whole_s = 0.1 * len(slept)
    found = f"{factor * whole_s:.3g} s of delays and slow-downs for {whole_s:.3g} s"
    assert text == f"disturbances were not as planned: worker:1: {found}"


TICKS = (0.0, "TicksMissing", {"reason": "no priority"})
NOTES: dict[str, list[tuple[float, str, dict[str, Any]]]] = {
    "disturbances were not as planned: bandwidth of host:1": [(0.2, "Injected", injected(0.5, 100.0, 130.0))],
    "disturbances took effect late: 1 of 2; worst: bandwidth of host:1, 0.2 s": [
        (0.4, "Injected", injected(0.5, 1.0, 1.0, late_s=0.2)),
        (0.5, "Injected", injected(1.0, 2.0, 2.0)),
    ],
    "disturbances were not as planned: host:1 was off by 30 % of the GPU": [
        (0.1, "Injected", injected(0.5, 0.5, 0.5, kind="gpu", by="hog")),
        (0.4, "Injected", injected(1.0, 1.0, 1.0, kind="gpu", by="hog", measured=0.8)),
    ],
    "limits were not as allocated: worker:0: cpu_cores 1 for 2": [
        (0.1, "Allocated", {"node": "worker:0", "cpu_cores": 2.0}),
        (0.1, "Enforced", {"node": "worker:0", "cpu_cores": 1.0, "by": "duty"}),
    ],
    "quotas of hosts were more than the machine": [(0.0, "Crowded", {"promised_cores": 3.2, "cores": 2})],
    "quotas of hosts were looked at by the kernel's ticks alone: no priority": [TICKS],
}


@pytest.mark.parametrize("start", NOTES)
def test_what_the_runtime_notes(start: str, tmp_path: Path) -> None:
    (text,) = said(noted(bsp_story(plan=()), *NOTES[start]), tmp_path)
    assert text.startswith(start)


def test_iterations_that_are_too_short_for_cpulimit(tmp_path: Path) -> None:
    story = bsp_story(plan=(disturbance(0.1, 2.0, "worker:1", 0.5, kind="cpu"),))
    about = {"target": "worker:1", "kind": "cpu", "by": "cpulimit", "late_s": 0.0, "took_s": 0.0}
    (text,) = said(noted(story, (0.1, "Injected", {**about, "level": 0.5, "asked": 0.5, "achieved": 0.5})), tmp_path)
    assert text.startswith("iterations were too short for cpulimit: worker:1: ")


def test_laws_that_a_record_breaks_and_what_its_strategy_says(tmp_path: Path) -> None:
    story = bsp_story(plan=())
    story.lines[-1]["note"] |= {"warning": "too short", "samples_applied": 1}
    first, second = said(story, tmp_path)
    assert first == "too short"
    assert second.startswith("integrity: ")


def test_all_warnings_are_on_the_page_in_the_summary_and_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = noted(bsp_story(plan=()), (0.0, "TicksMissing", {"reason": "no priority"}))
    for each in timings(story, 2):
        each["overrun_s"] = 0.008
    run = story.write(tmp_path / "run")
    lines = finish(run)
    assert [line.partition(":")[0] for line in lines] == ["bsp"] * 2
    assert "BSP *" in capsys.readouterr().out
    page, summary = Reader((run / "report.html").read_text()).text, json.loads((run / "summary.json").read_text())
    for line in lines:
        text = line.removeprefix("bsp: ")
        assert text in page
        assert text in summary["warning"]


def test_of_many_runs_each_warning_is_told_once_with_the_worst() -> None:
    many = [[Warned("late", "3 s", 0.3), Warned("crowded")], [Warned("late", "5 s", 0.5)], []]
    assert [one.text for one in together(many, "runs")] == ["2 of its runs: late: 5 s", "1 of its runs: crowded"]


def overrunning(folder: Path, **given: Any) -> Run:
    story = bsp_story(plan=(), **given)
    for each in timings(story, 2):
        each["overrun_s"] = 0.008
    return load_run(story.write(folder))


def test_experiments_and_comparisons_of_runtimes_say_it_of_live_runs(tmp_path: Path) -> None:
    live, virtual = overrunning(tmp_path / "live"), overrunning(tmp_path / "virtual", runtime="virtual")
    found = "1 of its live runs: paced devices could not keep up: 8 of 32 iterations"
    (line,) = warnings_of_live([live, virtual])
    assert line.startswith(found)
    compared = fidelity([in_cell(live, "live"), in_cell(virtual, "virtual")])
    assert verdict(compared)[-1].startswith(f"bsp under transient, {found}")
