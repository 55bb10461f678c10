"""A folder with a file per rank: tables, or the printed output of each rank, as launchers store it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.files import natural
from analysis.logs.gathering import gather
from analysis.logs.limits import MOST_FILES
from analysis.logs.megatron import NO_RANKS, WORK
from analysis.logs.several import Counted, read_each
from analysis.logs.step_log import LogError, StepLog, rounds_s
from analysis.logs.trace_folder import NUMBER, ranks_by_name

ENDINGS = (".log", ".txt", ".out", ".csv", ".tsv", ".parquet")
"""Endings of a rank's files; endings of compressed files or of attempts may follow."""


def rank_files_in(folder: Path) -> list[dict[str, Path]]:
    """The files of ranks by rank, of every series of files that a folder has; the longest series comes first.

    The rank is the number in a file's name, or in the name of its folder if the files have the same name
    (``0/stdout.log``, as torchrun stores them).

    Raises:
        LogError: there are too many.
    """
    found = list[dict[str, Path]]()
    for pattern, named in (("*", lambda path: path.name), ("*/*", lambda path: f"{path.parent.name}/{path.name}")):
        series = defaultdict[str, list[Path]](list)
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and any(ending in path.name.lower() for ending in ENDINGS):
                series[NUMBER.sub("0", named(path))].append(path)
        for paths in sorted(series.values(), key=len, reverse=True):
            if len(paths) > MOST_FILES:
                raise LogError(f"{folder}: has {len(paths):,} logs; name a folder of {MOST_FILES:,} at most")
            ranks = {rank: path for path, rank in ranks_by_name(paths, named).items()}
            if len(ranks) == len(paths) > 1:
                found.append(dict(sorted(ranks.items(), key=lambda item: natural(item[0]))))
    return found


def read_rank_files(folder: Path, files: dict[str, Path], read: Callable[[Path], StepLog], counted: Counted) -> StepLog:
    """The steps of all ranks; ranks have the names that the logs give them, or else the names of their files.

    If Megatron-LM printed the timers of one rank, ``forward-backward`` is its own work; else whole steps count.

    Raises:
        LogError: half of the files or more cannot be read.
    """
    named = {path: name for name, path in files.items()}
    found, broken = read_each(list(named), lambda path: (path, read(path)), counted)
    timed = [(path, log) for path, log in found if WORK in log.part_fracs]
    if timed:  # other logs have whole steps only, by which their ranks would look slow
        broken += [
            f"left out: {path}: has no {WORK}, as others have" for path, log in found if WORK not in log.part_fracs
        ]
        found = timed
    logs = [log for _, log in found]
    ours = [rank for log in logs for rank in log.ranks]
    told = len(set(ours)) == len(ours)
    table = pd.concat([_rows(log, "" if told else named[path]) for path, log in found], ignore_index=True)
    remarks = dict.fromkeys(remark for log in logs for remark in log.remarks)
    if timed:
        remarks.pop(NO_RANKS, None)
    source = f"{len(found)} logs in {folder}"
    return gather(source, table, remarks=[*broken, *remarks], job=logs[0].job, own_is_rest=logs[0].own_is_rest)


def _rows(log: StepLog, name: str) -> pd.DataFrame:
    """A row per rank and step; moments are left out, since logs need not share a clock. ``name``: of its file."""
    whole_s, own_s = np.broadcast_to(rounds_s(log)[:, None], log.own_s.shape), log.own_s
    columns = {"own_s": own_s, "comm_s": log.comm_s, "data_s": log.data_s}
    if (work := log.part_fracs.get(WORK)) is not None:
        columns["own_s"] = work * whole_s
    if work is not None or log.round_s is not None:
        columns["round_s"] = whole_s
    ranks = [".".join(filter(None, (name, rank if log.num_ranks > 1 else ""))) or rank for rank in log.ranks]
    rows = pd.DataFrame({"step": np.repeat(log.steps, len(ranks)), "rank": ranks * len(log.steps)})
    rows = rows.assign(**{column: values.ravel() for column, values in columns.items() if values is not None})
    if log.hosts:
        rows["host"] = list(log.hosts) * len(log.steps)
    return rows.dropna(subset=["own_s"])
