"""What the timeline of a run's page shows, as compact numbers: of each worker every iteration, or shares of time bins.

Times are whole ticks. The script next to this module lays an iteration's phases out as
:func:`analysis.measures.segments.segments` does.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from math import ceil, log10
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.figures.style import BUSY_COLOUR, PHASE_COLOURS, PLAN_COLOUR
from analysis.measures.commands import commands_to_nodes
from analysis.measures.lanes import drawn
from analysis.measures.metrics import jct_s
from analysis.measures.segments import PHASES, durations_of, in_lanes, lane_shares
from analysis.measures.work import computed
from analysis.records.history import DROPPED, FATES
from analysis.records.load import Run
from analysis.records.members import numbers_of
from analysis.records.nodes import Node, server_name, worker_name

PHASE_NAMES = {"wait": "waiting", "compute": "data, compute"}
FATE_NAMES = {"open": "unused", "void": "rolled back"}
"""In words, where the record's are not."""
TICKS = 7
"""Decimal digits of the time of the end, in ticks."""
MOST_ITERATIONS = 25_000
"""With more, a page would exceed a megabyte or so: workers' time is summed in bins."""
MOST_LANES = 1_200
MOST_BINS = 480
BYTES = 600_000
"""Of all bins."""
MOST_WINDOWS, MOST_MARKS, MOST_UPDATES, MOST_NOTES = 4_000, 3_000, 25_000, 20_000
SAID = {"Lost": "lost", "Joined": "joined", "ServerLost": "lost", "ServerJoined": "joined"}


def lanes_of(run: Run) -> dict[str, Any]:
    """Everything that the script draws, JSON-safe; ``{}`` if no worker has computed anything."""
    end_s, rows = jct_s(run), computed(run.tables.iterations)
    if not len(rows) or end_s <= 0:
        return {}
    end_s = max(end_s, float(rows["t"].max()))
    workers = numbers_of(run, "worker")
    heights = drawn(workers, run.tables.iterations, MOST_LANES)
    place, names = _lanes(run, heights)
    shown = rows if len(heights) == len(workers) else rows[rows["worker"].isin(list(heights))]
    tick_s = 10.0 ** (ceil(log10(end_s)) - TICKS)
    ticks = Ticks(tick_s)
    detailed = len(shown) <= MOST_ITERATIONS
    whole = {"detail": _detail(shown, place, ticks)} if detailed else {"bins": _bins(shown, place, end_s)}
    notes = [f"{len(heights)} of {len(workers)} workers, the slowest among them"] * (len(heights) < len(workers))
    notes += ["shares of time, since there are too many iterations for one page"] * (not detailed)
    return {
        "end": ticks.of(end_s),
        "tick_s": tick_s,
        "lanes": names,
        "colours": [PHASE_COLOURS[phase] for phase in PHASES],
        "phases": [PHASE_NAMES.get(phase, phase) for phase in PHASES],
        "planned": PLAN_COLOUR,
        "busy": BUSY_COLOUR,
        "fates": [FATE_NAMES.get(fate, fate) for fate in FATES],
        "lost": DROPPED,
        **whole,
        "servers": _servers(run, place, ticks),
        "windows": _windows(run, place, ticks),
        "updates": _updates(run, ticks),
        "marks": _marks(run, place, ticks),
        "notes": notes,
    }


class Ticks:
    """Seconds as whole ticks."""

    def __init__(self, tick_s: float) -> None:
        self.tick_s = tick_s

    def of(self, seconds: float) -> int:
        """One time, rounded to the nearest tick."""
        return round(seconds / self.tick_s)

    def all(self, seconds: Any) -> NDArray[np.int64]:
        """Many; unknown ones are 0."""
        found: NDArray[np.float64] = np.rint(np.nan_to_num(np.asarray(seconds, dtype="float64")) / self.tick_s)
        return found.astype(np.int64)

    def steps(self, seconds: Any) -> list[int]:
        """From each time to the next, the first from 0: shorter than times."""
        found: list[int] = np.diff(self.all(seconds), prepend=0).tolist()
        return found


def _lanes(run: Run, heights: Iterable[int]) -> tuple[dict[str, int], list[str]]:
    """The lane of every node and target, from above, and the lanes' names; ``heights``: the workers that are shown."""
    names = [worker_name(worker) for worker in heights]
    names += [server_name(server) for server in numbers_of(run, "server")]
    known = {*names, *(worker_name(worker) for worker in numbers_of(run, "worker"))}
    names += [target for target in dict.fromkeys(run.plan["target"]) if target not in known]
    names = names[: 2 * MOST_LANES]
    return {name: lane for lane, name in enumerate(names)}, [name.replace(":", " ") for name in names]


def _detail(rows: pd.DataFrame, place: dict[str, int], ticks: Ticks) -> list[dict[str, Any]]:
    """By worker: ends of iterations (``t``), the phases' durations in a row, and what is known of each."""
    rows = in_lanes(rows)
    fates = {name: number for number, name in enumerate(FATES)}
    durations = np.column_stack([np.maximum(ticks.all(seconds), 0) for _, seconds in durations_of(rows)])
    columns = {
        "t": ticks.all(rows["t"]),
        "n": rows["iteration"].to_numpy(dtype=np.int64),
        "v": rows["version_read"].to_numpy(dtype=np.int64),
        "s": rows["samples"].to_numpy(dtype=np.int64),
        "f": rows["fate"].map(fates).to_numpy(dtype=np.int64),
    }
    workers, begins = np.unique(rows["worker"].to_numpy(), return_index=True)
    found = []
    for worker, begin, end in zip(workers, begins, [*begins[1:], len(rows)], strict=True):
        mine = {name: column[begin:end] for name, column in columns.items()}
        steps = {name: np.diff(mine[name], prepend=0).tolist() for name in ("t", "n", "v")}
        few = {name: _equal(mine[name]) for name in ("s", "f")}
        lane = place[worker_name(worker)]
        found.append({"lane": lane, **steps, **few, "d": durations[begin:end].ravel().tolist()})
    return found


def _equal(numbers: NDArray[np.int64]) -> list[int] | int:
    """The numbers; only one if all are equal."""
    return int(numbers[0]) if (numbers == numbers[0]).all() else list(map(int, numbers))


def _bins(rows: pd.DataFrame, place: dict[str, int], end_s: float) -> dict[str, Any]:
    """By lane and bin, 5 bytes each: shares (of 255) of all phases but waiting, and the iterations that ended there."""
    lane_of = {worker: place[worker_name(worker)] for worker in rows["worker"].unique()}
    rows = in_lanes(rows)
    lanes = rows["worker"].map(lane_of).to_numpy(dtype=np.int64)
    height = int(lanes.max()) + 1
    count = max(1, min(MOST_BINS, BYTES // (len(PHASES) * height)))
    table = np.zeros((height, count, len(PHASES)), np.uint8)
    table[:, :, :-1] = np.rint(255 * lane_shares(rows, lanes, end_s, count)[:, :, 1:])
    bins = np.minimum((rows["t"].to_numpy() / end_s * count).astype(np.int64), count - 1)
    ended = np.bincount(lanes * count + bins, minlength=height * count).reshape(height, count)
    table[:, :, -1] = np.minimum(ended, 255)
    return {"lanes": height, "count": count, "bytes": b64encode(table.tobytes()).decode()}


def _servers(run: Run, place: dict[str, int], ticks: Ticks) -> list[dict[str, Any]]:
    """By server: ends of the periods that it reported, thousandths of each that it was busy, and updates."""
    found = []
    for server, rows in run.tables.server_busy.groupby("server"):
        lane = place.get(server_name(int(str(server))))
        if lane is None:
            continue
        every = -(-len(rows) // (MOST_NOTES // max(1, len(run.tables.server_busy["server"].unique()))))
        group = np.arange(len(rows)) // every
        kept = rows.groupby(group).agg(t=("t", "last"), busy_s=("busy_s", "sum"), updates=("updates", "sum"))
        period_s = kept["t"].diff().fillna(kept["t"].iloc[0]).clip(lower=1e-9)
        busy = np.rint((kept["busy_s"] / period_s).clip(0, 1) * 1000).astype(int)
        found.append({"lane": lane, "t": ticks.steps(kept["t"]), "b": busy.tolist(), "u": kept["updates"].tolist()})
    return found


def _windows(run: Run, place: dict[str, int], ticks: Ticks) -> list[list[Any]]:
    """(lane, begin, end, what) of the planned disturbances, the longest of them."""
    rows = run.plan[run.plan["target"].isin(list(place)) & (run.plan["start_s"] <= run.end_s)]
    rows = (
        rows.assign(length=(rows["end_s"] - rows["start_s"]).astype("float64"))
        .nlargest(MOST_WINDOWS, "length")
        .sort_values("start_s")
    )
    return [
        [place[row.target], ticks.of(row.start_s), ticks.of(min(row.end_s, run.end_s)), f"{row.kind} {row.magnitude:g}"]
        for row in rows.itertuples()
    ]


def _updates(run: Run, ticks: Ticks) -> list[int]:
    """Times of the updates that count; if there are very many, of some of them."""
    times = run.tables.updates.loc[~run.tables.updates["void"], "t"].to_numpy()
    return ticks.steps(times[:: -(-len(times) // MOST_UPDATES) or 1])


def _marks(run: Run, place: dict[str, int], ticks: Ticks) -> list[list[Any]]:
    """(time, lane or -1, what): commands of the strategy to nodes, and what became of tasks."""
    found: list[tuple[float, int, str]] = []
    for t, node, what in commands_to_nodes(run):
        found.append((t, place.get(node, -1), what))
    for row in run.tables.restarts.itertuples():
        node = str(Node(row.role, (row.id,))) if row.id >= 0 else ""
        found.append((row.t, place.get(node, -1), f"{node} {SAID.get(row.what, row.what)}".strip()))
    found = sorted(found)[:: -(-len(found) // MOST_MARKS) or 1]
    return [[ticks.of(t), lane, what] for t, lane, what in found]
