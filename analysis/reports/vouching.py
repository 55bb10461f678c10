"""Which files of a record are what they were, and what vouches for each: others that it follows from, or its sum."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from analysis.records.load import LOG
from analysis.records.sums import SUMS, stored_sums, sum_of

Verdict = Literal["ok", "failed", "unchecked"]
DERIVED = (
    "columns/",
    "tables/",
    "figures/",
    "summary.json",
    "timeline.json",
    "report.html",
    "decisions.",
)
"""Prefixes of the files that an analysis writes, and writes again on request."""
REQUIRED = (LOG, "iterations.parquet", "meta.json", "plan.json", "cluster.jsonl", "hosts.parquet", "jobs.parquet")
"""Files that every run with sums has summed."""
UNVOUCHED = ("sums alone", "no sums")
"""Questions of which the answer names files."""
OF_JOBS = "jobs/"
MOST_NAMES = 200


class Check(NamedTuple):
    """One question about a record, its answer, and what was found; ``unchecked`` says why there is none."""

    question: str
    verdict: Verdict
    found: str
    files: tuple[str, ...] = ()
    """Files whose every byte is derived from other files, as the answer shows."""


def files_of(folder: Path) -> list[str]:
    """Names of all files of a record, its sums apart; records and comparisons below it are others."""
    found = []
    for place, below, files in os.walk(folder):
        here = Path(place)
        if here != folder and (SUMS in files or LOG in files):
            below.clear()
            continue
        found += [(here / name).relative_to(folder).as_posix() for name in files if name != SUMS]
    return sorted(found)


def check_sums(folder: Path) -> Iterator[Check]:
    """Whether the files are those whose SHA-256 was written when they were."""
    if not (folder / SUMS).exists():
        yield Check("files", "unchecked", f"no {SUMS} (an older record, or the run was killed)")
        return
    try:
        sums = stored_sums(folder)
    except (OSError, ValueError) as error:
        yield Check("files", "failed", str(error) if SUMS in str(error) else f"{SUMS}: {error}")
        return
    now = {name: _sum(folder, name) for name in sums}
    gone = [name for name, found in now.items() if found is None and name.startswith(DERIVED)]
    different = [name for name, said in sums.items() if now[name] != said and name not in gone]
    different += [name for name in REQUIRED if name not in sums and (folder / name).exists()]
    if different:
        yield Check("files", "failed", f"{names_text(different)}: not as the run has left it, by {SUMS}")
    else:
        yield Check(
            "files", "ok", f"{len(now) - len(gone)} files have the SHA-256 that they had when they were written"
        )
    if gone:
        yield Check("files", "unchecked", f"{names_text(gone)}: not there any more; `figures` writes it again")


def _sum(folder: Path, name: str) -> str | None:
    """Return the sum of a file of a job of the set by the job's own list, which is compared with it later."""
    if not name.startswith(OF_JOBS):
        return sum_of(folder / name)
    job, _, rest = name.removeprefix(OF_JOBS).partition("/")
    try:
        return stored_sums(folder / OF_JOBS / job)[rest] if (folder / name).is_file() else None
    except (KeyError, OSError, ValueError):
        return sum_of(folder / name)


def unvouched_files(folder: Path, checks: Sequence[Check]) -> Iterator[Check]:
    """Name the files that no answer has vouched for, with or without a sum, since anyone can compute a sum again."""
    vouched = {name for check in checks for name in check.files}
    left = [name for name in files_of(folder) if name not in vouched]
    try:
        sums: Collection[str] = stored_sums(folder) if (folder / SUMS).exists() else ()
    except (OSError, ValueError):
        sums = ()
    if alone := [name for name in left if name in sums]:
        yield Check("sums alone", "unchecked", f"nothing but {SUMS} vouches for {names_text(alone)}")
    if bare := [name for name in left if name not in sums]:
        yield Check("no sums", "unchecked", f"nothing vouches for {names_text(bare)}")


def compare_files(folder: Path, computed: Mapping[str, bytes]) -> tuple[tuple[str, ...], list[str], list[str]]:
    """(names of files that are as computed, files with other contents, missing files)."""
    same, other, missing = [], [], []
    for name, content in computed.items():
        path = folder / name
        if not path.is_file():
            missing.append(name)
        elif path.read_bytes() == content:
            same.append(name)
        else:
            other.append(name)
    return tuple(same), other, missing


def numbers_of_figures(folder: Path, draw: Callable[[Path], object]) -> dict[str, bytes]:
    """The numbers and captions of a record's figures as ``draw`` makes them, unpainted; empty: it has none."""
    from analysis.figures.page import Form, drawn_as

    if not (folder / "figures").is_dir():
        return {}
    with tempfile.TemporaryDirectory(prefix="stragglab-verify-") as place, drawn_as(Form(formats=())):
        draw(Path(place))
        return {f"figures/{path.name}": path.read_bytes() for path in sorted(Path(place).iterdir())}


def names_text(names: Sequence[str]) -> str:
    """Names, as many as are readable."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
