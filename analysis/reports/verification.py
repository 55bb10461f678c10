"""What a reader can check of a record by itself: that it is whole, lawful, and the source of the files derived from it.

Everything is computed again from the log; what an earlier analysis stored next to it is compared, never trusted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from analysis.records.load import Run
from analysis.reports.sums import OF_CLUSTER, OF_JOB, SUMS, changed, stored_sums

if TYPE_CHECKING:
    from analysis.records.cluster import Cluster

Verdict = Literal["ok", "failed", "unchecked"]


class Check(NamedTuple):
    """One question about a record, its answer, and what was found; ``unchecked`` says why nobody can tell."""

    question: str
    verdict: Verdict
    found: str


def verify_record(run: Run) -> Iterator[Check]:
    """Questions that the directory of a run answers alone.

    Args:
        run: read from its log (:func:`analysis.records.load.load_afresh`).
    """
    yield _complete(run)
    yield _files(run.path, OF_JOB)
    yield _lawful(run)
    yield from _unchecked_laws(run)
    yield _summary(run)
    yield _tables(run)
    yield _parameters(run)


def verify_cluster(cluster: Cluster) -> Iterator[Check]:
    """Questions that the record of a set of jobs answers, those of its single jobs apart."""
    from analysis.measures.cluster.checks import check_cluster
    from analysis.measures.cluster.jobs import job_times

    done = cluster.status == "done"
    yield Check("complete", "ok" if done else "failed", f"{cluster.status} at {cluster.end_s:g} s")
    yield _files(cluster.path, OF_CLUSTER)
    sound = check_cluster(cluster, job_times(cluster))
    number = len(cluster.jobs)
    if sound.ok:
        yield Check("lawful", "ok", f"{number} jobs: no GPU held twice, the books agree")
    else:
        yield Check("lawful", "failed", "; ".join(sound.problems))
    for reason in sound.unchecked:
        yield Check("lawful", "unchecked", reason)


def _complete(run: Run) -> Check:
    if run.finished is None:
        torn = ", the last one torn" if run.torn else ""
        return Check("complete", "failed", f"the run was killed: its lines end at {run.end_s:g} s{torn}")
    verdict: Verdict = "ok" if run.status == "done" else "failed"
    reason = f": {run.finished.reason}" if run.finished.reason else ""
    return Check("complete", verdict, f"{run.status} at {run.end_s:g} s{reason}")


def _files(folder: Path, names: Sequence[str]) -> Check:
    if not (folder / SUMS).exists():
        return Check("files", "unchecked", f"no {SUMS} (an older record, or the run was killed)")
    try:
        sums = stored_sums(folder)
    except (OSError, ValueError) as error:
        return Check("files", "failed", str(error))
    if different := changed(folder, sums, names):
        return Check("files", "failed", f"{', '.join(different)}: not as the run has left it, by {SUMS}")
    compared = sum(name in sums for name in names)
    return Check("files", "ok", f"{compared} files have the SHA-256 that they had when the run ended")


def _lawful(run: Run) -> Check:
    if run.integrity.ok:
        return Check("lawful", "ok", f"{len(run.tables.iterations):,} iterations, every sample accounted for")
    return Check("lawful", "failed", "; ".join(run.integrity.problems))


def _unchecked_laws(run: Run) -> Iterator[Check]:
    for reason in run.integrity.unchecked:
        yield Check("lawful", "unchecked", reason)


def _summary(run: Run) -> Check:
    from analysis.measures.metrics import summarise
    from analysis.reports.report import json_bytes

    path = run.path / "summary.json"
    if not path.exists():
        return Check("summary", "unchecked", "no summary.json (draw=false, or the run was killed)")
    stored, computed = _decoded(path.read_bytes()), _decoded(json_bytes(summarise(run)))
    if not isinstance(stored, dict):
        return Check("summary", "failed", "summary.json is not a JSON object")
    different = sorted(key for key in stored.keys() | computed.keys() if stored.get(key) != computed.get(key))
    if different:
        return Check("summary", "failed", f"summary.json differs from the record in {', '.join(different)}")
    return Check("summary", "ok", f"{len(computed)} entries follow from the record")


def _tables(run: Run) -> Check:
    folder = run.path / "tables"
    if not folder.is_dir():
        return Check("tables", "unchecked", "no tables/ (draw=false, or the run was killed)")
    different = [name for name, frame in run.tables.items() if not _same_frame(folder / f"{name}.parquet", frame)]
    if different:
        return Check("tables", "failed", f"{', '.join(different)}: missing in tables/, or not what the record says")
    return Check("tables", "ok", f"{len(dict(run.tables.items()))} tables follow from the record")


def _parameters(run: Run) -> Check:
    import numpy as np

    path, said = run.path / "parameters.npy", run.finished.parameters_sha256 if run.finished else ""
    if not path.exists():
        return Check("parameters", "unchecked", "not stored (save_parameters=false)")
    try:
        found = hashlib.sha256(np.ascontiguousarray(np.load(path, allow_pickle=False)).tobytes()).hexdigest()
    except (OSError, ValueError) as error:
        return Check("parameters", "failed", f"parameters.npy: {error}")
    if found != said:
        return Check("parameters", "failed", f"parameters.npy has SHA-256 {found[:12]}, the record says {said[:12]}")
    return Check("parameters", "ok", f"SHA-256 {found[:12]}")


def _same_frame(path: Path, frame: Any) -> bool:
    """Whether the file holds this table: the table is written and read again, too, which changes some types."""
    import pandas as pd

    if not path.exists():
        return False
    buffer = BytesIO()
    frame.to_parquet(buffer, index=False)
    try:
        return bool(pd.read_parquet(path).equals(pd.read_parquet(buffer)))
    except (OSError, ValueError):
        return False


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
