"""KILL_RESTART in the coordinator: the strategy's events, and where samples go."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.core import inputs
from strategies.protocol import (
    Arrived,
    Checkpoint,
    Joined,
    Lost,
    ProtocolError,
    Restart,
)
from tests.support.harness import compute, puppet_rig


def test_a_worker_is_lost_at_once_and_joins_when_it_is_back() -> None:
    rig = puppet_rig(num_samples=12)
    rig.say(*compute(0, 1, 2))
    before = rig.busy()[1].ranges
    rig.say(Restart(node="worker:1"))
    [lost] = rig.received(Lost)
    assert (lost.worker, lost.incarnation, lost.restarting, lost.t) == (1, 0, False, rig.t)
    assert rig.restarts == [(rig.t, "worker:1", 0.0)]
    assert rig.noted("Requeued")[0]["samples"] == 1
    rig.core.receive(rig.at(None), inputs.GradientArrived(rig.orders[1].grad_id, 1, None))  # type: ignore[arg-type]
    assert not rig.received(Arrived), "what the dead one still says is not heard"
    rig.join(1)
    assert rig.received(Joined)[0].incarnation == 1
    rig.say(*compute(1))
    assert rig.busy()[1].incarnation == 1
    assert rig.busy()[1].ranges != before, "its old samples wait at the tail of the queue"


@pytest.mark.parametrize("command", [*compute(1), Restart(node="worker:1")])
def test_who_is_pending_gets_no_order_and_is_not_restarted(command: Any) -> None:
    rig = puppet_rig(num_samples=12)
    rig.say(Restart(node="worker:1"))
    with pytest.raises(ProtocolError, match="not running"):
        rig.say(command)


@pytest.mark.parametrize(
    "node",
    ["worker:3", "worker:-1", "worker:", "server:1", "host:0", "worker", "worker:0x1", "worker:²", "worker:01", ""],
)
def test_nodes_that_do_not_exist(node: str) -> None:
    rig = puppet_rig()
    with pytest.raises(ProtocolError, match="no such node"):
        rig.say(Restart(node=node))


def test_after_a_restore_the_samples_of_who_is_pending_do_not_wait_for_it() -> None:
    """The checkpoint says that worker 1 has drawn some; it may be away for long."""
    rig = puppet_rig(num_samples=12)
    rig.say(*compute(0, 1, 2))
    rig.say(Checkpoint())
    rig.say(Restart(node="worker:1"))
    rig.lose_server()
    rig.restore()
    assert not rig.core.shards.local.get(1)
    assert [one.worker for one in rig.core.shards.requeued] == [1]
    assert rig.core.shards.local[0]
