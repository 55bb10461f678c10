"""A strategy that asks for nodes at random, while workers and servers die: every sample is still used exactly once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from runtime.core.quota import Quota
from strategies.protocol import ServerLost
from tests.support.elastic import Wanderer
from tests.support.faults import random_outcome, random_seconds, restarts
from tests.support.harness import HeapRun, make_job
from tests.support.invariants import problems
from tests.support.laws import Audit, Complaints, dead, plain, played, unconserved, unlawful
from tests.support.long_tests import long_after

SEEDS = range(40)
OFTEN = SEEDS[:6]
"""For every commit; the others are long."""
SCHEDULER = Quota(cores_total=3, cores_max=5, pending_s=0.5, pending_s_per_core=0.25, evict_after_s=4.0)
UNNOTICED = replace(SCHEDULER, evict_notice=False)
START = 3


@cache
def stormy(seed: int, failover: str, num_servers: int) -> tuple[HeapRun, Wanderer, Complaints]:
    """Two epochs of some two hundred gradients; a fault every two seconds or so."""
    job = make_job(
        num_workers=START,
        num_servers=num_servers,
        num_samples=151,
        global_batch_samples=6,
        batches_per_shard=1 + seed % 3,
        epochs=2,
        epoch_overlap=seed % 3 == 1,
        seed=seed,
        max_time_s=2000.0,
        checkpoint_every_s=5.0,
        failover=failover,
    )
    strategy = Wanderer(seed)
    faults = restarts(seed, START, outages=3 if num_servers else 0)
    run = HeapRun(
        strategy, job, random_seconds(seed), faults, random_outcome(seed), scheduler=(SCHEDULER, UNNOTICED)[seed % 2]
    )
    return run, strategy, played(run)


@pytest.mark.few(12)
@pytest.mark.parametrize("num_servers", [2, 0])
@pytest.mark.parametrize("failover", ["shards", "checkpoint"])
@pytest.mark.parametrize("seed", long_after(SEEDS, always=len(OFTEN)))
def test_every_sample_is_used_once_whatever_is_asked_for(seed: int, failover: str, num_servers: int) -> None:
    run, _, refused = stormy(seed, failover, num_servers)
    assert refused + dead(run) + unlawful(run) + unconserved(run) == []


def test_the_storm_has_everything_in_it() -> None:
    counts: Counter[str] = Counter()
    for seed, failover in product(OFTEN, ("shards", "checkpoint")):
        _, strategy, _ = stormy(seed, failover, 2)
        counts += strategy.counts + strategy.told
    for kind in ("Launch", "Retire", "Repartition", "Allocate", "Restart", "ServerJoined", "Denied", "evicted"):
        assert counts[kind] >= 15, counts


def test_servers_with_parameters_are_taken_away_in_it() -> None:
    """With notice (even seeds) at the version of the checkpoint that was ordered then; without, at an older one."""
    taken: Counter[bool] = Counter()
    for seed in SEEDS[:12]:
        run, _, _ = stormy(seed, "shards", 2)
        asked = {fields["node"] for _, kind, fields in run.notes if kind == "Evicting"}
        lost = [one for one in run.received(ServerLost) if one.holding and one.cause == "evicted"]
        assert {f"server:{one.server}" for one in lost} <= asked
        taken[seed % 2 == 0] += len(lost)
    assert min(taken[True], taken[False]) >= 2


def test_the_audit_of_the_storm_finds_what_is_wrong_with_its_nodes() -> None:
    run, _, _ = stormy(0, "shards", 2)
    rows = [plain(line, number) for number, line in enumerate(run.lines)]
    assert problems(rows, Audit()) == []
    for row in rows:
        row["commands"] = [command for command in row["commands"] for _ in range(1 + (command["type"] == "Launch"))]
    assert any("was given before" in text for text in problems(rows, Audit()))
