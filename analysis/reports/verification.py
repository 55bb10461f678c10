"""The checks of a record by itself: that it is complete, valid, and the source of the files derived from it.

Everything is computed again from the log; files that an earlier analysis stored are compared, never trusted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from itertools import repeat
from math import isclose
from pathlib import Path
from typing import Any

import msgspec

from analysis.measures.cluster.checks import check_cluster
from analysis.measures.metrics import summarise
from analysis.records.cluster import Cluster
from analysis.records.load import FOLDER, LOG, Run
from analysis.records.schema import UNREADABLE
from analysis.records.stored import INDEX, contents_files, stored_index
from analysis.reports import cluster as of_sets
from analysis.reports import report as of_runs
from analysis.reports.vouching import Check, Verdict, check_sums, compare_files, names_text, numbers_of_figures

__all__ = ["Check", "Verdict", "verify_cluster", "verify_record"]
ORDER_OF_SUMS = 1e-12
"""Part by which numbers may differ that other code has added up in another order."""
REDRAW = "`figures` writes it again"


def verify_record(run: Run, *, same_code: bool = True) -> Iterator[Check]:
    """Questions that the directory of a run answers alone.

    Args:
        run: read from its log (:func:`analysis.records.load.load_afresh`).
        same_code: whether the code here is known to be that which made the record. Other code may have written text
            another way.
    """
    yield _complete(run)
    yield from check_sums(run.path)
    yield _lawful(run)
    yield from _list_unchecked_laws(run)
    derived = dict(of_runs.derived_files(run, summarise(run)))
    yield _summary(run.path, derived, same_code)
    yield _tables(run.path, derived)
    yield from _columns(run)
    yield from _others(
        run.path, {**_rest(derived), **numbers_of_figures(run.path, lambda folder: _draw_run(run, folder))}, same_code
    )
    yield _parameters(run)


def verify_cluster(cluster: Cluster, *, same_code: bool = True) -> Iterator[Check]:
    """Questions that the record of a set of jobs answers, without the questions about its single jobs."""
    done = cluster.status == "done"
    yield Check("complete", "ok" if done else "failed", f"{cluster.status} at {cluster.end_s:g} s")
    yield from check_sums(cluster.path)
    results = of_sets.cluster_results(cluster.path)
    sound = check_cluster(cluster, results.drawn.times)
    number = len(cluster.jobs)
    if sound.ok:
        yield Check("lawful", "ok", f"{number} jobs: no GPU held twice, the books agree")
    else:
        yield Check("lawful", "failed", "; ".join(sound.problems))
    for reason in sound.unchecked:
        yield Check("lawful", "unchecked", reason)
    derived = dict(of_sets.derived_files(results))
    yield _summary(cluster.path, derived, same_code)
    yield _tables(cluster.path, derived)
    numbers = numbers_of_figures(cluster.path, lambda folder: of_sets.draw_figures(results, folder))
    yield from _others(cluster.path, {**_rest(derived), **numbers}, same_code)


def _complete(run: Run) -> Check:
    if run.finished is None:
        torn = ", the last one torn" if run.torn else ""
        return Check("complete", "failed", f"the run was killed: its lines end at {run.end_s:g} s{torn}")
    verdict: Verdict = "ok" if run.status == "done" else "failed"
    reason = f": {run.finished.reason}" if run.finished.reason else ""
    return Check("complete", verdict, f"{run.status} at {run.end_s:g} s{reason}")


def _lawful(run: Run) -> Check:
    if run.integrity.ok:
        return Check("lawful", "ok", f"{len(run.tables.iterations):,} iterations, every sample accounted for")
    return Check("lawful", "failed", "; ".join(run.integrity.problems))


def _list_unchecked_laws(run: Run) -> Iterator[Check]:
    for reason in run.integrity.unchecked:
        yield Check("lawful", "unchecked", reason)


def _rest(derived: Mapping[str, bytes]) -> dict[str, bytes]:
    """Without summary and tables, of which there are questions of their own."""
    return {name: text for name, text in derived.items() if name != "summary.json" and not name.startswith("tables/")}


def _summary(folder: Path, derived: Mapping[str, bytes], same_code: bool) -> Check:
    name = "summary.json"
    same, other, missing = compare_files(folder, {name: derived[name]})
    if missing:
        return Check("summary", "unchecked", "no summary.json (draw=false, or the run was killed)")
    computed = _decode(derived[name])
    if other:
        stored = _decode((folder / name).read_bytes())
        if not isinstance(stored, dict):
            return Check("summary", "failed", "summary.json is not a JSON object")
        tolerance = 0.0 if same_code else ORDER_OF_SUMS
        keys = stored.keys() | computed.keys()
        different = sorted(key for key in keys if not _alike(stored.get(key), computed.get(key), tolerance))
        if different and not same_code and not any(key in stored and key in computed for key in different):
            return Check("summary", "unchecked", f"the code here knows other entries: {', '.join(different)}")
        if different:
            return Check("summary", "failed", f"summary.json differs from the record in {', '.join(different)}")
    return Check("summary", "ok", f"{len(computed)} entries follow from the record", same)


def _alike(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two values of JSON are the same, numbers up to a part of ``tolerance``."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key], tolerance) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other, repeat(tolerance)))
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=tolerance)
    return bool(one == other)


def _tables(folder: Path, derived: Mapping[str, bytes]) -> Check:
    computed = {name: content for name, content in derived.items() if name.startswith("tables/")}
    if not (folder / "tables").is_dir():
        return Check("tables", "unchecked", "no tables/ (draw=false, or the run was killed)")
    same, other, missing = compare_files(folder, computed)
    different = [*missing, *(name for name in other if not _same_frame(folder / name, computed[name]))]
    if different:
        names = ", ".join(Path(name).stem for name in different)
        return Check("tables", "failed", f"{names}: missing in tables/, or not what the record says", same)
    return Check("tables", "ok", f"{len(computed)} tables follow from the record", same)


def _columns(run: Run) -> Iterator[Check]:
    """Later analyses read them in the place of the log."""
    if run.by_rows or not (run.path / FOLDER).is_dir():
        return
    computed, stored = contents_files(run), stored_index(run.path)
    if stored is None:
        yield Check("columns", "failed", f"{FOLDER}/{INDEX}: cannot be read; {REDRAW}")
        return
    now = msgspec.json.decode(computed[INDEX], type=type(stored))
    if (stored.source.log, stored.source.meta) != (now.source.log, now.source.meta):
        yield Check("columns", "failed", f"{FOLDER}/ is of another {LOG} or meta.json than those that are here")
        return
    if stored.source.code != now.source.code:
        yield Check("columns", "unchecked", f"{FOLDER}/ was derived by other code, and is not read; {REDRAW}")
        return
    when = msgspec.structs.replace(now.source, modified_ns=stored.source.modified_ns)  # of a copy it is another
    computed[INDEX] = msgspec.json.encode(msgspec.structs.replace(now, source=when))
    same, other, missing = compare_files(run.path / FOLDER, computed)
    names = tuple(f"{FOLDER}/{name}" for name in same)
    if other or missing:
        found = names_text([f"{FOLDER}/{name}" for name in (*other, *missing)])
        yield Check("columns", "failed", f"{found}: missing, or not what the log says; {REDRAW}", names)
        return
    yield Check("columns", "ok", f"{len(names)} files are what the log says", (*names, LOG, "meta.json"))


def _others(folder: Path, computed: Mapping[str, bytes], same_code: bool) -> Iterator[Check]:
    """Timeline, decisions, numbers of figures."""
    same, other, _ = compare_files(folder, computed)
    if other and same_code:
        yield Check("derived", "failed", f"{names_text(other)}: not what the record says; {REDRAW}", same)
    elif other:
        yield Check("derived", "unchecked", f"{names_text(other)}: not as the code here writes it; {REDRAW}", same)
    elif same:
        yield Check("derived", "ok", f"timeline, decisions and numbers of figures: {len(same)} files follow", same)


def _draw_run(run: Run, folder: Path) -> object:
    from analysis.figures.single import draw_run

    return draw_run(run, folder)


def _parameters(run: Run) -> Check:
    import numpy as np

    path, said = run.path / "parameters.npy", run.finished.parameters_sha256 if run.finished else ""
    if not path.exists():
        return Check("parameters", "unchecked", "not stored (save_parameters=false)")
    if run.finished and not said:
        return Check("parameters", "unchecked", "the record does not say their SHA-256: their evaluation was given up")
    try:
        vector = np.ascontiguousarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError, SyntaxError, UnicodeError) as error:
        return Check("parameters", "failed", f"parameters.npy: {' '.join(str(error).split())}")
    found = hashlib.sha256(vector.tobytes()).hexdigest()
    if found != said:
        return Check("parameters", "failed", f"parameters.npy has SHA-256 {found[:12]}, the record says {said[:12]}")
    again = BytesIO()
    np.save(again, vector)
    whole = again.getvalue() == path.read_bytes()
    return Check("parameters", "ok", f"SHA-256 {found[:12]}", (path.name,) if whole else ())


def _same_frame(path: Path, content: bytes) -> bool:
    """Whether the file holds this table."""
    import pandas as pd

    try:
        return bool(pd.read_parquet(path).equals(pd.read_parquet(BytesIO(content))))
    except Exception:  # noqa: BLE001 (whatever a reader of damaged Parquet raises, it holds no table)
        return False


def _decode(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, *UNREADABLE):
        return None
