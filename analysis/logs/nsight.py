"""Profiles of NVIDIA Nsight Systems, exported as SQLite: kernels by device, and ranges of steps if the job marked any.

The database is opened for reading only; an authorizer allows plain queries of tables, so that neither views, triggers
nor functions in the file can do anything. Source of the tables: Nsight Systems' documentation of its SQLite schema.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.logs.exposed import divide_steps
from analysis.logs.gathering import gather
from analysis.logs.intervals import Floats
from analysis.logs.limits import MEBI, MOST_OBJECTS, MOST_STEP
from analysis.logs.opening import open_bytes
from analysis.logs.profiler import COMMUNICATION, LOADING
from analysis.logs.step_log import LogError, StepLog, Untimed

MAGIC = b"SQLite format 3\0"
STEP = re.compile(
    r"(?:profilerstep\s*#|(?:train(?:ing)?[ _]?)?(?:global[ _]?)?(?:step|iter(?:ation)?)[ _:#=-]*)(\d{1,15})",
    re.IGNORECASE,
)
NANO = 1e-9
MOST_OPERATIONS, CHECKED_EVERY = 2_000_000_000, 1_000_000
"""Operations of SQLite's virtual machine for a query."""
MOST_TEXT, MOST_TEXTS = MEBI, 256 * MEBI
"""Bytes of a value, and characters of all texts of a query: a row may compute its texts."""
MOST_DEVICES = 256
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
RANGES = "NVTX_EVENTS"
PROCESS = 1 << 24
"""A global number of a thread has its process in the first bits and the thread in the last 24."""
ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION})
ONE_STEP = (
    "the profile has no ranges of steps, so all of it counts as one; torch.cuda.nvtx.range(f'step {n}') around every "
    "step tells steps apart"
)
Rows = list[tuple[Any, ...]]


def is_database(path: Path) -> bool:
    """Whether the file begins as a database of SQLite, compressed or not."""
    with open_bytes(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def read_nsight(path: Path) -> StepLog:
    """Steps of every device: own work is the step without the time in which only communication kernels ran.

    Raises:
        LogError: it is another database, or compressed, or damaged.
        Untimed: the profile has no kernels.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise LogError(f"{path}: is a compressed database; unpack it")
    with _open_database(path) as database:
        if KERNELS not in database.tables or "StringIds" not in database.tables:
            raise LogError(
                f"{path}: is a database, but no profile of CUDA kernels; nsys export --type sqlite makes one"
            )
        kernels = database.rows(
            f"SELECT k.start, k.end, k.deviceId, k.globalPid, s.value FROM {KERNELS} k "
            "JOIN StringIds s ON s.id = k.shortName"
        )
        copies = [
            row
            for table in COPIES
            if table in database.tables
            for row in database.rows(f"SELECT start, end, deviceId FROM {table}")
        ]
        ranges: Rows = []
        if RANGES in database.tables:
            ranges = database.rows(
                f"SELECT n.start, n.end, n.globalTid, coalesce(n.text, s.value) FROM {RANGES} n "
                "LEFT JOIN StringIds s ON s.id = n.textId WHERE n.end IS NOT NULL"
            )
    if not kernels:
        raise Untimed(f"{path}: has no CUDA kernels; profile with nsys profile --trace cuda,nvtx")
    if (count := len({row[2] for row in kernels})) > MOST_DEVICES:
        raise LogError(f"{path}: has {count:,} devices, and no more than {MOST_DEVICES} are read; export fewer of them")
    try:
        frames = [_device(device, kernels, copies, ranges) for device in sorted({row[2] for row in kernels})]
    except (TypeError, ValueError, OverflowError):
        raise LogError(f"{path}: is damaged (a time or a number of a device is none); export it again") from None
    rows = pd.concat(frames, ignore_index=True)
    marked = bool((rows["step"] >= 0).all())
    rows["step"] = rows["step"].clip(lower=0)
    log_job = {} if marked else {"one_span": True}
    return gather(str(path), rows, remarks=[] if marked else [ONE_STEP], job=log_job)


def _device(device: int, kernels: Rows, copies: Rows, ranges: Rows) -> pd.DataFrame:
    """The steps of a device; -1 is the number of the only one if none are marked."""
    own = [row for row in kernels if row[2] == device]
    processes = {row[3] // PROCESS for row in own if row[3] is not None}
    sending = _spans(row for row in own if COMMUNICATION.search(str(row[4]).encode()))
    working = _spans([*(row for row in own if not COMMUNICATION.search(str(row[4]).encode()))])
    working = np.concatenate([working, _spans(row for row in copies if row[2] == device)])
    of_host = [row for row in ranges if not processes or row[2] is None or row[2] // PROCESS in processes]
    steps = {int(found[1]): row for row in of_host if (found := STEP.fullmatch(str(row[3]).strip()))}
    numbers = sorted(step for step in steps if step < MOST_STEP)
    every = _spans(steps[step] for step in numbers)
    if not numbers:
        both = np.concatenate([working, sending])
        numbers, every = [-1], np.array([[both[:, 0].min(), both[:, 1].max()]])
    loading = _spans(row for row in of_host if LOADING.search(str(row[3]).encode()))
    parts = divide_steps(every, working, sending, loading)
    rows = pd.DataFrame({"rank": str(device), "step": numbers, "round_s": parts.step * NANO})
    rows["comm_s"] = parts.communication * NANO
    rows["own_s"] = rows["round_s"] - rows["comm_s"]
    return rows.assign(data_s=parts.loading * NANO) if len(loading) else rows


def _spans(rows: Iterator[tuple[Any, ...]] | Sequence[tuple[Any, ...]]) -> Floats:
    """[n, 2]: begin and end."""
    spans = np.array([(row[0], row[1]) for row in rows], "float64").reshape(-1, 2)
    if not np.isfinite(spans).all() or (spans[:, 1] < spans[:, 0]).any():
        raise ValueError("a span ends before it begins")
    return spans


class _Database:
    """A database that is only read.

    ``tables``: names of its tables, without its views.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection
        self._left = MOST_OPERATIONS
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_TEXT)
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY)
        connection.set_progress_handler(self._spend, CHECKED_EVERY)
        self.tables = {row[0] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def _spend(self) -> bool:
        self._left -= CHECKED_EVERY
        return self._left < 0

    def rows(self, query: str) -> Rows:
        """All rows of a query.

        Raises:
            LogError: there are more than ``MOST_OBJECTS``, or their texts are longer than ``MOST_TEXTS``.
        """
        found: Rows = []
        left = MOST_TEXTS
        for row in self._connection.execute(f"{query} LIMIT {MOST_OBJECTS + 1}"):
            found.append(row)
            left -= sum(len(value) for value in row if isinstance(value, str | bytes))
            if left < 0:
                break
        if len(found) > MOST_OBJECTS or left < 0:
            raise LogError(
                f"{self._path}: has more than {MOST_OBJECTS:,} events, the most that are read; profile fewer steps"
            )
        return found


@contextlib.contextmanager
def _open_database(path: Path) -> Iterator[_Database]:
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        ) as connection:
            yield _Database(path, connection)
    except (sqlite3.Error, UnicodeError) as error:
        raise LogError(f"{path}: is no profile of Nsight Systems ({error}); export it again") from None
