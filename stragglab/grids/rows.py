"""Experiments whose rows stay (``keep_rows``): the runs without a row that counts, and what counts.

A row counts while the run's settings are what they were, and no other program took part of the machine while the run
was timed. One of other code still counts, as *older*; ``--fresh`` repeats it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from analysis.experiments.results import Results
from analysis.experiments.rows import BUSY_FRAC, Row, is_busy, name_in, read_rows, results_of_rows, row_of, write_rows
from analysis.experiments.spec import Cell, Spec, cells, settings_of
from analysis.records.load import Run
from analysis.records.provenance import ranges
from runtime.house import ROOT
from runtime.record.meta import describe_versions
from runtime.run.inputs import files_in
from runtime.virtual.costs import load_costs
from stragglab.grids.code import modules_in, sha256_of_run
from stragglab.grids.experiments import DIRTY, check, claims_of, composed_words, folder_of, marked_claims
from stragglab.grids.forks import processors, run_here
from stragglab.grids.grid import QUIET, JobFailed, Runner, fill, run_child
from stragglab.grids.idleness import others_frac, read_spent
from stragglab.vouching.fitted_since import is_refitted

ROWS = "rows"
"""Name of the folder of such files, next to the pages."""
WHOLE_S = "max_time_s"
"""The setting that limits a run of unknown length."""
HEX = 16
"""Digits of the hashes in rows."""
AROUND_S = 20.0
"""Seconds of a run before and after its job, at most: imports, start, record."""


class Wanted(NamedTuple):
    """A run of the experiment: its cell, configuration and runtime, and the hashes of its settings and code."""

    cell: Cell
    words: list[str]
    config: dict[str, Any]
    runtime: str
    settings: str
    code: str


def path_of(spec: Spec, asked: argparse.Namespace) -> Path:
    """Return where the rows of an experiment are."""
    path: Path = asked.pages / ROWS / f"{spec.name}.csv"
    return path


def wanted_runs(spec: Spec) -> list[Wanted]:
    """Return the runs of an experiment in the order in which their rows are made.

    All of one seed come before the next, so that every comparison gets its seeds alike; of a seed the live ones, one
    case after another with all its systems (the levels of ``figure.by``), so that a piece of an hour ends with complete
    comparisons; then the virtual ones, which need no idle machine.
    """
    axes = sorted(spec.axes, key=lambda axis: axis == spec.figure.by)
    places = {axis: {level: place for place, level in enumerate(spec.axes[axis])} for axis in axes}
    seeds = {seed: place for place, seed in enumerate(spec.seeds)}
    composed: dict[tuple[str, ...], tuple[dict[str, Any], str]] = {}
    hashes: dict[tuple[str, ...], str] = {}  # runs that name the same classes execute the same code
    found = []
    with composed_words() as compose_words:
        for cell in cells(spec):
            words = settings_of(spec, cell)
            alike = tuple(word for word in words if not word.startswith("seed="))
            runtime = "virtual" if "runtime=virtual" in words else "live"
            if alike not in composed:
                config = compose_words([*alike, *QUIET])
                named = (runtime, *sorted({*modules_in(config)}))
                if named not in hashes:
                    hashes[named] = sha256_of_run(config, runtime)[:HEX]
                composed[alike] = config, hashes[named]
            without_seed, code = composed[alike]
            config = {**without_seed, "seed": cell.seed}
            found.append(Wanted(cell, words, config, runtime, _settings_sha256(config), code))

    def place(one: Wanted) -> tuple[object, ...]:
        levels = [places[axis][one.cell.levels[axis]] for axis in axes]
        return (seeds[one.cell.seed], one.runtime == "virtual", levels)

    return sorted(found, key=place)


def _settings_sha256(config: Mapping[str, Any]) -> str:
    """Hash a composed configuration, and the files that it names."""
    files = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted({*files_in(config)})]
    return hashlib.sha256(json.dumps([config, files], sort_keys=True, default=str).encode()).hexdigest()[:HEX]


def counts(wanted: Wanted, row: Row | None) -> bool:
    """Whether a row is of this run's settings, and was measured on a machine without other work."""
    if row is None or row["settings"] != wanted.settings or (row["runtime"] == "live" and is_busy(row)):
        return False
    if is_refitted(json.loads(row["fitted"]), wanted.config):
        return False
    live = wanted.runtime == "live"
    return live or load_costs(wanted.config["cluster"]["costs"]).is_of(row["calibration"])


def is_older(wanted: Wanted, row: Row) -> bool:
    """Whether a row that counts was measured with other code."""
    return row["code"] != wanted.code


class Kept:
    """The rows of an experiment while some are made."""

    def __init__(self, spec: Spec, asked: argparse.Namespace) -> None:
        self.spec, self.path = spec, path_of(spec, asked)
        self.rows = {name: row for row in read_rows(self.path) if (name := name_in(spec, row))}
        self.wanted = wanted_runs(spec)
        self.commit = commit_of_code()

    def missing(self, asked: argparse.Namespace) -> list[Wanted]:
        """Return the runs that have no row that counts; ``--fresh`` adds runs of older code."""
        return [
            one
            for one in self.wanted
            if asked.again
            or not counts(one, row := self.rows.get(one.cell.name))
            or (asked.fresh and row is not None and is_older(one, row))
        ]

    def likely_s(self, one: Wanted) -> float:
        """Return how long a run may take: as long as with another seed, as the longest other run, or its limit."""
        alike = [
            row for row in self.rows.values() if all(row[axis] == one.cell.levels[axis] for axis in self.spec.axes)
        ]
        others = [row for row in self.rows.values() if row["runtime"] == one.runtime]
        if known := [float(row["wall_s"]) for row in alike or others]:
            return max(known)
        return float(one.config[WHOLE_S]) + AROUND_S

    def add(self, one: Wanted, row: Row) -> None:
        """Write a row, unless it would replace one that counts by one that does not."""
        name = one.cell.name
        if counts(one, row) or not counts(one, self.rows.get(name)):
            self.rows[name] = row
            write_rows(self.path, list(self.rows.values()))


def make_rows(
    specs: Sequence[Spec], asked: argparse.Namespace, console: Console, runner: Runner | None
) -> dict[str, JobFailed]:
    """Make the missing rows of some experiments, all of one seed before the next, until ``--minutes`` are over.

    Each row is written when its run has ended. Returns the failures by experiment; a refused setting raises
    :class:`ConfigError` before the first run.
    """
    end_s = None if asked.minutes is None else time.monotonic() + 60.0 * asked.minutes
    kept = {spec.name: Kept(spec, asked) for spec in specs}
    missing = {name: one.missing(asked) for name, one in kept.items()}
    for name, one in kept.items():
        said = f"{len(missing[name])} of {len(one.wanted)} runs have no row that counts"
        console.print(f"{name}: {one.spec.title} ({one.spec.where}), {said}", soft_wrap=True)
        if missing[name]:
            check(one.spec, [each.cell for each in one.wanted], folder_of(one.spec, asked))
    failed: dict[str, list[str]] = {}
    for name, batch in _batches(missing, asked.jobs or processors()):
        if end_s is not None and time.monotonic() + max(map(kept[name].likely_s, batch)) > end_s:
            console.print(f"the next run, {name} {batch[0].cell.name}, would end after {asked.minutes:g} minutes")
            break
        for ended in batch:
            missing[name].remove(ended)
        try:
            _make(kept[name], batch, asked, console, runner)
        except JobFailed as error:
            failed.setdefault(name, []).append(str(error))
    if left := sum(map(len, missing.values())):
        console.print(f"{left} runs remain: the same command continues")
    return {name: JobFailed("; ".join(said)) for name, said in failed.items()}


def _batches(missing: Mapping[str, Sequence[Wanted]], forks: int) -> Iterator[tuple[str, list[Wanted]]]:
    """Live runs one at a time, virtual ones as many as there are processors; seed by seed over all experiments."""
    seeds = sorted({one.cell.seed for some in missing.values() for one in some})
    for seed in seeds:
        for name, some in {name: list(some) for name, some in missing.items()}.items():
            here = [one for one in some if one.cell.seed == seed]
            yield from ((name, [one]) for one in here if one.runtime == "live")
            virtual = [one for one in here if one.runtime == "virtual"]
            yield from ((name, virtual[first : first + forks]) for first in range(0, len(virtual), forks))


def _make(
    kept: Kept, batch: Sequence[Wanted], asked: argparse.Namespace, console: Console, runner: Runner | None
) -> None:
    """Run a batch and write its rows."""
    out, live = folder_of(kept.spec, asked), batch[0].runtime == "live"
    words = {one.cell.name: [*one.words, *QUIET] for one in batch}
    forks, own = (0 if live or runner else len(batch)), runner or (run_child if live else run_here)
    begin = read_spent()
    found = fill(words, {}, out, console, own, live=False, forks=forks)  # not as live: the share of others is measured
    end = read_spent()
    others = others_frac(begin, end) if live else ""
    for one in batch:
        record = found[one.cell.name]
        if not isinstance(record, Run):
            raise JobFailed(f"{one.cell.name}: rows are of single jobs")
        more = {"wall_s": round(end.at_s - begin.at_s, 1), "others_frac": others, "settings": one.settings}
        more |= {"code": one.code, "commit": kept.commit}
        row = row_of(kept.spec, one.cell, record, more)
        kept.add(one, row)
        if live and is_busy(row):
            part = f"{100 * float(row['others_frac']):.0f} %"
            console.print(f"other programs took {part} of the machine: this run does not count", soft_wrap=True)


def commit_of_code() -> str:
    """Return the commit, with ``-dirty`` if anything but pages of papers has changed since: rows are among those."""
    commit = describe_versions()["commit"]
    if not commit.endswith(DIRTY):
        return commit
    words = ["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/paper"]
    try:
        changed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return commit
    return commit if changed else commit.removesuffix(DIRTY)


def results_that_count(spec: Spec, asked: argparse.Namespace) -> tuple[Results | None, bool]:
    """Return the results of those seeds with which every run has a row that counts, and whether there are any.

    Without such a seed: of all rows that count; None if there are none.
    """
    kept = Kept(spec, asked)
    counting = {one.cell.name: row for one in kept.wanted if counts(one, row := kept.rows.get(one.cell.name)) and row}
    whole = [
        seed for seed in spec.seeds if all(one.cell.name in counting for one in kept.wanted if one.cell.seed == seed)
    ]
    if not counting:
        return None, False
    used = {one.cell.name for one in kept.wanted if not whole or one.cell.seed in whole}
    rows = {name: row for name, row in counting.items() if name in used}
    older = sum(is_older(one, rows[one.cell.name]) for one in kept.wanted if one.cell.name in rows)
    busy = sum(is_busy(row) for row in kept.rows.values() if row["runtime"] == "live")
    results = results_of_rows(spec, rows, claims_of(spec), remark_on_rows(spec, rows, whole, older, busy))
    return replace(results, marked=marked_claims(spec)), bool(whole)


def remark_on_rows(spec: Spec, rows: Mapping[str, Row], whole: Sequence[int], older: int, busy: int) -> str:
    """Describe the rows behind the results for the page: what is live and how, what is missing, older, or left out."""
    live = [row for row in rows.values() if row["runtime"] == "live"]
    said = [f"{len(live)} live runs and {len(rows) - len(live)} virtual ones"]
    if whole and len(whole) < len(spec.seeds):
        plural = "s" * (len(whole) > 1)
        said.append(f"complete for seed{plural} {ranges(whole)} of {ranges(spec.seeds)}")
    if live:
        for name, word in (
            ("backend", "backend"),
            ("collective", "collective"),
            ("throttles", "processor throttled by"),
        ):
            if values := dict.fromkeys(row[name] for row in live if row[name] not in ("", "none")):
                said.append(f"{word} {', '.join(values)}")
        most = max(float(row["overrun_frac"] or 0.0) for row in live)
        said.append(f"iterations longer than their paced devices by {100 * most:.1f} % of a worker's time at most")
    if older:
        said.append(f"{older} runs are of older code")
    if busy:
        said.append(f"{busy} more do not count, as other programs took over {100 * BUSY_FRAC:g} % of the machine")
    return "; ".join(said)
