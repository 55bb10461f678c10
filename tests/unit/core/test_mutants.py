"""Negative controls: bugs planted in the data service, the ledger and the membership must be found by their tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import runtime.core.data.shards
from runtime.core.data.shards import Cut, Epoch, Range, Shards
from runtime.core.ledger import GradientLedger
from runtime.core.membership import Membership
from strategies.protocol import ProtocolError
from tests.unit.core import test_ledger, test_membership, test_shards

Plant = Callable[[pytest.MonkeyPatch], None]
FAILURES = (AssertionError, RuntimeError, LookupError, ExceptionGroup, pytest.fail.Exception)
"""How a test says no; an unexpected refusal (``ProtocolError``) is a RuntimeError."""


# ---- the data service -----------------------------------------------------------------------------------------------


def requeue_lost(patch: pytest.MonkeyPatch) -> None:
    def returned(self: Shards, work_id: int, *, to_holder: bool) -> int:
        return sum(work.samples for work in self.out.pop(work_id)[1])

    patch.setattr(Shards, "returned", returned)


def returned_to_nobody_when_the_holder_restarts(patch: pytest.MonkeyPatch) -> None:
    original = Shards.returned

    def returned(self: Shards, work_id: int, *, to_holder: bool) -> int:
        count = original(self, work_id, to_holder=to_holder)
        if to_holder:
            self.local.clear()
        return count

    patch.setattr(Shards, "returned", returned)


def double_apply_not_noticed(patch: pytest.MonkeyPatch) -> None:
    original = Shards.applied

    def applied(self: Shards, work_id: int) -> int:
        entry = self.out[work_id]
        completed = original(self, work_id)
        self.out[work_id] = entry
        return completed

    patch.setattr(Shards, "applied", applied)


def done_with_the_first_sample(patch: pytest.MonkeyPatch) -> None:
    def applied(self: Epoch, work: Range) -> None:
        self.num_done += not self.done[work.shard]
        self.done[work.shard] = 1

    patch.setattr(Epoch, "applied", applied)


def fence_off_by_one(patch: pytest.MonkeyPatch) -> None:
    original = Shards._draw

    def draw(self: Shards, local: Any, worker: int) -> bool:
        newest = self.open.get(self.newest_epoch)
        if newest is not None and newest.num_done == newest.cut.num_shards - 1:
            self.overlap = True
        return original(self, local, worker)

    patch.setattr(Shards, "_draw", draw)


def state_forgets_what_is_handed_out(patch: pytest.MonkeyPatch) -> None:
    original = Shards.state

    def state(self: Shards) -> dict[str, Any]:
        out, self.out = self.out, {}
        found = original(self)
        self.out = out
        return found

    patch.setattr(Shards, "state", state)


def load_forgets(name: str) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        original = runtime.core.data.shards._load_epoch

        def load(cut: Cut, state: dict[str, Any]) -> Epoch:
            epoch = original(cut, state)
            setattr(epoch, name, getattr(Epoch(cut), name))
            return epoch

        patch.setattr(runtime.core.data.shards, "_load_epoch", load)

    plant.__name__ = f"load_forgets_{name}"
    return plant


def departed_workers_take_their_data_along(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shards, "leave", lambda self, worker: self.local.pop(worker, None))


def split_repeats_a_sample(patch: pytest.MonkeyPatch) -> None:
    original = Shards.take

    def take(self: Shards, work_id: int, worker: int, num_samples: int) -> tuple[Range, ...]:
        ranges = original(self, work_id, worker, num_samples)
        local = self.local[worker]
        if ranges and local and local[0].start == ranges[-1].stop:
            head = local.popleft()
            local.appendleft(Range(head.epoch, head.shard, head.start - 1, head.stop))
        return ranges

    patch.setattr(Shards, "take", take)


def takes_too_much(patch: pytest.MonkeyPatch) -> None:
    original = Shards.take
    patch.setattr(Shards, "take", lambda self, work_id, worker, n: original(self, work_id, worker, n + 1))


def given_up_counts_as_applied(patch: pytest.MonkeyPatch) -> None:
    def forget(self: Shards, work_id: int) -> int:
        samples = sum(work.samples for work in self.out[work_id][1])
        self.applied(work_id)
        return samples

    patch.setattr(Shards, "forget", forget)


def last_shard_as_long_as_the_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cut, "length", lambda self, shard: self.shard_samples or self.num_samples // self.num_shards)


def shuffle_repeats_a_shard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runtime.core.data.shards, "permute_one", lambda position, length, key: position // 2)


def what_came_back_comes_first(patch: pytest.MonkeyPatch) -> None:
    original = Shards._draw

    def draw(self: Shards, local: Any, worker: int) -> bool:
        if self.requeued:
            local.append(self.requeued.popleft().work)
            return True
        return original(self, local, worker)

    patch.setattr(Shards, "_draw", draw)


def who_was_late_gets_the_same_again(patch: pytest.MonkeyPatch) -> None:
    original = Shards._queued
    patch.setattr(Shards, "_queued", lambda self, worker: original(self, -2))


def what_is_given_up_does_not_pass(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shards, "samples_passed", property(lambda self: self.samples_applied))


def holder_gets_its_work_back_to_front(patch: pytest.MonkeyPatch) -> None:
    original = Shards.returned

    def returned(self: Shards, work_id: int, *, to_holder: bool) -> int:
        worker, ranges = self.out[work_id]
        self.out[work_id] = (worker, ranges[::-1])
        return original(self, work_id, to_holder=to_holder)

    patch.setattr(Shards, "returned", returned)


FOUND_BY_THE_MACHINE = [
    requeue_lost,
    returned_to_nobody_when_the_holder_restarts,
    double_apply_not_noticed,
    done_with_the_first_sample,
    fence_off_by_one,
    state_forgets_what_is_handed_out,
    load_forgets("partial"),
    load_forgets("next_shard"),
    load_forgets("done"),
    departed_workers_take_their_data_along,
    split_repeats_a_sample,
    takes_too_much,
    given_up_counts_as_applied,
    what_is_given_up_does_not_pass,
    shuffle_repeats_a_shard,
]
FOUND_BY_A_TEST = [
    last_shard_as_long_as_the_others,
    what_came_back_comes_first,
    who_was_late_gets_the_same_again,
    holder_gets_its_work_back_to_front,
]


@pytest.mark.few(8)
@pytest.mark.parametrize("plant", FOUND_BY_THE_MACHINE)
def test_the_state_machine_finds_bugs_in_the_data_service(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    once = settings(max_examples=120, stateful_step_count=30, phases=[Phase.generate])
    with pytest.raises(FAILURES):
        run_state_machine_as_test(test_shards.DynamicMachine, settings=once)


@pytest.mark.few(2)
@pytest.mark.parametrize("plant", FOUND_BY_A_TEST)
def test_tests_find_bugs_in_the_sizes_and_the_order_of_data(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert findings(test_shards)


# ---- the ledger -----------------------------------------------------------------------------------------------------


class DoubleUseNotNoticed(GradientLedger):
    def use(self, ids: tuple[int, ...], what: str) -> list[Any]:
        found = super().use(ids, what)
        self.grads.update({grad.id: grad for grad in found})
        return found


class UnknownGradientsAreSkipped(GradientLedger):
    def use(self, ids: tuple[int, ...], what: str) -> list[Any]:
        return [self.grads.pop(grad_id) for grad_id in ids if grad_id in self.grads]


class RefusedGradientsAreGone(GradientLedger):
    def use(self, ids: tuple[int, ...], what: str) -> list[Any]:
        try:
            return super().use(ids, what)
        except ProtocolError:
            self.grads.clear()
            raise


class EmptyGradientsCount(GradientLedger):
    def arrived(self, grad: Any) -> None:
        self.grads[grad.id] = grad


class VoidKeepsGradients(GradientLedger):
    def void(self) -> None:
        self.busy.clear()
        self.starved.clear()


class VoidKeepsHeld(GradientLedger):
    def void(self) -> None:
        self.busy.clear()
        self.grads.clear()


class BusyIsNotChecked(GradientLedger):
    def check_compute(self, command: Any, alive: bool) -> None:
        busy, self.busy = self.busy, {}
        super().check_compute(command, alive)
        self.busy = busy


class HeldIsNotChecked(GradientLedger):
    def check_compute(self, command: Any, alive: bool) -> None:
        starved, self.starved = self.starved, {}
        super().check_compute(command, alive)
        self.starved = starved


class TheDeadMayCompute(GradientLedger):
    def check_compute(self, command: Any, alive: bool) -> None:
        super().check_compute(command, True)


class ShowsEverybodysEvents(GradientLedger):
    def note_event(self, worker: int, event: Any) -> None:
        super().note_event(0, event)
        self._history = dict.fromkeys(range(9), self._history[0])


class ShowsTheFirstEvents(GradientLedger):
    def note_event(self, worker: int, event: Any) -> None:
        if len(self._history.get(worker, ())) < 6:
            super().note_event(worker, event)


@pytest.mark.parametrize("mutant", GradientLedger.__subclasses__(), ids=lambda mutant: mutant.__name__)
def test_tests_find_bugs_in_the_ledger(mutant: type[GradientLedger]) -> None:
    assert findings(test_ledger, mutant)


# ---- the membership -------------------------------------------------------------------------------------------------


class AnyIncarnationIsHeard(Membership):
    def joined(self, worker: int, incarnation: int) -> bool:
        return super().joined(worker, self.members[worker].incarnation)


class NobodyEverLeaves(Membership):
    def lost(self, worker: int, restarting: bool) -> int:
        return super().lost(worker, True)


class TheDeadKeepTheirNumber(Membership):
    def lost(self, worker: int, restarting: bool) -> int:
        gone = super().lost(worker, restarting)
        self.members[worker].incarnation = gone
        return gone


@pytest.mark.parametrize("mutant", Membership.__subclasses__(), ids=lambda mutant: mutant.__name__)
def test_tests_find_bugs_in_the_membership(mutant: type[Membership], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_membership, "Membership", mutant)
    assert findings(test_membership)


# ---- running tests inside a test ------------------------------------------------------------------------------------


def findings(module: ModuleType, *arguments: Callable[[], Any]) -> list[str]:
    """Tests of a module that fail now, the state machine left out; ``arguments`` make what their fixtures would."""
    found = []
    for name, test in vars(module).items():
        machine = name == "test_every_sample_is_accounted_for"
        if machine or not name.startswith("test_"):
            continue
        for extra in variants(test):
            try:
                test(*(make() for make in arguments), **extra)
            except FAILURES:
                found.append(name)
                break
    return found


def variants(test: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """The parameters of every variant of a parametrised test."""
    axes = []
    for mark in getattr(test, "pytestmark", []):
        names, values = mark.args[:2]
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        axes.append([dict(zip(names, value if len(names) > 1 else [value], strict=True)) for value in values])
    for chosen in itertools.product(*axes):
        yield {name: value for part in chosen for name, value in part.items()}


def test_without_a_mutant_nothing_is_found() -> None:
    """The control of these controls."""
    assert findings(test_ledger, GradientLedger) == []
    assert findings(test_membership) == []
    assert findings(test_shards) == []
