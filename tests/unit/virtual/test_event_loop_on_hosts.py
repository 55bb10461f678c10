"""The compiled loop over decisions on compiled hosts: the files of a job that Python drives, whatever the plan does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from runtime.native import EVENTS, native
from strategies.basic.asp import ASP
from strategies.basic.backup_workers import BackupWorkers
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.lb_bsp import LBBSP
from strategies.protocol import Strategy
from tests.support.compared_loops import compare, play_in
from tests.support.compiled import needs_compiled
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
    compare(tmp_path, play_in(longer(draw_host_world(4, seed), 20), STRATEGIES[name]), chunk=(1, 3, 1 << 10)[seed % 3])


@pytest.mark.few(2)
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_loop_carries_out_most(name: str, tmp_path: Path) -> None:
    drawn = longer(draw_host_world(4, 1), 100)
    calm = msgspec.structs.replace(
        drawn,
        plan=msgspec.structs.replace(drawn.plan, disturbances=()),
        job=msgspec.structs.replace(drawn.job, epochs=1, eval_every_s=None, checkpoint_every_s=None),
    )
    assert compare(tmp_path, play_in(calm, STRATEGIES[name])) > 0.8 * 4 * 100
