"""Accuracy of the injectors: windows of disturbances in, one row per actuator, iteration length and level out."""

from __future__ import annotations

from math import isnan, log2, nan

import pandas as pd

TOLERANCE_FRAC = 0.1
"""Tolerance for slow-downs and link rates, relative."""
SHARE_TOLERANCE = 0.01
"""Tolerance for the processor share, absolute: one per cent of what the undisturbed target may use."""
ROUNDING = 1e-9
PROMISED_MS = {"sleep": 50, "cgroup": 50, "duty": 50, "cpulimit": 1000, "hog": 50}
"""For each actuator of iterations the shortest iterations (ms) for which the tolerance is promised; under cpulimit
they last so long while they are limited, as it switches about once a second."""
UNIT_MS = 50
ABOUT = 2**0.5
"""Iteration lengths are distinguished by factors of two: 40 ms counts as about 50 ms."""
BITS_PER_MBIT = 1e6
MEDIANS = (
    *("base_s", "slowdown_asked", "slowdown", "slowdown_p10", "slowdown_p90", "cpu_share", "cpu_cost", "gpu_share"),
    *("payload_asked_bytes_per_s", "push_bytes_per_s", "pull_bytes_per_s", "readback_s", "onset_s"),
)
KEYS = ("by", "kind", "length_ms", "full", "magnitude")


def errors(windows: pd.DataFrame) -> pd.DataFrame:
    """One row per actuator (``by``), ``kind``, ``length_ms``, ``full`` and level, the weakest disturbance first.

    Takes :func:`analysis.measures.injections.collect`; kinds that only stop processes are left out. ``length_ms`` is
    the median length of the undisturbed iterations of all jobs in the same class (NaN for links). ``windows`` and
    ``iterations`` are counts, the columns of ``MEDIANS`` are medians over the windows. ``error``, ``push_error`` and
    ``pull_error`` are relative, ``share_error`` is a difference; ``promised``: the iterations are long enough for the
    actuator; ``within`` (null: not measured), ``share_within``, ``push_within``, ``pull_within``: the error is within
    the tolerance.
    """
    shown = windows[windows["slowdown_asked"].notna() | windows["cpu_share"].notna()]
    shown = shown.assign(length_ms=_lengths_ms(shown))
    groups = shown.groupby(list(KEYS), dropna=False)
    table = groups[list(MEDIANS)].median().assign(windows=groups.size(), iterations=groups["iterations"].sum())
    return _judge(_sort(table.reset_index()))


def _lengths_ms(windows: pd.DataFrame) -> pd.Series:
    """Length classes are assigned by the median of a job, so that a varying job stays in one class."""
    base_s = windows["base_s"].where(windows["kind"] != "bandwidth")
    octaves = base_s.groupby(windows["work"]).transform("median").map(_octave)
    return base_s.groupby(octaves).transform("median").map(lambda middle_s: float(f"{1e3 * middle_s:.2g}"))


def _octave(base_s: float) -> float:
    return nan if isnan(base_s) else round(log2(1e3 * base_s / UNIT_MS))


def _sort(table: pd.DataFrame) -> pd.DataFrame:
    known = list(PROMISED_MS)
    rank = [known.index(by) if by in known else len(known) for by in table["by"]]
    order = table.assign(rank=rank).sort_values(["rank", "by", "kind", "length_ms", "full", "slowdown_asked"])
    return order.drop(columns="rank").reset_index(drop=True)


def _judge(table: pd.DataFrame) -> pd.DataFrame:
    payload = table["payload_asked_bytes_per_s"]
    share = table["cpu_share"].where(table["kind"] == "cpu", table["gpu_share"])
    lasts_ms = table["length_ms"].where(table["by"] != "cpulimit", table["length_ms"] * table["slowdown_asked"])
    table = table.assign(
        error=table["slowdown"] / table["slowdown_asked"] - 1.0,
        share_error=share - table["magnitude"],
        push_error=table["push_bytes_per_s"] / payload - 1.0,
        pull_error=table["pull_bytes_per_s"] / payload - 1.0,
        promised=~(lasts_ms * ABOUT < table["by"].map(PROMISED_MS).astype("float64").fillna(UNIT_MS)),
    )
    for name in ("", "share_", "push_", "pull_"):
        error = table[f"{name}error"]
        held = error.abs() <= (SHARE_TOLERANCE if name == "share_" else TOLERANCE_FRAC) + ROUNDING
        table[f"{name}within"] = held.astype("boolean").where(error.notna())
    return table
