"""The columns stored next to a log, so that later loads need not read the log.

``columns/`` holds every table as an Arrow file, uncompressed: a load maps the files into memory and decodes nothing,
and the system reads only the columns that somebody looks at. ``columns/index.json`` identifies their log. They are
derived, so they may be deleted at any time; columns of another log, or derived by other code, are ignored.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import numpy as np

from analysis.files import below, write_file
from analysis.records.contents import gather_contents
from analysis.records.log import read_whole
from analysis.records.run import FOLDER, LOG, Contents, Integrity, Run
from analysis.records.schema import ROWS, Finished
from analysis.records.sums import code_of
from strategies.protocol import AnyCommand, AnyEvent, Grad, NodeUse, Timings

if TYPE_CHECKING:
    import pandas as pd

    from analysis.records.tables import Tables

INDEX = "index.json"
HELD, PLACES = "held", "places"
"""Files that are no tables: whether arrivals were held, and where notable lines begin."""


class Source(msgspec.Struct, frozen=True):
    """The log and the description of the job, as they were when columns were derived from them."""

    num_bytes: int
    modified_ns: int
    log: str
    meta: str
    """Hashes (BLAKE2b)."""
    code: str
    """Hash of the code that derives the columns."""


class Index(msgspec.Struct, frozen=True):
    """``index.json``: the fields of :class:`Contents` besides columns. ``files``: the size of each."""

    source: Source
    files: dict[str, int]
    end_s: float
    torn: bool
    finished: Finished | None
    given_up: list[tuple[float, int]]
    discarded: int
    problems: tuple[str, ...]
    unchecked: tuple[str, ...]


def store_contents(run: Run) -> None:
    """Store what is known of a run's log, and its integrity.

    Nothing for a run by rows, which are columns already, or if that is stored.
    """
    if run.by_rows or run.contents.integrity is not None:
        return
    folder = below(run.path, FOLDER)
    (folder / INDEX).unlink(missing_ok=True)  # else it would vouch for files that are being replaced
    for name, content in contents_files(run).items():
        write_file(folder / name, content)


def contents_files(run: Run) -> dict[str, bytes]:
    """The files of ``columns/`` by name, of a run that was read from its log; the last is ``index.json``."""
    contents, found = run.contents, run.integrity
    frames = {name: _of_frame(frame) for name, frame in run.tables.items()}
    frames[HELD] = _of_array(np.array(contents.held, np.int8))
    frames[PLACES] = _of_array(np.array(contents.places, np.int64))
    files = {name: _encode(table) for name, table in frames.items()}
    log = run.path / LOG
    source = Source(log.stat().st_size, contents.modified_ns, _hash(log), _hash(run.path / "meta.json"), _code())
    index = Index(
        source=source,
        files={name: len(content) for name, content in files.items()},
        end_s=contents.end_s,
        torn=contents.torn,
        finished=contents.finished,
        given_up=list(contents.given_up),
        discarded=contents.discarded,
        problems=found.problems,
        unchecked=found.unchecked,
    )
    return {**{f"{name}.arrow": content for name, content in files.items()}, INDEX: msgspec.json.encode(index)}


def stored_index(root: Path) -> Index | None:
    """Return the content of ``columns/index.json``, whether or not it fits; None if none can be read."""
    try:
        return msgspec.json.decode(read_whole(root / FOLDER / INDEX), type=Index)
    except (OSError, ValueError, RecursionError):  # ValueError: of msgspec
        return None


def read_contents(root: Path) -> Contents | None:
    """Return the columns that an earlier analysis has stored, or None if none fit the log."""
    folder, index = root / FOLDER, stored_index(root)
    try:
        if index is None or not _fits(root, index):
            return None
        held, places = (_map(_file(folder, name)).column(0).to_numpy() for name in (HELD, PLACES))
    except (OSError, ValueError):  # ValueError: of Arrow
        return None
    return Contents(
        end_s=index.end_s,
        torn=index.torn,
        finished=index.finished,
        places=places,
        held=held,
        given_up=index.given_up,
        discarded=index.discarded,
        make_tables=lambda: _read_tables(root),
        integrity=Integrity(index.problems, index.unchecked),
    )


def _fits(root: Path, index: Index) -> bool:
    source, log = index.source, root / LOG
    about = log.stat()
    if source.code != _code() or source.num_bytes != about.st_size or (root / ROWS).exists():
        return False
    if source.meta != _hash(root / "meta.json"):
        return False
    if any(_file(root / FOLDER, name).stat().st_size != size for name, size in index.files.items()):
        return False
    return source.modified_ns == about.st_mtime_ns or source.log == _hash(log)  # a copy has another time


def _read_tables(root: Path) -> Tables:
    """The tables; from the log if a file is damaged."""
    from analysis.records.tables import Tables

    try:
        names = Tables.__annotations__
        return Tables(**{name: _map(_file(root / FOLDER, name)).to_pandas(split_blocks=True) for name in names})
    except (OSError, TypeError, ValueError):
        return gather_contents(root).make_tables()


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.arrow"


def _of_frame(frame: pd.DataFrame) -> Any:
    """An Arrow table of the same types; floats keep NaN, since with nulls they could not be used as they lie there."""
    import pyarrow as pa

    columns = [pa.array(frame[name].to_numpy() if frame[name].dtype == "float64" else frame[name]) for name in frame]
    return pa.table(columns, schema=pa.Schema.from_pandas(frame, preserve_index=False))


def _of_array(values: np.ndarray) -> Any:
    import pyarrow as pa

    return pa.table({"value": values})


def _encode(table: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _map(path: Path) -> Any:
    """The table in a file, which is mapped into memory; of that, only texts are read, lest they end elsewhere.

    Raises ``OSError`` or ``ValueError`` for a file that is none.
    """
    import pyarrow as pa

    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    table.validate(full=True)
    return table


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _code() -> str:
    """A hash of this room and of the values that it reads: columns that other code has derived may differ."""
    fields = [kind.__struct_fields__ for kind in (Timings, NodeUse, Grad, *get_args(AnyEvent), *get_args(AnyCommand))]
    return hashlib.blake2b(f"{fields}{code_of(Path(__file__).parent)}".encode()).hexdigest()
