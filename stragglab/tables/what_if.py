"""Answers from a table of operators: the costs of a hybrid job's stragglers, by worker and by kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.logs.operators import COLUMNS, read_operators
from analysis.logs.step_log import LogError
from analysis.reports.comparing import Sheet
from runtime.hybrid.operators import Table, arrange, job_of
from runtime.hybrid.what_if import FEW_FRAC, WhatIf

if TYPE_CHECKING:
    import pandas as pd

SUSPECT_FRAC = 0.5
"""A worker is a suspect if the slowest few cost so much of the lost time."""
MOST_VISITS = 100_000_000
"""Visits of operators, in all answers: a microsecond each."""
MOST_WORKERS = 20
"""So many workers are listed."""


def read_job(path: Path) -> tuple[Table, WhatIf]:
    """The job of a file; raises :class:`analysis.logs.step_log.LogError` with one line."""
    rows = read_operators(path)
    try:
        table = table_of_rows(rows)
        _refuse_endless(table)
        found = WhatIf(job_of(table))
        if not found.ideal_s > 0.0:
            raise ValueError("all operations take 0 s; give their seconds in the column duration")
        return table, found
    except ValueError as error:
        raise LogError(f"{path}: {error}") from None


def _refuse_endless(table: Table) -> None:
    """Each replica, stage and kind is an answer for which all operators of a step are gone through."""
    groups = sum(len({getattr(one, name) for one in table.operators}) for name in ("replica", "stage", "kind"))
    if groups * len(table.operators) > MOST_VISITS:
        raise ValueError(
            f"has {groups:,} replicas, stages and kinds with {len(table.operators):,} operators in a step, which would "
            "take hours; give fewer replicas"
        )


def table_of_rows(rows: pd.DataFrame) -> Table:
    """The rows of a file as a table of operators by step."""
    by_name: dict[str, Any] = {name: rows[name].to_numpy() for name in COLUMNS}
    replica, stage, step, number, kind, begin_s, seconds = (by_name[name] for name in COLUMNS)
    return arrange(replica, stage, step, kind, number, begin_s, seconds)


def lines(table: Table, found: WhatIf) -> list[str]:
    """The answers in sentences."""
    workers, size = found.by_worker, len(table.operators) * len(table.steps)
    replicas, stages = len(found.by_replica), len(found.by_stage)
    (replica, stage), few = next(iter(workers)), len(found.slowest)
    named = "worker" if few == 1 else f"{few} workers"
    said = [
        f"{replicas} replicas of {stages} stages, {len(table.steps)} steps, {size:,} operations",
        f"a step takes {found.whole_s:.4g} s; if all operations of a kind took equally long, {found.ideal_s:.4g} s: "
        f"stragglers make steps {found.slowdown:.4f} times as long",
        f"first suspect: replica {replica}, stage {stage}; its forward and backward passes take "
        f"{found.computing[replica, stage]:.3f} times as long as the passes of stage {stage} in other replicas"
        if found.cured_by_slowest >= SUSPECT_FRAC
        else "no worker is a suspect: the slowest ones cost less than half of the lost time",
        f"if the slowest {named} (at least {FEW_FRAC:.0%}) were ideal, {found.cured_by_slowest:.1%} of the lost time "
        "would be saved",
    ]
    if table.left_out:
        said.insert(1, f"{table.left_out} steps left out, which lack operations or have them in another order")
    return said


def sheets(found: WhatIf) -> list[tuple[str, str, Sheet]]:
    """Tables with their names and titles: slow-downs by each group alone, if all other operations are ideal."""
    workers: list[tuple[str, ...]] = [
        (str(replica), str(stage), f"{score:.4f}", f"{found.computing[replica, stage]:.3f}")
        for (replica, stage), score in list(found.by_worker.items())[:MOST_WORKERS]
    ]
    return [
        (
            "slow_workers",
            "Workers",
            Sheet(("replica", "stage", "slow-down", "computing"), workers),
        ),
        ("slow_stages", "Stages alone", _alone("stage", found.by_stage)),
        ("slow_replicas", "Replicas alone", _alone("replica", dict(list(found.by_replica.items())[:MOST_WORKERS]))),
        ("slow_kinds", "Kinds of operation alone", _alone("operation", found.by_kind)),
    ]


def _alone(name: str, slowdowns: Mapping[Any, float]) -> Sheet:
    return Sheet((name, "slow-down"), [(str(group), f"{value:.4f}") for group, value in slowdowns.items()])
