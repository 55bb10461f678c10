"""The checks of a comparison: that its table follows from the records that it names."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.records.load import CLUSTER_EVENTS, LOG, RecordError, load_object
from analysis.reports.cluster import compare_clusters
from analysis.reports.gathering import gather_runs
from analysis.reports.report import Comparison
from analysis.reports.vouching import Check, check_sums, compare_files, names_text, numbers_of_figures

RUNS, SETS = "comparison.json", "clusters.json"


def is_comparison(folder: Path) -> bool:
    """Whether it is the directory of a comparison."""
    return (folder / RUNS).exists() or (folder / SETS).exists()


def verify_comparison(folder: Path, is_same_code: Callable[[dict[str, Any]], bool]) -> Iterator[Check]:
    """Questions about the directory of a comparison; raises :class:`RecordError` where its table cannot be read.

    ``is_same_code`` says of a record's ``meta.json`` whether it is known that the code here made it.
    """
    yield from check_sums(folder)
    of_sets = not (folder / RUNS).exists()
    stored = load_object(folder / (SETS if of_sets else RUNS))
    named = [Path(str(run["path"])) for run in stored["runs"]]
    paths = [_here(folder, path, CLUSTER_EVENTS if of_sets else LOG) for path in named]
    if gone := [str(name) for name, path in zip(named, paths, strict=True) if path is None]:
        yield Check("comparison", "unchecked", f"not here: {names_text(gone)}")
        return
    here = [path for path in paths if path is not None]
    try:
        computed = _sets(here, named, stored) if of_sets else _runs(folder, here, named, stored)
    except RecordError as error:
        yield Check("comparison", "failed", str(error))
        return
    same, other, missing = compare_files(folder, computed)
    if other or missing:
        surely = all(is_same_code(load_object(path / "meta.json")) for path in here)
        found = f"{names_text([*other, *missing])}: not what the records say"
        yield Check("comparison", "failed" if surely else "unchecked", found + ("" if surely else " here"), same)
    else:
        yield Check("comparison", "ok", f"{len(same)} files follow from {len(here)} records", same)


def _here(folder: Path, named: Path, log: str) -> Path | None:
    """Next to the comparison, where a copied sweep has it, or where it was."""
    return next((path for path in (folder.parent / named.name, named) if (path / log).exists()), None)


def _runs(folder: Path, here: list[Path], named: list[Path], stored: dict[str, Any]) -> dict[str, bytes]:
    found = gather_runs(here, str(stored["baseline"]), kept=False)
    rows = [{**row, "path": str(path)} for row, path in zip(found.rows, named, strict=True)]
    numbers = numbers_of_figures(folder, Comparison(found).draw)
    return {**dict(Comparison(replace(found, rows=rows, skipped=stored["skipped"])).files()), **numbers}


def _sets(here: list[Path], named: list[Path], stored: dict[str, Any]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="stragglab-verify-") as place:
        compare_clusters(here, place, str(stored["baseline"]), draw=False)
        names = ["clusters.csv", "job_ratios.csv", *([SETS] if here == named and not stored["skipped"] else [])]
        return {name: (Path(place) / name).read_bytes() for name in names}
