"""The questions that a record is asked, whether of a run or of a set of jobs."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from analysis.records.load import CLUSTER_EVENTS, LOG, RecordError, Run, load_afresh
from analysis.records.log import of_record, read_whole
from analysis.records.schema import ROWS, Other
from analysis.reports.vouching import Check, names_text, unvouched_files
from injectors.plan import parse_plan, plan_json, plan_sha256
from reading import Unreadable
from reading.errors import shown
from reading.plain import load_yaml
from runtime.config import project
from runtime.config.foreign import taken_from_record
from runtime.errors import REFUSED, ConfigError
from runtime.house import run_py
from runtime.record.progress import counted
from runtime.version import edited_files

AGAIN_DEADLINE_S = 3600.0


def verify(path: Path, *, again: bool = False) -> Iterator[Check]:
    """All questions about one run, a set of jobs, a sweep or a comparison; jobs and runs of these are others."""
    checks = []
    try:
        with of_record(path):
            for check in _verify(path, again):
                checks.append(check)
                yield check
    except RecordError as error:
        yield Check("readable", "failed", str(error))
        return
    yield from unvouched_files(path, checks)


def _verify(path: Path, again: bool) -> Iterator[Check]:
    from analysis.reports.verify_comparisons import is_comparison, verify_comparison
    from stragglab.vouching.sweeps import is_sweep, verify_sweep

    if (path / CLUSTER_EVENTS).exists():
        yield from _verify_set(path)
    elif is_comparison(path):
        yield from verify_comparison(path, is_same_code)
    elif is_sweep(path):
        yield from verify_sweep(path)
    else:
        yield from _verify_run(path, again)


def _verify_set(path: Path) -> Iterator[Check]:
    from analysis.records.cluster import load_cluster
    from analysis.reports.verification import verify_cluster

    cluster = load_cluster(path)
    same_code = is_same_code(cluster.meta)
    yield from verify_cluster(cluster, same_code=same_code)
    yield _settings(path, cluster.meta, same_code)
    yield _code(cluster.meta)


def _verify_run(path: Path, again: bool) -> Iterator[Check]:
    from analysis.reports.verification import verify_record

    run = load_afresh(path)
    same_code = is_same_code(run.meta)
    yield from verify_record(run, same_code=same_code)
    yield _plan(run)
    yield _settings(path, run.meta, same_code)
    yield _decisions(run)
    yield _code(run.meta, _list_imported(run))
    if again:
        yield _again(run)


def _plan(run: Run) -> Check:
    said = str(run.meta.get("plan_sha256"))
    try:
        content = read_whole(run.path / "plan.json")
        plan = parse_plan(content)
    except ValueError as error:
        return Check("plan", "failed", str(error))
    found = plan_sha256(plan)
    if found != said:
        return Check("plan", "failed", f"plan.json has SHA-256 {found[:12]}, meta.json says {said[:12]}")
    whole = plan_json(plan) == content
    return Check("plan", "ok", f"{len(run.plan)} disturbances, SHA-256 {found[:12]}", ("plan.json",) if whole else ())


def _decisions(run: Run) -> Check:
    from runtime.record.replay import replay
    from stragglab.vouching.replaying import build_strategy, read_record

    if (run.path / ROWS).exists():
        return Check("decisions", "unchecked", "recorded by rows, without decisions (record=iterations)")
    if not (run.path / ".hydra" / "config.yaml").exists():
        return Check("decisions", "unchecked", "no .hydra/config.yaml, which alone names the strategy's class")
    try:
        record, strategy = read_record(run.path), build_strategy(run.path)
    except ConfigError as error:
        if needs := _find_unnamed_project(run.meta):
            return Check("decisions", "unchecked", needs)
        return Check("decisions", "failed", str(error))
    events = counted(record, record.count, "asking the strategy again")
    for number, step in enumerate(replay(events, strategy)):
        if not step.identical:
            how = step.raised or "other commands" * (not step.same_commands) or "another state"
            return Check("decisions", "failed", f"seq {step.recorded.seq}: {how}, after {number} identical answers")
    return Check("decisions", "ok", f"{record.count:,} events, to each the recorded answer")


def _settings(path: Path, meta: dict[str, Any], same_code: bool) -> Check:
    if needs := _find_unnamed_project(meta):
        return Check("settings", "unchecked", needs)
    from stragglab.vouching.recomposed import check_settings

    return check_settings(path, meta, same_code=same_code)


def _find_unnamed_project(meta: dict[str, Any]) -> str:
    """Say what is missing here of a run with code of its user's own; empty if nothing is."""
    named = str((meta.get("versions") or {}).get("project") or "")
    if not named or project.folder() is not None:
        return ""
    return f"the run has code of the project {named.rpartition(' ')[0]}, which project=DIR names"


def is_same_code(meta: dict[str, Any]) -> bool:
    """Whether the files here are known to be those that made the record."""
    from runtime.record.meta import describe_versions

    said = (meta.get("versions") or {}).get("code")
    return bool(said) and said == describe_versions()["code"] and not edited_files()


def _code(meta: dict[str, Any], imported: Mapping[str, str] = MappingProxyType({})) -> Check:
    """The files, and the versions of the head and, live, of the framework that was ``imported``."""
    from runtime.record.meta import describe_versions, version_of

    there = {**(meta.get("versions") or {}), **imported}
    here = describe_versions()
    here |= {name: version_of(name) for name in there if name not in here}
    if there.get("code") == here["code"]:
        there.pop("commit", None)  # before or after they were committed, they are the same files
    different = [
        f"{name} {there[name][:12]} there, {here[name][:12]} here" for name in there if there[name] != here[name]
    ]
    if "code" not in there:
        different.append("no fingerprint of the code in meta.json (an older record)")
    if edited := edited_files():
        different.append(f"edited since it was installed: {names_text(edited)}")
    commit = f"commit {(meta.get('versions') or {}).get('commit', 'unknown')}"
    if different:
        return Check("code", "unchecked", "; ".join([commit, *different]))
    return Check("code", "ok", f"{commit}, files {here['code'][:12]}")


def _list_imported(run: Run) -> dict[str, str]:
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
    if needs := _find_unnamed_project(run.meta):
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
        check = _compare(run, out, done)
        return Check(check.question, check.verdict, f"{check.found}{left_out}")


def _compare(run: Run, out: Path, done: subprocess.CompletedProcess[str]) -> Check:
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
    return Check("again", "ok", f"the same command writes the same bytes into {', '.join(names)}", tuple(names))
