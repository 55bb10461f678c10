"""What a person sees: the numbers of the picture, and that both views show them."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from injectors.plan import Disturbance, Plan
from runtime.record.picture import Picture
from runtime.record.screen import NoView
from runtime.record.view import PLAIN_EVERY_S, LiveView, PlainView, make_view
from strategies.protocol import Arrived, Drop, Evaluated, Grad, Lost, ServerLost, Timings
from tests.support.harness import make_job

WINDOW = Disturbance(start_s=2.0, end_s=4.0, target="worker:1", kind="delay", magnitude=0.12)
RANK_WINDOW = Disturbance(start_s=3.1, end_s=4.0, target="rank:(0,2,1)", kind="slowdown", magnitude=0.25)
SERVER_WINDOW = Disturbance(start_s=3.0, end_s=4.0, target="server:0", kind="slowdown", magnitude=2.0)
PLAN = Plan(pattern="transient", seed=0, horizon_s=40.0, disturbances=(WINDOW, SERVER_WINDOW, RANK_WINDOW))


@pytest.fixture
def picture() -> Picture:
    return Picture(make_job(num_workers=2, epochs=3, target=0.9), "a job", PLAN)


def arrived(worker: int, iteration: int, samples: int = 8, compute_s: float = 0.1, wait_s: float = 0.3) -> Arrived:
    grad = Grad(
        id=iteration, worker=worker, incarnation=0, iteration=iteration, version=0, samples=samples, assigned_samples=8
    )
    return Arrived(t=1.0, grad=grad, timings=Timings(compute_s=compute_s, data_s=0.01, wait_s=wait_s))


def tell(picture: Picture, event: Any, version: int = 1, commands: tuple[Any, ...] = ()) -> None:
    picture.event(1.0, event, commands, version, 1.0, None)


def evaluated(accuracy: float, t: float) -> Evaluated:
    return Evaluated(t=t, version=1, asked_s=t - 0.5, metrics={"accuracy": accuracy, "loss": 1.0})


def test_the_target_is_reached_when_the_score_was_asked_for(picture: Picture) -> None:
    for accuracy, t in ((0.5, 1.0), (0.95, 2.0), (0.7, 3.0), (0.96, 4.0)):
        tell(picture, evaluated(accuracy, t))
    assert (picture.metric, picture.best, picture.target.reached_s) == (0.96, 0.96, 1.5)
    tell(picture, Evaluated(t=5.0, version=1, asked_s=5.0, metrics={}))
    assert picture.metric == 0.96


def test_the_headline(picture: Picture) -> None:
    assert picture.headline(0.0) == "   0.0 s  epoch 1/3  update 0  accuracy - (target 0.9)"
    picture.note(2.0, "EpochStarted", epoch=1)
    tell(picture, evaluated(0.95, 2.0), version=17)
    assert picture.headline(12.34) == "  12.3 s  epoch 2/3  update 17  accuracy 0.9500 (target 0.9 reached at 1.5 s)"


def launched(picture: Picture, role: str, number: int, node: str, incarnation: int = 0) -> None:
    picture.note(1.0, "Launched", role=role, id=number, incarnation=incarnation, node=node, pid=9)


def test_machines_and_their_tasks(picture: Picture) -> None:
    launched(picture, "worker", 0, "local")
    assert picture.machines() == [], "a job of one machine"
    for number in range(3):
        launched(picture, "worker", number, f"node{number % 2}")
    launched(picture, "server", 0, "node0")
    assert picture.machines() == ["node0: worker:0, worker:2, server:0", "node1: worker:1"]
    launched(picture, "worker", 2, "node1", incarnation=1)
    picture.note(1.1, "Exited", role="worker", id=2, incarnation=0, reason="killed by signal 9")
    picture.note(1.2, "Exited", role="server", id=0, incarnation=0, reason="exited")
    assert picture.machines() == ["node0: worker:0", "node1: worker:1, worker:2"]
    for number in range(20):
        launched(picture, "worker", number, "node0")
    assert picture.machines()[0].endswith("worker:7, 12 more")


def test_a_lost_machine_is_named_until_another_takes_its_place(picture: Picture) -> None:
    launched(picture, "worker", 1, "node1")
    picture.note(4.0, "NodeLost", node="node1", reason="its agent is gone")
    assert picture.headline(4.0).endswith("  lost: node1")
    assert picture.machines() == ["node1 (lost): worker:1"]
    assert picture.last_note == "4.0 s: node1 is lost (its agent is gone)"
    picture.note(6.0, "NodeJoined", node="node1", address="10.0.0.3")
    assert "lost" not in picture.headline(6.0)
    assert picture.last_note == "6.0 s: node1 is here again, at 10.0.0.3"
    picture.note(7.0, "Moved", task="worker:1", node="node2")
    assert picture.last_note == "7.0 s: worker:1 starts again on node2"
    picture.note(8.0, "Moved", task="worker:1", host="host2")
    assert picture.last_note.startswith("7.0 s"), "of emulated hosts, which have no machines"


def console(*, terminal: bool) -> Console:
    return Console(
        file=io.StringIO(), width=120, height=60, force_terminal=terminal, color_system=None, legacy_windows=False
    )


def text_of(screen: Console) -> str:
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_plain_lines(picture: Picture) -> None:
    screen = console(terminal=False)
    view = PlainView(picture, screen)
    view.tick(0.0)
    tell(picture, arrived(0, 0), version=5)
    for t in (1.0, 1.25, PLAIN_EVERY_S, 1.0 + PLAIN_EVERY_S, 2.0 + PLAIN_EVERY_S):
        view.tick(t)
    view.close(20.0)
    lines = text_of(screen).splitlines()
    assert lines[0] == "a job"
    assert [line.split(" s  ")[0].strip() for line in lines[1:]] == ["1.0", "6.0", "20.0"]
    assert all("update 5" in line and "injected: nothing" in line for line in lines[1:])


def test_the_table(picture: Picture) -> None:
    screen = console(terminal=True)
    view = LiveView(picture, screen)
    view.tick(0.0)
    assert "starting processes" in text_of(screen)
    for iteration in range(3):
        tell(picture, arrived(1, iteration))
    tell(picture, Lost(t=1.0, worker=0, incarnation=0, reason="killed", restarting=True))
    picture.note(3.2, "Exited", role="worker", id=0, incarnation=0, reason="killed by signal 9")
    launched(picture, "server", 1, "node1")
    view.close(3.5)
    shown = text_of(screen).split("starting processes")[-1]
    for words in ("110.0", "300.0", "24", "+0.12 s per iteration", "(1 restarts)", "server:0"):
        assert words in shown, words
    for words in (
        "+200 % of its own time",
        "node1: server:1",
        "rank:(0,2,1) +25 %",
        "worker 0 exited (killed by signal 9)",
    ):
        assert words in shown, words


@pytest.mark.parametrize(
    ("choice", "terminal", "kind"),
    [
        ("none", True, NoView),
        ("plain", True, PlainView),
        ("auto", False, PlainView),
        ("auto", True, LiveView),
        ("live", False, LiveView),
    ],
)
def test_which_view(picture: Picture, choice: str, terminal: bool, kind: type) -> None:
    view = make_view(choice, picture, console(terminal=terminal))
    assert type(view) is kind
    view.tick(0.0)
    view.close(1.0)


def test_restarts_and_drops(picture: Picture) -> None:
    tell(picture, Lost(t=1.0, worker=0, incarnation=0, reason="killed", restarting=True))
    tell(picture, Lost(t=1.0, worker=1, incarnation=0, reason="killed", restarting=False))
    tell(picture, ServerLost(t=1.0, server=0, incarnation=0, reason="killed"), commands=(Drop(grads=(1, 2)),))
    assert [lane.restarts for lane in picture.lanes.values()] == [1, 0]
    assert (picture.server_restarts, picture.dropped) == (1, 2)
