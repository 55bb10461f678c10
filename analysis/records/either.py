"""The record of a run, whichever kind it is: of one job, or of a cluster that ran many."""

from __future__ import annotations

from pathlib import Path

from analysis.records.cluster import Cluster, load_cluster
from analysis.records.load import CLUSTER_EVENTS, Run, load_run

Record = Run | Cluster


def load_record(path: Path) -> Record:
    """Read the directory of a run; raises :class:`analysis.records.load.RecordError`."""
    return load_cluster(path) if (path / CLUSTER_EVENTS).exists() else load_run(path)
