"""The changes of nodes in an elastic run, as frames; seconds and cores."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from math import nan
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from analysis.measures.metrics import jct_s
from analysis.records.load import Run
from analysis.records.nodes import Node, number_of, parse_node, role_of
from analysis.records.schema import Allocated, LayoutChanged, Line, Requested
from strategies.protocol import Joined, ServerJoined

DECISION = re.compile(r"\S+ s (?P<stage>[^,:]+), (?P<rule>[^:]+): (?P<what>.*) \((?P<numbers>[^()]*)\)")
"""How the Scaler logs a decision: ``60 s sample, plan: Resize role server, count 8 (workers 24)``."""
OUTCOMES = ("done", "denied")
"""The text in parentheses when the decision has been carried out or denied."""
STAYS = "stays"
"""The beginning of a decision that changes nothing."""


def is_elastic(run: Run) -> bool:
    """Whether the run's nodes, or their shares of the parameters, ever changed."""
    return any(isinstance(line.note, LayoutChanged) and line.note.version > 0 for line in run.notable_lines)


def nodes_over_time(run: Run) -> pd.DataFrame:
    """A row per change, and one for the start.

    ``t``; ``workers`` that have joined and not left; ``servers`` that hold parameters; ``cores`` of all present
    nodes, NaN if it is not known of one of them.
    """
    books = _Books(run)
    rows = [(0.0, *books.count())]
    for line in run.notable_lines:
        if books.follow(line):
            rows.append((line.t, *books.count()))
    frame = pd.DataFrame(rows, columns=["t", "workers", "servers", "cores"]).drop_duplicates("t", keep="last")
    same = (frame[["workers", "servers", "cores"]].diff().fillna(1.0) == 0).all(axis=1)
    return frame[~same].reset_index(drop=True).astype("float64")


class _Books:
    """The nodes that are present, those that hold parameters, and the cores of each."""

    def __init__(self, run: Run) -> None:
        self.here = {Node(role, (n,)) for role in ("worker", "server") for n in range(run.job.get(f"num_{role}s") or 0)}
        self.holders = sum(node.role == "server" for node in self.here)
        self.cores: dict[Node, float] = {}

    def follow(self, line: Line) -> bool:
        """Count one line; whether it concerned nodes."""
        match line.event or line.note:
            case Joined(worker=number):
                self.here.add(Node("worker", (number,)))
            case ServerJoined(server=number):
                self.here.add(Node("server", (number,)))
            case LayoutChanged(nodes=names, shares=shares):
                self.here &= {parse_node(name) for name in names}
                self.holders = len(shares)
            case Requested(node=name, cpu_cores=cores) | Allocated(node=name, cpu_cores=cores):
                self.cores[parse_node(name)] = nan if cores is None else cores
            case _:
                return False
        return True

    def count(self) -> tuple[int, int, float]:
        workers = sum(node.role == "worker" for node in self.here)
        return workers, self.holders, sum(self.cores.get(node, nan) for node in self.here)


def cores_of(run: Run, role: str) -> list[float]:
    """Cores of every worker or server that is present at the end, as far as they are known."""
    books = _Books(run)
    for line in run.notable_lines:
        books.follow(line)
    return [books.cores[node] for node in sorted(books.here) if node.role == role and node in books.cores]


def decisions(run: Run) -> pd.DataFrame:
    """A row per decision that a strategy logged.

    ``number``: those that change something, from 1; 0: it stays. ``t``; ``stage``; ``rule``; ``what`` it changes, or
    why nothing; ``outcome`` (``done``, ``denied``, empty: neither when the run ended); ``numbers`` that it was made of.
    """
    rows: list[dict[str, Any]] = []
    last = ""
    for line in run.notable_lines:
        if b'"decision"' not in line.state:
            continue
        text, outcome = _split(str(msgspec.json.decode(line.state)["decision"]))
        if text != last and (found := DECISION.fullmatch(text)) is not None:
            rows.append({"t": line.t, **found.groupdict(), "outcome": ""})
            last = text
        if text == last and rows:
            rows[-1]["outcome"] = outcome
    frame = pd.DataFrame(rows, columns=["t", "stage", "rule", "what", "outcome", "numbers"])
    changes = ~frame["what"].astype("str").str.startswith(STAYS)
    frame.insert(0, "number", changes.cumsum().where(changes, 0).astype("int64"))
    return frame


def _split(text: str) -> tuple[str, str]:
    """A logged decision without its outcome, and that."""
    found = next((outcome for outcome in OUTCOMES if text.endswith(f" ({outcome})")), "")
    return text.removesuffix(f" ({found})"), found


def switches(run: Run) -> pd.DataFrame:
    """A row per time that parameters moved to other servers, or to other shares.

    ``t``: it began; ``moving_s`` until all could continue; ``stall_s`` between the last update before and the first one
    after, NaN if there was none.
    """
    tables = run.tables
    times = tables.updates.loc[~tables.updates["void"], "t"].to_list()
    ends = tables.restarts.loc[tables.restarts["what"] == "Repartitioned", "t"].to_list()
    begins = tables.notes.loc[tables.notes["type"] == "Repartitioning", "t"].to_list()
    rows = []
    for end in ends:
        began = begins[bisect_right(begins, end) - 1]
        before, after = bisect_right(times, began), bisect_left(times, end)
        known = before > 0 and after < len(times)
        rows.append((began, end - began, times[after] - times[before - 1] if known else nan))
    return pd.DataFrame(rows, columns=["t", "moving_s", "stall_s"], dtype="float64")


def server_use(run: Run) -> pd.DataFrame:
    """A row per server and sample: ``t``, ``server``, ``cpu_cores``, ``limit_cores``, ``busy_frac``, ``use_frac``.

    ``use_frac``: used cores of those that the server has, or the part of the time that it is busy if neither is known.
    """
    frame = run.tables.nodes
    frame = frame[role_of(frame["node"]) == "server"]
    frame = frame.assign(server=number_of(frame["node"]))
    use = (frame["cpu_cores"] / frame["limit_cores"]).fillna(frame["busy_frac"])
    return frame.assign(use_frac=use)[["t", "server", "cpu_cores", "limit_cores", "busy_frac", "use_frac"]]


def steps_over_time(run: Run, bin_s: float) -> pd.DataFrame:
    """``t`` (middle of a bin; the last bin is left out if it is not whole) and ``steps_per_s``: updates in it."""
    updates = run.tables.updates
    edges = np.arange(0.0, max(jct_s(run), bin_s) + 1e-9, bin_s)
    count, _ = np.histogram(updates.loc[~updates["void"], "t"], edges)
    return pd.DataFrame({"t": (edges[1:] + edges[:-1]) / 2, "steps_per_s": count / bin_s})
