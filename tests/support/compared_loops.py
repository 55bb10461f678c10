"""The same job with the compiled event loop and by Python alone: the files must be the same, to the byte."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.record.columns import ColumnRecorder
from runtime.record.recorder import Recorder
from runtime.virtual import lab as lab_module
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.event_loop import loop as loop_module
from runtime.virtual.event_loop.loop import EventLoop
from runtime.virtual.lab import VirtualLab
from runtime.virtual.tasks.model_state import NoModelState
from strategies.protocol import Strategy
from tests.support.harness import make_run_spec
from tests.support.virtual_runs import World

FILES = ("events.jsonl", "iterations.parquet")


class Answers(Recorder):
    """Keeps events and answers, and asks for no state of the strategy."""

    keeps = "answers"

    def event(self, t: float, event: object, commands: object, version: int, decide_us: float, state: object) -> None:
        super().event(t, event, commands, version, decide_us, None)


class Notes(Recorder):
    """Keeps what happens besides exchanges."""

    keeps = "nothing"

    def event(self, *about: object) -> None:
        """Nothing of an exchange is kept."""


RECORDS: dict[str, Any] = {"rows": ColumnRecorder, "all": Recorder, "answers": Answers, "nothing": Notes}
"""By how much of an exchange they keep."""


def run_in_lab(record: Any, session: Callable[..., VirtualSession]) -> Outcome:
    """A job in a lab of its own; ``session(clock)`` is that."""
    lab = VirtualLab()
    lab.add("job", lambda clock, tenancy: session(clock))
    outcome = lab.run()["job"]
    record.close()
    return outcome


def play_in(world: World, make: Callable[[], Strategy], keeps: str = "rows") -> Callable[[Path], Outcome]:
    """What plays a job of a drawn world, and leaves its files in a folder."""

    def play(run_dir: Path) -> Outcome:
        run_dir.mkdir()
        record = RECORDS[keeps](run_dir)
        spec = make_run_spec(world.job, make(), record, run_dir, transport=world.transport)
        about = (spec, Schedule(world.plan), NoModelState(world.job.num_samples, None), world.costs, world.profile)
        return run_in_lab(
            record, lambda clock: VirtualSession(*about, clock=clock, hosts=world.hosts, lease_s=world.lease_s)
        )

    return play


def compare(
    place: Path,
    play: Callable[[Path], Outcome],
    keeps: str = "rows",
    *,
    chunk: int = 1 << 10,
    patience: tuple[int, int] = (0, 4),
) -> int:
    """Play it with and without the loop, and compare; returns how many decisions the loop has carried out."""
    decided, leave = 0, EventLoop.leave

    def counted(self: EventLoop, **how: Any) -> None:
        nonlocal decided
        decided += self._decided * self._inside
        leave(self, **how)

    with ExitStack() as changed:
        for owner, name, value in ((loop_module, "CHUNK", chunk), (loop_module, "PATIENCE", patience)):
            changed.enter_context(patch.object(owner, name, value))
        changed.enter_context(patch.object(EventLoop, "leave", counted))
        compiled = play(place / "compiled")
    with patch.object(lab_module, "loop_of", lambda session: None):
        python = play(place / "python")
    assert compiled == python
    for name in FILES if keeps == "rows" else FILES[:1]:
        assert (place / "compiled" / name).read_bytes() == (place / "python" / name).read_bytes(), name
    return decided
