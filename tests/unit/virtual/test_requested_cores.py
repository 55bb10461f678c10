"""Cores as requests on the virtual clock: a guaranteed share of the host, and whatever others leave idle."""

from __future__ import annotations

from random import Random

import pytest

from runtime.virtual.compiled._hosts import Fluid, Sharing
from runtime.virtual.machines.kernel import new_clock
from strategies.protocol import Allocate
from tests.unit.virtual.test_host_newcomers import Scripted, launch, played

pytestmark = pytest.mark.usefixtures("even_quotas")


def requests(strategy: Scripted) -> Scripted:
    strategy.cores_as = "request"
    return strategy


@pytest.mark.parametrize("seed", range(4))
def test_divided_activities_flow_as_those_that_began_with_these_weights(seed: int) -> None:
    """The oracle begins each activity with its own weight, in a :class:`Fluid` of its own."""
    random = Random(seed)
    clock = new_clock()
    sharing, ended = Sharing(clock, {"cores": 1.0}), {}
    accounts = {f"task {number}": random.uniform(0.1, 5.0) for number in range(3)}
    oracle = Fluid({"cores": 1.0})
    for account, weight in accounts.items():
        amounts = [random.uniform(0.1, 2.0)] * random.randrange(1, 4)  # equal ones, which end together
        for number, amount in enumerate(amounts):
            key = account, number
            sharing.start(key, amount, ("cores",), lambda key=key: ended.update({key: clock.now}), (account,))
            oracle.start(0.0, key, amount, ("cores",), weight=weight / len(amounts))
        sharing.divide(account, weight)
    while clock.next_s < float("inf"):
        clock.step()
    expected = {}
    while (t := oracle.next_s) < float("inf"):
        expected |= dict.fromkeys(oracle.completed(t), t)
    assert ended == pytest.approx(expected)
    for account in accounts:
        assert sharing.done(account) > 0.0


def test_newcomers_share_a_host_by_their_requests_and_compute_faster_when_it_is_idle() -> None:
    """Half a second of work on a host of two cores, with one thread: 0.5 s for each of two, whatever they request."""
    fast = requests(Scripted((0.0, Allocate(node="worker:0", cpu_cores=0.5)), (0.0, launch(1, cpu_cores=0.5))))
    played(fast, telemetry_every_s=2.0, placement=[["worker:0"], ["server:0"]])
    assert min(fast.compute_s[0]) == pytest.approx(0.5)
    assert fast.use["worker:0"].cpu_cores == pytest.approx(1.0)
    assert fast.use["worker:0"].limit_cores == 2.0, "that of its host"
    slow = Scripted((0.0, Allocate(node="worker:0", cpu_cores=0.5)), (0.0, launch(1, cpu_cores=0.5)))
    played(slow, telemetry_every_s=2.0)
    assert slow.compute_s[0][-1] == pytest.approx(1.0)
