"""Logs of jobs with one planted cause of slowness among innocent events, made without any of our measures.

In a step every rank loads and works; when all have arrived, each rank sends; the step ends with the last rank. The same
job without its cause tells what the cause cost. Every job has innocent events: long first steps, checkpoints and
evaluations of all ranks, hiccups of the loader at random ranks, jitter, and devices that differ a little.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.logs.gathering import gather
from analysis.logs.step_log import StepLog

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
OF_HOST = 8
CAUSES = (
    *("throttled host", "slow host", "throttled rank", "slow rank", "host for a while"),
    *("flapping card", "flapping card of a rank", "periodic rank", "stalling loader", "group"),
)
SIZES = (64, 64, 64, 128, 128, 256, 64, 512, 128, 1024)
"""Ranks, of one job after another."""
COMPUTING = (("work",), ("work", "comm"), ("work", "comm", "data"), ("comm",))
SENDING = (("work", "comm"), ("work", "comm", "data"), ("comm",))
LOADING = (("work", "comm", "data"), ("work", "data"), ("comm", "data"))


@dataclass(frozen=True)
class Truth:
    """What is planted: nothing, if there are no ``members``.

    ``form``: host, rank or ranks. ``since``, ``until``: steps. ``kind``: as in the lines of ``run.py advise``.
    ``saving_frac``: of the logged time, if the cause had not been there.
    """

    cause: str = ""
    form: str = ""
    members: tuple[int, ...] = ()
    kind: str = ""
    part: str = ""
    since: int = -1
    until: int = -1
    saving_frac: float = 0.0


@dataclass(frozen=True)
class Job:
    """Tables' columns ([steps, ranks] seconds), the columns that the log has, and the truth.

    ``names``: how hosts are known: a ``column``, by the ``ranks``' names, or by ``--ranks-per-host`` alone.
    """

    seconds: Floats
    work: Floats
    comm: Floats
    data: Floats
    columns: tuple[str, ...]
    names: str
    truth: Truth

    def table(self) -> pd.DataFrame:
        """A row per rank and step, in milliseconds."""
        ranks = self.work.shape[1]
        step, rank = (each.ravel() for each in np.indices(self.work.shape))
        host = np.array([f"gpu-node-{each // OF_HOST:03d}" for each in range(ranks)])
        names = np.array(
            [f"{host[each]}:{each % OF_HOST}" if self.names == "ranks" else f"{each}" for each in range(ranks)]
        )
        rows = pd.DataFrame(
            {"rank": pd.Categorical(names[rank]), "step": step, "seconds_ms": 1e3 * self.seconds.ravel()}
        )
        for column in self.columns:
            rows[f"{column}_ms"] = 1e3 * getattr(self, column).ravel()
        return rows.assign(host=pd.Categorical(host[rank])) if self.names == "column" else rows

    def log(self, *columns: str) -> StepLog:
        """As read with these of the columns named, and its hosts: ``work``, ``comm``, ``data``."""
        own_s = self.seconds
        if "work" in columns:
            own_s = self.work + (self.data if "data" in columns else 0.0)
        elif "comm" in columns:
            own_s = self.seconds - self.comm
        step, rank = (each.ravel() for each in np.indices(self.work.shape))
        given = {f"{name}_s": getattr(self, name).ravel() for name in columns if name != "work"}
        rows = pd.DataFrame(
            {"rank": rank, "step": step, "own_s": own_s.ravel(), "round_s": self.seconds.ravel(), **given}
        )
        rows["host"] = [f"gpu-node-{each // OF_HOST:03d}" for each in rank]
        return gather("planted", rows, own_is_rest="comm" in columns and "work" not in columns)

    def words(self, path: Path) -> list[str]:
        """The command's words for the table at this path."""
        found = [str(path), "--seconds", "seconds_ms"]
        named = {"work": "--compute", "comm": "--comm", "data": "--data"}
        for column in self.columns:
            found += [named[column], f"{column}_ms"]
        hosts = {"column": ["--host", "host"], "ranks": [], "number": ["--ranks-per-host", str(OF_HOST)]}
        return found + hosts[self.names]


def planted_job(number: int, ranks: int | None = None) -> Job:
    """The job with this number: one cause, and all that is innocent."""
    rng = np.random.default_rng([45, number])
    size, steps = SIZES[number // len(CAUSES) % len(SIZES)], int(rng.integers(300, 900))
    return _job(rng, CAUSES[number % len(CAUSES)], ranks or size, steps)


def calm_job(number: int) -> Job:
    """A job without a cause; in every third one sequences have unequal lengths, or single steps a long tail."""
    rng = np.random.default_rng([46, number])
    ranks, steps = SIZES[number // 3 % len(SIZES)], int(rng.integers(300, 900))
    return _job(rng, ("", "unequal", "tail")[number % 3], ranks, steps)


def _job(rng: np.random.Generator, cause: str, ranks: int, steps: int) -> Job:
    usual_s = float(np.exp(rng.uniform(np.log(0.1), np.log(20.0))))
    shape = (steps, ranks)
    sigma, together = rng.uniform(0.005, 0.03), rng.uniform(0.0, 0.03)
    device = 1.0 + rng.uniform(0.0, 0.01) * rng.standard_normal(ranks)
    work = usual_s * device * np.exp(_noise(rng, shape, sigma) + together * rng.standard_normal((steps, 1)))
    comm = usual_s * rng.uniform(0.05, 0.3) * np.exp(0.05 * rng.standard_normal(shape))
    data = usual_s * rng.uniform(0.01, 0.06) * np.exp(0.1 * rng.standard_normal(shape))
    if cause == "unequal":
        work *= np.exp(rng.uniform(0.1, 0.4) * rng.standard_normal(shape))
    if cause == "tail":
        work *= np.where(rng.random(shape) < rng.uniform(0.002, 0.05), rng.uniform(1.3, 3.0, shape), 1.0)
    pause_s = _innocents(rng, work, data, usual_s)
    clean = (work.copy(), comm.copy(), data.copy())
    truth, columns = _plant(rng, cause, work, comm, data, usual_s)
    length_s, sent_s = _times(work, comm, data, pause_s)
    waits = bool(rng.random() < 0.5) or columns == ("comm",) or columns == ("comm", "data")
    clean_s, _ = _times(*clean, pause_s)
    saving = 1.0 - float(clean_s[1:].sum() / length_s[1:].sum())
    seconds = length_s[:, None] + 1e-4 * usual_s * rng.standard_normal(shape)
    truth = Truth(**{**truth.__dict__, "saving_frac": saving})
    names = ("column", "column", "column", "ranks", "number")[int(rng.integers(5))]
    return Job(seconds, work, sent_s if waits else comm, data, columns, names, truth)


def _noise(rng: np.random.Generator, shape: tuple[int, int], sigma: float) -> Floats:
    """Of a rank's steps, with some memory."""
    memory, noise = rng.uniform(0.0, 0.4), rng.standard_normal(shape)
    for step in range(1, shape[0]):
        noise[step] = memory * noise[step - 1] + np.sqrt(1.0 - memory**2) * noise[step]
    return np.asarray(sigma * noise)


def _innocents(rng: np.random.Generator, work: Floats, data: Floats, usual_s: float) -> Floats:
    """Warm-up, evaluations and hiccups are put in; [steps] pauses that are in no rank's columns are returned."""
    steps, ranks = work.shape
    warm = np.array([12.0, 4.0, 2.0, 1.4])[: int(rng.integers(1, 5))]
    work[: len(warm)] *= warm[:, None]
    pause_s = np.zeros(steps)
    every = int(rng.choice([50, 75, 100]))
    pause_s[every - 1 :: every] = usual_s * rng.uniform(1.0, 8.0)
    every, longer_s = int(rng.choice([60, 110, 130])), usual_s * rng.uniform(0.5, 3.0)
    if rng.random() < 0.5:
        work[every - 1 :: every] += longer_s * np.exp(0.02 * rng.standard_normal(work[every - 1 :: every].shape))
    else:
        pause_s[every - 1 :: every] += longer_s
    hit = np.flatnonzero(rng.random(steps) < rng.uniform(0.005, 0.05))
    data[hit, rng.integers(ranks, size=len(hit))] += usual_s * rng.uniform(0.3, 1.5, len(hit))
    return pause_s


def _times(work: Floats, comm: Floats, data: Floats, pause_s: Floats) -> tuple[Floats, Floats]:
    """([steps] seconds of each step; [steps, ranks] communication as a rank sees it, the wait for others included)."""
    arrived = work + data
    last = arrived.max(axis=1)
    return last + comm.max(axis=1) + pause_s, last[:, None] - arrived + comm


def _plant(
    rng: np.random.Generator, cause: str, work: Floats, comm: Floats, data: Floats, usual_s: float
) -> tuple[Truth, tuple[str, ...]]:
    """Make the cause's steps longer; what is planted, and the columns that the log has."""
    steps, ranks = work.shape
    host, rank = int(rng.integers(ranks // OF_HOST)), int(rng.integers(ranks))
    whole = tuple(range(OF_HOST * host, OF_HOST * host + OF_HOST))
    factor, onset = rng.uniform(1.15, 2.0), int(rng.integers(steps // 10, steps * 85 // 100))
    if cause not in CAUSES:
        return Truth(), (*COMPUTING, *LOADING[1:])[int(rng.integers(6))]
    when, kind = _course(rng, cause, steps, onset)
    form, members = ("rank", (rank,)) if "rank" in cause else ("host", whole)
    if cause == "stalling loader" and rng.random() < 0.5:
        form, members = "rank", (rank,)
    if cause == "group":
        form, members = "ranks", _group(rng, ranks)
    cells = np.ix_(np.flatnonzero(when), members)
    extra_s = usual_s * rng.uniform(0.4, 1.5) * rng.uniform(0.7, 1.3, work[cells].shape)
    part, ways = "computing", COMPUTING
    if cause.startswith("flapping"):
        part, ways = "communication", SENDING
        comm[cells] += extra_s
    elif cause == "stalling loader":
        part, ways = "loading", LOADING
        data[cells] += extra_s
    elif kind == "periodic":
        work[cells] += extra_s
    else:
        work[cells] *= factor
    slow = np.flatnonzero(when)
    truth = Truth(cause, form, members, kind, part, int(slow[0]), int(slow[-1]) + 1)
    return truth, ways[int(rng.integers(len(ways)))]


def _course(rng: np.random.Generator, cause: str, steps: int, onset: int) -> tuple[Bools, str]:
    """([steps] when the cause is there, the kind of that)."""
    when = np.zeros(steps, bool)
    if cause in ("slow host", "slow rank"):
        onset = 0
    if cause == "host for a while":
        onset = int(rng.integers(steps // 10, steps * 6 // 10))
        when[onset : onset + int(rng.integers(steps // 20, steps // 4))] = True
        return when, "once"
    if cause.startswith("flapping") or cause == "stalling loader":
        _bursts(rng, when)
        return when, "transient"
    if cause == "periodic rank":
        every = int(rng.integers(12, 40))
        when[int(rng.integers(8, every)) :: every] = True
        return when, "periodic"
    when[onset:] = True
    return when, "persistent"


def _bursts(rng: np.random.Generator, when: Bools) -> None:
    """Now and then, for one to four steps, from some step on."""
    steps = len(when)
    starts = np.flatnonzero(rng.random(steps) < rng.uniform(0.015, 0.04))
    for start in starts[starts > rng.uniform(0.02, 0.4) * steps]:
        when[start : start + int(rng.integers(1, 5))] = True
    if not when.any():
        when[[steps // 3, steps // 2, steps // 2 + 21, steps * 2 // 3 + 4]] = True


def _group(rng: np.random.Generator, ranks: int) -> tuple[int, ...]:
    """The same place of every host, or hosts of one rack."""
    if rng.random() < 0.5:
        return tuple(range(int(rng.integers(OF_HOST)), ranks, OF_HOST))
    count, hosts = int(rng.integers(2, 5)), ranks // OF_HOST
    first = int(rng.integers(hosts - count))
    return tuple(range(first * OF_HOST, (first + count) * OF_HOST))
