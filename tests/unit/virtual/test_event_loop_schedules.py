"""Ten thousand random schedules by fixed seeds: with the compiled loop and by Python alone, jobs leave the same files.

Workers are slowed down, killed, restarted by their strategy, join and leave; servers are slow or killed. The loop
steps aside for all of that and takes over again, in the middle of whatever is in progress.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from injectors.plan import Disturbance, Kind, build_plan
from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.native import EVENTS, native
from runtime.virtual import lab as lab_module
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.event_loop import loop as loop_module
from runtime.virtual.event_loop.loop import EventLoop
from runtime.virtual.lab import VirtualLab
from runtime.virtual.tasks.model_state import NoModelState
from tests.contract.catalogue import hurried
from tests.support.harness import make_run_spec
from tests.support.long_tests import long_after
from tests.support.virtual_runs import World, draw_world
from tests.unit.virtual.test_compiled_events import FILES, RECORDS

pytestmark = pytest.mark.skipif(native(EVENTS) is None, reason="was not compiled here")

BLOCKS, SCHEDULES, WORKERS = 400, 25, 4
STRATEGIES = ("asp", "bsp", "ssp", "backup_workers", "antdt_nd", "lb_bsp", "dynamic_x", "first_k", "static_x")
MAGNITUDES: dict[Kind, tuple[float, float]] = {"delay": (0.1, 2.0), "slowdown": (0.1, 2.0)}


def draw(seed: int) -> World:
    """A job whose tasks have machines of their own, with a plan of all kinds that those may have."""
    random, world = Random(f"schedule/{seed}"), draw_world(WORKERS, seed)
    drawn = []
    for _ in range(random.randint(0, 8)):
        kind: Kind = random.choice(("delay", "slowdown", "delay", "slowdown", "kill"))
        role, count = random.choice((("worker", WORKERS), ("worker", WORKERS), ("server", world.job.num_servers)))
        target, start_s = f"{role}:{random.randrange(count)}", random.uniform(0.0, 20.0)
        magnitude = random.uniform(*MAGNITUDES.get(kind, (1.0, 1.0)))
        end_s = start_s + random.uniform(0.1, 4.0)
        drawn.append(Disturbance(start_s=start_s, end_s=end_s, target=target, kind=kind, magnitude=magnitude))
    for kind, target in changes_of_members(random):
        start_s = random.uniform(0.0, 15.0)
        drawn.append(Disturbance(start_s=start_s, end_s=start_s + 1.0, target=target, kind=kind, magnitude=1.0))
    costs = msgspec.structs.replace(world.costs, link_bytes_per_s=None)
    return msgspec.structs.replace(world, plan=build_plan("test", seed, 3000.0, drawn), costs=costs, lease_s=1.5)


def changes_of_members(random: Random) -> list[tuple[Kind, str]]:
    """In one schedule of four a worker joins, leaves, or both."""
    if random.random() < 0.75:
        return []
    found: list[tuple[Kind, str]] = [("join", f"worker:{WORKERS}"), ("leave", f"worker:{random.randrange(WORKERS)}")]
    return random.choice((found, found[:1], found[1:]))


def play(run_dir: Path, world: World, strategy: str, keeps: str) -> Outcome:
    run_dir.mkdir()
    record = RECORDS[keeps](run_dir)
    spec = make_run_spec(world.job, hurried(strategy), record, run_dir, transport=world.transport)
    about = (spec, Schedule(world.plan), NoModelState(world.job.num_samples, None), world.costs, world.profile)
    lab = VirtualLab()
    lab.add("job", lambda clock, tenancy: VirtualSession(*about, clock=clock, lease_s=world.lease_s))
    outcome = lab.run()["job"]
    record.close()
    return outcome


def compare(place: Path, seed: int) -> None:
    world, strategy = draw(seed), STRATEGIES[seed % len(STRATEGIES)]
    members = any(one.kind in ("join", "leave") for one in world.plan.disturbances)
    keeps = "all" if members else ("rows", "all", "nothing")[seed % 3]
    chunk, patience = ((1, (0, 0)), (3, (0, 4)), (1 << 10, (2, 64)))[seed // 3 % 3]
    with patch.object(loop_module, "CHUNK", chunk), patch.object(loop_module, "PATIENCE", patience):
        compiled = play(place / "compiled", world, strategy, keeps)
    with patch.object(lab_module, "loop_of", lambda session: None):
        python = play(place / "python", world, strategy, keeps)
    assert compiled == python, f"schedule {seed}"
    for name in FILES if keeps == "rows" else FILES[:1]:
        assert (place / "compiled" / name).read_bytes() == (place / "python" / name).read_bytes(), f"schedule {seed}"


@pytest.mark.parametrize("block", long_after(range(BLOCKS), always=2))
def test_the_same_files_of_random_schedules(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decided = 0
    leave: Callable[..., None] = EventLoop.leave

    def counted(self: EventLoop, **how: Any) -> None:
        nonlocal decided
        decided += self._decided * self._inside
        leave(self, **how)

    monkeypatch.setattr(EventLoop, "leave", counted)
    for seed in range(block * SCHEDULES, (block + 1) * SCHEDULES):
        (place := tmp_path / f"{seed}").mkdir()
        compare(place, seed)
    assert decided > SCHEDULES * 20
