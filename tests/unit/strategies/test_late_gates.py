"""Gates whose updates may hold gradients that come late: exactly x, delayed, blocks, switching, groups."""

from __future__ import annotations

from strategies.basic.static_x import ExactlyGate
from strategies.lgc.delayed import BlocksGate, DelayedGate
from strategies.parts.gates import Verdict
from strategies.parts.gates.base import NOTHING
from strategies.protocol import Failed
from strategies.sync_switch.switching import SwitchingGate
from tests.unit.strategies.test_gates import applied, grad, grouped, opened

# ---- exactly x ------------------------------------------------------------------------------------------------------


def test_exactly_takes_old_gradients_along() -> None:
    gate = opened(ExactlyGate(x=2), range(3))
    gate.arrived(grad(1))
    verdict = gate.arrived(grad(0))
    assert (applied(verdict), verdict.drop, verdict.go) == ([0, 1], (), (0, 1))
    assert gate.arrived(grad(2)) == NOTHING, "of version 0, but neither dropped nor enough"
    assert gate.log_state() == {"arrived": 1}
    assert applied(gate.arrived(grad(0, 1))) == [0, 2]


def test_exactly_needs_no_more_than_can_come() -> None:
    gate = opened(ExactlyGate(x=3), range(3))
    gate.arrived(grad(0))
    gate.arrived(grad(1))
    verdict = gate.lost(2, False)
    assert (applied(verdict), verdict.go) == ([0, 1], (0, 1))


def test_exactly_waits_for_a_worker_that_restarts() -> None:
    gate = opened(ExactlyGate(x=2), range(2))
    gate.arrived(grad(0))
    assert gate.lost(1, True) == NOTHING
    assert gate.joined(1).go == (1,)


def test_exactly_uses_what_a_worker_left_behind_without_asking_it() -> None:
    gate = opened(ExactlyGate(x=2), range(3))
    gate.arrived(grad(0))
    assert gate.lost(0, False) == NOTHING
    verdict = gate.arrived(grad(1))
    assert (applied(verdict), verdict.go) == ([0, 1], (1,))


def test_exactly_lets_a_newcomer_compute_at_once_and_only_once() -> None:
    """Also one that is back while what it left behind still waits."""
    gate = opened(ExactlyGate(x=2), range(3))
    gate.arrived(grad(0))
    gate.lost(0, False)
    assert gate.joined(0).go == (0,)
    verdict = gate.arrived(grad(1))
    assert (applied(verdict), verdict.go) == ([0, 1], (1,))


def test_exactly_goes_on_with_a_newcomer_when_all_others_have_left() -> None:
    gate = opened(ExactlyGate(x=1), range(1))
    assert gate.lost(0, False) == NOTHING
    assert gate.joined(7).go == (7,)
    assert applied(gate.arrived(grad(7))) == [7]


# ---- delayed --------------------------------------------------------------------------------------------------------


def test_delayed_keeps_what_is_one_version_old_and_drops_what_is_older() -> None:
    gate = opened(DelayedGate(k_fastest=1, max_delay_versions=1), range(3))
    assert applied(gate.arrived(grad(0))) == [0]
    assert gate.arrived(grad(1)) == NOTHING
    assert gate.log_state() == {"fresh": 0, "late": 1}
    verdict = gate.arrived(grad(0, 1))
    assert (applied(verdict), verdict.go) == ([0, 1], (0, 1))
    assert gate.arrived(grad(2)) == Verdict(drop=(grad(2),), go=(2,))


def test_delayed_counts_a_late_report_without_samples_as_present() -> None:
    """There is nothing to drop, and at the end of the data nobody else may come."""
    gate = opened(DelayedGate(k_fastest=2, max_delay_versions=0), range(3))
    gate.arrived(grad(0))
    gate.arrived(grad(1))
    assert gate.arrived(grad(2, samples=0)) == NOTHING
    assert applied(gate.arrived(grad(0, 1))) == [0, 2]


def test_delayed_stays_on_its_version_when_an_update_has_no_samples() -> None:
    gate = opened(DelayedGate(k_fastest=1, max_delay_versions=0), range(2))
    assert gate.arrived(grad(0, samples=0)).go == (0,)
    assert applied(gate.arrived(grad(1))) == [1], "version 0 is still the newest"


def test_delayed_makes_an_update_of_late_gradients_when_none_can_be_fresh() -> None:
    gate = opened(DelayedGate(k_fastest=1, max_delay_versions=1), range(2))
    gate.arrived(grad(0))
    assert gate.lost(0, False) == NOTHING
    verdict = gate.arrived(grad(1))
    assert (applied(verdict), verdict.go) == ([1], (1,))


def test_delayed_waits_for_who_has_failed_and_computes_again() -> None:
    """Its next gradient is fresh, so two of three can still be."""
    gate = opened(DelayedGate(k_fastest=2, max_delay_versions=1), range(3))
    gate.arrived(grad(0))
    gate.arrived(grad(1))
    gate.observe_event(Failed(t=1.0, worker=2, reason="gradient is not finite"))
    assert gate.arrived(grad(0, 1)) == NOTHING
    assert gate.lost(1, False) == NOTHING
    assert applied(gate.arrived(grad(2, 1))) == [0, 2]


def test_delayed_starts_from_the_restored_version() -> None:
    gate = opened(DelayedGate(k_fastest=2, max_delay_versions=1), range(2), 5)
    assert gate.arrived(grad(0, 5)) == NOTHING
    assert applied(gate.arrived(grad(1, 5))) == [0, 1]


def test_delayed_lets_a_newcomer_in_with_the_next_update() -> None:
    gate = opened(DelayedGate(k_fastest=2, max_delay_versions=1), range(2))
    gate.arrived(grad(0))
    assert gate.joined(7) == NOTHING
    assert gate.arrived(grad(1)).go == (0, 1, 7)


def test_delayed_lets_newcomers_in_at_once_when_all_others_have_left() -> None:
    gate = opened(DelayedGate(k_fastest=1, max_delay_versions=1), range(1))
    gate.joined(7)
    assert gate.lost(0, False) == Verdict(go=(7,), opens=True)
    assert applied(gate.arrived(grad(7))) == [7]


# ---- blocks ---------------------------------------------------------------------------------------------------------


def test_blocks_go_on_until_the_worker_is_whole() -> None:
    gate = opened(BlocksGate(k_fastest=1, max_delay_versions=1, blocks=2), range(2))
    assert gate.arrived(grad(0)).go == (0,)
    assert gate.arrived(grad(1)).go == (1,)
    verdict = gate.arrived(grad(0))
    assert (applied(verdict), verdict.go) == ([0, 0, 1], (0,))
    assert gate.arrived(grad(1)) == Verdict(go=(1,)), "late, so it does not count, but it is kept"
    assert gate.log_state() == {"whole": 0, "parts": 1}


def test_blocks_count_a_report_without_samples_as_all_that_will_come() -> None:
    gate = opened(BlocksGate(k_fastest=2, max_delay_versions=1, blocks=3), range(2))
    gate.arrived(grad(0))
    assert gate.arrived(grad(0, samples=0)) == NOTHING
    assert applied(gate.arrived(grad(1, samples=0))) == [0, 0, 1]


def test_blocks_use_the_parts_of_who_left() -> None:
    gate = opened(BlocksGate(k_fastest=2, max_delay_versions=1, blocks=2), range(2))
    gate.arrived(grad(1))
    assert gate.lost(1, False) == NOTHING
    gate.arrived(grad(0))
    assert applied(gate.arrived(grad(0))) == [0, 0, 1]


def test_blocks_let_newcomers_in_with_the_next_update_or_when_all_others_have_left() -> None:
    gate = opened(BlocksGate(k_fastest=1, max_delay_versions=1, blocks=1), range(1))
    assert gate.joined(7) == NOTHING
    assert gate.arrived(grad(0)).go == (0, 7)
    gate = opened(BlocksGate(k_fastest=1, max_delay_versions=1, blocks=1), range(1))
    gate.joined(7)
    assert gate.lost(0, False) == Verdict(go=(7,), opens=True)


# ---- switching ------------------------------------------------------------------------------------------------------


def without(slow: set[int], together: bool = True) -> SwitchingGate:
    """Of four workers, those left out that are slow."""
    gate = SwitchingGate(together=together)
    gate.slow = slow
    return opened(gate, range(4))


def computing(gate: SwitchingGate) -> list[int]:
    """Who has an order."""
    return sorted(gate.computing)


def test_switching_leaves_out_who_is_slow_but_not_everybody() -> None:
    assert computing(without({1, 3})) == [0, 2]
    assert computing(without({0, 1, 2, 3})) == [0, 1, 2, 3]
    assert computing(without({1}, together=False)) == [0, 1, 2, 3]


def test_switching_probes_one_after_the_other() -> None:
    """Worker 2 is probed when worker 1 has delivered, worker 3 when worker 2 is lost; no new series meanwhile."""
    gate = without({1, 2, 3})
    assert gate.probe() == (1,)
    assert gate.probe() == ()
    assert gate.arrived(grad(1)) == Verdict(drop=(grad(1),), go=(2,))
    assert gate.lost(2, True) == Verdict(go=(3,))
    assert gate.joined(2) == Verdict(go=(2,))
    assert gate.arrived(grad(3)) == Verdict(drop=(grad(3),))
    assert gate.probe() == (1,)


def test_switching_does_not_probe_who_was_lost_and_is_back_as_a_member() -> None:
    gate = without({1, 3})
    assert gate.probe() == (1,)
    assert gate.lost(3, True) == NOTHING
    assert gate.joined(3).go == (3,)
    assert gate.arrived(grad(1)) == Verdict(drop=(grad(1),)), "worker 3 has an order already"
    assert [gate.arrived(grad(worker)) for worker in (0, 2)] == [NOTHING] * 2
    assert applied(gate.arrived(grad(3))) == [0, 2, 3]


def test_switching_lets_in_who_is_no_longer_slow() -> None:
    slow = {3}
    gate = without(slow)
    gate.probe()
    slow.clear()
    assert gate.arrived(grad(3)) == Verdict(drop=(grad(3),), go=(3,))
    assert [gate.arrived(grad(worker)) for worker in range(3)] == [NOTHING] * 3
    assert applied(gate.arrived(grad(3))) == [0, 1, 2, 3]


def test_switching_lets_all_in_when_the_data_runs_short() -> None:
    """A probe that is under way counts as the worker's first order; nobody is put out by a short batch."""
    gate = without({2, 3})
    gate.probe()
    assert gate.arrived(grad(0, samples=0)) == Verdict(go=(3,))
    assert gate.arrived(grad(1, samples=0)) == NOTHING
    assert gate.arrived(grad(2, samples=0)) == NOTHING
    assert applied(gate.arrived(grad(3))) == [0, 1, 2, 3]
    assert gate.log_state() == {"mode": "bsp", "left_out": 1, "arrived": 0}


def test_switching_to_each_by_itself_lets_all_in() -> None:
    gate = without({3})
    gate.arrived(grad(0))
    assert gate.switch() == [Verdict(go=(3,)), Verdict(apply=(grad(0),), go=(0,))]
    assert gate.arrived(grad(3)) == Verdict(apply=(grad(3),), go=(3,))


# ---- groups ---------------------------------------------------------------------------------------------------------


def test_groups_do_not_wait_for_each_other() -> None:
    gate = grouped([[0, 1], [2]])
    verdict = gate.arrived(grad(2))
    assert (applied(verdict), verdict.go) == ([2], (2,))
    assert gate.arrived(grad(1)) == NOTHING
    assert gate.log_state() == {"groups": "2 1", "arrived": 1}
    verdict = gate.arrived(grad(0))
    assert (applied(verdict), verdict.go) == ([0, 1], (0, 1))


def test_groups_go_on_without_who_left() -> None:
    gate = grouped([[0, 1], [2]])
    gate.arrived(grad(0))
    verdict = gate.lost(1, False)
    assert (applied(verdict), verdict.go) == ([0], (0,))
    assert gate.lost(9, False) == NOTHING, "nobody knows it"


def test_groups_use_what_the_last_of_a_group_left_behind() -> None:
    gate = grouped([[0, 1], [2]])
    gate.arrived(grad(0))
    assert gate.lost(0, False) == NOTHING, "worker 1 is still to come"
    verdict = gate.lost(1, False)
    assert (applied(verdict), verdict.go) == ([0], ())


def test_groups_move_what_waits_with_its_worker() -> None:
    gate = grouped([[0, 1, 2]])
    gate.arrived(grad(0))
    verdicts = gate.regroup([[1, 2], [0]])
    assert [(applied(verdict), verdict.go) for verdict in verdicts] == [([0], (0,))]
    gate.arrived(grad(1))
    assert gate.regroup([[0, 1, 2]]) == [], "workers 0 and 2 are computing"
    gate.arrived(grad(2))
    assert applied(gate.arrived(grad(0, 1))) == [0, 1, 2]


def test_groups_move_what_was_left_behind_to_the_first() -> None:
    gate = grouped([[0, 1], [2]])
    gate.arrived(grad(1))
    gate.lost(1, False)
    assert gate.regroup([[2], [0]]) == []
    assert applied(gate.arrived(grad(2))) == [1, 2]


def test_groups_let_a_newcomer_compute_at_once_by_itself() -> None:
    """Also one that is back while what it left behind still waits: both are one update then."""
    gate = grouped([[0, 1]])
    gate.arrived(grad(0))
    gate.lost(0, False)
    assert gate.joined(0).go == (0,)
    assert applied(gate.arrived(grad(1))) == [1]
    verdict = gate.arrived(grad(0, 1))
    assert (applied(verdict), verdict.go) == ([0, 0], (0,))


def test_groups_begin_anew_with_the_first_to_come_when_nobody_was_there() -> None:
    gate = grouped([])
    assert gate.joined(4).go == (4,)
    assert applied(gate.arrived(grad(4))) == [4]
