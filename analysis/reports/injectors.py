"""The tables of requested and achieved effects of injectors, and the page's part with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from analysis.markup import markdown_lines, to_csv
from analysis.measures.injector_errors import BITS_PER_MBIT, costs, latest
from analysis.reports.sheets import Sheet, number, percent, yes


def sheets(table: pd.DataFrame, windows: pd.DataFrame) -> Iterator[Sheet]:
    """All tables, misses included."""
    slowed, links = table[table["kind"] != "bandwidth"], table[table["kind"] == "bandwidth"]
    stops = windows[windows["outage_s"].notna()]
    if len(slowed):
        heads = ["actuator", "undisturbed (ms)", "left", "slow-down requested", "achieved", "10 % to 90 %", "error"]
        heads += ["within 10 %", "share (%)", "within 1 %", "cost", "onset (ms)", "iterations"]
        yield Sheet("Slow-down of iterations", heads, [list(slowdown_cells(row)) for _, row in slowed.iterrows()])
    if len(links):
        heads = [
            "link (Mbit/s)",
            "left",
            "payload requested (Mbit/s)",
            "pushes",
            "error",
            "pulls",
            "error",
            "within 10 %",
        ]
        heads += ["slow-down requested", "achieved", "onset (ms)", "iterations"]
        yield Sheet("Rate of links", heads, [list(link_cells(row)) for _, row in links.iterrows()])
    if len(stops):
        lines = [
            [row.kind, row.target, f"{row.end_s - row.start_s:.2f}", f"{row.outage_s:.2f}"]
            for row in stops.itertuples()
        ]
        yield Sheet("Outages", ["kind", "target", "asked (s)", "achieved (s)"], lines)


def slowdown_cells(row: pd.Series) -> Iterator[str]:
    """The cells of one level of an actuator."""
    left = row["magnitude"] if row["kind"] in ("cpu", "gpu") else 1.0 / row["slowdown_asked"]
    yield from (row["by"], number(1e3 * row["base_s"], ".1f"), f"{left:.2g}")
    yield from (number(row["slowdown_asked"], ".2f"), number(row["slowdown"], ".2f"))
    yield f"{number(row['slowdown_p10'], '.2f')} to {number(row['slowdown_p90'], '.2f')}"
    yield from (percent(row["error"]), judged(row["within"], row["promised"]))
    yield from (
        number(100 * row["gpu_share" if row["kind"] == "gpu" else "cpu_share"], ".1f"),
        yes(row["share_within"]),
        number(row["cpu_cost"], ".2f"),
    )
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


def judged(within: Any, promised: bool) -> str:
    """A verdict, in brackets if nothing is promised."""
    return yes(within) if promised else f"({yes(within).lower()})"


def circumstances(table: pd.DataFrame) -> Iterator[str]:
    """How soon each actuator takes effect, and how quiet the machine was."""
    for by, late_s in latest(table).items():
        yield f"{by}: read back at most {1e3 * late_s:.1f} ms after the planned moment"
    if (found := costs(table)) is not None:
        least, most = found
        told = f"{least:.2f} to {most:.2f} times that of an undisturbed one (1 on a quiet machine)"
        yield f"processor time of an iteration under cgroup or duty: {told}"


LONG = 12
"""Rows up to which a table is on the page; a longer one is a file next to the figure."""


def in_files(tables: Sequence[Sheet]) -> dict[str, str]:
    """The tables that are too long for the page, as CSV, by a name that follows from their title."""
    return {
        "_".join(sheet.title.lower().split()): to_csv(sheet.heads, sheet.rows)
        for sheet in tables
        if len(sheet.rows) > LONG
    }


def markdown(tables: Sequence[Sheet], points: Sequence[str], about: str, picture: str, files: Sequence[str]) -> str:
    """The generated part of the page."""
    lines = [about, "", *(f"- {point}" for point in points), "", f"![injectors, requested against achieved]({picture})"]
    for sheet in tables:
        if len(sheet.rows) <= LONG:
            lines += ["", f"## {sheet.title}", "", *markdown_lines(sheet.heads, sheet.rows)]
    links = ", ".join(f"[{file.rpartition('/')[2]}]({file})" for file in files)
    return "\n".join([*lines, *(["", f"All levels: {links}."] if links else [])])
