"""The traffic of the other jobs of a set between the hosts that all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.measures.host_work import crossing_bytes
from analysis.records.cluster import load_cluster
from analysis.records.load import CLUSTER_EVENTS, RecordError, Run


def set_of(run: Run) -> Path | None:
    """The directory of the set of jobs that a run is one of; None: it had its hosts for itself."""
    folder = run.path.parent.parent
    return folder if run.path.parent.name == "jobs" and (folder / CLUSTER_EVENTS).is_file() else None


class Neighbours:
    """The jobs of the sets that ``runs`` are of; ``model_bytes`` of each run's parameters.

    Raises:
        RecordError: a job of one of these sets that began to train is not among them, or has no servers. One line.
    """

    def __init__(self, runs: Sequence[Run], model_bytes: Sequence[int]) -> None:
        self._sent: dict[Path, list[tuple[Path, NDArray[np.float64], NDArray[np.float64]]]] = {}
        """For each job of each set, when its gradients arrived on the set's clock, and the bytes sent by then."""
        self._zero_s: dict[Path, float] = {}
        given = {run.path for run in runs}
        for folder in dict.fromkeys(folder for run in runs if (folder := set_of(run)) is not None):
            jobs = load_cluster(folder).jobs.set_index("job")
            for job in jobs.index[jobs["zero_s"].notna()]:
                if folder / "jobs" / job not in given:
                    raise RecordError(f"{folder}: job {job} shared its hosts and is not among the runs. Give the set")
            self._zero_s |= {folder / "jobs" / job: float(zero_s) for job, zero_s in jobs["zero_s"].items()}
        for run, num_bytes in zip(runs, model_bytes, strict=True):
            if (folder := set_of(run)) is not None:
                if not run.job.get("num_servers"):
                    raise RecordError(
                        f"{run.path}: a job of a set without servers. A cost model is fitted to sets of others"
                    )
                rows = run.tables.iterations.sort_values("t")
                each = 2 * rows["worker"].map(crossing_bytes(run, num_bytes)).to_numpy(dtype="float64")
                times = rows["t"].to_numpy(dtype="float64") + self._zero_s[run.path]
                sent = np.concatenate([[0.0], np.cumsum(each)])
                self._sent.setdefault(folder, []).append((run.path, times, sent))

    def bytes_per_s(self, run: Run, until_s: pd.Series, period_s: pd.Series) -> pd.Series:
        """Return other jobs' bytes sent, by iterations that ended in the periods until then on the run's clock."""
        total = pd.Series(0.0, index=until_s.index)
        for path, times, sent in self._sent.get(set_of(run) or Path(), []):
            if path != run.path:
                zero_s = self._zero_s[run.path]
                ends = (np.searchsorted(times, at + zero_s, side="right") for at in (until_s, until_s - period_s))
                until, since = (sent[end] for end in ends)
                total += (until - since) / period_s
        return total
