"""Random kills and pauses of a running job, and what must be true of it afterwards."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from runtime.live.control.tasks import MAX_FUTILE
from tests.support.exact import assert_sound
from tests.support.runs import LEDGER, Run, kill_quietly

LEASE_S = 1.0
MEAN_GAP_S = 0.12
STOP_FRAC, CONTINUE_FRAC = 1 / 3, 0.6
"""Of the faults are pauses; of these end before the lease does."""
SETTINGS = (
    "cluster.device={base_s: 0.004}",
    f"runtime.lease_s={LEASE_S}",
    "runtime.heartbeat_s=0.2",
    "checkpoint_every_s=0.3",
    "max_time_s=240",
    "save_parameters=true",
)
DIVERGENCE_MAX = 20.0
"""Of the replica: five updates of 16 samples, each 4 long."""
TREES = {"tree": "bsp", "star_tree": "star_h"}
"""Jobs with two aggregators, and their strategies."""
KINDS = [(role, name) for role in ("worker", "server") for name in ("SIGKILL", "SIGSTOP")]

Kind = tuple[str, str]


def options(strategy: str, transport: str, epochs: int) -> tuple[str, ...]:
    """Of a job of the ledger.

    ``tree``: BSP whose gradients are summed by two aggregators on their way; ``star_tree``: STAR, likewise;
    ``followed``: MLfabric with a replica of the server.
    """
    if strategy == "followed":
        replica = ("topology.num_servers=1", "strategy.num_replicas=1", f"strategy.divergence_max={DIVERGENCE_MAX}")
        return (*options("mlfabric", transport, epochs), *replica)
    if strategy in TREES:
        more = ("strategy.warmup_iters=0", "strategy.decision_s=0.005") if strategy == "star_tree" else ()
        tree = ("strategy.tree_fanout=2", "strategy.tree_wait_s=0.02")
        return (*options(TREES[strategy], transport, epochs), *tree, *more)
    exact = ("strategy.lr_rule=batch_linear",) if strategy == "mlfabric" else ()  # every use counts 1, however late
    size = (f"topology.transport={transport}", f"workload.epochs={epochs}")
    return (*LEDGER, *SETTINGS, f"strategy={strategy}", *exact, *size)


def rage(run: Run, num_faults: int, seed: int, num_aggregators: int = 0) -> Counter[Kind]:
    """Strike workers, servers and aggregators at random; returns how often by kind."""
    chance, counts = random.Random(seed), Counter[Kind]()
    targets = [("worker", worker) for worker in range(4)] + [("server", server) for server in range(2)]
    targets += [("aggregator", number) for number in range(num_aggregators)]
    run.await_training(3)
    while counts.total() < num_faults and run.process.poll() is None:
        time.sleep(chance.expovariate(1 / MEAN_GAP_S))
        role, number = chance.choice(targets)
        stop, ends = chance.random() < STOP_FRAC, chance.random() < CONTINUE_FRAC
        pause_s = chance.uniform(0.0, 0.6 * LEASE_S)
        pid = run.pids().get((role, number), 0)
        if is_at_its_last(run.lines(), role, number):
            continue
        if not run.unregister((role, number), signal.SIGSTOP if stop else signal.SIGKILL):
            continue
        counts[role, "SIGSTOP" if stop else "SIGKILL"] += 1
        if stop and ends:
            time.sleep(pause_s)
            kill_quietly(pid, signal.SIGCONT)
    return counts


def is_at_its_last(lines: Sequence[dict[str, Any]], role: str, number: int) -> bool:
    """Whether one death more would be the last that a job survives, by the rule for crash loops (``MAX_FUTILE``).

    A worker was of use when a gradient of this incarnation has arrived; any other task when any gradient has, since it
    only has to be ready. That may take as long as a lease: all wait for a server that is stopped, and whoever is struck
    again and again meanwhile is given up by right.
    """
    futile, incarnation = 0, -1
    for line in lines:
        if (note := line.get("note", {})).get("type") == "Launched" and (note["role"], note["id"]) == (role, number):
            futile, incarnation = futile + 1, note["incarnation"]
        elif (event := line.get("event", {})).get("type") == "Arrived":
            grad = event["grad"]
            if role != "worker" or (grad["worker"], grad["incarnation"]) == (number, incarnation):
                futile = 0
    return futile >= MAX_FUTILE


def assert_survived(run: Run, epochs: int, faults: Counter[Kind]) -> None:
    """Finished; every sample used ``epochs`` times; the record sound; nobody died whom we did not strike.

    A replica was never further from its server than the bound.
    """
    run.finish(240)
    uses, times = np.unique(run.parameters(), return_counts=True)
    assert uses.tolist() == [float(epochs)], dict(zip(uses.tolist(), times.tolist(), strict=True))
    assert run.finished["samples_applied"] == epochs * 2000
    assert_sound(run)
    assert max((note["distance"] for note in run.notes("Diverged")), default=0.0) <= DIVERGENCE_MAX
    struck = {role: faults[role, "SIGKILL"] + faults[role, "SIGSTOP"] for role in ("worker", "server")}
    lost = {(note["id"], note["incarnation"]) for note in deaths(run, "server")}
    assert len(lost) <= struck["server"], f"servers died by themselves: {deaths(run, 'server')}"
    by_themselves = [note for note in deaths(run, "worker") if note["reason"].startswith("exited")]
    assert not by_themselves


def deaths(run: Run, role: str) -> list[dict[str, object]]:
    """The first note about each death of a role's tasks, before the end."""
    notes = [
        line["note"] for line in run.lines() if line["kind"] == "note" and line["note"]["type"] in ("Exited", "Fenced")
    ]
    first = {(note["id"], note["incarnation"]): note for note in reversed(notes) if note["role"] == role}
    return list(first.values())
