"""Measured norms: what is ordered, how the servers' parts are summed, and what a rollback does to them."""

from __future__ import annotations

from itertools import permutations

import msgspec

from strategies.protocol import Apply, Measured
from tests.support.harness import Puppet, Rig, apply, compute, make_job


def rig(num_servers: int = 1) -> Rig:
    """Three workers have delivered: 0, 1, 2."""
    at = Rig(Puppet(), make_job(num_workers=3, num_servers=num_servers, global_batch_samples=3)).start()
    at.say(*compute(0, 1, 2))
    for worker in range(3):
        at.arrive(worker)
    return at


def measured(*grads: int) -> Apply:
    return msgspec.structs.replace(apply(*grads), measure=True)


def told(at: Rig) -> list[tuple[int, float]]:
    return [(event.version, event.sqr_norm) for event in at.received(Measured)]


def test_the_servers_parts_are_summed_in_the_servers_order() -> None:
    """Whatever the order in which they come: (1e16 + 1) - 1e16 is 0 and (1e16 - 1e16) + 1 is 1."""
    for arriving in permutations(range(3)):
        at = rig(num_servers=3)
        at.say(measured(0, 1))
        for server in arriving:
            assert told(at) == []
            at.measured(0, (1e16, 1.0, -1e16)[server], server)
        assert told(at) == [(1, 0.0)]


def test_what_was_measured_before_a_rollback_is_not_told() -> None:
    """The same version is reached again, and measured under another ticket."""
    at = rig(num_servers=2)
    at.say(measured(0))
    at.measured(0, 1.0, server=1)
    at.lose_server()
    at.restore()
    at.measured(0, 1.0, server=0)
    at.say(*compute(0))
    at.arrive(0)
    at.say(measured(3))
    at.measured(0, 1.0, server=1)
    assert told(at) == []
    at.measured(1, 4.0, server=1)
    at.measured(1, 4.0, server=0)
    assert told(at) == [(1, 8.0)]
