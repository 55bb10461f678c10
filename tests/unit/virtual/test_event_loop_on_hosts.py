"""The compiled loop over decisions on compiled hosts: the files of a job that Python drives, whatever the plan does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.native import EVENTS, native
from runtime.record.columns import ColumnRecorder
from runtime.virtual import lab as lab_module
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.event_loop import loop as loop_module
from runtime.virtual.event_loop.loop import EventLoop
from runtime.virtual.lab import VirtualLab
from runtime.virtual.tasks.model_state import NoModelState
from strategies.basic.asp import ASP
from strategies.basic.backup_workers import BackupWorkers
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.lb_bsp import LBBSP
from strategies.protocol import Strategy
from tests.support.compiled import needs_compiled
from tests.support.harness import make_run_spec
from tests.support.long_tests import long_after
from tests.support.virtual_runs import World, draw_host_world

pytestmark = [needs_compiled, pytest.mark.skipif(native(EVENTS) is None, reason="the event loop is not compiled")]

STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "asp": lambda: ASP(data="dynamic"),
    "bsp": BSP,
    "ssp": lambda: SSP(bound=1),
    "backup_workers": lambda: BackupWorkers(num_backup=1),
    "lb_bsp": LBBSP,
}
FILES = ("events.jsonl", "iterations.parquet")


def play(run_dir: Path, world: World, strategy: Strategy) -> Outcome:
    run_dir.mkdir()
    record = ColumnRecorder(run_dir)
    spec = make_run_spec(world.job, strategy, record, run_dir, transport=world.transport)
    about = (spec, Schedule(world.plan), NoModelState(world.job.num_samples, None), world.costs, world.profile)
    lab = VirtualLab()
    lab.add(
        "job",
        lambda clock, tenancy: VirtualSession(*about, clock=clock, hosts=world.hosts, lease_s=world.lease_s),
    )
    outcome = lab.run()["job"]
    record.close()
    return outcome


def both(place: Path, world: World, make: Callable[[], Strategy], chunk: int = 1 << 10) -> int:
    """Play it with and without the loop, and compare; returns how many decisions the loop has carried out."""
    decided = 0
    leave = EventLoop.leave

    def counted(self: EventLoop, **how: Any) -> None:
        nonlocal decided
        decided += self._decided * self._inside
        leave(self, **how)

    with ExitStack() as changed:
        changed.enter_context(patch.object(loop_module, "CHUNK", chunk))
        changed.enter_context(patch.object(loop_module, "PATIENCE", (0, 4)))
        changed.enter_context(patch.object(EventLoop, "leave", counted))
        compiled = play(place / "compiled", world, make())
    with patch.object(lab_module, "loop_of", lambda session: None):
        python = play(place / "python", world, make())
    assert compiled == python
    for name in FILES:
        assert (place / "compiled" / name).read_bytes() == (place / "python" / name).read_bytes(), name
    return decided


def longer(world: World, rounds: int) -> World:
    """So many rounds an epoch."""
    job = world.job
    return msgspec.structs.replace(
        world, job=msgspec.structs.replace(job, num_samples=job.global_batch_samples * rounds, metric="accuracy")
    )


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", long_after(range(1, 13), always=2))
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_same_files_under_windows_of_all_kinds(name: str, seed: int, tmp_path: Path) -> None:
    both(tmp_path, longer(draw_host_world(4, seed), 20), STRATEGIES[name], chunk=(1, 3, 1 << 10)[seed % 3])


@pytest.mark.few(2)
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_loop_carries_out_most(name: str, tmp_path: Path) -> None:
    drawn = longer(draw_host_world(4, 1), 100)
    calm = msgspec.structs.replace(
        drawn,
        plan=msgspec.structs.replace(drawn.plan, disturbances=()),
        job=msgspec.structs.replace(drawn.job, epochs=1, eval_every_s=None, checkpoint_every_s=None),
    )
    assert both(tmp_path, calm, STRATEGIES[name]) > 0.8 * 4 * 100
