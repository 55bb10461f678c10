"""LB-BSP against its sources: Chen et al., "Semi-dynamic load balancing", SoCC 2020, and STAR's setting of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.job import ComputeOrder
from strategies.basic.bsp import BSP
from strategies.lb_bsp import LBBSP
from strategies.lb_bsp.by_steps import Balancer, StepsSettings
from strategies.lb_bsp.forecast import Forecast
from strategies.protocol import Arrived, Compute, NodeUse, Observed, Started, Timings
from tests.support.faults import departures, random_outcome, random_seconds, restarts
from tests.support.grads import make_grad
from tests.support.harness import HeapRun, make_job, samples_of
from tests.support.laws import dead, first_difference, played, unconserved, unlawful

Seconds = Callable[[int, ComputeOrder], float]
KINDS = pytest.mark.parametrize("kind", ["cpu", "gpu"])


def linear(*speeds: float, base_s: float = 0.0) -> Seconds:
    """Workers of so many samples per second."""
    return lambda worker, order: base_s + samples_of(order) / speeds[worker]


def job(**changes: Any) -> Any:
    """Two workers, a batch of 256, as long as it takes."""
    return make_job(**{"num_workers": 2, "global_batch_samples": 256, "num_samples": 1_000_000, **changes})


def rounds(run: HeapRun) -> list[tuple[int, ...]]:
    """Sizes that were ordered together, round after round."""
    ordered = [
        tuple(command.num_samples for command in line.commands if isinstance(command, Compute)) for line in run.lines
    ]
    return [sizes for sizes in ordered if sizes]


def changes(found: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Without what is repeated."""
    return [sizes for index, sizes in enumerate(found) if index == 0 or sizes != found[index - 1]]


@pytest.mark.parametrize("predictor", ["narx", "arx", "ema", "last"])
def test_the_split_is_in_proportion_to_the_predicted_speeds(predictor: str) -> None:
    """AntDT, section VII-A3 (baseline LB-BSP). x_i = B v_i / sum v in whole samples: speeds 100, 90, 60, 30 and B = 256
    give 92, 82, 55, 27."""
    big = job(num_workers=4, max_time_s=60.0)
    run = HeapRun(LBBSP(predictor=predictor), big, linear(100, 90, 60, 30)).run()
    found = rounds(run)
    assert changes(found) == [(64, 64, 64, 64), (92, 82, 55, 27)]
    # three iterations to warm up and five records before anything is changed
    assert found.index((92, 82, 55, 27)) == 8


def test_a_worker_without_records_counts_as_the_median_of_the_others() -> None:
    """Beyond the paper: a worker without records has no speed of its own."""
    forecast = started(Forecast("last", 0.2, min_records=2))
    for speed, worker in [(100, 0), (100, 0), (40, 1), (40, 1), (10, 2), (10, 2), (1000, 3)]:
        forecast.arrived(arrived(worker, samples=speed))
    assert forecast.speeds([0, 1, 2, 3]) == [100, 40, 10, 40]
    assert forecast.speeds([3]) == [1.0]


def started(forecast: Forecast) -> Forecast:
    forecast.start(Started(t=0.0, workers=(0, 1, 2, 3), batch_samples=(8, 8, 8, 8), num_servers=1))
    return forecast


def arrived(worker: int, samples: int, compute_s: float = 1.0) -> Arrived:
    return Arrived(t=0.0, grad=make_grad(worker, samples), timings=Timings(compute_s=compute_s))


def test_a_smaller_cpu_share_lowers_the_predicted_speed_at_once() -> None:
    """Chen et al., abstract (NARX): inputs are speeds and resources. When telemetry reports that a worker has a quarter
    of its processor, a low speed is predicted before it is observed."""
    blind, received = started(Forecast("arx", 0.2, 5)), started(Forecast("arx", 0.2, 5))
    for t in range(60):
        cpu = 0.25 if t % 12 >= 8 else 1.0
        received.note_use(Observed(t=t, period_s=1.0, nodes=(NodeUse(node="worker:0", cpu_cores=cpu),)))
        for forecast in (blind, received):
            forecast.arrived(arrived(0, samples=100, compute_s=1 / cpu))
    received.note_use(Observed(t=60, period_s=1.0, nodes=(NodeUse(node="worker:0", cpu_cores=1.0),)))
    assert received.speeds([0])[0] == pytest.approx(100, rel=0.01)
    assert blind.speeds([0])[0] < 60


def saturating(worker: int, order: ComputeOrder) -> float:
    """F1 = max(.08, .02 + .001 b), F2 = max(.08, .02 + .002 b)."""
    return max(0.08, 0.02 + (0.001, 0.002)[worker] * samples_of(order))


def test_the_worked_example_of_moves() -> None:
    """Chen et al., abstract (GPU clusters), worked by hand. Delta 32, window 8, dead band 5 %: every swap of roles
    halves the move and doubles the window, until the gap of 4.3 % at (168, 88) is within the band (the continuous
    optimum is 170.67)."""
    strategy = LBBSP(kind="gpu", warmup_iters=0)
    run = HeapRun(strategy, job(max_time_s=60.0), saturating).run()
    found = rounds(run)
    moves = [(128, 128), (160, 96), (192, 64), (176, 80), (160, 96), (168, 88)]
    assert changes(found) == moves
    starts = [next(i for i in range(len(found)) if found[i] == sizes) for sizes in moves[:4]]
    assert starts == [0, 8, 16, 24]
    again = found.index((160, 96), 24)
    assert (again, found.index((168, 88))) == (24 + 16, 24 + 16 + 16)
    assert len(found) > 200
    assert strategy.log_state()["delta_samples"] == 8


def test_a_change_of_regime_resets_the_step() -> None:
    """Beyond the paper: settled at (168, 88) with a step of 8, worker 0 becomes three times slower, more than 20 % away
    from the last window. The first move is of 32 samples again, after a window of 8."""
    turned = 200

    def seconds(worker: int, order: ComputeOrder) -> float:
        slow = 3 if order.version >= turned and worker == 0 else 1
        return slow * saturating(worker, order)

    found = rounds(HeapRun(LBBSP(kind="gpu", warmup_iters=0), job(max_time_s=120.0), seconds).run())
    assert found[turned] == (168, 88)
    after = changes(found[turned:])
    assert after[1] == (136, 120)
    assert found.index((136, 120)) - turned <= 16


@pytest.mark.parametrize(
    ("lows", "highs", "moved"),
    [([1, 1], [140, None], 12), ([1, 120], [None, None], 8), ([1, 1], [128, None], 0), ([1, 128], [None, None], 0)],
)
def test_a_move_stays_within_the_bounds(lows: list[int], highs: list[int | None], moved: int) -> None:
    """Beyond the paper. D = min(Delta, b_S - lo_S, hi_L - b_L)."""
    balancer = Balancer(StepsSettings(window_iters=1, dead_band_frac=0.05, halving=True, unanimous=False), 32)
    balancer.round_done({0: 1.0, 1: 2.0}, {0: 128, 1: 128})
    move = balancer.move({0: 128, 1: 128}, lows, highs)
    assert (move.samples if move else 0) == moved


def star(times: Sequence[tuple[float, float]]) -> list[int]:
    """Samples moved after each round by STAR's rule."""
    balancer, sizes, moved = (
        Balancer(StepsSettings(window_iters=8, dead_band_frac=0.0, halving=False, unanimous=True), 32),
        {0: 128, 1: 128},
        [],
    )
    for one, other in times:
        balancer.round_done({0: one, 1: other}, sizes)
        move = balancer.move(sizes, [1, 1], [None, None])
        moved.append(move.samples if move else 0)
    return moved


def test_star_moves_after_eight_iterations_of_the_same_order_and_never_halves() -> None:
    """STAR, section V-A. 32 samples once the fastest beat the slowest in every one of the last 8 iterations,
    however little; one iteration in which it did not starts the count again. STAR, section V-A: leader and
    straggler swap forever, by 32 samples."""
    assert star([(1.0, 1.001)] * 8) == [0] * 7 + [32]
    once_not = [(1.0, 1.1)] * 5 + [(1.0, 1.0)] + [(1.0, 1.1)] * 8
    assert star(once_not) == [0] * 13 + [32]
    assert star([(1.0, 1.1), (1.2, 1.1)] * 10) == [0] * 20
    settings = {"kind": "gpu", "halving": False, "unanimous": True, "dead_band_frac": 0.0, "warmup_iters": 0}
    found = changes(rounds(HeapRun(LBBSP(**settings), job(max_time_s=60.0), saturating).run()))
    assert found[:6] == [(128, 128), (160, 96), (192, 64), (160, 96), (192, 64), (160, 96)]


@pytest.mark.few(1)
@KINDS
@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), num_workers=st.integers(2, 6))
def test_every_round_sums_to_the_global_batch(kind: str, seed: int, num_workers: int) -> None:
    """AntDT, section VII-A3: the global batch is constant, also when workers restart or leave and servers are lost:
    workers that go together share B."""
    strategy = LBBSP(kind=kind, warmup_iters=0, min_records=1, window_iters=2, delta_samples=3, predictor="last")
    total = 7 * num_workers + 3
    job_of = make_job(
        num_workers=num_workers, num_samples=20 * total, global_batch_samples=total, epochs=2, max_time_s=4000.0
    )
    plan = restarts(seed, num_workers) + departures(seed, num_workers)
    run = HeapRun(strategy, job_of, random_seconds(seed), plan, random_outcome(seed))
    assert played(run) + unlawful(run) + dead(run) + unconserved(run) == []
    again = [0]
    for line in run.lines:
        sizes = [command.num_samples for command in line.commands if isinstance(command, Compute)]
        opens = len(sizes) > 1 or any(type(command).__name__ == "Apply" for command in line.commands)
        again.append(sum(sizes) if opens and sizes else total)
    assert set(again[1:]) == {total}
    assert all(size >= 1 for sizes in rounds(run) for size in sizes)


@pytest.mark.parametrize(("kind", "batch", "base_s"), [("cpu", 10, 0.5), ("gpu", 130, 0.5)])
def test_equal_workers_are_bsp(kind: str, batch: int, base_s: float) -> None:
    """AntDT, section VII-A3. No move ever: event for event the transcript of BSP, also when the batch does not divide
    evenly (as far as one sample is within the dead band)."""
    equal = {"num_workers": 4, "global_batch_samples": batch, "max_time_s": 60.0}
    seconds = linear(*[10.0] * 4, base_s=base_s)
    one = HeapRun(LBBSP(kind=kind), make_job(**equal), seconds).run()
    other = HeapRun(BSP(), make_job(**equal), seconds).run()
    assert one.updates > 3
    assert one.transcript() == other.transcript(), first_difference(one.lines, other.lines)


def test_bounds_that_leave_no_split_are_refused() -> None:
    """Beyond the paper: bounds must admit the global batch."""
    LBBSP(min_batch_samples=64).validate_batch(4, 256)
    with pytest.raises(ValueError, match="min_batch_samples=65: 4 workers would need 260 samples"):
        LBBSP(min_batch_samples=65).validate_batch(4, 256)
    with pytest.raises(ValueError, match="max_batch_samples=63: 4 workers can take 252 samples"):
        LBBSP(max_batch_samples=63).validate_batch(4, 256)
    with pytest.raises(ValueError, match="max_batch_samples=3: must be a whole number, 5 or more"):
        LBBSP(min_batch_samples=5, max_batch_samples=3)
