"""Who may be restarted: not too often, not too soon, and a worker not before it has been slow for long enough."""

from __future__ import annotations

from strategies.antdt.kill_restart import KillRestart
from strategies.protocol import NodeId, Started


def started(max_restarts: int, cooldown_s: float, min_slow_s: float) -> KillRestart:
    made = KillRestart(max_restarts=max_restarts, cooldown_s=cooldown_s, min_slow_s=min_slow_s)
    made.start(Started(t=0.0, workers=(0, 1, 2), batch_samples=(8, 8, 8), num_servers=2))
    return made


def test_the_first_that_may_is_taken_and_why_others_may_not_is_said() -> None:
    restarts, said = started(max_restarts=2, cooldown_s=10.0, min_slow_s=0.0), list[str]()
    assert restarts.pick(0.0, [NodeId.worker(1)], said) == NodeId.worker(1)
    assert restarts.pick(9.0, [NodeId.worker(1), NodeId.worker(2)], said) == NodeId.worker(2)
    assert restarts.pick(10.0, [NodeId.worker(1)], said) == NodeId.worker(1)
    assert restarts.pick(99.0, [NodeId.worker(1)], said) is None
    assert said == [
        "KILL_RESTART worker:1",
        "worker:1 stays: cools down",
        "KILL_RESTART worker:2",
        "KILL_RESTART worker:1",
        "worker:1 stays: restarted 2 times",
    ]
    assert restarts.log_state() == {"restarts": 3}


def test_a_worker_must_have_been_slow_at_every_decision_for_so_long() -> None:
    restarts, said = started(max_restarts=2, cooldown_s=0.0, min_slow_s=5.0), list[str]()
    for t, flagged in ((0.0, True), (3.0, False), (6.0, True), (9.0, True)):
        restarts.watch(t, [NodeId.worker(1)] * flagged)
        assert restarts.pick(t, [NodeId.worker(1)] * flagged, said) is None
    assert said[-1] == "worker:1 stays: slow for 3 s only"
    restarts.watch(11.0, [NodeId.worker(1)])
    assert restarts.pick(11.0, [NodeId.worker(1)], said) == NodeId.worker(1)
    assert restarts.pick(11.0, [NodeId.server(0)], said) == NodeId.server(0), (
        "that is said of transient stragglers, of workers"
    )
