"""Accuracy of the injectors: windows of disturbances in, one row per actuator, iteration length and level out."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan, log2, nan
from typing import Any

import pandas as pd

TOLERANCE_FRAC = 0.1
"""Tolerance for slow-downs and link rates, relative."""
SHARE_TOLERANCE = 0.01
"""Tolerance for the processor share, absolute: one per cent of what the undisturbed target may use."""
ROUNDING = 1e-9
PROMISED_MS = {"sleep": 50, "cgroup": 50, "duty": 50, "cpulimit": 200, "hog": 50}
"""By actuator of iterations: the shortest iterations (ms) for which the tolerance is promised."""
HOG = "hog"
EXACT = ("cgroup", "duty")
"""Mechanisms under which iterations are uniform enough for their processor time to be informative."""
UNIT_MS = 50
ABOUT = 2**0.5
"""Iteration lengths are distinguished by factors of two: 40 ms counts as about 50 ms."""
BITS_PER_MBIT = 1e6
MEDIANS = (
    *("base_s", "slowdown_asked", "slowdown", "slowdown_p10", "slowdown_p90", "cpu_share", "cpu_cost", "gpu_share"),
    *("payload_asked_bytes_per_s", "push_bytes_per_s", "pull_bytes_per_s", "readback_s", "onset_s"),
)
KEYS = ("by", "kind", "length_ms", "full", "magnitude")
NOT_MEASURED = "not measured"


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
    table = table.assign(
        error=table["slowdown"] / table["slowdown_asked"] - 1.0,
        share_error=share_of(table) - table["magnitude"],
        push_error=table["push_bytes_per_s"] / payload - 1.0,
        pull_error=table["pull_bytes_per_s"] / payload - 1.0,
        promised=[
            isnan(length) or length * ABOUT >= PROMISED_MS.get(by, UNIT_MS)
            for length, by in _pairs(table, "length_ms", "by")
        ],
    )
    for name, tolerance in (("", TOLERANCE_FRAC), ("share", SHARE_TOLERANCE), ("push", TOLERANCE_FRAC)):
        table = _within(table, name, tolerance)
    return _within(table, "pull", TOLERANCE_FRAC)


def share_of(table: pd.DataFrame) -> pd.Series:
    """Return the share that the target had, against its undisturbed processor or GPU; NaN for other kinds."""
    return table["cpu_share"].where(table["kind"] == "cpu", table["gpu_share"])


def _within(table: pd.DataFrame, name: str, tolerance: float) -> pd.DataFrame:
    error = table[f"{name}_error".removeprefix("_")]
    held = (error.abs() <= tolerance + ROUNDING).astype("boolean").where(error.notna())
    return table.assign(**{f"{name}_within".removeprefix("_"): held})


def _pairs(frame: pd.DataFrame, one: str, other: str) -> Iterator[tuple[Any, Any]]:
    return zip(frame[one], frame[other], strict=True)


# ---- as text --------------------------------------------------------------------------------------------------------


def verdict(table: pd.DataFrame) -> list[str]:
    """The result in a few lines that name every miss."""
    slowed = table[(table["kind"] != "bandwidth") & table["slowdown_asked"].notna()]
    links = table[table["kind"] == "bandwidth"]
    lines = []
    for by, rows in slowed.groupby("by", sort=False):
        floor = PROMISED_MS.get(str(by), UNIT_MS)
        about = f"{by}: slow-down of iterations of {floor} ms and more within 10 %:"
        lines.append(_count(about, rows[rows["promised"]], "within", "error", "levels"))
        if not rows["promised"].all():
            about = f"{by}: of shorter ones, for which nothing is promised:"
            lines.append(_count(about, rows[~rows["promised"].astype("bool")], "within", "error", "levels"))
    for by, rows in slowed[slowed["share_within"].notna()].groupby("by", sort=False):
        about = f"{by}: share of {'a GPU' if by == HOG else 'processor time'} within 1 %:"
        lines.append(_count(about, rows, "share_within", "share_error", "levels"))
    for name, word in (("push", "pushes"), ("pull", "pulls")):
        if len(links):
            about = f"links: payload rate of {word} within 10 %:"
            lines.append(_count(about, links, f"{name}_within", f"{name}_error", "levels"))
    return lines


def _count(what: str, rows: pd.DataFrame, held: str, error: str, units: str) -> str:
    if not len(rows):
        return f"{what} nothing measured"
    missed = [
        f"{case(row)} ({NOT_MEASURED if isnan(row[error]) else percent(row[error])})"
        for _, row in rows.iterrows()
        if pd.isna(row[held]) or not row[held]
    ]
    misses = f"; not {', '.join(missed)}" if missed else ""
    return f"{what} {len(rows) - len(missed)} of {len(rows)} {units}{misses}"


def case(row: Any) -> str:
    """A level as text: ``0.25 left at 50 ms``, ``0.1 of 1000 Mbit/s``."""
    if row["kind"] == "bandwidth":
        return f"{row['magnitude']:g} of {row['full'] * 8 / BITS_PER_MBIT:g} Mbit/s"
    left = row["magnitude"] if row["kind"] in ("cpu", "gpu") else 1.0 / row["slowdown_asked"]
    return f"{left:.2g} left" + ("" if isnan(row["length_ms"]) else f" at {row['length_ms']:g} ms")


def percent(value: float) -> str:
    """The value with its sign; a dash if it was not measured."""
    return "\N{EN DASH}" if isnan(value) else f"{100 * value:+.1f} %"


def costs(table: pd.DataFrame) -> tuple[float, float] | None:
    """Smallest and largest processor time of a throttled iteration / of an undisturbed one, by exact actuators."""
    found = table.loc[table["by"].isin(EXACT), "cpu_cost"].dropna()
    return (float(found.min()), float(found.max())) if len(found) else None


def latest(table: pd.DataFrame) -> dict[str, float]:
    """Return for each actuator the longest time (seconds) from the planned moment to the read-back, if recorded."""
    noted = table[table["readback_s"].notna()]
    return {str(by): float(rows["readback_s"].max()) for by, rows in noted.groupby("by", sort=False)}
