"""Outcomes of a hundred jobs before and after a refactoring, to show that it changes nothing else.

python -m scripts.measure.snapshot --write          # before: store the outcomes; git ignores the file
python -m scripts.measure.snapshot                  # run every virtual job of tests/snapshots/jobs.yaml and compare
python -m scripts.measure.snapshot --live           # the live ones, too (some minutes of processes)
python -m scripts.measure.snapshot 'hosts/*'        # some of them, by name

Stored for every job: how it ended, its time, updates, staleness, the hash of its final parameters, and the hash of all
commands that its strategy gave, each with its time and the event it answers. Only ``run.py`` and records are used, no
internals. Hashes of parameters depend on the machine (matrix products differ in the last bit between processors), so
elsewhere they are not compared, which is reported. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import yaml
from rich.console import Console

from runtime.errors import FAILED, ConfigError, print_error
from runtime.house import ROOT
from stragglab.grids.forks import in_forks, processors, run_here
from stragglab.grids.grid import QUIET, progress, quote, run_child

FOLDER = ROOT / "tests" / "snapshots"
KEPT = ("all", "parameters", "samples")
SAMPLES = ("status", "epochs_done", "samples_applied", "shards_done", "shards_total")
PARAMETERS = (*SAMPLES, "version", "staleness", "parameters_sha256")
MACHINE_BOUND = ("parameters_sha256",)


class SnapshotJob(NamedTuple):
    """A job, and how much of its outcome must not change."""

    words: tuple[str, ...]
    keeps: str


def main(argv: Sequence[str] | None = None) -> int:
    """Run, compare or write; returns the exit code (see the module)."""
    console = Console(highlight=False, markup=False)
    try:
        asked = parse(argv)
        jobs = {
            name: job
            for name, job in jobs_of(yaml.safe_load((FOLDER / "jobs.yaml").read_text())).items()
            if any(fnmatch(name, pattern) for pattern in asked.names) and (asked.live or job.keeps == "all")
        }
        if not jobs:
            raise ConfigError(f"{' '.join(asked.names)}: no such job")
        found = outcomes(jobs, asked.jobs, console)
    except ConfigError as error:
        return print_error("snapshot.py", error)
    if asked.write:
        keep(found)
        return 0
    return compare(found, read_stored(), console)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line, with defaults filled in."""
    head, _, more = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=head, epilog=more, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=["*"], help="patterns of jobs' names (default: all)")
    parser.add_argument("--live", action="store_true", help="run live jobs, too")
    parser.add_argument("--write", action="store_true", help="store the outcomes instead of comparing")
    parser.add_argument("--jobs", type=int, default=processors(), help="virtual jobs at a time")
    return parser.parse_args(argv)


def jobs_of(families: dict[str, Any]) -> dict[str, SnapshotJob]:
    """The jobs by name; a family is expanded over all its lists."""
    found = {}
    for family, about in families.items():
        lists = about.get("each", {})
        for values in product(*lists.values()):
            chosen = tuple(f"{name}={value}" for name, value in zip(lists, values, strict=True))
            keeps = about.get("keeps", "all")
            if keeps not in KEPT:
                raise ConfigError(f"{family}: keeps: {keeps} is none of {', '.join(KEPT)}")
            found["/".join([family, *map(str, values)])] = SnapshotJob((*about["words"], *chosen), keeps)
    return found


def outcomes(jobs: dict[str, SnapshotJob], at_a_time: int, console: Console) -> dict[str, dict[str, Any]]:
    """The outcomes of all jobs: virtual ones run in forks, live ones one after another."""
    found: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory() as folder, progress(console) as bar:
        task = bar.add_task("", total=len(jobs))
        places = {name: Path(folder, str(number)) for number, name in enumerate(jobs)}

        def run_jobs() -> Iterator[tuple[str, int]]:
            virtual = [name for name, job in jobs.items() if job.keeps == "all"]
            yield from in_forks(virtual, lambda name: run_here(*words_and_log(name)), at_a_time)
            for name in jobs:
                if name not in virtual:
                    yield name, run_child(*words_and_log(name))

        def words_and_log(name: str) -> tuple[list[str], Path]:
            words = [*QUIET, *jobs[name].words, f"hydra.run.dir={quote(places[name])}"]
            return words, places[name].with_suffix(".log")

        for name, code in run_jobs():
            found[name] = outcome(places[name], code, jobs[name].keeps)
            if found[name].get("status") != "done":
                console.print(f"{name}: {found[name]}")
            bar.update(task, description=name, advance=1, refresh=True)
    return {name: found[name] for name in jobs}


def outcome(record: Path, code: int, keeps: str) -> dict[str, Any]:
    """The stored part of a job's outcome; for a job that did not run, its last line."""
    if not (record / "events.jsonl").exists():
        said = " ".join(record.with_suffix(".log").read_text(errors="replace").split())
        return {"status": "refused", "exit_code": code, "reason": said[-300:]}
    lines = [json.loads(line) for line in (record / "events.jsonl").read_text().splitlines()]
    end = lines[-1].get("note", {})
    whole = {name: end.get(name) for name in (*SAMPLES, "version", "parameters_sha256")}
    whole |= {"jct_s": lines[-1]["t"], "staleness": staleness(lines), "commands_sha256": commands_sha256(lines)}
    rows = record / "iterations.parquet"
    if rows.exists():
        whole |= {"rows_sha256": rows_sha256(rows), "parquet": parquet_sha256(rows)}
    if keeps == "all":
        return dict(sorted(whole.items()))
    return {name: whole[name] for name in (SAMPLES if keeps == "samples" else PARAMETERS)}


def staleness(lines: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Histogram of staleness: number of applied gradients by updates since their parameters were read."""
    versions: dict[int, int] = {}
    found: Counter[int] = Counter()
    before = 0
    for line in lines:
        if line["kind"] != "event":
            continue
        if line["event"]["type"] == "Arrived":
            versions[line["event"]["grad"]["id"]] = line["event"]["grad"]["version"]
        applied = [command for command in line["commands"] if command["type"] == "Apply"]
        for number, command in enumerate(applied[: line["version"] - before]):
            found.update(before + number - versions.pop(grad) for grad in command["grads"])
        before = line["version"]
    return {str(updates): found[updates] for updates in sorted(found)}


def commands_sha256(lines: Sequence[dict[str, Any]]) -> str:
    """Hash of all events that the strategy received, with times, and of its answers."""
    found = hashlib.sha256()
    for line in lines:
        if line["kind"] == "event" and "commands" in line:
            event = line["event"]
            grad = event.get("grad")  # a number in Replicated
            who = grad["worker"] if isinstance(grad, dict) else event.get("worker", event.get("server"))
            commands = json.loads(json.dumps(line["commands"]), parse_float=round_number)
            found.update(json.dumps([event["type"], line["t"], who, commands], sort_keys=True).encode())
    return found.hexdigest()[:16]


def round_number(text: str) -> float:
    """A number of a command to six digits: weights of codes and of scores are solved for, and so machine-bound."""
    return float(f"{float(text):.6g}")


def rows_sha256(path: Path) -> str:
    """Hash of a table's values, independent of the file's bytes."""
    import pandas as pd

    return hashlib.sha256(pd.read_parquet(path).to_csv(index=False).encode()).hexdigest()[:16]


def parquet_sha256(path: Path) -> str:
    """Version of the library that wrote a table, and the hash of the file's bytes: they are the same by one version."""
    import pyarrow

    return f"{pyarrow.__version__}:{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def machine() -> dict[str, str]:
    """Return the properties of the machine on which the last bits of a matrix product may depend."""
    import numpy as np
    import torch

    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = models[0].partition(": ")[2] if models else platform.processor()
    return {"cpu": cpu, "numpy": np.__version__, "torch": torch.__version__}


def read_stored() -> dict[str, Any]:
    """The stored outcomes; raises :class:`ConfigError` without a file."""
    path = FOLDER / "outcomes.json"
    if not path.exists():
        raise ConfigError(f"{path} does not exist; --write creates it")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def keep(found: dict[str, dict[str, Any]]) -> None:
    """Store these outcomes, keeping other jobs' outcomes.

    If those are of another machine, the file remains that one's, and these have no hashes of parameters.
    """
    path = FOLDER / "outcomes.json"
    before = read_stored() if path.exists() else {"machine": machine(), "jobs": {}}
    where = before["machine"] if before["jobs"].keys() - found.keys() else machine()
    if where != machine():
        found = {
            name: {field: about[field] for field in about if field not in MACHINE_BOUND}
            for name, about in found.items()
        }
    jobs = dict(sorted({**before["jobs"], **found}.items()))
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(about)}" for name, about in jobs.items())
    path.write_text(f'{{"machine": {json.dumps(where)},\n "jobs": {{\n{lines}\n }}\n}}\n')


def compare(found: dict[str, dict[str, Any]], kept: dict[str, Any], console: Console) -> int:
    """Print every difference; returns the exit code."""
    elsewhere = kept["machine"] != machine()
    left_out = MACHINE_BOUND if elsewhere else ()
    if elsewhere:
        console.print(f"stored on another machine ({kept['machine']}): hashes of parameters are not compared")
    differing = 0
    for name, now in found.items():
        then = kept["jobs"].get(name)
        if then is None:
            console.print(f"{name}: has no stored outcome")
            differing += 1
            continue
        unknown = [field for field in MACHINE_BOUND if field not in then]  # written elsewhere, see keep
        fields = [field for field in sorted({*then, *now}) if field not in (*left_out, *unknown)]
        changed = {field: (then.get(field), now.get(field)) for field in fields if then.get(field) != now.get(field)}
        if changed:
            differing += 1
            console.print(f"{name}: " + "; ".join(f"{field} was {a}, is {b}" for field, (a, b) in changed.items()))
    console.print(f"{len(found) - differing} of {len(found)} jobs are unchanged")
    return FAILED if differing else 0


if __name__ == "__main__":
    sys.exit(main())
