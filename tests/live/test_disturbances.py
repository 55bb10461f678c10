"""A plan of real disturbances on real processes: carried out as planned, written down as achieved, nothing lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.records.load import load_run
from injectors.schedule import Schedule
from runtime.live.machines.doctor import missing
from tests.support.exact import assert_sound, assert_uses_are_exact
from tests.support.leaks import Start
from tests.support.long_tests import long_after
from tests.support.runs import DIGITS, LEDGER, Run

pytestmark = pytest.mark.live

PACED = ("cluster.device={base_s: 0.01}", "checkpoint_every_s=0.3")


def write_plan(path: Path, *rows: tuple[float, float, str, str, float]) -> tuple[str, str]:
    """A trace file and the words that choose it."""
    lines = ["time,duration,target,kind,magnitude", *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return "straggler=trace", f"straggler.path={path}"


def assert_carried_out(run: Run) -> list[dict[str, Any]]:
    """Every change of a level that was due, and no other, and none before its time."""
    from injectors.plan import parse_plan
    from runtime.core.disturbing import KINDS

    plan = parse_plan((run.run_dir / "plan.json").read_bytes())
    end_s = run.lines()[-1]["t"]
    due = [(one.target, one.kind, one.level) for one in Schedule(plan).changes(KINDS) if one.t < end_s - 0.5]
    done = run.notes("Injected")
    said = [(note["target"], note["kind"], note["level"]) for note in done]
    assert sorted(said[: len(due)]) == sorted(due), "and at the end what was on is taken back"
    assert min(note["late_s"] for note in done) >= 0
    return done


def test_planned_kills_and_pauses_lose_nothing(start: Start, tmp_path: Path) -> None:
    words = write_plan(
        tmp_path / "plan.csv",
        (0.3, 0.4, "worker:1", "kill", 1),
        (0.5, 0.3, "worker:0", "pause", 1),
        (1.2, 0.5, "server:0", "kill", 1),
        (2.2, 0.2, "server:1", "pause", 1),
        (2.6, 0.6, "worker:2", "kill", 1),
        (2.8, 0.6, "worker:2", "kill", 1),
    )
    run = start("run", *LEDGER, *PACED, "workload.epochs=null", "max_time_s=4.5", "save_parameters=true", *words)
    run.finish()
    assert_carried_out(run)
    joined = [event["worker"] for event in run.events("Joined")]
    assert sorted(joined) == [1, 2], "two windows that overlap are one outage"
    lost = {event["worker"]: event["t"] for event in run.events("Lost")}
    back = {event["worker"]: event["t"] for event in run.events("Joined")}
    assert back[1] - lost[1] >= 0.4
    assert back[2] - lost[2] >= 0.8
    assert len(run.events("ServerLost")) == 1
    assert run.events("Restored")[0]["t"] - run.events("ServerLost")[0]["t"] >= 0.5
    assert_uses_are_exact(run)
    assert_sound(run)


@pytest.mark.long(like="test_planned_kills_and_pauses_lose_nothing")
@pytest.mark.alone
@pytest.mark.parametrize("by", long_after(["cgroup", "duty", "cpulimit"], always=1))
def test_a_throttled_worker_gets_its_share_and_no_more(start: Start, tmp_path: Path, by: str) -> None:
    if by != "duty" and (lack := missing({"cgroup": "cgroup_cpu", "cpulimit": "cpulimit"}[by])):
        pytest.skip(f"{lack.reason}; {lack.cure}")
    words = write_plan(tmp_path / "plan.csv", (1.2, 2.4, "worker:0", "cpu", 0.25))
    # asynchronous and alone on its core, so that it could take all of it
    run = start(
        "run",
        *DIGITS,
        "cluster.num_workers=1",
        "topology.num_servers=1",
        "workload.task.hidden_units=2048",
        "workload.global_batch_samples=128",
        "workload.epochs=null",
        "max_time_s=3.6",
        "runtime.telemetry_every_s=0.3",
        f"runtime.cpu_by={by}",
        *words,
    )
    run.finish()
    assert_carried_out(run)
    begun = run.notes("Injected")[0]
    assert (begun["by"], begun["asked"]) == (by, 0.25)
    assert begun["achieved"] == pytest.approx(0.25, rel=0.01)  # cpulimit takes whole percents
    nodes = load_run(run.run_dir).tables.nodes
    used = nodes[nodes.node == "worker:0"]
    before = used[(used.t > 0.4) & (used.t <= 1.2)].cpu_cores.median()
    within = used[(used.t > 1.7) & (used.t <= 3.6)].cpu_cores.median()
    assert before > 0.35, "it was busy"
    assert 0.1 < within < 0.35, (before, within)


@pytest.mark.long(like="test_planned_kills_and_pauses_lose_nothing")
def test_hogs_take_a_part_of_a_device_and_say_how_much(start: Start, tmp_path: Path) -> None:
    """On a fake device; what it costs is measured (docs/gpus.md), and of the parameters it costs nothing."""
    from analysis.measures.injections import collect

    words = write_plan(tmp_path / "plan.csv", (0.5, 1.0, "device:0", "gpu", 0.25), (2.0, 0.7, "worker:0", "gpu", 0.5))
    job = (*DIGITS, "backend.device=fake", "cluster.num_workers=1", "workload.epochs=null", "max_time_s=3.2")
    run = start("run", *job, *words)
    run.finish()
    notes = assert_carried_out(run)
    assert {note["by"] for note in notes} == {"hog"}
    assert all(note["achieved"] == note["asked"] == note["level"] for note in notes)
    table = collect([load_run(run.run_dir)])
    assert list(table["gpu_share"]) == pytest.approx([0.25, 0.5], abs=0.05), "by the hogs' own account"
    assert list(table["target"]) == ["device:0", "worker:0"]
    assert (table["slowdown"] > 1.0).all()
