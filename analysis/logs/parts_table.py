"""Tables with a row per rank, step and part, as ``stragglab.logging`` and ``export --as steps`` write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.logs.gathering import gather
from analysis.logs.limits import MOST_FILES, MOST_SECONDS
from analysis.logs.several import Counted, read_each
from analysis.logs.step_log import LogError, StepLog
from analysis.logs.table_file import TableFile
from analysis.logs.table_rows import join_frames, long_rows
from reading import Unreadable
from reading.errors import shown
from reading.plain import load_yaml
from reading.unpacked import plain_name

VERSION = 1
COLUMNS = ("rank", "step", "part", "begin_s", "seconds", "group")
WHOLE, LOADING, COMPUTING, COMMUNICATION = "step", "loading", "computing", "communication"
"""As in ``stragglab.logging``, which users may copy and which therefore imports nothing of ours."""
NEEDED = ("rank", "step", "part", "seconds")
ABOUT = "steps.yaml"
WAITING = "waiting"
TEXTS = ("rank", "part", "host")
"""Columns of names, one for each row."""


def has_parts(table: TableFile) -> bool:
    """Whether the table has a row per part."""
    return set(table.names) >= set(NEEDED)


def part_files_in(folder: Path) -> list[Path]:
    """The tables of the ranks in a folder.

    Raises:
        LogError: there are too many.
    """
    found = sorted(path for path in folder.glob("steps.rank*") if plain_name(path).endswith((".csv", ".parquet")))
    if len(found) > MOST_FILES:
        raise LogError(f"{folder}: has {len(found):,} tables; name a folder of {MOST_FILES:,} at most")
    return found


def read_parts(paths: Sequence[Path], counted: Counted = list) -> StepLog:
    """The steps of a job: own work is loading and computing, the rest is communication and waiting.

    Without the part ``computing`` own work is the step without communication.

    Raises:
        LogError: a table is damaged or of a later version, or a part has impossible seconds.
    """
    _refuse_later(paths[0])
    frames, broken = read_each(paths, _rows, counted)
    rows = join_frames(frames, TEXTS)
    key = ["rank", "step"]
    wide = rows.pivot_table(index=key, columns="part", values="seconds", aggfunc="sum", observed=True)

    def part(*names: str) -> pd.Series | None:
        there = [wide[name].fillna(0.0) for name in names if name in wide]
        return sum(there[1:], there[0]) if there else None

    whole = wide[WHOLE].where(wide[WHOLE] > 0.0) if WHOLE in wide else None
    own, sent = wide.get(COMPUTING), part(COMMUNICATION, WAITING)
    loading = part(LOADING)
    if own is None:
        if whole is None:
            raise LogError(f"{paths[0]}: has neither the part {WHOLE} nor {COMPUTING}; stragglab.logging writes both")
        own = whole if sent is None else whole - sent
        _refuse_none_left(paths[0].parent, own)
    else:
        own = own + (0.0 if loading is None else loading)
    found = pd.DataFrame({"own_s": own})
    if loading is not None:
        found["data_s"] = loading
    if whole is not None and (COMPUTING in wide or sent is not None):
        found["round_s"] = whole.fillna(own if sent is None else own + sent)
        found["comm_s"] = (found["round_s"] - own).clip(lower=0.0) if sent is None else sent
    elif sent is not None:
        found["comm_s"] = sent
    firsts = rows.groupby(key, observed=True)
    if "start" in rows:
        found["begin_s"] = firsts["start"].min()
    if "host" in rows and (rows["host"] != "").any():
        found["host"] = firsts["host"].first().astype("str")
    found = found[found["own_s"].notna()]  # a rank that was killed within a step
    source = str(paths[0]) if len(paths) == 1 else f"{len(frames)} tables in {paths[0].parent}"
    return gather(source, found.reset_index(), remarks=broken)


def _rows(path: Path) -> pd.DataFrame:
    table = TableFile(path)
    if not has_parts(table):
        raise LogError(f"{path}: has no columns {', '.join(NEEDED)}; stragglab.logging writes {', '.join(COLUMNS)}")
    wanted = {"rank": "rank", "step": "step", "seconds": "seconds", "part": "part"}
    wanted |= {field: name for field, name in (("start", "begin_s"), ("host", "group")) if name in table.names}
    rows = long_rows(table, wanted, [], unnamed=("host",))
    _refuse_impossible(path, rows)
    return rows


def _refuse_impossible(where: Path, rows: pd.DataFrame) -> None:
    bad = ~rows["seconds"].between(0.0, MOST_SECONDS)
    if bad.any():
        first = rows[bad].iloc[0]
        raise LogError(
            f"{where}: step {first['step']} of rank {shown(first['rank'])}, part {shown(first['part'])}: "
            f"{first['seconds']:g}: must be seconds, 0 or more"
        )


def _refuse_none_left(where: Path, own: pd.Series) -> None:
    """Own work by (rank, step) that is the rest of a step must be something."""
    none = own[own <= 0.0].index
    if len(none):
        rank, step = none[0]
        raise LogError(
            f"{where}: step {step} of rank {shown(rank)}: {COMMUNICATION} and {WAITING} take as long as the step or "
            f"longer; the part {WAITING} is what {COMMUNICATION} does not contain"
        )


def _refuse_later(path: Path) -> None:
    """The description beside a table says its version."""
    about = path.with_suffix(".yaml") if path.with_suffix(".yaml").is_file() else path.parent / ABOUT
    if not about.is_file():
        return
    try:
        said = load_yaml(about)
    except Unreadable as error:
        raise LogError(f"{about}: is no description of steps ({error}); remove it, or write it again") from None
    version = said.get("version") if isinstance(said, dict) and said.get("form") == "steps" else VERSION
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise LogError(f"{about}: version {shown(version)}: this program reads version {VERSION}; update it")
