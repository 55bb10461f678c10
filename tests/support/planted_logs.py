"""Tables of step times with planted stragglers, and what a diagnosis should say of them: the clean times are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.logs.gathering import gather
from analysis.logs.step_log import StepLog

Floats = NDArray[np.float64]
USUAL_S, COMM_S, DATA_S = 1.0, 0.15, 0.05
RANKS_PER_HOST = 8
KINDS = ("host", "rank", "card", "card of a rank", "loader", "writer", "once", "half")
CALM = ("jitter", "unequal", "long tail", "checkpoints", "warm-up", "devices")


@dataclass(frozen=True)
class PlantedLog:
    """A log, and the truth about it.

    ``members``: ranks that are slow. ``kind``: the course that a diagnosis should name. ``since``: position of its
    first slow step. ``part``: what of a step is slow. ``saving_frac``: of the job's time, if these had not been slow:
    the sum over steps of the longest rank, with planted and with clean times.
    """

    table: pd.DataFrame
    members: tuple[int, ...]
    kind: str
    since: int
    part: str
    saving_frac: float

    def log(self, *columns: str) -> StepLog:
        """As read with these columns named: ``work``, ``comm``, ``data``."""
        rows = self.table.rename(columns={"comm": "comm_s", "data": "data_s"})
        own_s = rows["work"] + (rows["data_s"] if "data" in columns else 0.0) if "work" in columns else None
        if own_s is None and "comm" in columns:
            own_s = rows["seconds"] - rows["comm_s"]
        rows["own_s"] = rows["seconds"] if own_s is None else own_s
        rows["round_s"] = rows["seconds"]
        unknown = [name for name in ("comm", "data") if name not in columns]
        rows = rows.drop(columns=[f"{name}_s" for name in unknown])
        return gather("planted", rows, own_is_rest="comm" in columns and "work" not in columns)


def planted_log(seed: int, kind: str, ranks: int = 64, steps: int = 400) -> PlantedLog:
    """A job with one straggler of a kind; half of the jobs have checkpoints, too.

    A host that is throttled from some step on (``half``: up to the middle or from it), a rank, the network card of a
    host or rank that is slow now and then, a loader that stalls now and then, rank 0 that writes at regular steps, or a
    host that was slow once.
    """
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    work, comm, data = _clean(rng, ranks, steps)
    slow = {"work": work.copy(), "comm": comm.copy(), "data": data.copy()}
    host = int(rng.integers(ranks // RANKS_PER_HOST))
    all_of = tuple(range(host * RANKS_PER_HOST, (host + 1) * RANKS_PER_HOST))
    one = (int(rng.integers(ranks)),)
    members, course, part = all_of, "persistent", "computing"
    when = np.zeros(steps, bool)
    if kind in ("host", "rank"):
        when[int(rng.integers(steps // 10, steps * 8 // 10)) :] = True
    elif kind == "half":
        half = slice(steps // 2, None) if seed % 2 else slice(None, steps // 2)
        when[half] = True
        course = "persistent" if seed % 2 else "once"
    elif kind == "once":
        first = int(rng.integers(steps // 10, steps // 2))
        when[first : first + int(rng.integers(steps // 20, steps // 5))] = True
        course = "once"
    elif kind == "writer":
        every = int(rng.integers(15, 30))
        when[int(rng.integers(every)) :: every] = True
        course = "periodic"
    else:
        when = rng.random(steps) < rng.uniform(0.03, 0.08)
        course = "transient"
    if kind in ("rank", "card of a rank"):
        members = one
    if kind == "writer":
        members = (0,)
    cells = np.ix_(when, members)
    shape = (int(when.sum()), len(members))
    if kind.startswith("card"):
        slow["comm"][cells] += rng.uniform(0.8, 2.0) * rng.uniform(0.8, 1.2, shape)
        part = "communication"
    elif kind == "loader":
        slow["data"][cells] += rng.uniform(0.5, 1.5) * rng.uniform(0.8, 1.2, shape)
        part = "loading"
    elif kind == "writer":
        slow["work"][cells] += rng.uniform(0.8, 2.0)
    else:
        slow["work"][cells] *= rng.uniform(1.2, 1.6)
    pause_s = _pauses(steps, rng) if seed % 4 < 2 else np.zeros(steps)
    planted, clean = (slow["work"] + slow["comm"] + slow["data"]).max(axis=1), (work + comm + data).max(axis=1)
    saving = 1.0 - float((clean + pause_s).sum() / (planted + pause_s).sum())
    table = _table(planted + pause_s, **slow)
    return PlantedLog(table, members, course, int(np.flatnonzero(when)[0]), part, saving)


def calm_log(seed: int, kind: str, ranks: int = 64, steps: int = 400) -> PlantedLog:
    """A job without stragglers: jitter, sequences of unequal length, checkpoints, long first steps, two devices."""
    rng = np.random.default_rng([seed, 99, CALM.index(kind)])
    work, comm, data = _clean(rng, ranks, steps)
    if kind == "unequal":
        work *= np.exp(rng.uniform(0.1, 0.5) * rng.standard_normal(work.shape))
    elif kind == "long tail":
        work *= np.where(rng.random(work.shape) < rng.uniform(0.01, 0.08), rng.uniform(1.5, 4.0), 1.0)
    elif kind == "warm-up":
        work[:3] *= np.array([[20.0], [3.0], [2.0]])
    elif kind == "devices":
        work *= np.where(np.arange(ranks) % 2, 1.05, 1.0)
    pause_s = _pauses(steps, rng) if kind == "checkpoints" or seed % 2 else np.zeros(steps)
    table = _table((work + comm + data).max(axis=1) + pause_s, work=work, comm=comm, data=data)
    return PlantedLog(table, (), "", -1, "", 0.0)


def _clean(rng: np.random.Generator, ranks: int, steps: int) -> tuple[Floats, Floats, Floats]:
    sigma = float(rng.choice([0.01, 0.02, 0.03]))
    work, comm, data = (
        usual_s * np.exp(spread * rng.standard_normal((steps, ranks)))
        for usual_s, spread in ((USUAL_S, sigma), (COMM_S, 0.05), (DATA_S, 0.1))
    )
    return work, comm, data


def _pauses(steps: int, rng: np.random.Generator) -> Floats:
    pause_s = np.zeros(steps)
    every = int(rng.choice([25, 40, 50]))
    pause_s[every - 1 :: every] = rng.uniform(1.0, 10.0)
    return pause_s


def _table(length_s: Floats, **columns: Floats) -> pd.DataFrame:
    """A row per step and rank; clocks of ranks read the end of a step a millisecond apart."""
    steps, ranks = columns["work"].shape
    step, rank = np.meshgrid(np.arange(steps), np.arange(ranks), indexing="ij")
    rows: dict[str, Any] = {"step": step.ravel(), "rank": rank.ravel()}
    rows["host"] = [f"gpu-node-{each // RANKS_PER_HOST:03d}" for each in rank.ravel().tolist()]
    rows["seconds"] = (length_s[:, None] + 0.001 * np.random.default_rng(0).standard_normal((steps, ranks))).ravel()
    return pd.DataFrame(rows | {name: values.ravel() for name, values in columns.items()})
