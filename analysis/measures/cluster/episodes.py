"""Episodes of straggling and their causes: stretched parts, and jobs with tasks on the same hosts then. Pure."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.measures.cluster.deviations import PARTS, is_slow
from analysis.measures.cluster.occupancy import Occupancy, names_text

CAUSES = ("processor", "injected", "link", "servers", "peers")
"""Causes of episodes: the part of T that grew most, or ``peers`` if that explains less than half of the gap."""
CALM = 5
"""Least number of iterations without straggling of which a worker's own undisturbed medians are made."""
NOWHERE = -1
COLUMNS = {
    "worker": "int64",
    **dict.fromkeys(("start_s", "end_s"), "float64"),
    "iterations": "int64",
    **dict.fromkeys(("lost_s", "deviation_frac"), "float64"),
    **dict.fromkeys((f"excess_{part}" for part in PARTS), "float64"),
    "reference": "str",
    "cause": "str",
    "host": "int64",
    "span": "int64",
}


def episodes(rows: pd.DataFrame, offset_s: float, spans: pd.DataFrame) -> pd.DataFrame:
    """One row per episode of one job: consecutive iterations in which a worker straggled, on the same host.

    Args:
        rows: what :func:`analysis.measures.cluster.deviations.compare_workers` returns.
        offset_s: the cluster's time at the job's time 0.
        spans: the job's rows of ``Cluster.spans``, in the order of time.

    Returns:
        ``worker``; ``start_s`` of the first iteration (without its wait at the barrier) and ``end_s`` of the last on
        the cluster's clock; ``iterations``; ``lost_s``: the sum of T - min T; ``deviation_frac``, its mean;
        ``excess_processor_s`` and so on: by how much each part of T exceeded the worker's undisturbed median, on
        average over the episode; ``reference``: ``own`` if the worker has ``CALM`` iterations without straggling, else
        ``job`` (the median over such iterations of all workers); ``cause`` (of ``CAUSES``); ``host`` of the worker (-1:
        unknown) and ``span``, the row of ``spans``.
    """
    rows = rows.sort_values(["worker", "iteration"], kind="stable")
    slow = is_slow(rows).to_numpy()
    if not slow.any():
        return pd.DataFrame(columns=list(COLUMNS)).astype(COLUMNS)
    begun = offset_s + (rows["t"] - rows["time_s"]).to_numpy()
    span = np.maximum(0, np.searchsorted(spans["start_s"].to_numpy(), begun, side="right") - 1)
    worker = rows["worker"].to_numpy()
    excess, own = _excess(rows, slow)
    first = slow.copy()
    first[1:] &= ~slow[:-1] | (worker[1:] != worker[:-1]) | (span[1:] != span[:-1])
    starts = np.flatnonzero(first[slow])  # of every episode, among the slow rows
    length = np.diff(np.append(starts, slow.sum()))
    gap_s = (rows["time_s"] - rows["fastest_s"]).to_numpy()[slow]
    lost_s, means = np.add.reduceat(gap_s, starts), np.add.reduceat(excess[slow], starts) / length[:, None]
    deviation = np.add.reduceat(rows["deviation_frac"].to_numpy()[slow], starts) / length
    chosen = np.argmax(means, axis=1)
    explained = np.maximum(means, 0.0).sum(axis=1) >= lost_s / length / 2.0
    numbers, piece = worker[slow][starts], span[slow][starts]
    return pd.DataFrame(
        {
            "worker": numbers,
            "start_s": begun[slow][starts],
            "end_s": offset_s + rows["t"].to_numpy()[slow][starts + length - 1],
            "iterations": length,
            "lost_s": lost_s,
            "deviation_frac": deviation,
            **{f"excess_{part}": means[:, place] for place, part in enumerate(PARTS)},
            "reference": np.where(own[slow][starts], "own", "job"),
            "cause": np.where(explained, np.array(CAUSES)[chosen], "peers"),
            "host": _hosts(spans, piece, numbers),
            "span": piece,
        }
    ).astype(COLUMNS)


def _excess(rows: pd.DataFrame, slow: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows x parts: seconds above the undisturbed median; by row whether that median is the worker's own)."""
    calm = rows[~slow]
    own = calm.groupby("worker")[list(PARTS)].median()[calm.groupby("worker").size() >= CALM]
    usual = own.reindex(rows["worker"]).to_numpy()
    has_own = ~np.isnan(usual[:, 0])
    return rows[list(PARTS)].to_numpy() - np.where(
        has_own[:, None], usual, calm[list(PARTS)].median().to_numpy()
    ), has_own


def _hosts(spans: pd.DataFrame, piece: np.ndarray, workers: np.ndarray) -> list[int]:
    """The host of each of ``workers`` in the span ``piece``."""
    places = list(spans["workers"])
    pairs = zip(piece.tolist(), workers.tolist(), strict=True)
    return [places[at][worker] if worker < len(places[at]) else NOWHERE for at, worker in pairs]


def with_neighbours(found: pd.DataFrame, job: str, spans: pd.DataFrame, occupancy: Occupancy) -> pd.DataFrame:
    """The episodes of a job with the other jobs near it.

    Adds ``job``; ``neighbours``: names of the other jobs that had tasks on the worker's host during the episode;
    ``server_neighbours``: those on hosts of the job's servers; ``host_servers``: number of parameter servers of all
    jobs on the worker's host at its start.
    """
    texts: dict[frozenset[str], str] = {}

    def names(jobs: frozenset[str]) -> str:
        if jobs not in texts:
            texts[jobs] = names_text(jobs - {job})
        return texts[jobs]

    near, far = [], []
    servers = [frozenset(places) for places in spans["servers"]]
    for row in found.itertuples():
        host, span, start_s, end_s = row.host, row.span, row.start_s, row.end_s
        near.append(names(occupancy.between(host, start_s, end_s)))
        far.append(names(frozenset[str]().union(*(occupancy.between(each, start_s, end_s) for each in servers[span]))))
    counts = pd.Series(0, index=found.index, dtype="int64")
    for host, rows in found.groupby("host"):
        counts[rows.index] = occupancy.servers_at(int(host), rows["start_s"])
    columns = {"neighbours": near, "server_neighbours": far}
    frame = found.assign(**{name: pd.Series(values, found.index, dtype="str") for name, values in columns.items()})
    return frame.assign(job=pd.Series(job, found.index, dtype="str"), host_servers=counts).drop(columns="span")
