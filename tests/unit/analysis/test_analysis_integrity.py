"""Sound records pass; every kind of broken record is caught (a negative control for each check)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from analysis.records.integrity import REPEATED, integrity
from analysis.records.load import load_run
from runtime.core import executor
from tests.support.records import (
    Simulation,
    Story,
    apply,
    asp_story,
    backup_story,
    bsp_story,
    churn_story,
    compute,
    disturbance,
    drop,
    rollback_story,
    score,
)


def problems(story: Story, path: Path) -> str:
    return " | ".join(integrity(load_run(story.write(path / "run"))).problems)


@pytest.mark.parametrize("tell", [bsp_story, asp_story, backup_story, churn_story, rollback_story])
def test_sound_records_pass(tell: Callable[[], Story], tmp_path: Path) -> None:
    found = integrity(load_run(tell().write(tmp_path / "run")))
    assert (found.problems, found.unchecked) == ((), ())


@pytest.mark.parametrize("keep", [0, 1, 2, 20])
def test_the_start_of_a_sound_record_is_sound(keep: int, tmp_path: Path) -> None:
    run = load_run(rollback_story().write(tmp_path / "run", keep=keep, torn='{"se'))
    assert integrity(run).ok


def pair() -> Story:
    """Two workers, each with a Compute of one sample batch; two updates make an epoch."""
    story = Story(num_workers=2, num_samples=16, epochs=1)
    story.started()
    story.lines[-1]["commands"] = [compute(0), compute(1)]
    return story


def end(story: Story, **fields: Any) -> Story:
    whole = {"epochs_done": 1, "samples_applied": 16, "shards_done": 2, "shards_total": 2}
    story.finished(9.0, **(whole | fields))
    return story


def sound() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [apply(0)])
    story.arrived(0.2, 1, 1, [apply(1)], version=0)
    return end(story)


def test_the_pair_is_sound(tmp_path: Path) -> None:
    assert problems(sound(), tmp_path) == ""


def applied_twice() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [apply(0)])
    story.arrived(0.2, 1, 1, [apply(0, 1)], version=0)
    return end(story, samples_applied=24)


def applied_after_drop() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [drop(0)])
    story.arrived(0.2, 1, 1, [apply(0)])
    return story


def never_arrived() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [apply(7)])
    return story


def ended_twice() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0)
    story.event(0.2, "Failed", worker=0, reason="late")
    return story


def same_gradient_twice() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [compute(0)])
    story.arrived(0.2, 0, 0)
    return story


def busy_worker_asked() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [compute(1)])
    return story


def dead_worker_delivers() -> Story:
    story = pair()
    story.event(0.1, "Lost", worker=0, incarnation=0, reason="killed", restarting=True)
    story.event(0.2, "Joined", [compute(0)], worker=0, incarnation=1)
    story.arrived(0.3, 0, 0, incarnation=0)
    return story


def time_runs_back() -> Story:
    story = pair()
    story.arrived(0.2, 0, 0)
    story.arrived(0.1, 1, 1)
    return story


def version_jumps() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [apply(0)], line_version=3)
    return story


def samples_lost() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [apply(0)])
    story.arrived(0.2, 1, 1, [apply(1)], version=0, samples=7)
    return end(story, samples_applied=15)


def samples_miscounted() -> Story:
    story = sound()
    story.lines[-1]["note"]["samples_applied"] = 15
    return story


def epochs_mixed() -> Story:
    story = pair()
    story.meta["job"] |= {"num_samples": 12, "epochs": 2}
    story.arrived(0.1, 0, 0, [apply(0)])
    story.arrived(0.2, 1, 1, [apply(1)], version=0)
    return story


def shard_missing() -> Story:
    story = sound()
    story.lines[-1]["note"]["shards_done"] = 1
    return story


def told_of(story: Story, grad: int, worker: int, commands: Sequence[Any] = (), ref_version: int = 0) -> Story:
    about = {"id": grad, "worker": worker, "incarnation": 0, "iteration": 0, "version": 0}
    handle = {**about, "samples": 8, "assigned_samples": 8}
    numbers = {"dot": 1.0, "sqr_grad": 1.0, "sqr_ref": 1.0, "ref_version": ref_version}
    story.event(0.3, "Scored", commands, grad=handle, **numbers)
    return story


def scored() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [score(0, refresh=True)])
    story.arrived(0.2, 1, 1, [score(1)], version=0)
    return told_of(told_of(story, 0, 0, [apply(0)]), 1, 1, [apply(1)])


def measured(versions: Sequence[int], asked: bool = True) -> Story:
    """The first of two updates was measured, if it was asked for; these versions were reported."""
    story = pair()
    story.arrived(0.1, 0, 0, [{**apply(0), "measure": asked}])
    story.arrived(0.2, 1, 1, [apply(1)], version=0)
    for version in versions:
        story.event(0.3, "Measured", [], version=version, sqr_norm=1.0)
    return story


def test_measured_updates_are_sound(tmp_path: Path) -> None:
    assert problems(end(measured([1])), tmp_path) == ""


def held(*commands: dict[str, Any], worker: int = 0, t: float = 0.1) -> Story:
    """Worker 0 holds gradient 0 at 0.1, and these are the answers to that."""
    story = pair()
    about = {"id": worker, "worker": worker, "incarnation": 0, "iteration": 0, "version": 0, "samples": 8}
    timings = {"compute_s": 0.05}
    grad = {**about, "assigned_samples": 8}
    story.event(t, "Ready", commands, grad=grad, timings=timings, num_bytes=100, loss=1.0, sqr_norm=1.0)
    return story


def send(grad: int) -> dict[str, Any]:
    return {"type": "Send", "grads": [grad]}


def test_held_gradients_are_sound(tmp_path: Path) -> None:
    """One is sent 0.1 s after it was ready, which is in no duration; another is dropped, and its worker computes."""
    story = held()
    story.event(0.2, "Woke", [send(0)], tag="window")
    story.arrived(0.5, 0, 0, [apply(0)], send_s=0.3, compute_s=0.05)
    assert problems(story, tmp_path) == ""
    (row,) = load_run(tmp_path / "run").tables.iterations.itertuples()
    assert (row.start_s, row.send_s) == (pytest.approx(0.05), 0.3)
    again = held(drop(0), compute(0))
    again.arrived(0.2, 1, 1, [apply(1)])
    assert "gradient" not in problems(again, tmp_path / "again")


@pytest.mark.parametrize(
    ("tell", "what"),
    [
        (lambda: held(send(0), send(0)), "Send of gradient 0, which nobody held"),
        (lambda: held(send(1)), "Send of gradient 1, which nobody held"),
        (lambda: held(compute(0)), "Compute for worker 0 while it was computing"),
        (lambda: held(worker=2), "Ready of worker 2, which was not computing"),
        (lambda: held(apply(0)), "Apply of gradient 0, which was not available"),
    ],
)
def test_a_gradient_is_sent_once_and_only_by_who_holds_it(tell: Callable[[], Story], what: str, tmp_path: Path) -> None:
    assert what in problems(tell(), tmp_path)


def test_what_was_not_sent_does_not_arrive(tmp_path: Path) -> None:
    story = held()
    story.arrived(0.2, 0, 0)
    assert "gradient 0 arrived, but was not sent" in problems(story, tmp_path)


def test_what_a_lost_worker_held_is_gone(tmp_path: Path) -> None:
    story = held()
    story.event(0.2, "Lost", [send(0)], worker=0, incarnation=0, reason="killed", restarting=True)
    assert "Send of gradient 0, which nobody held" in problems(story, tmp_path)


def test_scored_gradients_are_sound(tmp_path: Path) -> None:
    assert problems(end(scored()), tmp_path) == ""


def scored_twice() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [score(0), score(0)])
    return story


def scored_after_use() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [apply(0), score(0)])
    return story


def told_although_used() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [score(0), apply(0)])
    return told_of(story, 0, 0)


def told_unasked() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0)
    return told_of(story, 0, 0)


def reference_of_the_future() -> Story:
    story = pair()
    story.arrived(0.1, 0, 0, [score(0)])
    return told_of(story, 0, 0, ref_version=1)


@pytest.mark.parametrize(
    ("tell", "what"),
    [
        (scored_twice, "Score of gradient 0, which was not available or is being scored"),
        (scored_after_use, "Score of gradient 0, which was not available or is being scored"),
        (told_although_used, "Scored of gradient 0, which was not asked for"),
        (told_unasked, "Scored of gradient 0, which was not asked for"),
        (lambda: measured([1], asked=False), "Measured of version 1, which was not asked for"),
        (lambda: measured([2]), "Measured of version 2, which was not asked for"),
        (lambda: measured([1, 1]), "Measured of version 1, which was not asked for"),
        (reference_of_the_future, "Scored of gradient 0 against version 1, which does not exist yet"),
        (applied_twice, "Apply of gradient 0, which was not available"),
        (applied_after_drop, "Apply of gradient 0, which was not available"),
        (never_arrived, "Apply of gradient 7"),
        (ended_twice, "Failed of worker 0, which was not computing"),
        (same_gradient_twice, "gradient 0 arrived twice"),
        (busy_worker_asked, "Compute for worker 1 while it was computing"),
        (dead_worker_delivers, "incarnation 0 of worker 0, which is gone"),
        (time_runs_back, "t = 0.1 after 0.2"),
        (version_jumps, "version 3 after an event and commands that make it 1"),
        (samples_lost, "15 samples applied and 0 given up in 1 epochs of 16"),
        (samples_miscounted, "16 samples applied, but the last line says 15"),
        (epochs_mixed, "16 samples used, which passes the end of epoch 0 at 12"),
        (shard_missing, "1 of 2 shards done"),
    ],
)
def test_a_broken_record_is_caught(tell: Callable[[], Story], what: str, tmp_path: Path) -> None:
    assert what in problems(tell(), tmp_path)


def test_a_gradient_of_before_a_rollback_is_void(tmp_path: Path) -> None:
    story = pair()
    story.arrived(0.1, 0, 0)
    story.event(0.2, "ServerLost", server=0, incarnation=0, reason="killed")
    story.event(0.3, "Restored", [apply(0)], version=0, workers=[0, 1])
    assert "Apply of gradient 0, which was not available" in problems(story, tmp_path)


def test_samples_given_up_on_request_are_accounted_for(tmp_path: Path) -> None:
    story = pair()
    story.arrived(0.1, 0, 0, [apply(0)])
    story.arrived(0.2, 1, 1, [drop(1, requeue=False)], version=0)
    assert problems(end(story, samples_applied=8), tmp_path) == ""


def test_with_whole_shards_samples_may_be_applied_again_but_not_be_missing(tmp_path: Path) -> None:
    for number, (failover, batches, problem) in enumerate(
        [
            ("whole_shards", 3, ""),
            ("shards", 3, "24 samples applied"),
            ("whole_shards", 1, "8 samples applied"),
            ("whole_shards", 2, "16 samples applied and 0 given up in 1 epochs of 16, and 8 repeated"),
        ]
    ):
        story = pair()
        story.meta["job"]["failover"] = failover
        story.note(0.05, "Requeued", worker=0, samples=8, reason=REPEATED)
        for grad in range(batches):
            story.arrived(0.1 + grad, grad % 2, grad, [apply(grad), compute(grad % 2)])
        found = problems(end(story, samples_applied=8 * batches), tmp_path / f"{number}")
        assert problem in found
        assert bool(found) == bool(problem)


def test_the_reason_of_a_repeat_is_the_runtimes() -> None:
    assert REPEATED == executor.REPEATED


def test_what_cannot_be_checked_is_said(tmp_path: Path) -> None:
    story = sound()
    story.meta["job"]["epoch_overlap"] = True
    assert integrity(load_run(story.write(tmp_path / "run"))).unchecked == ("samples of each epoch: epochs overlap",)


def test_many_problems_are_cut_short(tmp_path: Path) -> None:
    story = pair()
    for number in range(50):
        story.arrived(1.0 + number, 0, number)
    found = integrity(load_run(story.write(tmp_path / "run"))).problems
    assert len(found) == 21
    assert found[-1] == "and 29 more"


def test_a_long_disturbed_run_is_sound(tmp_path: Path) -> None:
    plan = [disturbance(0.3 * n, 0.3 * n + 0.2, f"worker:{n % 4}", 0.03) for n in range(8)]
    story = Story("asp", plan=plan, num_samples=256, epochs=4)
    run = load_run(Simulation(story, "asp", lose=(1, 0.5, 0.9), rollback=(1.2, 1.4, 20)).run().write(tmp_path / "run"))
    assert integrity(run).problems == ()
    assert run.tables.updates["void"].any()


def test_the_summary_carries_the_verdict(tmp_path: Path) -> None:
    from analysis.measures.metrics import summarise

    summary = summarise(load_run(applied_twice().write(tmp_path / "run")))
    assert summary["integrity"]["ok"] is False
    assert "gradient 0" in msgspec.json.encode(summary["integrity"]["problems"]).decode()


# ---- members --------------------------------------------------------------------------------------------------------


def laid_out(t: float, version: int, *workers: int) -> dict[str, Any]:
    nodes = ["server:0", *(f"worker:{worker}" for worker in workers)]
    return {"t": t, "version": version, "nodes": nodes, "shares": {"server:0": 1.0}}


def with_layouts(story: Story, *layouts: dict[str, Any]) -> Story:
    """A record that says which nodes there are: at the start, and after everything that it tells so far."""
    for layout in layouts:
        story.note(layout.pop("t"), "LayoutChanged", **layout)
    return story


def test_a_record_with_layouts_is_sound_as_long_as_only_members_act(tmp_path: Path) -> None:
    story = with_layouts(Story(num_workers=2, num_samples=16, epochs=1), laid_out(0.0, 0, 0, 1))
    story.started()
    with_layouts(story, laid_out(1.0, 1, 0, 1, 2))
    story.event(2.0, "Joined", worker=2, incarnation=0)
    assert problems(story, tmp_path) == ""


@pytest.mark.parametrize(
    ("layouts", "worker", "found"),
    [
        ([laid_out(0.0, 0, 0, 1)], 2, "worker:2 is not in layout 0"),
        ([laid_out(0.0, 0, 0, 1), laid_out(0.0, 1, 0)], 1, "worker:1 is not in layout 1"),
        ([laid_out(0.0, 0, 0, 1), laid_out(0.0, 2, 0, 1)], 0, "layout 2 follows layout 0"),
        ([laid_out(0.0, 1, 0, 1)], 0, "layout 1 follows layout -1"),
    ],
)
def test_who_is_no_member_does_not_join(layouts: list[dict[str, Any]], worker: int, found: str, tmp_path: Path) -> None:
    story = with_layouts(Story(num_workers=2, num_samples=16, epochs=1), *map(dict, layouts))
    story.started()
    story.event(2.0, "Joined", worker=worker, incarnation=1)
    assert found in problems(story, tmp_path)
