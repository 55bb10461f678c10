"""Skipped iterations: the data service books every sample once, and what is in progress stays as much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.coordinator import Coordinator
from runtime.core.data.shards import Shards
from runtime.core.jumping.pace import Pace
from runtime.core.jumping.skipping import Skipped, Skipping, slots_of
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.basic.static_x import StaticX
from strategies.protocol import Strategy
from tests.support.harness import HeapRun, make_job

STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "bsp": BSP,
    "asp": ASP,
    "asp_even": lambda: ASP(data="even"),
    "asp_shared": lambda: ASP(data="shared"),
    "ssp": SSP,
    "static_x": StaticX,
}


class Booked:
    """Counts every use of every sample, by epoch, shard and place; a rewind takes back what was counted."""

    def __init__(self, shards: Shards) -> None:
        self.uses: list[tuple[int, int, int]] = []
        applied, mark, rewind = shards.applied, shards.mark, shards.rewind
        marks: list[int] = []

        def count(work_id: int) -> int:
            for part in shards.out[work_id][1]:
                self.uses += [(part.epoch, part.shard, place) for place in range(part.start, part.stop)]
            return applied(work_id)

        def marked() -> Shards:
            marks.append(len(self.uses))
            return mark()

        def back(to: Shards) -> None:
            del self.uses[marks[-1] :]
            rewind(to)

        shards.applied, shards.mark, shards.rewind = count, marked, back  # type: ignore[method-assign]

    def twice(self) -> list[tuple[int, int, int]]:
        return [use for use, times in Counter(self.uses).items() if times > 1]


def half_way(strategy: Strategy, num_samples: int, epochs: int, speeds: list[float]) -> tuple[HeapRun, Booked, Pace]:
    """A job of 4 workers with batches of 3, in which every worker has done some iterations."""
    job = make_job(num_samples=num_samples, epochs=epochs, global_batch_samples=12, batches_per_shard=2, max_time_s=1e6)
    run = HeapRun(strategy, job, speeds)
    run.start()
    booked = Booked(run.core.shards)
    hint = strategy.staleness_hint()
    pace = Pace(0, 1, together=hint is not None and hint.bound is not None)
    pace.reset(range(4), 0.0)
    for worker, seconds in enumerate(speeds):
        pace.batches[worker] = 3
        for turn in range(3):
            pace.arrived(worker, (turn + 1) * seconds, 3, 3)
    pace.grads_per_update = {BSP: 4, StaticX: 2}.get(type(strategy), 1)
    return run, booked, pace


def skip(core: Coordinator, pace: Pace, span_s: float) -> Skipped | None:
    slots = slots_of(core.executor, pace, blocks=isinstance(core.strategy, SSP))
    return None if slots is None else Skipping(core.executor, pace, slots).run(span_s)


@settings(max_examples=10, deadline=None)
@given(
    name=st.sampled_from(sorted(STRATEGIES)),
    num_samples=st.integers(60, 400),
    speeds=st.lists(st.sampled_from([0.5, 1.0, 1.1, 1.7]), min_size=4, max_size=4),
    spans=st.lists(st.floats(0.5, 60.0), min_size=1, max_size=4),
)
def test_every_sample_is_used_once_whatever_is_skipped(
    name: str, num_samples: int, speeds: list[float], spans: list[float]
) -> None:
    epochs = 25
    run, booked, pace = half_way(STRATEGIES[name](), num_samples, epochs, speeds)
    core, total = run.core, num_samples * epochs
    skipped, steps = 0, 0
    for span_s in spans:
        for _ in range(60):  # until it may jump
            run_some(run, 7)
            left = total - core.shards.samples_passed
            before = sorted((one.worker, one.samples) for one in held(core))
            if left > 200 + 12 * span_s and (found := skip(core, pace, span_s)) is not None:
                skipped += found.samples
                assert sorted((one.worker, one.samples) for one in held(core)) == before
                break
        steps += 1
    while run.step():
        pass
    assert core.status == "done"
    assert booked.twice() == []
    assert len(booked.uses) == total == core.shards.samples_applied
    assert core.shards.epochs_done == epochs
    assert steps == len(spans)


def held(core: Coordinator) -> list[Any]:
    return [*core.ledger.busy.values(), *core.ledger.grads.values()]


def run_some(run: HeapRun, events: int) -> None:
    for _ in range(events):
        if run.heap and run.core.status is None:
            run.step()


def test_iterations_and_versions_grow_with_what_was_skipped() -> None:
    """Rounds of 1 s, and half a round in advance: 10 s are ten rounds, of one update and 12 samples."""
    run, _, pace = half_way(BSP(), 1200, 9, [1.0] * 4)
    run_some(run, 9)
    core = run.core
    before = (core.version, dict(core.executor.iterations), core.shards.samples_applied)
    orders = dict(core.ledger.busy)
    found = skip(core, pace, 10.0)
    assert found is not None
    assert (len(found.batches), found.samples, found.iterations) == (10, 120, dict.fromkeys(range(4), 10))
    assert core.version == before[0] + 10
    assert dict(core.executor.iterations) == {worker: done + 10 for worker, done in before[1].items()}
    assert core.shards.samples_applied == before[2] + 120
    for worker, order in core.ledger.busy.items():
        assert (order.grad_id, order.iteration) == (orders[worker].grad_id, orders[worker].iteration + 10)
        assert order.version == orders[worker].version + 10


def test_parts_of_iterations_add_up() -> None:
    """Ten jumps of a third of a round are three rounds and a third."""
    run, _, pace = half_way(BSP(), 1200, 9, [1.0] * 4)
    run_some(run, 9)
    jumps = [skip(run.core, pace, 1 / 3) for _ in range(10)]
    assert sum(len(jump.batches) for jump in jumps if jump is not None) == 3


def test_fast_workers_skip_more() -> None:
    run, _, pace = half_way(ASP(data="dynamic"), 12_000, 9, [0.5, 1.0, 1.0, 2.0])
    run_some(run, 9)
    found = skip(run.core, pace, 100.0)
    assert found is not None
    assert found.iterations == {0: 200, 1: 100, 2: 100, 3: 50}


@pytest.mark.parametrize(("span_s", "updates"), [(0.75, 0), (1.0, 2), (2.5, 2), (3.0, 4)])
def test_an_update_is_complete_with_its_last_gradient(span_s: float, updates: int) -> None:
    """Two make one: worker 0 is done at 0.5, 1.5 and 2.5 s, the others at 1 and 3 s. Ties go by the number."""
    run, _, pace = half_way(StaticX(), 1200, 9, [1.0, 2.0, 2.0, 2.0])
    run_some(run, 2)
    found = skip(run.core, pace, span_s)
    assert found is not None
    assert len(found.batches) == updates


@pytest.mark.parametrize(("span_s", "epochs"), [(44.0, 0), (45.0, 1)])
def test_a_jump_may_be_longer_by_two_rounds_of_the_slowest(span_s: float, epochs: int) -> None:
    """Worker 0 has used its 75 samples up after 12.5 s and waits for worker 3, which ends at 49 s: a jump ends before
    that wait, or with the epoch."""
    run, _, pace = half_way(ASP(data="even"), 300, 9, [0.5, 1.0, 1.0, 2.0])
    run_some(run, 2)
    found = skip(run.core, pace, span_s)
    assert found is not None
    assert run.core.shards.epochs_done == epochs
    assert found.iterations == ({0: 24, 1: 24, 2: 25, 3: 25} if epochs else {0: 23, 1: 12, 2: 12, 3: 6})


def test_a_job_that_waits_for_data_does_not_jump() -> None:
    run, _, pace = half_way(ASP(data="even"), 60, 2, [0.1, 1.0, 1.0, 1.0])
    while not run.core.ledger.held:
        run.step()
    assert skip(run.core, pace, 1.0) is None


def test_epochs_of_few_rounds_are_carried_out() -> None:
    run, _, pace = half_way(BSP(), 40, 9, [1.0] * 4)
    run_some(run, 1)
    assert skip(run.core, pace, 1.0) is None


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_those_that_may_jump_say_so(name: str) -> None:
    assert STRATEGIES[name]().may_jump
