"""A relaunch of all nodes by itself: what is commanded, what is waited for, and what a loss on the way changes."""

from __future__ import annotations

from strategies.protocol import Joined, Lost, Restored, ServerLost
from strategies.sync_switch.sync_then_async import Relaunch


def nodes(relaunch: Relaunch, idle: bool = True) -> list[str]:
    """What it commands now."""
    return [command.node for command in relaunch.proceed(idle)]


def lost(worker: int, restarting: bool = False) -> Lost:
    return Lost(t=1.0, worker=worker, incarnation=0, reason="killed", restarting=restarting)


def joined(worker: int) -> Joined:
    return Joined(t=2.0, worker=worker, incarnation=1)


def after_the_servers(*workers: int, num_servers: int = 1) -> Relaunch:
    """The servers have been restarted, and nobody else."""
    relaunch = Relaunch(workers, num_servers)
    relaunch.begin()
    for server in range(num_servers):
        assert nodes(relaunch) == [f"server:{server}"]
        assert nodes(relaunch) == [], "it is commanded once"
        relaunch.observe_event(ServerLost(t=1.0, server=server, incarnation=0, reason="killed"))
        assert nodes(relaunch) == []
        relaunch.observe_event(Restored(t=2.0, version=3, workers=workers))
    return relaunch


def test_who_has_left_is_not_restarted() -> None:
    relaunch = Relaunch(range(3), 0)
    relaunch.observe_event(lost(1))
    relaunch.begin()
    assert nodes(relaunch) == ["worker:0", "worker:2"]


def test_who_crashes_on_the_way_has_its_new_process_already_and_is_waited_for() -> None:
    relaunch = after_the_servers(0, 1)
    relaunch.observe_event(lost(1, restarting=True))
    assert nodes(relaunch) == ["worker:0"]
    relaunch.observe_event(lost(0))
    relaunch.observe_event(joined(0))
    assert nodes(relaunch) == []
    assert relaunch.under_way, "worker 1 is not back"
    relaunch.observe_event(joined(1))
    assert nodes(relaunch) == []
    assert not relaunch.under_way


def test_after_a_restore_nobody_is_waited_for_who_may_never_come() -> None:
    relaunch = after_the_servers(0, 1)
    assert nodes(relaunch) == ["worker:0", "worker:1"]
    relaunch.observe_event(lost(0))
    relaunch.observe_event(lost(1))
    relaunch.observe_event(Restored(t=3.0, version=3, workers=(0, 1)))
    assert nodes(relaunch) == []
    assert not relaunch.under_way


def test_only_the_loss_of_what_it_restarted_is_its_own() -> None:
    relaunch = after_the_servers(0, 1)
    assert not relaunch.owns(lost(0))
    nodes(relaunch)
    assert relaunch.owns(lost(0))
    assert not relaunch.owns(lost(0, restarting=True))
