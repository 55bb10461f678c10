"""A machine whose network is cut again and again while gradients of 1 MB are under way: no gradient is lost or doubled.

Another storm: ``STRAGGLAB_CHAOS_SEED=17 make chaos``. The server is on the other machine: it never needs a gradient
that did not arrive, so it never ends, and whoever was cut off for longer than the lease is all that is lost. (Of four
storms with bsp in which workers reported without the server's receipt, two found a gradient that was lost.)
"""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.support.exact import assert_sound, assert_uses_are_exact
from tests.support.joined import Cluster, Namespaces, apart  # noqa: F401
from tests.support.runs import LEDGER

SEED = int(os.environ.get("STRAGGLAB_CHAOS_SEED", "0"))
NUM_CUTS = 16
LEASE_S = 1.0
JOB = (
    *LEDGER,
    "workload.task.num_samples=250000",
    "workload.global_batch_samples=2000",
    "workload.epochs=null",
    "topology.num_servers=1",
    f"runtime.lease_s={LEASE_S}",
    "runtime.heartbeat_s=0.2",
    "launcher.lease_s=60",
    "checkpoint_every_s=1",
    "save_parameters=true",
    "max_time_s=240",
)


@pytest.mark.long(like="tests/chaos/test_random_faults.py::test_a_short_storm")
@pytest.mark.live
@pytest.mark.chaos
@pytest.mark.timeout(400)
@pytest.mark.parametrize("strategy", ["asp", "bsp"])
def test_the_ledger_is_exact_and_no_server_misses_a_gradient(apart: Cluster, strategy: str) -> None:  # noqa: F811
    machines, chance = apart.machines, random.Random(f"{SEED}/{strategy}")
    assert isinstance(machines, Namespaces)
    agents = [apart.agent(number) for number in range(2)]
    run = apart.run("run", *JOB, f"strategy={strategy}")
    run.await_training(5, 180.0)
    for _ in range(NUM_CUTS):
        time.sleep(chance.uniform(0.0, 0.5))
        machines.cut(1, True)
        time.sleep(chance.choice([chance.uniform(0.0, LEASE_S), chance.uniform(LEASE_S, 3 * LEASE_S)]))
        machines.cut(1, False)
    run.await_progress(200, 120.0)
    run.interrupt(180.0)
    lost = [event["worker"] for event in run.events("Lost")]
    print(f"\nseed {SEED}, {strategy}: {len(lost)} workers lost, {len(run.events('Arrived'))} gradients", end="")
    assert_uses_are_exact(run)
    assert_sound(run)
    assert set(lost) == {1, 3}
    assert [note["incarnation"] for note in run.notes("Launched") if note["role"] == "server"] == [0]
    assert [agent.wait() for agent in agents] == [0, 0]
