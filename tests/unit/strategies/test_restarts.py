"""Who may be restarted: not too often, not too soon, and a worker not before it has been slow for long enough."""

from __future__ import annotations

from strategies.antdt.kill_restart import Restarts, RestartSettings
from strategies.protocol import NodeId


def test_a_node_is_restarted_so_often_and_no_more() -> None:
    restarts, said = Restarts(RestartSettings(max_restarts=2, cooldown_s=0.0, min_slow_s=0.0)), list[str]()
    assert [restarts.pick(t, [NodeId.worker(1)], said) for t in (1.0, 2.0, 3.0)] == [
        NodeId.worker(1),
        NodeId.worker(1),
        None,
    ]
    assert said == ["KILL_RESTART worker:1", "KILL_RESTART worker:1", "worker:1 stays: restarted 2 times"]
    assert (restarts.total, restarts.counts) == (2, {NodeId.worker(1): 2})


def test_it_cools_down_and_at_the_end_of_that_it_may_go_again() -> None:
    restarts, said = Restarts(RestartSettings(max_restarts=9, cooldown_s=10.0, min_slow_s=0.0)), list[str]()
    assert restarts.pick(5.0, [NodeId.server(0)], said) == NodeId.server(0)
    assert restarts.pick(14.9, [NodeId.server(0), NodeId.worker(2)], said) == NodeId.worker(2), "the next of the slow"
    assert restarts.pick(15.0, [NodeId.server(0)], said) == NodeId.server(0)
    assert said[1] == "server:0 stays: cools down"


def test_a_worker_must_have_been_slow_throughout_and_a_server_need_not() -> None:
    restarts, said = Restarts(RestartSettings(max_restarts=9, cooldown_s=0.0, min_slow_s=10.0)), list[str]()
    restarts.watch(0.0, {NodeId.worker(1), NodeId.worker(2), NodeId.server(0)})
    restarts.watch(5.0, {NodeId.worker(2), NodeId.server(0)})
    restarts.watch(10.0, {NodeId.worker(1), NodeId.worker(2), NodeId.server(0)})
    assert restarts.pick(10.0, [NodeId.worker(1), NodeId.worker(2)], said) == NodeId.worker(2)
    assert said[0] == "worker:1 stays: slow for 0 s only"
    restarts.watch(11.0, {NodeId.server(1)})
    assert restarts.pick(11.0, [NodeId.server(1)], said) == NodeId.server(1)
