"""Settings of patterns that mean nothing, and those that do not fit a run: one line, which begins with the setting."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
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
BAD: Any = "stop"

Make = Callable[..., Pattern]
slotted = partial(IterationSlowdown, slot_s=1.0)
power_law = partial(PowerLaw, slot_s=1.0)
times = partial(IterationTimes, path="x.csv")

VALUES: list[tuple[Make, dict[str, Any]]] = [
    *[(Transient, {"name": name}) for name in (*MISREAD, "", 1)],
    *[
        (make, {"name": "a b"})
        for make in (Pauses, SequenceLengths, SlowLoader, Throttle, OnOff, Markov, Poisson, Elastic)
    ],
    (Transient, {"period_s": 0, "duration_s": 2000.0, "probability": 1.1, "intensity": -0.1, "sleep_s": -1.0}),
    (Transient, {"period_s": math.nan, "duration_s": 0, "probability": True, "offset": BAD}),
    *[(Persistent, {"targets": (name,)}) for name in ("node:1", "worker:01", "worker", "worker:0;ls")],
    (Persistent, {"targets": (), "start_s": -1.0}),
    (Persistent, {"targets": "worker:0"}),
    (slotted, {"slot_s": 0.0, "max_slowdown_frac": -1}),
    *[(Throttle, {"left_frac": frac}) for frac in (0, -0.1, 1, 1.5, 1e-9)],
    (Throttle, {"kind": BAD, "start_s": -1.0, "duration_s": 0.0, "pick": 0, "targets": ("host:$(id)",)}),
    (Throttle, {"pick": True}),
    (partial(Throttle, kind="bandwidth"), {"targets": ("link:0>*",)}),
    (partial(Throttle, kind="bandwidth"), {"targets": ("link:*>*",)}),
    (TransientThrottle, {"left_frac": 1.0, "duration_s": 2000.0, "draws_of": ""}),
    (OnOff, {"on_s": 0.0, "off_s": 0.0, "magnitude": 0.0}),
    (partial(OnOff, kind="delay"), {"magnitude": -1.0}),
    (Markov, {"on_mean_s": 0.0, "off_mean_s": math.inf, "magnitude": 1.0}),
    (Poisson, {"mean_s": 0.0, "duration_s": 0.0, "magnitude": 0.5, "kind": "join"}),
    (power_law, {"slot_s": 0.0, "alpha": 1.0, "d0_iters": 0.0, "cap_iters": -1.0, "base_s": 0.0}),
    (Pauses, {"period_s": 0.0, "duration_s": 0.0, "drift_frac": 0.6, "phase": BAD, "kind": None, "align": None}),
    (Pauses, {"base_s": 0.0}),
    (partial(Pauses, period_s=None), {"period_iters": -1.0}),
    (SequenceLengths, {"sigma": 2.5, "length_column": "", "num_sequences": 0, "added_frac": -1.0, "balance": None}),
    (SequenceLengths, {"base_s": 0.0}),
    (partial(SequenceLengths, sigma=None), {"path": "a.json"}),
    (SlowLoader, {"batch_iters": 0.0, "queue": 0, "pick": 0, "start_s": -1.0, "duration_s": 0.0}),
    (Elastic, {"leaves_per_hour": 0, "rejoin_s": -1.0, "least_workers": 0}),
    (Heterogeneity, {"sigma": -0.1, "targets": ("link:0",)}),
    (RandomWorkers, {"num_workers": -1, "fault": BAD}),
    (times, {"baseline": "mean", "layout": "bsp", "unit_s": 0, "time_scale": -1, "seconds_column": "", "repeat": 1}),
    (times, {"baseline": 0, "path": "x.json"}),
]


@pytest.mark.parametrize(
    ("make", "name", "value"), [(make, name, value) for make, values in VALUES for name, value in values.items()]
)
def test_a_value_out_of_range_is_refused_by_its_name(make: Make, name: str, value: Any) -> None:
    shown = value[0] if isinstance(value, tuple) and value else value
    with pytest.raises(ValueError, match="^" + re.escape(f"{name}={shown}: must ")) as caught:
        make(**{name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Transient(duration_s=2000.0), "duration_s=2000.0: must be at most period_s (1800.0)"),
        (lambda: Transient(sleep_iters=1.0), "sleep_s=1.5: only one of sleep_s and sleep_iters may be set"),
        (lambda: Transient(sleep_s=None), "sleep_s=null: one of sleep_s and sleep_iters must be set"),
        (lambda: Transient(name="a\nb"), r"name='a\nb': must be letters"),
        (lambda: Persistent(targets=("worker:0\n",)), r"targets='worker:0\n': must be"),
        (
            lambda: Persistent(targets=("host:0",)),
            "targets=host:0: must be worker:<id>, server:<id>, rank:(<worker>,<stage>,<tensor>)",
        ),
        (lambda: Combined(patterns={}), "patterns: must name at least one"),
        (lambda: Combined(patterns={"a": Combined(patterns={"b": NoStragglers()})}), "patterns: a is no pattern"),
        (lambda: Combined(patterns={"a": Transient(), "b": Transient()}), "patterns: 2 of them have name=transient"),
        (lambda: Throttle(targets=("link:0",)), "targets=link:0: must be worker:<id>, server:<id>, host:<id>, or *"),
        (lambda: Throttle(kind="bandwidth"), "targets=worker:0: must be link:<host>, link:<host>><host>, or * for"),
        (lambda: OnOff(kind="kill"), "magnitude=0.1: must be 1"),
        (lambda: OnOff(kind="cut", magnitude=1.0), "targets=worker:0: must be link:<host>, or * for the id; cut acts"),
        (lambda: Pauses(period_iters=5.0), "period_s=60.0: exactly one of period_s and period_iters must be set"),
        (lambda: SequenceLengths(path="a.csv"), "sigma=1.0: exactly one of sigma and path must be set"),
        (lambda: SequenceLengths(targets=("server:0",)), "targets=server:0: must be worker:<id> or worker:*"),
        (lambda: SlowLoader(batch_s=1.0), "batch_s=1.0: exactly one of batch_s and batch_iters must be set"),
        (lambda: RandomWorkers(sleep_s=1.0), "sleep_s=1.0: only one of sleep_s and sleep_iters"),
        (lambda: times(seconds_column="worker"), "seconds_column=worker: worker, iteration and seconds must be three"),
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
        (Persistent(targets=("worker:4",)), CLUSTER, "targets=worker:4: there is no such target; valid are worker:0"),
        (Combined(patterns={"x": Persistent(targets=("server:7",))}), CLUSTER, "patterns.x.targets=server:7"),
        (IterationSlowdown(slot_s=0.01), CLUSTER, "slot_s=0.01: too short for 1e+06 s"),
        (Transient(sleep_s=None, sleep_iters=5.0), UNKNOWN, "sleep_iters=5.0: the time of an iteration is not known"),
        (Throttle(kind="bandwidth", targets=("link:2>2",)), CLUSTER, "targets=link:2>2: leads from a host to itself"),
        (Throttle(pick=2), CLUSTER, "pick=2: there are only 1 targets to pick from"),
        (OnOff(on_s=0.01, off_s=0.01), CLUSTER, "on_s=0.01: too short for 1e+06 s and 1 targets, the plan would"),
        (Poisson(mean_s=0.001, duration_s=0.001), CLUSTER, "mean_s=0.001: too short"),
        (PowerLaw(slot_s=0.01), CLUSTER, "slot_s=0.01: too short"),
        *[(one, UNKNOWN, NO_TIME) for one in (Pauses(), SequenceLengths(), SlowLoader())],
        (Pauses(period_s=1.0), CLUSTER, "period_s=1.0: makes periods of 1 s, which must be longer than a pause"),
        (
            Pauses(period_s=None, period_iters=1.0, drift_frac=0.5),
            CLUSTER,
            "period_iters=1.0: makes periods of 0.78 s, which must be longer than a pause (duration_s=1.5)",
        ),
        (SequenceLengths(added_frac=900.0, base_s=1000.0), CLUSTER, "added_frac=900.0: makes an iteration longer by"),
        (SequenceLengths(num_sequences=10**8, base_s=1000.0), CLUSTER, "num_sequences=100000000: makes 4e+11 draws"),
        (SlowLoader(batch_s=4000.0, batch_iters=None), CLUSTER, "batch_s=4000.0: makes a rank wait for 3999.94 s per"),
        (Heterogeneity(middling=("server:0",)), CLUSTER, "middling=server:0: is none of the targets"),
        (Elastic(leaves_per_hour=1e12), CLUSTER, "leaves_per_hour=1e+12: too many for 1e+06 s and 4 workers; at most "),
        (RandomWorkers(num_workers=9), CLUSTER, "num_workers=9: there are only 4 workers to draw from"),
    ],
)
def test_what_does_not_fit_the_run_is_refused(pattern: Pattern, cluster: ClusterShape, message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)) as caught:
        pattern.plan(cluster, 1e6, 0)
    assert "\n" not in str(caught.value)
