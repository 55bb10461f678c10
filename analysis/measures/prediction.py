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
PLACES = ("located_frac", "part_frac", "abstained_frac", "score")
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
    rows = in_turn(rows)
    worker, begun = rows["worker"].to_numpy(), rows["begun_s"].to_numpy()
    first, last = _runs(rows["label"].to_numpy(dtype="bool"), worker)
    starts, ends = _runs(rows["tag"].to_numpy(dtype="bool"), worker)
    place = np.searchsorted(ends, first)  # the first alarm that ends in the episode or later, unless it begins later
    covered = np.append(starts, len(rows))[place] <= last
    tagged = np.append(starts, 0)[place]
    return pd.DataFrame(
        {
            "worker": worker[first].astype("int64"),
            "start_s": begun[first].astype("float64"),
            "iterations": (last - first + 1).astype("int64"),
            "lead_s": np.where(covered, begun[first] - begun[np.where(covered, tagged, first)], nan),
            "lead_iters": np.where(covered, first - tagged, nan),
            "missed": ~covered,
        }
    )


def in_turn(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows worker by worker, each worker's by their beginning; as they are if this is their order."""
    worker, begun = (np.diff(rows[name].to_numpy()) for name in ("worker", "begun_s"))
    is_sorted = bool(((worker > 0) | ((worker == 0) & (begun >= 0))).all())
    return rows if is_sorted else rows.sort_values(["worker", "begun_s"], kind="stable")


def alarms(rows: pd.DataFrame) -> dict[str, float]:
    """``ALARMS`` of a job.

    ``f1``: harmonic mean of precision and recall, 0 without a hit, NaN without stragglers; ``caught_frac``: part of the
    episodes that an alarm covers; ``delay_iters``: median of the iterations from the start of these to the first tag
    (negative: early); ``false_alarms_per_1000``: alarms that cover no straggling iteration, in 1,000 iterations.
    """
    rows = in_turn(rows)
    leads = lead_times(rows)
    label, tag = rows["label"].to_numpy(dtype="bool"), rows["tag"].to_numpy(dtype="bool")
    straggled = np.concatenate([[0], label.astype("int64").cumsum()])
    first, last = _runs(tag, rows["worker"].to_numpy())
    false = int((straggled[last + 1] == straggled[first]).sum())
    caught = leads.loc[~leads["missed"], "lead_iters"]
    return {
        "f1": 2 * int((label & tag).sum()) / (int(label.sum()) + int(tag.sum())) if label.any() else nan,
        "caught_frac": len(caught) / len(leads) if len(leads) else nan,
        "delay_iters": -float(caught.median()) if len(caught) else nan,
        "false_alarms_per_1000": 1000 * false / len(rows),
    }


def places(rows: pd.DataFrame) -> dict[str, float]:
    """``PLACES`` of a job: whether the right ones are named, by steps (iteration numbers), of which each counts alike.

    ``rows`` have ``place`` (the worker, or one number for all workers of a host or behind a link, where that is what is
    disturbed), ``part`` and ``said`` (the part that is slow, and the one that the predictor names; empty for none).

    ``abstained_frac``: of the steps in which a place straggles those without any tag. ``located_frac``: of all tagged
    places the part that straggles, mean over the other ones of these steps; ``part_frac``: part of the tagged
    iterations that straggle for which the right part is named, NaN for predictors that name none. ``score``: F1, and
    where nothing straggles the part of the steps without a tag.
    """
    step, steps = np.unique(rows["iteration"].to_numpy(), return_inverse=True)
    place, where = np.unique(rows["place"].to_numpy(), return_inverse=True)
    label, tag = rows["label"].to_numpy(dtype="bool"), rows["tag"].to_numpy(dtype="bool")
    guilty, accused = (np.zeros((len(step), len(place)), dtype="bool") for _ in range(2))
    guilty[steps[label], where[label]] = True
    accused[steps[tag], where[tag]] = True
    faulty, answered = (np.logical_or.reduce(one, axis=1) for one in (guilty, accused))
    both = faulty & answered
    right = (guilty & accused)[both].sum(axis=1) / accused[both].sum(axis=1)
    caught = rows[label & tag]
    named = caught[caught["said"] != ""]
    hits, marked = int((label & tag).sum()), int(label.sum()) + int(tag.sum())
    return {
        "located_frac": float(right.mean()) if both.any() else nan,
        "part_frac": float((named["said"] == named["part"]).mean()) if len(named) else nan,
        "abstained_frac": float((~answered[faulty]).mean()) if faulty.any() else nan,
        "score": 2 * hits / marked if label.any() else float((~answered).mean()),
    }


def _runs(marked: np.ndarray, worker: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and last index of every maximal run of true values of one worker; rows of a worker are neighbours."""
    turn = np.concatenate([[True], worker[1:] != worker[:-1], [True]])[: len(marked) + 1]
    before, after = np.concatenate([[False], marked[:-1]])[: len(marked)], np.concatenate([marked[1:], [False]])
    first = np.flatnonzero(marked & (~before | turn[:-1]))
    last = np.flatnonzero(marked & (~after[: len(marked)] | turn[1:]))
    return first, last


def lead_summary(leads: pd.DataFrame) -> dict[str, float]:
    """``LEADS`` of :func:`lead_times`: number of episodes, missed, late; quartiles of the alarmed ones."""
    known = leads["lead_s"].dropna().to_numpy()
    quartiles = np.quantile(known, [0.25, 0.5, 0.75]).tolist() if len(known) else [nan] * 3
    return dict(zip(LEADS, (len(leads), int(leads["missed"].sum()), int((known < 0).sum()), *quartiles), strict=True))
