"""Ten thousand random schedules by fixed seeds: with the compiled loop and by Python alone, jobs leave the same files.

Workers are slowed down, killed, restarted by their strategy, join and leave; servers are slow or killed. The loop
steps aside for all of that and takes over again, in the middle of whatever is in progress. And random jobs of
replicas, and of tasks that share compiled hosts.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest

from injectors.plan import Disturbance, Kind, build_plan
from runtime.native import EVENTS, native
from tests.contract.catalogue import hurried
from tests.support.compared_loops import compare, play_in
from tests.support.compiled import needs_compiled
from tests.support.long_tests import long_after
from tests.support.virtual_runs import World, draw_host_world, draw_replica_world, draw_world

pytestmark = pytest.mark.skipif(native(EVENTS) is None, reason="was not compiled here")

BLOCKS, SCHEDULES, WORKERS = 1000, 10, 4
STRATEGIES = ("asp", "bsp", "ssp", "backup_workers", "antdt_nd", "lb_bsp", "dynamic_x", "first_k", "static_x")
STRATEGIES += ("star_h", "asp_even", "lgc", "antdt_dd")
KEEPS = ("rows", "all", "nothing", "rows", "answers")
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


def compared(place: Path, seed: int) -> int:
    world, strategy = draw(seed), STRATEGIES[seed % len(STRATEGIES)]
    members = any(one.kind in ("join", "leave") for one in world.plan.disturbances)
    keeps = "all" if members else KEEPS[seed % len(KEEPS)]
    chunk, patience = ((1, (0, 0)), (3, (0, 4)), (1 << 10, (2, 64)))[seed // 3 % 3]
    return compare(place, play_in(world, lambda: hurried(strategy), keeps), keeps, chunk=chunk, patience=patience)


@pytest.mark.parametrize("block", long_after(range(BLOCKS), always=1))
def test_the_same_files_of_random_schedules(block: int, tmp_path: Path) -> None:
    decided = 0
    for seed in range(block * SCHEDULES, (block + 1) * SCHEDULES):
        (place := tmp_path / f"schedule {seed}").mkdir()
        decided += compared(place, seed)
    assert decided > SCHEDULES * 20


@pytest.mark.parametrize("seed", long_after(range(40), always=4))
def test_the_same_files_of_replicas(seed: int, tmp_path: Path) -> None:
    """Workers straggle: an even seed draws nothing else."""
    drawn = draw_replica_world(WORKERS, 2 * seed)
    world = msgspec.structs.replace(drawn, costs=msgspec.structs.replace(drawn.costs, link_bytes_per_s=None))
    name, keeps = ("bsp", "lb_bsp", "lgc", "antdt_dd")[seed % 4], KEEPS[seed % len(KEEPS)]
    play, chunk = play_in(world, lambda: hurried(name), keeps), (1, 1 << 10)[seed // 4 % 2]
    assert compare(tmp_path, play, keeps, chunk=chunk) > 20


ON_HOSTS = ("asp", "bsp", "ssp", "backup_workers", "lb_bsp")


def longer(world: World, rounds: int) -> World:
    """So many rounds an epoch."""
    job = msgspec.structs.replace(
        world.job, num_samples=world.job.global_batch_samples * rounds, metric="accuracy", eval_every_s=None
    )
    return msgspec.structs.replace(world, job=job)


@needs_compiled
@pytest.mark.few(2)
@pytest.mark.parametrize("seed", long_after(range(1, 13), always=2))
@pytest.mark.parametrize("name", ON_HOSTS)
def test_the_same_files_on_hosts_under_windows_of_all_kinds(name: str, seed: int, tmp_path: Path) -> None:
    world = longer(draw_host_world(4, seed), 20)
    compare(tmp_path, play_in(world, lambda: hurried(name)), chunk=(1, 3, 1 << 10)[seed % 3])
