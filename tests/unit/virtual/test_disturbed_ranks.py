"""Ranks of replicas and links between their stages, as targets of plans on the virtual clock."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from injectors.plan import Disturbance, build_plan, parse_plan, plan_json
from injectors.schedule import Schedule
from runtime.cluster.device import DeviceProfile
from runtime.cluster.replica import DisturbedRank, Inside, ReplicaProfile, as_replicas, parse_replica
from runtime.hybrid.step import Step
from runtime.virtual.costs import Costs
from strategies.basic.bsp import BSP
from strategies.protocol import Strategy
from tests.contract.catalogue import hurried, make
from tests.support.compared_loops import compare
from tests.support.harness import make_job
from tests.support.labs import run_alone
from tests.support.restarting import Restarting
from tests.unit.cluster.test_replicas_as_devices import GPU, LINEAR, ONE, replica
from tests.unit.hybrid.test_hybrid_step import Simulated
from tests.unit.virtual.test_compiled_events import built, play
from tests.unit.virtual.test_virtual_session import IDEAL, finish, session, virtual_job

ALWAYS = (0.0, 1e6)
PIPELINE: dict[str, Any] = {"pipeline": 4, "tensor": 2, "micro_batches": 8, "schedule": "gpipe"}


def window(target: str, magnitude: float, kind: Any = "slowdown", at: tuple[float, float] = ALWAYS, **more: Any) -> Any:
    return Disturbance(start_s=at[0], end_s=at[1], target=target, kind=kind, magnitude=magnitude, **more)


def schedule_of(*windows: Disturbance) -> Schedule:
    return Schedule(build_plan("test", 0, 1e6, windows))


def replicas(workers: int = 4, device: DeviceProfile = LINEAR, **changes: Any) -> Any:
    return as_replicas((device,) * workers, parse_replica({**ONE, **changes}, workers))


def events(inside: Any, schedule: Schedule, strategy: Strategy | None = None) -> list[Any]:
    """All events of a job with jitter and with costs of everything, and with notes of windows."""
    job = virtual_job(4, 320, global_batch_samples=32)
    timed = Costs(jitter_sigma=0.2, jitter_rho=0.5, sleep_overshoot_s=1e-4, control_s=1e-3, latency_s=2e-3)
    run, tape = session(strategy or BSP(), job, timed, device=inside, actuator=schedule)
    run_alone(run)
    return [{name: value for name, value in line.items() if name != "decide_us"} for line in tape.plain()]


def test_a_rank_that_is_all_of_a_worker_is_the_worker_to_the_bit() -> None:
    def of(name: str) -> Schedule:
        about = [(1, 0.37, "slowdown", (0.1, 0.9)), (2, 0.21, "delay", (0.2, 0.5)), (2, 1.7, "slowdown", (0.4, 0.7))]
        return schedule_of(*(window(name.format(worker), *rest) for worker, *rest in about))

    plain = events(GPU, of("worker:{}"))
    assert events(replicas(device=GPU, message_s=0.2), of("rank:({},0,0)")) == plain
    assert plain != events(GPU, schedule_of())


@pytest.mark.parametrize("message_s", [0.0, 0.03])
def test_all_ranks_of_a_replica_are_the_worker_itself(message_s: float) -> None:
    """Messages take no longer either way."""
    ours = replicas(pipeline=2, tensor=2, micro_batches=4, message_s=message_s)
    about = [(0.6, "slowdown", (1.0, 20.0)), (0.25, "delay", (10.0, 30.0))]
    ranks = [f"rank:(1,{stage},{tensor})" for stage, tensor in itertools.product(range(2), range(2))]
    parts = events(ours, schedule_of(*(window(name, *rest) for name in ranks for rest in about)))
    whole = events(ours, schedule_of(*(window("worker:1", *rest) for rest in about)))
    without_notes = [[line for line in lines if line["kind"] == "event"] for lines in (parts, whole)]
    assert without_notes[0] == without_notes[1]
    assert len(without_notes[0]) > 40


def test_a_slow_stage_of_gpipe_costs_what_its_closed_form_says_while_its_window_is_open() -> None:
    """Huang et al. 2019: the slow stage computes all the time, the others add one micro-batch each."""
    stages, micro_batches, added = 4, 8, 0.5
    ours = replicas(**PIPELINE)
    usual_s = ours[0].seconds(8)
    slow_s = usual_s * (micro_batches * (1 + added) + stages - 1) / (micro_batches + stages - 1)
    open_s = 2.5 * usual_s, 6.1 * usual_s
    plan = schedule_of(window("rank:(1,2,0)", added, at=open_s))
    job = virtual_job(4, 32 * 12, global_batch_samples=32)
    run, tape = session(BSP(), job, IDEAL, device=ours, actuator=plan)
    finish(run, tape)
    expected, now = [], 0.0
    for _ in range(12):
        now += slow_s if open_s[0] <= now < open_s[1] else usual_s
        expected.append(now)
    assert tape.update_times() == pytest.approx(expected)
    assert expected[-1] == pytest.approx(9 * usual_s + 3 * slow_s)


def added_s(profile: ReplicaProfile, samples: int, inside: Inside) -> float:
    """Seconds that disturbances inside add to a batch."""
    delay_s, frac = profile.added(samples, 1, inside)
    return delay_s + frac * profile.seconds(samples)


SENDS = [("gpipe", 1, "free"), ("1f1b", 1, "free"), ("zb", 1, "free"), ("interleaved", 2, "free")]
SENDS += [("gpipe", 1, "blocking"), ("1f1b", 1, "blocking")]


@pytest.mark.parametrize(("schedule", "chunks", "sends"), SENDS)
def test_a_step_takes_as_long_as_an_event_simulation_says(schedule: str, chunks: int, sends: str) -> None:
    """Random factors of ranks and delays of links, one of which may join the last stage and the first."""
    stages, micro_batches, message_s = 4, 8, 0.07
    about: dict[str, Any] = {"schedule": schedule, "chunks": chunks, "sends": sends, "message_s": message_s}
    profile = replica(LINEAR, pipeline=stages, tensor=2, micro_batches=micro_batches, **about)
    step = _step_of(profile, micro_batches)
    links = [(0, 1), (1, 2), (2, 3), *([(0, 3)] if chunks > 1 else [])]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        slower = rng.uniform(0.0, 2.0, (stages, 2)) * (rng.random((stages, 2)) < 0.5)
        late_s = dict(zip(links, rng.uniform(0.0, 1.0, len(links)) * (rng.random(len(links)) < 0.6), strict=True))
        inside = Inside(
            ranks=tuple(DisturbedRank(*place, 0.0, float(slower[place])) for place in np.ndindex(stages, 2)),
            links=tuple((*link, float(seconds)) for link, seconds in late_s.items()),
        )
        expected = _simulated_s(step, slower.max(axis=1), late_s, message_s, micro_batches)
        calm = _simulated_s(step, np.zeros(stages), dict.fromkeys(links, 0.0), message_s, micro_batches)
        assert profile.seconds(64) == pytest.approx(calm)
        assert profile.seconds(64) + added_s(profile, 64, inside) == pytest.approx(expected)
        assert expected > calm


def _step_of(profile: ReplicaProfile, micro_batches: int) -> Any:
    spec = profile.spec
    return Step(spec.pipeline, micro_batches, spec.schedule, spec.chunks, spec.sends, spec.parts)


def _simulated_s(step: Any, slower: Any, late_s: Any, message_s: float, micro_batches: int) -> float:
    """Of 64 samples of 0.25 s; two tensor ranks share a stage's work."""
    part_s = 64 / micro_batches * 0.25 / (step.stages * 2) / 3 / step.chunks
    joined = step.last_pass == "backward"
    work, message = {}, {}
    for kind, stage, micro_batch, chunk in step.nodes:
        if kind in ("forward", "backward", "weight"):
            parts = 2 if kind == "backward" and joined else 1
            work[stage, kind, micro_batch, chunk] = parts * part_s * (1 + slower[stage])
        elif kind in ("activations", "gradients"):
            other = (stage + (1 if kind == "activations" else -1)) % step.stages
            ends = min(stage, other), max(stage, other)
            message[stage, kind, micro_batch, chunk] = message_s + late_s[ends]
    return max(Simulated(step, work, message).run().values())


def test_tensor_ranks_are_in_lockstep_so_the_slowest_counts() -> None:
    profile = replica(LINEAR, **PIPELINE)
    one, other = DisturbedRank(1, 0, 0.0, 0.5), DisturbedRank(1, 1, 0.0, 1.5)
    slowest = profile.added(64, 1, Inside(ranks=(other,)))
    assert profile.added(64, 1, Inside(ranks=(one, other))) == slowest
    assert 0 < profile.added(64, 1, Inside(ranks=(one,)))[1] < slowest[1]


def test_a_rank_that_rests_after_its_passes_delays_its_stage_alone() -> None:
    """By hand: in gpipe stage 3 is done three backward passes (of 2 / 3 of a micro-batch) before stage 0."""
    profile = replica(LINEAR, **PIPELINE)
    pass_s = 64 / 8 * 0.25 / 8 * 2 / 3
    for rest_s in (pass_s, 3 * pass_s, 4 * pass_s):
        last, first = (added_s(profile, 64, Inside(ranks=(DisturbedRank(s, 0, rest_s, 0.0),))) for s in (3, 0))
        assert (first, last) == pytest.approx((rest_s, max(0.0, rest_s - 3 * pass_s)), abs=1e-12)


def test_a_worker_s_own_disturbance_adds_to_those_inside() -> None:
    """In gpipe each rank's part is linear, so the sum is that of all parts."""
    profile = replica(LINEAR, **PIPELINE)
    rank = DisturbedRank(2, 1, 0.0, 0.5)
    assert profile.added(64, 1, Inside()) == (0.0, 0.0)
    assert profile.added(64, 1, Inside(0.25, (rank,)))[1] == pytest.approx(0.25 + 8 * 0.5 / (8 + 3))


@pytest.mark.parametrize("name", ["lb_bsp", "backup_workers", "first_k", "bsp"])
def test_strategies_see_the_times_of_a_replica_that_is_slow_by_itself(name: str) -> None:
    """Orders and times are those for the same rank in ``cluster.replica.slow``."""
    slow = [{"stage": 1, "factor": 2.5, "worker": 2, "tensor": 1}]
    job = virtual_job(4, 64 * 25, global_batch_samples=64)
    told = []
    for inside, plan in (
        (replicas(**PIPELINE, slow=slow), schedule_of()),
        (replicas(**PIPELINE), schedule_of(window("rank:(2,1,1)", 1.5))),
    ):
        run, tape = session(hurried(name), job, IDEAL, device=inside, actuator=plan)
        finish(run, tape)
        told.append(tape)
    given, planned = told
    assert planned.update_times() == pytest.approx(given.update_times())
    kept = [
        [(one["grad"]["worker"], one["grad"]["samples"], one["t"], one["timings"]["compute_s"]) for one in lines]
        for lines in (tape.received("Arrived") for tape in told)
    ]
    assert [row[:2] for row in kept[0]] == [row[:2] for row in kept[1]]
    assert np.array(kept[0]) == pytest.approx(np.array(kept[1]))
    sizes = {row[1] for row in kept[0] if row[0] == 2}
    assert name != "lb_bsp" or min(sizes) < 16, "its batch shrinks"


def test_a_restart_elsewhere_leaves_the_machine_of_a_rank_behind() -> None:
    """The rank of worker 1 is on a slow machine, the rank of worker 2 is slow wherever it runs."""
    plan = [window(f"rank:({worker},0,0)", 1.0, "delay", of_machine=worker == 1) for worker in (1, 2)]
    for node, expected in (("worker:1", {1: 0.0, 2: 1.0}), ("worker:2", {1: 1.0, 2: 1.0})):
        strategy: Strategy = Restarting(rule="bsp", orders=(f"{node}@3.0",))
        job = virtual_job(4, 400, epochs=None, max_time_s=12.0)
        run, tape = session(strategy, job, Costs(), device=replicas(), actuator=schedule_of(*plan))
        run_alone(run)
        for worker, delay_s in expected.items():
            late = [one for one in tape.received("Arrived") if one["grad"]["worker"] == worker and one["t"] > 6.0]
            assert late[-1]["timings"]["injected_s"] == delay_s, (node, worker)


def test_the_watchdog_restarts_the_worker_of_a_slow_rank() -> None:
    """Its rank leaves the slow machine behind, so that it is restarted once, and nobody else is."""
    plan = schedule_of(window("rank:(2,1,1)", 3.0, of_machine=True))
    job = virtual_job(4, 400, epochs=None, max_time_s=90.0)
    run, tape = session(make("watchdog"), job, Costs(launch_s=0.5), device=replicas(**PIPELINE), actuator=plan)
    run_alone(run)
    assert [one["worker"] for one in tape.received("Lost")] == [2]
    injected = [one["timings"]["injected_s"] for one in tape.received("Arrived") if one["grad"]["worker"] == 2]
    assert injected[0] > 0
    assert injected[-1] == 0


@built
@pytest.mark.parametrize("message_s", [0.0, 0.01])
def test_the_compiled_loop_takes_the_same_times(message_s: float, tmp_path: Path) -> None:
    targets = ["rank:(0,1,0)", "rank:(2,3,1)", "worker:1", "rank:(1,0,0)", "worker:1"]
    windows = [window(name, 0.3 + place, at=(place, 9.0 + place)) for place, name in enumerate(targets)]
    windows += [window("link:3:(1,2)", 0.04, "delay", (2.0, 20.0)), window("rank:(3,0,0)", 0.5, "delay", (4.0, 8.0))]
    job = make_job(num_workers=4, global_batch_samples=64, num_samples=1600, epochs=2, max_time_s=1e4)
    costs = Costs(jitter_sigma=0.1, control_s=1e-3, ring_step_s=1e-3)
    inside = replicas(**PIPELINE, message_s=message_s)
    about = {"windows": windows, "costs": costs, "profile": inside, "transport": "tcp", "progress": False}
    assert compare(tmp_path, lambda run: play(run, job, BSP(), about), patience=(2, 4096)) > 100


def test_a_plan_is_read_back_to_the_byte() -> None:
    names = ("rank:(2,1,0)", "link:2:(1,2)", "worker:0")
    plan = build_plan("mine", 3, 50.0, [window(name, 0.5, "delay", (place, 9.0)) for place, name in enumerate(names)])
    assert plan_json(parse_plan(plan_json(plan))) == plan_json(plan)
    assert [one.target for one in parse_plan(plan_json(plan)).disturbances] == list(names)
