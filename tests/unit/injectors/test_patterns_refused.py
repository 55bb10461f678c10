"""Settings of patterns that mean nothing, and those that do not fit a run: one line, which begins with the setting."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from injectors.patterns import (
    Combined,
    Elastic,
    Heterogeneity,
    IterationSlowdown,
    IterationTimes,
    Markov,
    NoStragglers,
    OnOff,
    Pattern,
    Pauses,
    Persistent,
    Poisson,
    PowerLaw,
    RandomWorkers,
    SequenceLengths,
    SlowLoader,
    Throttle,
    Transient,
    TransientThrottle,
)
from injectors.plan import ClusterShape

CLUSTER = ClusterShape(num_workers=4, num_servers=2, base_iter_s=0.06, num_hosts=4)
UNKNOWN = ClusterShape(num_workers=4, num_servers=2)
MISREAD = ("a b", "$HOME", "a;b", "a&b", "a|b", "a>b", "*", "~", "-a", ".a", "a/b", "'a'", "`a`", "a=b", "é")
"""By a shell, or by whoever makes a file of that name."""
NAMED: tuple[Any, ...] = (Pauses, SequenceLengths, SlowLoader, Throttle, OnOff, Markov, Poisson, Elastic)
BAD: Any = "stop"
NOT_ONE: Any = None


def times(**fields: Any) -> IterationTimes:
    return IterationTimes(**{"path": "x.csv", **fields})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Transient(period_s=0), "period_s=0: must be at least 0.001"),
        (lambda: Transient(period_s=math.nan), "period_s=nan: must be a finite number"),
        (lambda: Transient(duration_s=2000.0), "duration_s=2000.0: must be at most period_s (1800.0)"),
        (lambda: Transient(duration_s=0), "duration_s=0: must be more than 0"),
        (lambda: Transient(probability=1.1), "probability=1.1: must be at least 0 and at most 1"),
        (lambda: Transient(probability=True), "probability=True: must be a finite number"),
        (lambda: Transient(intensity=-0.1), "intensity=-0.1: must be at least 0 and at most 1"),
        (lambda: Transient(sleep_iters=1.0), "sleep_s=1.5: only one of sleep_s and sleep_iters may be set"),
        (lambda: Transient(sleep_s=None), "sleep_s=null: one of sleep_s and sleep_iters must be set"),
        (lambda: Transient(sleep_s=-1.0), "sleep_s=-1.0: must be at least 0"),
        (lambda: Transient(offset=BAD), "offset=stop: must be one of start, uniform"),
        (lambda: Transient(name=""), "name=: must be"),
        *[(lambda name=name: Transient(name=name), f"name={name}: must be letters") for name in MISREAD],
        *[(lambda cls=cls: cls(name="a b"), "name=a b: must be letters") for cls in NAMED],
        (lambda: Transient(name="a\nb"), r"name='a\nb': must be letters"),
        (lambda: Transient(name=1), "name=1: must be letters"),  # type: ignore[arg-type]
        (lambda: Persistent(targets=()), "targets=(): must be a list"),
        (lambda: Persistent(targets="worker:0"), "targets=worker:0: must be a list"),  # type: ignore[arg-type]
        (lambda: Persistent(targets=("node:1",)), "targets=node:1: must be worker:<id>"),
        (lambda: Persistent(targets=("worker:01",)), "targets=worker:01: must be"),
        (lambda: Persistent(targets=("worker",)), "targets=worker: must be"),
        (
            lambda: Persistent(targets=("host:0",)),
            "targets=host:0: must be worker:<id>, server:<id>, or * for the id; d",
        ),
        (lambda: Persistent(targets=("worker:0;ls",)), "targets=worker:0;ls: must be"),
        (lambda: Persistent(targets=("worker:0\n",)), r"targets='worker:0\n': must be"),
        (lambda: Persistent(start_s=-1.0), "start_s=-1.0: must be at least 0"),
        (lambda: IterationSlowdown(slot_s=0.0), "slot_s=0.0: must be at least 0.001"),
        (lambda: IterationSlowdown(slot_s=1.0, max_slowdown_frac=-1), "max_slowdown_frac=-1: must be at least 0"),
        (lambda: Combined(patterns={}), "patterns: must name at least one"),
        (lambda: Combined(patterns={"a": 1}), "patterns: a is no pattern"),  # type: ignore[dict-item]
        (lambda: Combined(patterns={"a": Combined(patterns={"b": NoStragglers()})}), "patterns: a is no pattern"),
        (
            lambda: Combined(patterns={"a": Transient(), "b": Transient()}),
            "patterns: 2 of them have name=transient and would draw alike",
        ),
        *[
            (lambda frac=frac: Throttle(left_frac=frac), f"left_frac={frac}: must be more than 0 and less")
            for frac in (0, -0.1, 1, 1.5, 1e-9)
        ],
        (lambda: Throttle(kind=BAD), "kind=stop: must be one of cpu, gpu, bandwidth"),
        (lambda: Throttle(targets=("link:0",)), "targets=link:0: must be worker:<id>, server:<id>, host:<id>, or *"),
        (lambda: Throttle(kind="bandwidth"), "targets=worker:0: must be link:<host>, link:<host>><host>, or * for"),
        (lambda: Throttle(kind="bandwidth", targets=("link:0>*",)), "targets=link:0>*: must be"),
        (lambda: Throttle(kind="bandwidth", targets=("link:*>*",)), "targets=link:*>*: must be"),
        (lambda: Throttle(targets=("host:$(id)",)), "targets=host:$(id): must be"),
        (lambda: Throttle(start_s=-1.0), "start_s=-1.0: must be at least 0"),
        (lambda: Throttle(duration_s=0.0), "duration_s=0.0: must be at least 0.001"),
        (lambda: Throttle(pick=0), "pick=0: must be a whole number, at least 1, or null"),
        (lambda: Throttle(pick=True), "pick=True: must be a whole number"),
        (lambda: TransientThrottle(left_frac=1.0), "left_frac=1.0: must be more than 0 and less"),
        (lambda: TransientThrottle(duration_s=2000.0), "duration_s=2000.0: must be at most period_s (1800.0)"),
        (lambda: TransientThrottle(draws_of=""), "draws_of=: must be letters"),
        (lambda: OnOff(on_s=0.0), "on_s=0.0: must be at least 0.001"),
        (lambda: OnOff(off_s=0.0), "off_s=0.0: must be at least 0.001"),
        (lambda: OnOff(kind=BAD), "kind=stop: must be one of delay, slowdown, cpu, gpu, bandwidth, cut, pause, kill"),
        (lambda: OnOff(magnitude=0.0), "magnitude=0.0: must be more than 0 and less than 1"),
        (lambda: OnOff(kind="kill"), "magnitude=0.1: must be 1"),
        (lambda: OnOff(kind="delay", magnitude=-1.0), "magnitude=-1.0: must be between 0 and 3600"),
        (lambda: OnOff(kind="cut", magnitude=1.0), "targets=worker:0: must be link:<host>, or * for the id; cut acts"),
        (lambda: Markov(on_mean_s=0.0), "on_mean_s=0.0: must be at least 0.001"),
        (lambda: Markov(off_mean_s=math.inf), "off_mean_s=inf: must be a finite number"),
        (lambda: Markov(magnitude=1.0), "magnitude=1.0: must be more than 0 and less than 1"),
        (lambda: Poisson(mean_s=0.0), "mean_s=0.0: must be at least 0.001"),
        (lambda: Poisson(duration_s=0.0), "duration_s=0.0: must be at least 0.001"),
        (lambda: Poisson(magnitude=0.5), "magnitude=0.5: must be 1"),
        (lambda: Poisson(targets=("link:0",)), "targets=link:0: must be worker:<id>, server:<id>, host:<id>, or * for"),
        (lambda: Poisson(kind="join"), "kind=join: must be one of delay, "),
        (lambda: PowerLaw(slot_s=0.0), "slot_s=0.0: must be at least 0.001"),
        (lambda: PowerLaw(slot_s=1.0, alpha=1.0), "alpha=1.0: must be more than 1"),
        (lambda: PowerLaw(slot_s=1.0, d0_iters=0.0), "d0_iters=0.0: must be more than 0"),
        (lambda: PowerLaw(slot_s=1.0, cap_iters=-1.0), "cap_iters=-1.0: must be more than 0"),
        (lambda: PowerLaw(slot_s=1.0, base_s=0.0), "base_s=0.0: must be more than 0"),
        (lambda: PowerLaw(slot_s=1.0, targets=("host:0",)), "targets=host:0: must be worker:<id>, server:<id>, or *"),
        (lambda: Pauses(period_iters=5.0), "period_s=60.0: exactly one of period_s and period_iters must be set"),
        (lambda: Pauses(period_s=None), "period_s=null: exactly one of period_s and period_iters must be set"),
        (lambda: Pauses(period_s=0.0), "period_s=0.0: must be at least 0.001"),
        (lambda: Pauses(period_s=None, period_iters=-1.0), "period_iters=-1.0: must be more than 0"),
        (lambda: Pauses(duration_s=0.0), "duration_s=0.0: must be more than 0 and at most 3600"),
        (lambda: Pauses(drift_frac=0.6), "drift_frac=0.6: must be at least 0 and at most 0.5"),
        (lambda: Pauses(phase=BAD), "phase=stop: must be random or equal"),
        (lambda: Pauses(kind=NOT_ONE), "kind=None: must be delay or pause"),
        (lambda: Pauses(align=NOT_ONE), "align=None: must be true or false"),
        (lambda: Pauses(base_s=0.0), "base_s=0.0: must be more than 0"),
        (lambda: Pauses(targets=("host:0",)), "targets=host:0: must be worker:<id>, server:<id>, or *"),
        (lambda: SequenceLengths(path="a.csv"), "sigma=1.0: exactly one of sigma and path must be set"),
        (lambda: SequenceLengths(sigma=None), "sigma=null: exactly one of sigma and path must be set"),
        (lambda: SequenceLengths(sigma=2.5), "sigma=2.5: must be at least 0 and at most 2"),
        (lambda: SequenceLengths(sigma=None, path="a.json"), "path=a.json: must name a file that ends in .csv"),
        (lambda: SequenceLengths(length_column=""), "length_column=: must name a column of the file"),
        (lambda: SequenceLengths(num_sequences=0), "num_sequences=0: must be a whole number, at least 1"),
        (lambda: SequenceLengths(added_frac=-1.0), "added_frac=-1.0: must be at least 0 and at most 1000"),
        (lambda: SequenceLengths(balance=NOT_ONE), "balance=None: must be true or false"),
        (lambda: SequenceLengths(base_s=0.0), "base_s=0.0: must be at least 0.001"),
        (lambda: SequenceLengths(targets=("server:0",)), "targets=server:0: must be worker:<id> or worker:*"),
        (lambda: SlowLoader(batch_s=1.0), "batch_s=1.0: exactly one of batch_s and batch_iters must be set"),
        (lambda: SlowLoader(batch_iters=None), "batch_s=null: exactly one of batch_s and batch_iters must be set"),
        (lambda: SlowLoader(batch_iters=0.0), "batch_iters=0.0: must be more than 0"),
        (lambda: SlowLoader(queue=0), "queue=0: must be a whole number, at least 1"),
        (lambda: SlowLoader(pick=0), "pick=0: must be a whole number, at least 1, or null"),
        (lambda: SlowLoader(start_s=-1.0), "start_s=-1.0: must be at least 0"),
        (lambda: SlowLoader(duration_s=0.0), "duration_s=0.0: must be at least 0.001"),
        (lambda: SlowLoader(targets=("server:*",)), "targets=server:*: must be worker:<id> or worker:*"),
        (lambda: Elastic(leaves_per_hour=0), "leaves_per_hour=0: must be more than 0"),
        (lambda: Elastic(rejoin_s=-1.0), "rejoin_s=-1.0: must be at least 0"),
        (lambda: Elastic(least_workers=0), "least_workers=0: must be a whole number, 1 or more"),
        (lambda: Heterogeneity(sigma=-0.1), "sigma=-0.1: must be at least 0"),
        (lambda: Heterogeneity(targets=("link:0",)), "targets=link:0"),
        (lambda: RandomWorkers(num_workers=-1), "num_workers=-1: must be a whole number, 0 or more"),
        (lambda: RandomWorkers(sleep_s=1.0), "sleep_s=1.0: only one of sleep_s and sleep_iters"),
        (lambda: RandomWorkers(sleep_iters=None), "sleep_s=null: one of sleep_s and sleep_iters must be set"),
        (lambda: RandomWorkers(fault=BAD), "fault=stop: must be true or false"),
        (lambda: times(baseline="mean"), "baseline=mean: must be median, least or a number of seconds"),
        (lambda: times(baseline=0), "baseline=0: must be "),
        (lambda: times(layout="bsp"), "layout=bsp: must be barrier or own"),
        (lambda: times(unit_s=0), "unit_s=0: must be more than 0"),
        (lambda: times(time_scale=-1), "time_scale=-1: must be more than 0"),
        (lambda: times(seconds_column=""), "seconds_column=: must name a column"),
        (lambda: times(seconds_column="worker"), "seconds_column=worker: worker, iteration and seconds must be three"),
        (lambda: times(targets=("host:0",)), "targets=host:0: must be worker:<id>, server:<id>"),
        (lambda: times(repeat=1), "repeat=1: must be true or false"),
        (lambda: times(path="x.json"), "path=x.json: must name a file that ends in .csv, .tsv, .txt"),
    ],
)
def test_fields_are_checked(make: Callable[[], Pattern], message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)) as caught:
        make()
    assert "\n" not in str(caught.value)


NO_TIME = "base_s=null: the time of an iteration is not known beforehand on this cluster; set base_s to seconds"


@pytest.mark.parametrize(
    ("pattern", "cluster", "message"),
    [
        (
            Persistent(targets=("worker:4",)),
            CLUSTER,
            "targets=worker:4: there is no such target; valid are worker:0 to ",
        ),
        (Combined(patterns={"x": Persistent(targets=("server:7",))}), CLUSTER, "patterns.x.targets=server:7"),
        (IterationSlowdown(slot_s=0.01), CLUSTER, "slot_s=0.01: too short for 1e+06 s"),
        (Transient(period_s=0.001, duration_s=0.001, probability=0.0), CLUSTER, "period_s=0.001: too short"),
        (Transient(sleep_s=None, sleep_iters=5.0), UNKNOWN, "sleep_iters=5.0: the time of an iteration is not known"),
        (Throttle(targets=("host:4",)), CLUSTER, "targets=host:4: there is no such target; valid are worker:0 to"),
        (Throttle(kind="bandwidth", targets=("link:0>4",)), CLUSTER, "targets=link:0>4: there is no such target"),
        (Throttle(kind="bandwidth", targets=("link:2>2",)), CLUSTER, "targets=link:2>2: leads from a host to itself"),
        (Throttle(pick=2), CLUSTER, "pick=2: there are only 1 targets to pick from"),
        (
            OnOff(on_s=0.01, off_s=0.01),
            CLUSTER,
            "on_s=0.01: too short for 1e+06 s and 1 targets, the plan would have 5",
        ),
        (Markov(on_mean_s=0.01, off_mean_s=0.01), CLUSTER, "on_mean_s=0.01: too short"),
        (Poisson(mean_s=0.001, duration_s=0.001), CLUSTER, "mean_s=0.001: too short"),
        (PowerLaw(slot_s=0.01), CLUSTER, "slot_s=0.01: too short"),
        (PowerLaw(slot_s=1.0), UNKNOWN, NO_TIME),
        (TransientThrottle(period_s=0.001, duration_s=0.001), CLUSTER, "period_s=0.001: too short"),
        *[(one, UNKNOWN, NO_TIME) for one in (Pauses(), SequenceLengths(), SlowLoader())],
        (Pauses(period_s=1.0), CLUSTER, "period_s=1.0: makes periods of 1 s, which must be longer than a pause"),
        (
            Pauses(period_s=None, period_iters=1.0, drift_frac=0.5),
            CLUSTER,
            "period_iters=1.0: makes periods of 0.78 s, which must be longer than a pause (duration_s=1.5)",
        ),
        (Pauses(period_s=0.01, duration_s=0.005), CLUSTER, "period_s=0.01: too short for 1e+06 s and 4 targets"),
        (SequenceLengths(), CLUSTER, "base_s=0.06: too short for 1e+06 s and 4 targets"),
        (SequenceLengths(added_frac=900.0, base_s=1000.0), CLUSTER, "added_frac=900.0: makes an iteration longer by"),
        (
            SequenceLengths(num_sequences=10**8, base_s=1000.0),
            CLUSTER,
            "num_sequences=100000000: makes 4e+11 draws for",
        ),
        (SlowLoader(pick=5), CLUSTER, "pick=5: there are only 4 targets to pick from"),
        (SlowLoader(batch_s=4000.0, batch_iters=None), CLUSTER, "batch_s=4000.0: makes a rank wait for 3999.94 s per"),
        (Elastic(leaves_per_hour=1e12), CLUSTER, "leaves_per_hour=1e+12: too many for 1e+06 s and 4 workers; at most "),
        (Heterogeneity(middling=("server:0",)), CLUSTER, "middling=server:0: is none of the targets"),
        (RandomWorkers(num_workers=9), CLUSTER, "num_workers=9: there are only 4 workers to draw from"),
    ],
)
def test_what_does_not_fit_the_run_is_refused(pattern: Pattern, cluster: ClusterShape, message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)) as caught:
        pattern.plan(cluster, 1e6, 0)
    assert "\n" not in str(caught.value)
