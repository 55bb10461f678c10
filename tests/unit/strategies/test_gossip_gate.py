"""AD-PSGD's gate: averages join neighbours that have stepped, nobody waits, every job ends."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.ad_psgd import ADPSGD
from strategies.ad_psgd.gossip import GossipGate
from strategies.ad_psgd.graphs import passive_neighbours
from strategies.parts.gates import Verdict
from strategies.protocol import Apply, Average, Compute, Grad, StepAlone
from tests.support.harness import HeapRun, make_job


def grad(number: int, worker: int, samples: int = 4) -> Grad:
    return Grad(
        id=number, worker=worker, incarnation=0, iteration=0, version=0, samples=samples, assigned_samples=samples
    )


def begun(*workers: int, **settings: Any) -> GossipGate:
    gate = GossipGate(**settings)
    assert gate.begin(workers, 0) == workers
    return gate


@given(
    workers=st.integers(1, 9),
    graph=st.sampled_from(["exponential", "ring"]),
    common_every=st.sampled_from([None, 1, 3]),
    seconds=st.lists(st.sampled_from([0.5, 1.0, 1.25, 7.0]), min_size=9, max_size=9),
)
def test_an_average_is_of_neighbours_that_have_stepped_and_every_job_ends(
    workers: int, graph: str, common_every: int | None, seconds: list[float]
) -> None:
    """Whatever the speeds: an average follows the order of its active worker, and there is one for each such order."""
    size = {"num_workers": workers, "num_servers": 0, "global_batch_samples": workers, "num_samples": 12 * workers}
    job = make_job(**size, epochs=2, max_time_s=1e6)
    run = HeapRun(ADPSGD(graph=graph, common_every=common_every), job, seconds).run()
    assert (run.core.status, run.core.shards.epochs_done) == ("done", 2)
    steps: Counter[int] = Counter()
    for line in run.lines:
        ordered = set[int]()
        for command in line.commands:
            match command:
                case StepAlone():
                    steps.update(run.grads[one].worker for one in command.grads)
                case Apply():
                    steps.clear()
                case Compute():
                    ordered.add(command.worker)
                case Average(workers=pair):
                    (active,) = [worker for worker in pair if worker % 2]
                    (passive,) = {*pair} - {active}
                    assert passive in passive_neighbours(graph, active, workers)
                    assert steps[active]
                    assert steps[passive]
                    ordered.remove(active)
        lonely = [worker for worker in ordered if steps[worker] and worker % 2]
        assert not any(steps[near] for worker in lonely for near in passive_neighbours(graph, worker, workers))


def test_all_wait_for_an_average_of_all_after_common_every_steps() -> None:
    """Two steps of each of two workers, whoever makes them."""
    gate = begun(0, 1, common_every=2)
    for number in range(3):
        assert gate.arrived(grad(number, 0)) == Verdict(step=(grad(number, 0),), go=(0,))
    assert gate.arrived(grad(3, 0)) == Verdict(step=(grad(3, 0),))
    verdict = gate.arrived(grad(4, 1))
    assert [one.id for one in verdict.apply] == [0, 1, 2, 3, 4]
    assert (verdict.go, verdict.outer) == ((0, 1), True)
    assert gate.pair(1) == (), "all have the same parameters"


def test_places_in_the_graph_are_ranks_among_the_members() -> None:
    """Without worker 1 of five, worker 2 is active, and its neighbours are workers 0 and 3."""
    gate = begun(0, 2, 3, 4, graph="ring")
    for worker in gate.roster.all():
        gate.arrived(grad(worker, worker))
    assert gate.pair(2) in ((0, 2), (2, 3))
    assert gate.pair(4) in ((0, 4), (3, 4))
    assert gate.pair(0) == gate.pair(3) == ()


def test_a_draw_is_the_same_again_after_a_rollback_and_another_by_another_seed() -> None:
    drawn = []
    for seed in (0, 0, 1):
        gate = begun(*range(8), pair_seed=seed)
        drawn.append([])
        for number in range(20):
            for worker in range(8):
                gate.arrived(grad(8 * number + worker, worker))
            drawn[-1] += [gate.pair(worker) for worker in range(8)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_no_worker_waits_for_known_others() -> None:
    """So a cluster takes nothing from a worker on the ground that it waits."""
    assert begun(0, 1).waiting_groups() == []


def test_it_needs_replicas_that_average_while_they_compute() -> None:
    strategy = ADPSGD()
    assert (strategy.topologies, strategy.sums_meanwhile) == ({"allreduce"}, True)
    assert {StepAlone, Average} <= strategy.needs


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"graph": "star"}, "graph=star: must be"), ({"common_every": 0}, "common_every=0: must be")],
)
def test_settings_out_of_range_are_refused_by_their_names(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ADPSGD(**wrong)
