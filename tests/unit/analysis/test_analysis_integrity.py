"""Sound records pass; every kind of broken record is caught (a negative control for each check)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

from analysis.records.integrity import REPEATED, integrity
from analysis.records.load import load_run
from tests.support.records import (
    Story,
    apply,
    asp_story,
    backup_story,
    bsp_story,
    churn_story,
    compute,
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


Step = Callable[[Story], None]


def arrived(*given: Any, **fields: Any) -> Step:
    return methodcaller("arrived", *given, **fields)


def event(*given: Any, **fields: Any) -> Step:
    return methodcaller("event", *given, **fields)


def pair(*steps: Step) -> Story:
    """Two workers, each with a Compute of one sample batch; two updates make an epoch. Then this happens."""
    story = Story(num_workers=2, num_samples=16, epochs=1)
    story.started()
    story.lines[-1]["commands"] = [compute(0), compute(1)]
    for step in steps:
        step(story)
    return story


def end(story: Story, **fields: Any) -> Story:
    whole = {"epochs_done": 1, "samples_applied": 16, "shards_done": 2, "shards_total": 2}
    story.finished(9.0, **(whole | fields))
    return story


FIRST, SECOND = arrived(0.1, 0, 0, [apply(0)]), arrived(0.2, 1, 1, [apply(1)], version=0)


def sound() -> Story:
    return end(pair(FIRST, SECOND))


def changed(story: Story, **last: Any) -> Story:
    """Its last line says something else."""
    story.lines[-1]["note"] |= last
    return story


def epochs_mixed() -> Story:
    story = pair(FIRST, SECOND)
    story.meta["job"] |= {"num_samples": 12, "epochs": 2}
    return story


def told_of(grad: int, worker: int, commands: Sequence[Any] = (), ref_version: int = 0) -> Step:
    about = {"id": grad, "worker": worker, "incarnation": 0, "iteration": 0, "version": 0}
    handle = {**about, "samples": 8, "assigned_samples": 8}
    numbers = {"dot": 1.0, "sqr_grad": 1.0, "sqr_ref": 1.0, "ref_version": ref_version}
    return event(0.3, "Scored", commands, grad=handle, **numbers)


def measured(versions: Sequence[int], asked: bool = True) -> Story:
    """The first of two updates was measured, if it was asked for; these versions were reported."""
    reports = [event(0.3, "Measured", [], version=version, sqr_norm=1.0) for version in versions]
    return pair(arrived(0.1, 0, 0, [{**apply(0), "measure": asked}]), SECOND, *reports)


def held(*commands: dict[str, Any], worker: int = 0, then: Sequence[Step] = ()) -> Story:
    """Worker 0 holds gradient 0 at 0.1, and these are the answers to that."""
    about = {"id": worker, "worker": worker, "incarnation": 0, "iteration": 0, "version": 0, "samples": 8}
    given = {"timings": {"compute_s": 0.05}, "num_bytes": 100, "loss": 1.0, "sqr_norm": 1.0}
    return pair(event(0.1, "Ready", commands, grad={**about, "assigned_samples": 8}, **given), *then)


def send(grad: int) -> dict[str, Any]:
    return {"type": "Send", "grads": [grad]}


SCORED = (
    *(arrived(0.1, 0, 0, [score(0, refresh=True)]), arrived(0.2, 1, 1, [score(1)], version=0)),
    *(told_of(0, 0, [apply(0)]), told_of(1, 1, [apply(1)])),
)


@pytest.mark.parametrize(
    "tell",
    [
        *(sound, lambda: end(measured([1])), lambda: end(pair(*SCORED))),
        lambda: end(pair(FIRST, arrived(0.2, 1, 1, [drop(1, requeue=False)], version=0)), samples_applied=8),
    ],
    ids=["plain", "measured", "scored", "given up on request"],
)
def test_sound_pairs_pass(tell: Callable[[], Story], tmp_path: Path) -> None:
    assert problems(tell(), tmp_path) == ""


def test_held_gradients_are_sound(tmp_path: Path) -> None:
    """One is sent 0.1 s after it was ready, which is in no duration; another is dropped, and its worker computes."""
    sent = event(0.2, "Woke", [send(0)], tag="window"), arrived(0.5, 0, 0, [apply(0)], send_s=0.3, compute_s=0.05)
    assert problems(held(then=sent), tmp_path) == ""
    (row,) = load_run(tmp_path / "run").tables.iterations.itertuples()
    assert (row.start_s, row.send_s) == (pytest.approx(0.05), 0.3)
    again = held(drop(0), compute(0), then=[arrived(0.2, 1, 1, [apply(1)])])
    assert "gradient" not in problems(again, tmp_path / "again")


LOST = event(0.1, "Lost", worker=0, incarnation=0, reason="killed", restarting=True)
BACK = event(0.2, "Joined", [compute(0)], worker=0, incarnation=1)
ROLLED_BACK = (
    event(0.2, "ServerLost", server=0, incarnation=0, reason="killed"),
    event(0.3, "Restored", [apply(0)], version=0, workers=[0, 1]),
)
UNAVAILABLE = "Apply of gradient 0, which was not available"
NOT_SCORED = "Score of gradient 0, which was not available or is being scored"
UNASKED = "Scored of gradient 0, which was not asked for"
BROKEN: dict[str, tuple[Story, str]] = {
    "sent twice": (held(send(0), send(0)), "Send of gradient 0, which nobody held"),
    "another is sent": (held(send(1)), "Send of gradient 1, which nobody held"),
    "computes while it holds": (held(compute(0)), "Compute for worker 0 while it was computing"),
    "nobody's is held": (held(worker=2), "Ready of worker 2, which was not computing"),
    "applied while held": (held(apply(0)), UNAVAILABLE),
    "arrives unsent": (held(then=[arrived(0.2, 0, 0)]), "gradient 0 arrived, but was not sent"),
    "held by a lost one": (held(then=[LOST, event(0.2, "Woke", [send(0)], tag="")]), "Send of gradient 0, which"),
    "scored twice": (pair(arrived(0.1, 0, 0, [score(0), score(0)])), NOT_SCORED),
    "scored after use": (pair(arrived(0.1, 0, 0, [apply(0), score(0)])), NOT_SCORED),
    "told although used": (pair(arrived(0.1, 0, 0, [score(0), apply(0)]), told_of(0, 0)), UNASKED),
    "told unasked": (pair(arrived(0.1, 0, 0), told_of(0, 0)), UNASKED),
    "reference of the future": (
        pair(arrived(0.1, 0, 0, [score(0)]), told_of(0, 0, ref_version=1)),
        "Scored of gradient 0 against version 1, which does not exist yet",
    ),
    "measured unasked": (measured([1], asked=False), "Measured of version 1, which was not asked for"),
    "another is measured": (measured([2]), "Measured of version 2, which was not asked for"),
    "measured twice": (measured([1, 1]), "Measured of version 1, which was not asked for"),
    "applied twice": (pair(FIRST, arrived(0.2, 1, 1, [apply(0, 1)], version=0)), UNAVAILABLE),
    "applied after it was dropped": (pair(arrived(0.1, 0, 0, [drop(0)]), arrived(0.2, 1, 1, [apply(0)])), UNAVAILABLE),
    "applied after a rollback": (pair(arrived(0.1, 0, 0), *ROLLED_BACK), UNAVAILABLE),
    "never arrived": (pair(arrived(0.1, 0, 0, [apply(7)])), "Apply of gradient 7"),
    "ended twice": (
        pair(arrived(0.1, 0, 0), event(0.2, "Failed", worker=0, reason="late")),
        "Failed of worker 0, which was not computing",
    ),
    "arrives twice": (pair(arrived(0.1, 0, 0, [compute(0)]), arrived(0.2, 0, 0)), "gradient 0 arrived twice"),
    "a busy one computes": (pair(arrived(0.1, 0, 0, [compute(1)])), "Compute for worker 1 while it was computing"),
    "a dead one delivers": (pair(LOST, BACK, arrived(0.3, 0, 0, incarnation=0)), "incarnation 0 of worker 0, which is"),
    "time runs back": (pair(arrived(0.2, 0, 0), arrived(0.1, 1, 1)), "t = 0.1 after 0.2"),
    "a version is skipped": (
        pair(arrived(0.1, 0, 0, [apply(0)], line_version=3)),
        "version 3 after an event and commands that make it 1",
    ),
    "samples lost": (
        end(pair(FIRST, arrived(0.2, 1, 1, [apply(1)], version=0, samples=7)), samples_applied=15),
        "15 samples applied and 0 given up in 1 epochs of 16",
    ),
    "samples miscounted": (changed(sound(), samples_applied=15), "16 samples applied, but the last line says 15"),
    "epochs mixed": (epochs_mixed(), "16 samples used, which passes the end of epoch 0 at 12"),
    "a shard is missing": (changed(sound(), shards_done=1), "1 of 2 shards done"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_record_is_caught(name: str, tmp_path: Path) -> None:
    story, what = BROKEN[name]
    assert what in problems(story, tmp_path)


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


def test_many_problems_are_cut_short_and_what_cannot_be_checked_is_said(tmp_path: Path) -> None:
    overlapping = sound()
    overlapping.meta["job"]["epoch_overlap"] = True
    unchecked = integrity(load_run(overlapping.write(tmp_path / "overlapping"))).unchecked
    assert unchecked == ("samples of each epoch: epochs overlap",)
    story = pair(*(arrived(1.0 + number, 0, number) for number in range(50)))
    found = integrity(load_run(story.write(tmp_path / "run"))).problems
    assert len(found) == 21
    assert found[-1] == "and 29 more"


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
