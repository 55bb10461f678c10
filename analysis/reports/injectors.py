"""Requested and achieved effects of injectors in a few lines and as tables."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

import pandas as pd

from analysis.measures.injector_errors import BITS_PER_MBIT, PROMISED_MS, UNIT_MS
from analysis.reports.sheets import Sheet, number, percent, yes

HOG = "hog"
EXACT = ("cgroup", "duty")
"""Mechanisms under which iterations are uniform enough for their processor time to be informative."""


def sheets(table: pd.DataFrame, windows: pd.DataFrame) -> Iterator[Sheet]:
    """All tables, misses included."""
    slowed, links = table[table["kind"] != "bandwidth"], table[table["kind"] == "bandwidth"]
    stops = windows[windows["outage_s"].notna()]
    if len(slowed):
        heads = ["actuator", "undisturbed (ms)", "left", "slow-down requested", "achieved", "10 % to 90 %", "error"]
        heads += ["within 10 %", "share (%)", "within 1 %", "cost", "onset (ms)", "iterations"]
        yield Sheet("Slow-down of iterations", heads, [list(slowdown_cells(row)) for _, row in slowed.iterrows()])
    if len(links):
        heads = ["link (Mbit/s)", "left", "payload requested (Mbit/s)", "pushes", "error", "pulls", "error"]
        heads += ["within 10 %", "slow-down requested", "achieved", "onset (ms)", "iterations"]
        yield Sheet("Rate of links", heads, [list(link_cells(row)) for _, row in links.iterrows()])
    if len(stops):
        lines = [
            [row.kind, row.target, f"{row.end_s - row.start_s:.2f}", f"{row.outage_s:.2f}"]
            for row in stops.itertuples()
        ]
        yield Sheet("Outages", ["kind", "target", "asked (s)", "achieved (s)"], lines)


def slowdown_cells(row: pd.Series) -> Iterator[str]:
    """The cells of one level of an actuator."""
    yield from (row["by"], number(1e3 * row["base_s"], ".1f"), f"{left_frac(row):.2g}")
    yield from (number(row["slowdown_asked"], ".2f"), number(row["slowdown"], ".2f"))
    yield f"{number(row['slowdown_p10'], '.2f')} to {number(row['slowdown_p90'], '.2f')}"
    yield percent(row["error"])
    yield yes(row["within"]) if row["promised"] else f"({yes(row['within']).lower()})"  # nothing is promised
    yield number(100 * row["gpu_share" if row["kind"] == "gpu" else "cpu_share"], ".1f")
    yield from (yes(row["share_within"]), number(row["cpu_cost"], ".2f"))
    yield from (number(1e3 * row["onset_s"], ".0f"), f"{row['iterations']:.0f}")


def link_cells(row: pd.Series) -> Iterator[str]:
    """One row of the table of links: rate and what is left of it, then what was asked and measured, in Mbit/s."""
    yield from (f"{mbps(row['full']):g}", f"{row['magnitude']:g}")
    yield number(mbps(row["payload_asked_bytes_per_s"]), ".3g")
    for name in ("push", "pull"):
        yield from (number(mbps(row[f"{name}_bytes_per_s"]), ".3g"), percent(row[f"{name}_error"]))
    yield " / ".join(yes(row[f"{name}_within"]) for name in ("push", "pull"))
    yield from (number(row["slowdown_asked"], ".2f"), number(row["slowdown"], ".2f"))
    yield from (number(1e3 * row["onset_s"], ".0f"), f"{row['iterations']:.0f}")


def mbps(bytes_per_s: float) -> float:
    """Bytes per second in Mbit/s."""
    return bytes_per_s * 8 / BITS_PER_MBIT


# ---- the results in lines -------------------------------------------------------------------------------------------


def verdict(table: pd.DataFrame) -> list[str]:
    """The results, with every miss; how soon each actuator takes effect, and how quiet the machine was."""
    slowed = table[(table["kind"] != "bandwidth") & table["slowdown_asked"].notna()]
    links = table[table["kind"] == "bandwidth"]
    lines = []
    for by, rows in slowed.groupby("by", sort=False):
        shortest = f"{PROMISED_MS.get(str(by), UNIT_MS):g} ms{' under the limit' if by == 'cpulimit' else ''}"
        what = f"{by}: slow-down of iterations of {shortest} and more within 10 %:"
        lines.append(_count(what, rows[rows["promised"]], ""))
        if not rows["promised"].all():
            what = f"{by}: of shorter ones, for which nothing is promised:"
            lines.append(_count(what, rows[~rows["promised"]], ""))
    for by, rows in slowed[slowed["share_within"].notna()].groupby("by", sort=False):
        lines.append(_count(f"{by}: share of {'a GPU' if by == HOG else 'processor time'} within 1 %:", rows, "share_"))
    for name, word in (("push_", "pushes"), ("pull_", "pulls")) if len(links) else ():
        lines.append(_count(f"links: payload rate of {word} within 10 %:", links, name))
    for by, late_s in table.groupby("by", sort=False)["readback_s"].max().dropna().items():
        lines.append(f"{by}: read back at most {1e3 * late_s:.1f} ms after the planned moment")
    if len(costs := table.loc[table["by"].isin(EXACT), "cpu_cost"].dropna()):
        span = f"{costs.min():.2f} to {costs.max():.2f} times that of an undisturbed one (1 on a quiet machine)"
        lines.append(f"processor time of an iteration under {' or '.join(EXACT)}: {span}")
    return lines


def _count(what: str, rows: pd.DataFrame, name: str) -> str:
    if not len(rows):
        return f"{what} nothing measured"
    missed = [
        f"{case(row)} ({'not measured' if isnan(error := row[f'{name}error']) else percent(error)})"
        for _, row in rows.iterrows()
        if pd.isna(row[f"{name}within"]) or not row[f"{name}within"]
    ]
    misses = f"; not {', '.join(missed)}" if missed else ""
    return f"{what} {len(rows) - len(missed)} of {len(rows)} levels{misses}"


def case(row: pd.Series) -> str:
    """A level as text: ``0.25 left at 50 ms``, ``0.1 of 1000 Mbit/s``."""
    if row["kind"] == "bandwidth":
        return f"{row['magnitude']:g} of {mbps(row['full']):g} Mbit/s"
    return f"{left_frac(row):.2g} left" + ("" if isnan(row["length_ms"]) else f" at {row['length_ms']:g} ms")


def left_frac(row: pd.Series) -> float:
    """The part of the speed that is left."""
    return float(row["magnitude"] if row["kind"] in ("cpu", "gpu") else 1.0 / row["slowdown_asked"])
