"""The Brain: the plan that a job begins with, which stage follows which, what each decides, and when."""

from __future__ import annotations

from dataclasses import asdict, fields
from itertools import pairwise
from random import Random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from strategies.dlrover.brain import Backoff, Brain, BrainSettings, Stage
from strategies.dlrover.history import FinishedJob, InitialPlan, initial_plan
from strategies.dlrover.plan import Limits
from strategies.parts.scaling.changes import Decision, Replace, Resize
from strategies.parts.scaling.usage import WINDOW, Given, UsageHistory, Use
from strategies.protocol import NodeId
from tests.support.brain import GIB, PAPER, cold, given, in_words, using
from tests.support.brain_world import World

HOT = 14.9 / 85.1
"""Wide & Deep: two of eight servers have this part of the load each (figure 6)."""


def uneven(number: int) -> list[float]:
    """Even until the planned servers are there."""
    return [1 / number] * number if number != 8 else [(1 - 2 * HOT) / 6] * 6 + [HOT] * 2


def world(worker_cores: float, update_cores: float, **about: Any) -> World:
    names = [field.name for field in fields(BrainSettings) if field.name in about]
    limits = about.pop("limits", PAPER)
    settings = BrainSettings(**{**asdict(limits), **{name: about.pop(name) for name in names}})
    brain = Brain(settings, about.pop("iterations", 395_500), about.pop("initial", cold(limits)))
    return World(brain, worker_cores, about.pop("load", lambda number: update_cores), **about)


def cold_brain(**settings: Any) -> Brain:
    return Brain(BrainSettings(**asdict(PAPER), **settings), None, cold())


def short(decision: Decision) -> tuple[str, ...]:
    """Stage, rule, changes in a few words."""
    return (decision.stage, decision.rule, *map(in_words, decision.changes))


def test_wide_and_deep_from_cold_to_its_hot_servers() -> None:
    """DLRover Table 1, figure 6 and section 4.2, decision by decision."""
    job = world(2.5, 5.7, shares=uneven)
    job.play(2000)
    assert [short(decision) for decision in job.decisions if decision.changes] == [
        ("create", "create", "1 servers of 32", "1 workers of 32"),
        ("optimise servers", "plan", "8 servers of 16", "1 workers of 3"),
        ("optimise workers", "workers", "24 workers of 3"),
        ("adjust", "hot server", "server:7: 24", "server:8: 24"),
    ]
    hot = job.decisions[-1].numbers
    assert hot["server_cores_used"] == pytest.approx(85.1)
    assert hot["server:7 needed"] == pytest.approx(23.95, abs=0.005)


def test_it_is_done_within_twelve_minutes() -> None:
    """Section 6.3: for Wide & Deep "DLRover finishes the adjustment within 12min"; every change takes 20 s of launch
    and 100 s of initialisation."""
    job = world(2.5, 5.7, outcome=lambda decision: (120.0, True))
    job.play(720)
    assert job.brain.stage == Stage.ADJUST
    assert (len(job.of("worker")), len(job.of("server"))) == (24, 8)


def test_xdeepfm_from_cold_to_two_more_workers() -> None:
    """Table 1: with two servers workers use 27.4 / 8 = 3.425 server cores each, not the 3.1 of the sample."""
    job = world(19.4, 3.1, load=lambda number: 3.1 if number == 1 else 3.425)
    job.play(700)
    assert [short(decision) for decision in job.decisions if decision.changes] == [
        ("create", "create", "1 servers of 32", "1 workers of 32"),
        ("optimise servers", "plan", "2 servers of 16", "1 workers of 20"),
        ("optimise workers", "workers", "8 workers of 20"),
        ("adjust", "idle servers", "2 more, 2 low"),
    ]
    assert job.brain.update_cores == pytest.approx(3.425)


def test_a_hot_start_that_was_right_changes_nothing() -> None:
    """Section 3.1: "only adjust PS when it is necessary": the plan of now would be 7 servers and 25 workers."""
    initial = InitialPlan(
        workers=24, worker_cores=3, worker_bytes=GIB, servers=8, server_cores=16, server_bytes=GIB, source="dataset"
    )
    job = world(2.5, 5.0, initial=initial)
    job.play(1000)
    assert [short(decision) for decision in job.decisions] == [
        ("create", "create", "8 servers of 16", "24 workers of 3"),
        ("optimise workers", "workers"),
    ]


@pytest.mark.parametrize(("servers", "changed"), [(7, True), (8, False), (9, True)])
def test_a_hot_start_with_other_servers_than_are_worth_it(servers: int, changed: bool) -> None:
    """Too few are added to; so many that a tenth of the planned workers finds no cores are given back."""
    about = {"workers": 12, "worker_cores": 3, "worker_bytes": GIB, "server_cores": 16, "server_bytes": GIB}
    initial = InitialPlan(**about, servers=servers, source="dataset")  # type: ignore[arg-type]
    job = world(2.5, 5.7, initial=initial)
    job.play(150)
    assert (short(job.decisions[1]) == ("optimise servers", "plan", "8 servers of 16")) == changed


def test_hot_servers_of_a_sample_are_enlarged_first() -> None:
    """Section 4.2: "If the CPU utilization of PS exceeds a predefined threshold, DLRover will add more CPU cores".

    100 cores are 7 workers of 2 and the 12 server cores that each of them needs, 84: ten servers of 8 lack 5 % of them.
    """
    job = world(2.0, 12.0, limits=Limits(cores_total=100, cores_max=8, server_cores=8))
    job.play(1000)
    assert [short(decision) for decision in job.decisions][:4] == [
        ("create", "create", "1 servers of 8", "1 workers of 8"),
        ("sample", "hot sample", "2 servers of 8"),
        ("optimise servers", "plan", "10 servers of 8", "1 workers of 2"),
        ("optimise workers", "workers", "7 workers of 2"),
    ]


def test_samples_are_enlarged_three_times_at_most_and_small_servers_first() -> None:
    job = world(1.0, 1000.0, limits=Limits(cores_total=400, cores_max=4, server_cores=4))
    job.play(360)
    hot = [short(decision)[2] for decision in job.decisions if decision.rule == "hot sample"]
    assert hot == ["2 servers of 4", "4 servers of 4", "8 servers of 4"]
    initial = InitialPlan(
        workers=1, worker_cores=4, worker_bytes=GIB, servers=2, server_cores=5, server_bytes=GIB, source="workload"
    )
    job = world(2.0, 11.0, initial=initial, limits=Limits(cores_total=40, cores_max=8, server_cores=4))
    job.play(200)
    assert short(job.decisions[1]) == ("sample", "hot sample", "2 servers of 8")


def test_a_sample_takes_steps_or_seconds() -> None:
    """Section 4.3: "more the 100 global steps or after 60s", and five observations in any case."""
    for steps, planned_s in ((100, 1.0 + 5), (0, 1.0 + 60)):
        brain = cold_brain(min_interval_s=0.0)
        brain.decide(0.0)
        brain.settle(1.0)
        nodes = given("worker", 1, 32) | given("server", 1, 32)
        decided = None
        t = 1.0
        while decided is None:
            t += 1.0
            brain.observe(nodes, using({NodeId.worker(0): 2.5, NodeId.server(0): 5.7}), steps=steps)
            decided = brain.decide(t)
        assert (decided.rule, t) == ("plan", planned_s)


def test_what_no_plan_fits_stays_as_it_is_and_says_why() -> None:
    job = world(30.0, 5.0, limits=Limits(cores_total=70, cores_max=64, server_cores=60))
    job.play(200)
    plan = job.decisions[-1]
    assert short(plan) == ("sample", "plan")
    assert "cores_total=70" in plan.why
    assert job.brain.stage == Stage.ADJUST
    assert job.brain.under_way == ()


def test_servers_that_are_denied_three_times_are_given_up() -> None:
    job = world(2.5, 5.7, outcome=lambda decision: (20.0, decision.rule != "plan"))
    job.play(800)
    assert [decision.rule for decision in job.decisions][:5] == ["create", "plan", "plan", "plan", "workers"]
    (workers,) = [one for one in job.decisions if one.rule == "workers"]
    assert workers.numbers["server_cores"] == 32
    assert job.brain.stage == Stage.ADJUST


def test_first_nodes_that_are_denied_are_asked_for_later_every_time() -> None:
    job = world(2.5, 5.7, outcome=lambda decision: (20.0, False), adjust_every_s=100.0)
    job.play(3000)
    assert {decision.rule for decision in job.decisions} == {"create"}
    assert [decision.t for decision in job.decisions] == pytest.approx([0, 220, 640, 1460], abs=5)


def test_what_was_denied_is_asked_for_at_once_when_something_was_granted() -> None:
    backoff = Backoff(10.0)
    backoff.note_denial("idle servers", 100.0)
    backoff.note_denial("hot server", 105.0)
    assert backoff.waiting(109.9) == {"idle servers", "hot server"}
    assert backoff.waiting(110.0) == {"hot server"}
    backoff.forget()
    assert backoff.waiting(106.0) == set()
    for times in range(9):
        backoff.note_denial("hot server", 0.0)
        assert backoff.waiting(10.0 * 2 ** min(times, 3) - 0.1) == {"hot server"}
        assert not backoff.waiting(10.0 * 2 ** min(times, 3))


@pytest.mark.parametrize("seed", range(8))
def test_intervals_hold_whatever_happens(seed: int) -> None:
    """Section 6.1: at least 60 s between two changes; servers at most every ``ps_interval_s``; one at a time."""
    random = Random(seed)
    limits = Limits(cores_total=random.randint(20, 300), cores_max=random.randint(8, 40), server_cores=8)
    job = world(
        random.uniform(0.5, 8),
        random.uniform(0.2, 8),
        limits=limits,
        shares=lambda number: uneven(number) if seed % 2 else [1 / number] * number,
        outcome=lambda decision: (random.uniform(0, 90), random.random() < 0.8),
        ps_interval_s=400.0,
        iterations=2500,
        hot_util=random.choice([0.5, 0.9]),
    )
    for until_s in range(500, 4001, 500):
        job.play(until_s)
        victim = random.choice(list(job.nodes))
        job.brain.out_of_memory(victim, job.nodes)
    ends = [0.0, *(t for t, _, _ in job.settled)]
    starts = [one.t for one in job.decisions if one.changes and one.rule != "out of memory"]
    for start in starts[1:]:
        last = max(end for end in ends if end <= start)
        assert start >= last + 60
    moves = [
        one for one in job.settled if one[1].stage == Stage.ADJUST and one[1].rule in ("hot server", "slow server")
    ]
    for (_, before, granted), (_, later, _) in pairwise(moves):
        assert not granted or later.t >= before.t + 400
    normal = sum(node.cores for node in job.nodes.values() if not node.low_priority)
    over = sum(one.numbers.get("over_total", 0) for _, one, granted in job.settled if granted)
    assert normal <= limits.cores_total + over


@pytest.mark.parametrize("granted", [True, False])
def test_a_server_that_was_killed_during_a_change_is_relieved_after_it_unless_there_are_other_servers(
    granted: bool,
) -> None:
    """Of the planned eight servers the one of the sample holds an eighth; it is relieved if they do not come."""
    brain, nodes = cold_brain(), given("worker", 1, 32) | given("server", 1, 16)
    brain.decide(0.0)
    brain.settle(0.0)
    for t in range(60, 120, 10):
        brain.observe(nodes, using({NodeId.worker(0): 2.5, NodeId.server(0): 5.7}), steps=t)
    plan = brain.decide(120.0)
    assert plan is not None
    assert short(plan)[:3] == ("optimise servers", "plan", "8 servers of 16")
    brain.out_of_memory(NodeId.server(0), nodes)
    assert brain.decide(130.0) is None, "it waits for the plan"
    brain.settle(140.0, granted)
    brain.still_there(nodes | given("server", 8, 16) if granted else nodes)
    relief = brain.decide(140.0)
    assert (relief is None) == granted
    assert relief is None or relief.changes == (Resize(role="server", count=2, cores=16, memory_bytes=8 * GIB),)


def test_a_server_that_was_killed_is_relieved_although_another_was_replaced_since() -> None:
    """Whoever replaces a server takes its part of the parameters: all others hold what they held."""
    job = world(2.5, 5.7, shares=uneven)
    while not (job.decisions and job.decisions[-1].rule == "hot server" and job.brain.under_way):
        job.play(job.t + 10)
    killed = job.of("server")[0]
    memory_bytes = job.nodes[killed].memory_bytes
    assert killed not in [one.node for one in job.decisions[-1].changes if isinstance(one, Replace)]
    job.brain.out_of_memory(killed, job.nodes)
    job.play(job.t + 30)
    assert [one.rule for one in job.decisions[-2:]] == ["hot server", "out of memory"]
    assert job.decisions[-1].changes == (Replace(node=killed, cores=16, memory_bytes=2 * memory_bytes),)


def test_workers_that_were_out_of_memory_come_before_servers_and_servers_only_if_they_are_still_there() -> None:
    """Whoever carries changes out replaces a worker at any time, and servers when nothing else is under way."""
    job = world(2.5, 5.7)
    job.play(45)
    brain, nodes = job.brain, job.nodes
    assert not brain.lacks_worker
    brain.out_of_memory(NodeId.server(0), nodes)
    assert not brain.lacks_worker
    brain.out_of_memory(NodeId.worker(0), nodes)
    assert brain.lacks_worker
    first = brain.decide(job.t)
    assert first is not None
    assert first.changes == (Replace(node=NodeId.worker(0), cores=32, memory_bytes=16 * GIB),)
    assert not brain.lacks_worker
    brain.still_there(given("worker", 1, 32) | {NodeId.server(0): Given(cores=8, memory_bytes=4 * GIB)})
    second = brain.decide(job.t)
    assert second is not None
    assert second.changes == (Resize(role="server", count=2, cores=8, memory_bytes=4 * GIB),)
    brain.settle(job.t)
    brain.out_of_memory(NodeId.server(7), nodes | {NodeId.server(7): Given(cores=8, memory_bytes=GIB)})
    brain.still_there(nodes)
    assert brain.decide(job.t) is None, "it was replaced meanwhile"


def test_used_cores_are_the_mean_of_the_last_five_observations_of_all_nodes() -> None:
    usage, nodes = UsageHistory(), given("worker", 2, 3)
    for number in range(1, 8):
        usage.observe(nodes, using({NodeId.worker(0): number, NodeId.worker(1): 1}))
        assert usage.complete == (number >= WINDOW)
    assert usage.cores(NodeId.worker(0)) == pytest.approx((3 + 4 + 5 + 6 + 7) / 5)
    assert usage.cores(NodeId.worker(0), last=3) == pytest.approx(6)
    usage.observe(given("worker", 1, 3), using({NodeId.worker(0): 9}))
    assert not usage.complete
    assert usage.cores(NodeId.worker(0)) == 9
    with pytest.raises(ValueError, match="nothing is known of what worker:1 used"):
        UsageHistory().observe(given("worker", 2, 3), {NodeId.worker(0): Use(cores=1.0)})


def finished(**changes: Any) -> FinishedJob:
    """Wide & Deep with its own numbers of Table 1."""
    usual: dict[str, Any] = {
        "workload": "wide_deep",
        "dataset": "criteo",
        "server_cores_used": 85.1,
        "worker_cores_used": 2.3,
        "workers": 24,
        "worker_bytes": 3 * GIB,
        "server_bytes": 5 * GIB,
    }
    return FinishedJob(**{**usual, **changes})


def planned(*jobs: FinishedJob, limits: Limits = PAPER) -> InitialPlan | None:
    return initial_plan(jobs, "wide_deep", "criteo", limits)


def test_wide_and_deep_begins_with_its_plan_of_last_time() -> None:
    """85.1 * 1.5 / 16 = 7.98: the eight servers and 24 workers of three cores of Tables 1 and 2."""
    assert planned(finished()) == InitialPlan(
        workers=24,
        worker_cores=3,
        worker_bytes=-(-3 * GIB * 12 // 10),
        servers=8,
        server_cores=16,
        server_bytes=6 * GIB,
        source="dataset",
    )


def test_every_element_has_its_own_rule() -> None:
    """Largest server use, mean worker cores, median workers, largest memory."""
    plan = planned(
        finished(server_cores_used=10, worker_cores_used=1, workers=4, worker_bytes=4 * GIB, server_bytes=GIB),
        finished(server_cores_used=40, worker_cores_used=2, workers=6, worker_bytes=GIB, server_bytes=2 * GIB),
        finished(server_cores_used=20, worker_cores_used=4, workers=30, worker_bytes=GIB, server_bytes=GIB),
    )
    assert plan is not None
    assert (plan.servers, plan.worker_cores, plan.workers) == (4, 3, 6)
    assert (plan.worker_bytes, plan.server_bytes) == (-(-4 * GIB * 12 // 10), -(-2 * GIB * 12 // 10))


def test_the_last_five_jobs_of_the_dataset_or_the_workload_count() -> None:
    other = finished(dataset="avazu", workers=9)
    chosen = planned(finished(workers=7), other, other)
    assert chosen is not None
    assert (chosen.workers, chosen.source) == (7, "dataset")
    alike = planned(other, finished(workload="xdeepfm", workers=3))
    assert alike is not None
    assert (alike.workers, alike.source) == (9, "workload")
    assert planned(finished(workload="xdeepfm")) is None
    assert planned() is None
    # Older jobs may be of another model under the same name
    plan = planned(finished(server_cores_used=900), *[finished(server_cores_used=8)] * 5)
    assert plan is not None
    assert plan.servers == 1


def test_workers_give_way_first_and_a_total_that_fits_nothing_is_refused() -> None:
    """Eight servers take 128 of 150 cores; what is left is enough for seven workers of three."""
    plan = planned(finished(), limits=Limits(cores_total=150, cores_max=32))
    assert plan is not None
    assert (plan.servers, plan.workers) == (8, 7)
    small = planned(finished(), limits=Limits(cores_total=60, cores_max=32))
    assert small is not None
    assert (small.servers, small.workers) == (3, 4)
    with pytest.raises(ValueError, match=r"cores_total=18: earlier jobs had workers of 3 cores.* 19"):
        planned(finished(), limits=Limits(cores_total=18, cores_max=16))


@hypothesis.given(
    st.lists(
        st.builds(
            FinishedJob,
            workload=st.just("wide_deep"),
            dataset=st.sampled_from(["criteo", "avazu"]),
            server_cores_used=st.floats(0, 500),
            worker_cores_used=st.floats(0, 60),
            workers=st.integers(1, 500),
            worker_bytes=st.integers(1, 2**40),
            server_bytes=st.integers(1, 2**40),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(48, 400),
)
def test_a_plan_never_exceeds_the_total(jobs: list[FinishedJob], total: int) -> None:
    plan = planned(*jobs, limits=Limits(cores_total=total, cores_max=32))
    assert plan is not None
    assert plan.cores <= total
    assert min(plan.workers, plan.worker_cores, plan.servers) >= 1
    assert plan.worker_cores <= 32
