"""Causes of the spread of step times: planted ones are found, and each follows its law to a job of another size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from analysis.logs.reading import read_log
from analysis.logs.step_log import LogError
from analysis.measures.causes import (
    Causes,
    Size,
    between_halves,
    causes_of,
    distance,
    of_slowest_s,
    periodic,
    running_median,
    same_s,
    unchanged_s,
)
from analysis.reports.at_scale import at_scale
from stragglab.commands.advise import main

STEPS = 1200
NONE = {"slow_s": np.zeros(1), "usual_s": 0.0, "jitter_s": 0.0, "pause_frac": 0.0, "pause_s": 0.0}
SMALL = Size(64, 10.0, 512)


def planted(seed: int = 0, *, every: int = 0, drift_s: float = 0.0, pauses: float = 0.0) -> np.ndarray:
    """Step times of 10 s with jitter of 10 ms, and pauses of 40 ms on average."""
    rng = np.random.default_rng(seed)
    seconds = 10.0 + 0.01 * rng.standard_normal(STEPS) + drift_s * np.sin(np.arange(STEPS) / 150)
    seconds += np.where(rng.random(STEPS) < pauses, rng.exponential(0.04, STEPS), 0.0)
    if every:
        seconds[3::every] -= 0.05
    return seconds


def causes(**fields: object) -> Causes:
    given = {"every_steps": 0, "periodic_s": 0.0, **NONE, "event_frac": 0.0, "events_s": np.zeros(0), **fields}
    return Causes(SMALL, **given)  # type: ignore[arg-type]


def test_planted_causes_are_found() -> None:
    found = causes_of(planted(every=12, drift_s=0.1, pauses=0.2), 64, 512)
    assert found.every_steps == 12
    assert found.periodic_s == pytest.approx(-0.05, abs=0.005)
    assert found.slow_s.std() == pytest.approx(0.1 * np.sin(np.arange(STEPS) / 150).std(), rel=0.1)
    assert found.jitter_s == pytest.approx(0.01, rel=0.1)
    assert found.pause_frac == pytest.approx(0.2, abs=0.05)
    assert found.pause_s == pytest.approx(0.04, rel=0.25)
    assert found.event_frac == 0


def test_what_was_not_planted_is_not_found() -> None:
    found = causes_of(planted(), 64, 512)
    assert found.every_steps == 0
    assert found.slow_s.std() < 0.004
    assert found.pause_frac * found.pause_s < 0.002


def test_rare_events_are_set_apart() -> None:
    seconds = planted(pauses=0.3)
    seconds[[100, 500, 900]] += 3.0
    found = causes_of(seconds, 64, 512)
    assert found.event_frac == pytest.approx(3 / STEPS)
    assert found.events_s.tolist() == pytest.approx([3.0] * 3, abs=0.1)
    assert found.pause_s == pytest.approx(0.04, rel=0.5)


def test_equal_steps_have_no_causes() -> None:
    found = causes_of(np.full(60, 2.0), 8, 1)
    assert not found.excess_s(Size(64, 1.0, 1)).any()
    assert found.cost_s(Size(64, 1.0, 1)) == 0
    with pytest.raises(ValueError, match="49 steps: causes need 50"):
        causes_of(np.full(49, 2.0), 8, 1)


@pytest.mark.parametrize("longer", [0.25, 1.0, 4.0])
def test_each_cause_follows_its_law(longer: float) -> None:
    size = Size(64, 10.0 * longer, 1024)
    slow = causes(slow_s=np.linspace(-1, 1, 1001)).excess_s(size)
    assert np.quantile(slow, 0.95) == pytest.approx(0.9 * longer, rel=0.02)
    assert causes(jitter_s=0.1).excess_s(size).std() == pytest.approx(0.1 * longer**0.5, rel=0.02)
    pauses = causes(pause_frac=1.0, pause_s=0.2).excess_s(size)
    assert pauses.std() == pytest.approx(0.2, rel=0.03)
    assert np.quantile(pauses, 0.95) == pytest.approx(0.2 * np.log(10), rel=0.03)
    periodic_steps = causes(every_steps=12, periodic_s=1.0).excess_s(size)
    assert float((periodic_steps > 0.5).mean()) == pytest.approx(1024 / (12 * 512), rel=0.05)


@pytest.mark.parametrize(("gpus", "step_s"), [(64, 10.0), (640, 10.0), (640, 1.0), (640, 5.0)])
def test_rare_events_come_as_often_per_hour_of_a_host(gpus: int, step_s: float) -> None:
    """With chance p in each of n independent shares of a step, 1 - (1 - p)^n of the steps have one."""
    found = causes(event_frac=0.02, events_s=np.array([7.0]))
    size = Size(gpus, step_s, 512)
    expected = 1 - 0.98 ** (gpus / 64 * step_s / 10)
    assert found.with_event(size) == pytest.approx(expected)
    assert found.cost_s(size) == pytest.approx(7 * expected)
    assert float((found.excess_s(size) > 6).mean()) == pytest.approx(expected, abs=0.005)


def test_the_slowest_of_exponentials_keeps_its_spread_and_moves() -> None:
    """The maximum of k exponential times with mean 1 has the quantiles -log(1 - q^(1/k))."""
    seconds = -np.log1p(-(np.arange(200_000) + 0.5) / 200_000)
    size = Size(1000, float(np.median(seconds)), 1)
    for part in (0.05, 0.25, 0.75, 0.95):
        at = -np.log1p(-(part ** (1 / 10))) + np.log1p(-(0.5 ** (1 / 10)))
        assert np.quantile(of_slowest_s(seconds, 100, size), part) == pytest.approx(at, abs=0.01)
    assert np.sort(of_slowest_s(seconds, 1000, size))[::1000] == pytest.approx(
        np.quantile(unchanged_s(seconds, size), (np.arange(50) * 1000 + 0.5) / 50_000), abs=0.01
    )


def test_rules_besides_the_laws() -> None:
    seconds = np.array([1.0, 2.0, 4.0])
    assert same_s(seconds).tolist() == [-1.0, 0.0, 2.0]
    assert unchanged_s(seconds, Size(8, 1.0, 1)).tolist() == [-0.5, 0.0, 1.0]
    assert distance(np.array([0.0, 1.0]), np.array([0.5, 2.0])) == 0.5
    assert between_halves(np.array([1.0, 2.0, 3.0, 11.0, 12.0, 13.0])) == 0
    assert between_halves(np.array([1.0, 2.0, 3.0, 10.0, 20.0, 30.0])) == pytest.approx(1 / 3)


def test_medians_by_brute_force() -> None:
    values = np.random.default_rng(2).standard_normal(40)
    middle = [float(np.median(values[at - 3 : at + 4])) for at in range(3, 37)]
    assert running_median(values, 7)[3:37].tolist() == middle
    assert running_median(values, 7)[0] == np.median([*values[:4], *values[1:4]])
    assert periodic(np.zeros(100)) == (0, 0, 0.0)
    values[5::5] += 9
    assert periodic(np.tile(values, 3))[:2] == (5, 0)


def mllog(path: Path, seconds: np.ndarray) -> Path:
    rows = [{"key": "global_batch_size", "value": 512}]
    rows += [{"key": "tracked_stats", "value": {"train_step_time": float(one)}} for one in seconds]
    path.write_text("".join(f":::MLLOG {json.dumps({'time_ms': 1, **row})}\n" for row in rows))
    return path


def test_advise_says_what_stragglers_cost_on_more_gpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seconds = planted(every=12, pauses=0.2)[:300]
    log = mllog(tmp_path / "a.log", seconds)
    given = [str(log), "--gpus", "64,2048", "--then-s", "2.5", "--then-batch", "2", "-o", str(tmp_path / "out")]
    assert main(given) == 0
    *_, found, said, far = capsys.readouterr().out.splitlines()
    causes = causes_of(seconds[1:], 64, 512)
    size = Size(2048, 2.5, 1024)
    tail_ms = 1000 * np.quantile(causes.excess_s(size), 0.95)
    assert "one step in 12 takes -" in found
    assert f"5% exceed the median by {tail_ms:.3g} ms or more ({1 + tail_ms / 2500:.3f} times it)" in said
    assert f"take {1000 * causes.cost_s(size):.3g} ms of a step on average" in said
    assert far.startswith("32 times as many GPUs")
    assert main([*given[:1], "--gpus", "64,128", "-o", str(tmp_path / "out")]) == 0
    assert "128 GPUs with a median step of 10" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--gpus", "64"], "--gpus: 64: must be the GPUs of the log, and as many or more"),
        (["--gpus", "64,8"], "64,8: must be the GPUs of the log"),
        (["--gpus", "0,8"], "0,8: must be the GPUs of the log"),
        (["--gpus", "8,64", "--then-s", "0"], "--then-s 0: must be more than 0"),
        (["--then-batch", "8"], "--then-batch: is of a job on more GPUs; add --gpus"),
        (["--gpus", "8,64", "--skip", "1160"], "40 steps: causes need 50; log more of them, or leave out fewer"),
        (["b.log", "--gpus", "8,64"], "b.log: --gpus reads one log at a time"),
    ],
)
def test_a_larger_job_that_cannot_be_is_refused(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = mllog(tmp_path / "a.log", planted())
    assert main([str(log), *words, "-o", str(tmp_path / "out")]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("fact", [{"relative": True}, {"steps_per_row": 5}])
def test_logs_without_seconds_of_single_steps_are_refused(fact: dict[str, object], tmp_path: Path) -> None:
    log = read_log(mllog(tmp_path / "a.log", planted()))
    log.job.update(fact)
    with pytest.raises(LogError, match="--gpus needs the seconds of every step"):
        at_scale(log, (8, 64), None, None)
