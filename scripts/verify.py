"""Is this record what it says? Check a run, or every run below a directory, as a reviewer of a paper would.

python run.py verify runs/2024-11-21_08-00-00_ssp_transient_seed0    # one run, question by question
python run.py verify out/experiments                                 # every run below, one line each
python run.py verify runs/... --again                                # virtual runs: run them again, compare the bytes

Asked of each: is it complete, does it obey the laws of the protocol (every sample accounted for), do the summary and
the tables follow from the log, are the stored parameters those whose hash was recorded, is the plan the one whose hash
was recorded, does a fresh strategy give the recorded answers to the recorded events, and is the code here the code that
made it? What cannot be checked is said with the reason, and is no failure. The exit code is 0 if nothing failed, 1 if
something did, 2 if there is no record.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analysis.files import natural
from analysis.records.load import CLUSTER_EVENTS, LOG, RecordError, Run, find_clusters, find_runs, load_afresh
from analysis.records.schema import ROWS, Other
from analysis.reports.verification import Check, Verdict, verify_cluster, verify_record
from injectors.plan import parse_plan, plan_sha256
from reading import Unreadable
from reading.errors import shown
from reading.plain import load_yaml
from runtime.config import project
from runtime.config.foreign import taken_from_record
from runtime.errors import REFUSED, ConfigError, print_error, refuse
from runtime.house import NAME, run_py
from runtime.importing import importing
from runtime.record.progress import counted
from runtime.run.streams import run_program
from scripts.common.finding import records_below

if TYPE_CHECKING:
    from rich.table import Table

KEPT = "the records are as they were; the same command starts again"
"""What a signal leaves."""

STYLES: dict[Verdict, str] = {"ok": "green", "failed": "bold red", "unchecked": "yellow"}
AGAIN_DEADLINE_S = 3600.0


def main(argv: Sequence[str] | None = None) -> int:
    """Verify what is named; returns the exit code (see the module)."""
    from rich.console import Console

    try:
        arguments = _parser().parse_args(argv)
        paths = records_below(arguments.dirs, _find)
    except ConfigError as error:
        return print_error("verify", error)
    with importing():  # what all checks need takes longer than most of them
        import analysis.measures.metrics  # noqa: F401
    console = Console(highlight=False)
    failed = 0
    for path in counted(paths, len(paths), "verifying records"):
        checks = list(verify(path, again=arguments.again))
        failed += any(check.verdict == "failed" for check in checks)
        if len(paths) == 1:
            console.print(_in_full(path, checks), soft_wrap=not console.is_terminal)
        else:
            console.print(_in_short(path, checks), markup=False, soft_wrap=True)
    runs = "1 run" if len(paths) == 1 else f"{len(paths)} runs"
    console.print(f"{runs}: {failed} failed" if failed else f"{runs} verified: nothing failed", markup=False)
    return 1 if failed else 0


def verify(path: Path, *, again: bool = False) -> Iterator[Check]:
    """All questions about one run, or about a set of jobs; its jobs are runs of their own."""
    from analysis.records.cluster import load_cluster

    try:
        if (path / CLUSTER_EVENTS).exists():
            yield from verify_cluster(load_cluster(path))
            return
        run = load_afresh(path)
    except RecordError as error:
        yield Check("readable", "failed", str(error))
        return
    yield from verify_record(run)
    yield _plan(run)
    yield _decisions(run)
    yield _code(run)
    if again:
        yield _again(run)


def _find(folder: Path) -> list[Path]:
    return sorted([*find_clusters(folder), *find_runs(folder)], key=lambda path: natural(str(path)))


def _plan(run: Run) -> Check:
    said = str(run.meta.get("plan_sha256"))
    try:
        found = plan_sha256(parse_plan((run.path / "plan.json").read_bytes()))
    except ValueError as error:
        return Check("plan", "failed", str(error))
    if found != said:
        return Check("plan", "failed", f"plan.json has SHA-256 {found[:12]}, meta.json says {said[:12]}")
    return Check("plan", "ok", f"{len(run.plan)} disturbances, SHA-256 {found[:12]}")


def _decisions(run: Run) -> Check:
    from runtime.record.replay import replay
    from scripts.replay import build_strategy, read_record

    if (run.path / ROWS).exists():
        return Check("decisions", "unchecked", "recorded by rows, without decisions (record=iterations)")
    if not (run.path / ".hydra" / "config.yaml").exists():
        return Check("decisions", "unchecked", "no .hydra/config.yaml, which alone names the strategy's class")
    try:
        record, strategy = read_record(run.path), build_strategy(run.path)
    except ConfigError as error:
        if needs := _unnamed_project(run):
            return Check("decisions", "unchecked", needs)
        return Check("decisions", "failed", str(error))
    for number, step in enumerate(replay(record.events, strategy)):
        if not step.identical:
            how = step.raised or "other commands" * (not step.same_commands) or "another state"
            return Check("decisions", "failed", f"seq {step.recorded.seq}: {how}, after {number} identical answers")
    return Check("decisions", "ok", f"{len(record.events):,} events, to each the recorded answer")


def _unnamed_project(run: Run) -> str:
    """What is missing here of a run with code of its user's own; empty: nothing."""
    named = str((run.meta.get("versions") or {}).get("project") or "")
    if not named or project.folder() is not None:
        return ""
    return f"the run has code of the project {named.rpartition(' ')[0]}, which project=DIR names"


def _code(run: Run) -> Check:
    """Versions of the head and, live, of the framework that was imported."""
    from runtime.record.meta import describe_versions, version_of

    there = {**(run.meta.get("versions") or {}), **_imported(run)}
    here = describe_versions()
    here |= {name: version_of(name) for name in there if name not in here}
    different = [f"{name} {there[name]} there, {here[name]} here" for name in there if there[name] != here[name]]
    dirty = " (with uncommitted changes: no commit is what made it)" if "dirty" in str(there.get("commit")) else ""
    commit = f"commit {there.get('commit', 'unknown')}{dirty}"
    if different or dirty:
        return Check("code", "unchecked", "; ".join([commit, *different]))
    return Check("code", "ok", commit)


def _imported(run: Run) -> dict[str, str]:
    notes = [line.note for line in run.notable_lines if isinstance(line.note, Other)]
    return next((dict(note.fields["versions"]) for note in notes if note.type == "Imported"), {})


def _again(run: Run) -> Check:

    if run.meta["runtime"] != "virtual":
        return Check(
            "again", "unchecked", "real processes never take the same time twice; only virtual runs are repeated"
        )
    stored = run.path / ".hydra" / "overrides.yaml"
    if not stored.exists():
        return Check("again", "unchecked", "no .hydra/overrides.yaml, so the command is not known")
    if needs := _unnamed_project(run):
        return Check("again", "unchecked", needs)
    try:
        taken = taken_from_record(load_yaml(stored), Path.cwd())
    except (ConfigError, Unreadable) as error:
        return Check("again", "unchecked", f"{stored}: {error}")
    left_out = f" (without the record's own {', '.join(map(shown, taken.ignored))})" if taken.ignored else ""
    with tempfile.TemporaryDirectory(prefix="stragglab-verify-") as folder:
        out = Path(folder) / "again"
        command = run_py(*taken.kept, "draw=false", "view=none", f"hydra.run.dir={out}")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=AGAIN_DEADLINE_S, check=False)
        except subprocess.TimeoutExpired:
            return Check("again", "failed", f"took more than {AGAIN_DEADLINE_S:g} s")
        if done.returncode == REFUSED:
            why = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            return Check("again", "unchecked", f"cannot be run in this directory ({why}){left_out}")
        check = _compared(run, out, done)
        return Check(check.question, check.verdict, f"{check.found}{left_out}")


def _compared(run: Run, out: Path, done: subprocess.CompletedProcess[str]) -> Check:
    if not (out / LOG).exists():
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        return Check("again", "failed", f"the same command leaves no record: {last}")
    names = [name for name in (LOG, ROWS, "plan.json") if (run.path / name).exists()]
    different = [
        name
        for name in names
        if not (out / name).exists() or (out / name).read_bytes() != (run.path / name).read_bytes()
    ]
    if different:
        return Check("again", "failed", f"the same command writes other bytes into {', '.join(different)}")
    return Check("again", "ok", f"the same command writes the same bytes into {', '.join(names)}")


def _in_full(path: Path, checks: Sequence[Check]) -> Table:
    from rich.table import Table

    table = Table(title=str(path), title_justify="left", box=None, show_header=False, pad_edge=False)
    for check in checks:
        table.add_row(check.question, f"[{STYLES[check.verdict]}]{check.verdict}[/]", check.found)
    return table


def _in_short(path: Path, checks: Sequence[Check]) -> str:
    failed = [f"{check.question}: {check.found}" for check in checks if check.verdict == "failed"]
    passed = sum(check.verdict == "ok" for check in checks)
    return f"failed  {path}  {'; '.join(failed)}" if failed else f"ok      {path}  {passed} of {len(checks)} checked"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{NAME} verify", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dirs", metavar="DIR", type=Path, nargs="+", help="a run's directory, or one that holds runs")
    parser.add_argument("--again", action="store_true", help="run virtual jobs again and compare their bytes")
    parser.error = refuse  # type: ignore[method-assign]
    return parser


if __name__ == "__main__":
    run_program("verify", main)
