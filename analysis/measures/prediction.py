"""Quality of straggler predictions: rates of right and wrong tags, and lead times of alarms (pure).

A row is one iteration of one worker: ``worker``, ``iteration``, ``begun_s``, ``label`` (it straggled), ``tag`` (it was
predicted to, when it began). A rate with denominator zero is NaN, never zero.
"""

from __future__ import annotations

from math import nan

import numpy as np
import pandas as pd

COUNTS = ("true_positives", "false_positives", "false_negatives", "true_negatives")
RATES = ("precision", "recall", "false_positive_rate", "false_negative_rate")
ALARMS = ("f1", "caught_frac", "delay_iters", "false_alarms_per_1000")
LEVELS = ("worker", "job", "any")
LEADS = ("episodes", "missed", "late", "lead_q1_s", "lead_median_s", "lead_q3_s")


def scores(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per worker, one for the ``job`` and one for ``any``: ``level``, ``worker``, ``COUNTS``, ``RATES``.

    ``job`` pools the iterations of all workers; ``worker`` is -1 there. ``any`` asks for every iteration number whether
    any worker straggled and whether any worker was tagged. These are different questions: a tag of the wrong worker is
    right for ``any``.
    """
    parts = [("worker", int(worker), mine) for worker, mine in rows.groupby("worker")]
    rounds = rows.groupby("iteration")[["label", "tag"]].any()
    found = [
        {"level": level, "worker": worker, **rates(mine["label"].to_numpy(), mine["tag"].to_numpy())}
        for level, worker, mine in (*parts, ("job", -1, rows), ("any", -1, rounds))
    ]
    return pd.DataFrame(found, columns=["level", "worker", *COUNTS, *RATES])


def rates(label: np.ndarray, tag: np.ndarray) -> dict[str, float]:
    """``COUNTS`` and ``RATES`` of labels and tags (booleans of equal length)."""
    label, tag = label.astype("bool"), tag.astype("bool")
    hits, alarms = int((label & tag).sum()), int((~label & tag).sum())
    misses, calm = int((label & ~tag).sum()), int((~label & ~tag).sum())
    shares = (_share(hits, alarms), _share(hits, misses), _share(alarms, calm), _share(misses, hits))
    return {**dict(zip(COUNTS, (hits, alarms, misses, calm), strict=True)), **dict(zip(RATES, shares, strict=True))}


def _share(part: int, rest: int) -> float:
    return part / (part + rest) if part + rest else nan


def lead_times(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per episode, a maximal run of straggling iterations of a worker.

    ``worker``; ``start_s`` (of its first iteration), ``iterations`` (its length); ``lead_s`` and ``lead_iters``: its
    start minus the first tag of the alarm that covers it, i.e. the first run of tagged iterations that overlaps the
    episode; negative if late, NaN if ``missed``: no alarm.
    """
    found = []
    for worker, mine in rows.groupby("worker"):
        mine = mine.sort_values("begun_s", kind="stable")
        begun, alarms = mine["begun_s"].to_numpy(), _runs(mine["tag"].to_numpy(dtype="bool"))
        for first, last in _runs(mine["label"].to_numpy(dtype="bool")):
            covering = next((start for start, end in alarms if start <= last and first <= end), None)
            early = (nan, nan) if covering is None else (begun[first] - begun[covering], first - covering)
            found.append((int(worker), begun[first], last - first + 1, *early, covering is None))
    columns = {"worker": "int64", "start_s": "float64", "iterations": "int64", "lead_s": "float64"}
    columns |= {"lead_iters": "float64", "missed": "bool"}
    return pd.DataFrame(found, columns=list(columns)).astype(columns)


def alarms(rows: pd.DataFrame) -> dict[str, float]:
    """``ALARMS`` of a job.

    ``f1``: harmonic mean of precision and recall, 0 without a hit, NaN without stragglers; ``caught_frac``: part of the
    episodes that an alarm covers; ``delay_iters``: median of the iterations from the start of these to the first tag
    (negative: early); ``false_alarms_per_1000``: alarms that cover no straggling iteration, in 1,000 iterations.
    """
    leads = lead_times(rows)
    label, tag = rows["label"].to_numpy(dtype="bool"), rows["tag"].to_numpy(dtype="bool")
    false = 0
    for _, mine in rows.groupby("worker"):
        mine = mine.sort_values("begun_s", kind="stable")
        straggling = mine["label"].to_numpy(dtype="bool")
        false += sum(
            not straggling[first : last + 1].any() for first, last in _runs(mine["tag"].to_numpy(dtype="bool"))
        )
    caught = leads.loc[~leads["missed"], "lead_iters"]
    return {
        "f1": 2 * int((label & tag).sum()) / (int(label.sum()) + int(tag.sum())) if label.any() else nan,
        "caught_frac": len(caught) / len(leads) if len(leads) else nan,
        "delay_iters": -float(caught.median()) if len(caught) else nan,
        "false_alarms_per_1000": 1000 * false / len(rows),
    }


def _runs(marked: np.ndarray) -> list[tuple[int, int]]:
    """First and last index of every maximal run of true values."""
    edges = np.diff(np.concatenate([[False], marked, [False]]).astype("int8"))
    return list(zip(np.flatnonzero(edges == 1).tolist(), (np.flatnonzero(edges == -1) - 1).tolist(), strict=True))


def lead_summary(leads: pd.DataFrame) -> dict[str, float]:
    """``LEADS`` of :func:`lead_times`: number of episodes, missed, late; quartiles of the alarmed ones."""
    known = leads["lead_s"].dropna().to_numpy()
    quartiles = np.quantile(known, [0.25, 0.5, 0.75]).tolist() if len(known) else [nan] * 3
    return dict(zip(LEADS, (len(leads), int(leads["missed"].sum()), int((known < 0).sum()), *quartiles), strict=True))
