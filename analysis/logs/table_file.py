"""A file with a table, read piece by piece: only the columns that are asked for stay in memory."""

from __future__ import annotations

import contextlib
import csv
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from analysis.logs.limits import MEBI, MOST_COLUMNS, MOST_ROWS, MOST_TABLE_BYTES
from analysis.logs.opening import open_bytes, open_text
from analysis.logs.step_log import LogError
from reading.errors import shown
from reading.numerals import separator_of
from reading.unpacked import plain_name

TEXTS = (".csv", ".tsv")
MOST_HEADER = MEBI
"""Characters."""
PIECE_ROWS, PIECE_CELLS = 1 << 16, 1 << 21
"""The most that are read at a time."""
PIECE_TEXT_BYTES = 128 * MEBI
"""Most bytes of text in a piece of a Parquet file, unpacked."""


class TableFile:
    """A table's names and rows.

    Attributes:
        path: of the file.
        names: of its columns, without blanks around them.
        separator: between columns of a text; empty for Parquet.

    Raises:
        LogError: it cannot be read, is no table, or has too many columns.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.separator = path, ""
        if is_parquet(path):
            with _parquet(path) as file:
                names = [str(name) for name in file.schema_arrow.names]
        else:
            head = _header(path)
            self.separator = separator_of(head)
            names = next(csv.reader([head], delimiter=self.separator, skipinitialspace=True), [])
        self.names = [name.strip() for name in names]
        if len(names) > MOST_COLUMNS:
            raise LogError(
                f"{path}: has {len(names):,} columns, and no more than {MOST_COLUMNS:,} are read; give the columns "
                "of steps and times"
            )

    def pieces(self, columns: Sequence[str]) -> Iterator[tuple[int, pd.DataFrame]]:
        """(number of its first row, from 1; the rows) of every piece, with these columns.

        Raises:
            LogError: it is damaged, no table, or has more than ``MOST_ROWS``.
        """
        first = 1
        places = [self.names.index(name) for name in columns]
        for piece in self._text(places) if self.separator else self._parquet(places):
            yield first, piece.set_axis(list(columns), axis=1)
            first += len(piece)
            if first > MOST_ROWS:
                raise LogError(
                    f"{self.path}: has more than {MOST_ROWS:,} rows, the most that are read; give fewer steps or ranks"
                )

    @property
    def _piece_rows(self) -> int:
        return min(PIECE_ROWS, max(1, PIECE_CELLS // len(self.names)))

    def _text(self, places: Sequence[int]) -> Iterator[pd.DataFrame]:
        form = {"sep": self.separator, "skipinitialspace": True, "index_col": False, "chunksize": self._piece_rows}
        try:
            with open_text(self.path, "strict", MOST_TABLE_BYTES) as file, pd.read_csv(file, **form) as pieces:
                while (piece := _next(pieces)) is not None:
                    yield piece.iloc[:, list(places)]
        except UnicodeError:
            raise LogError(f"{self.path}: cannot be read (it is not UTF-8 text); save it as UTF-8") from None
        except pd.errors.EmptyDataError:
            raise LogError(f"{self.path}: is empty") from None
        except pd.errors.ParserWarning:
            raise LogError(
                f"{self.path}: is not a table (rows have more cells than the header has names); name every column"
            ) from None
        except (pd.errors.ParserError, OverflowError) as error:
            raise LogError(f"{self.path}: is not a table ({shown(error)})") from None

    def _parquet(self, places: Sequence[int]) -> Iterator[pd.DataFrame]:
        with _parquet(self.path) as file:
            names = [file.schema_arrow.names[place] for place in places]
            for batch in file.iter_batches(batch_size=self._piece_rows, columns=names):
                _refuse_long_texts(self.path, batch)
                yield batch.select(names).to_pandas(ignore_metadata=True)


def _refuse_long_texts(path: Path, batch: pa.RecordBatch) -> None:
    """A small file may repeat a long text in every row, and each becomes a text of its own."""
    long = PIECE_TEXT_BYTES
    if batch.get_total_buffer_size() > long:
        raise LogError(f"{path}: has {batch.num_rows:,} rows with more than {long // MEBI} MiB; shorten its texts")


def is_table(path: Path) -> bool:
    """Whether its name ends like a table's."""
    return plain_name(path).endswith((*TEXTS, ".parquet"))


def has_columns(path: Path, names: Iterable[str]) -> bool:
    """Whether it is a text, of any name, that begins with columns of these names."""
    with contextlib.suppress(LogError):
        return set(names) <= set(TableFile(path).names)
    return False


def is_parquet(path: Path) -> bool:
    """Whether its name ends like a Parquet file's."""
    return plain_name(path).endswith(".parquet")


def _next(pieces: Iterator[pd.DataFrame]) -> pd.DataFrame | None:
    """The next piece, if any; cells that would be lost are an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column of numbers and texts: they are read one by one
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return next(pieces, None)


@contextlib.contextmanager
def _parquet(path: Path) -> Iterator[parquet.ParquetFile]:
    try:
        with open_bytes(path) as file:
            data = file.read()
        with parquet.ParquetFile(pa.BufferReader(data)) as found:
            if found.metadata.num_rows > MOST_ROWS:
                raise LogError(f"{path}: has {found.metadata.num_rows:,} rows, and no more than {MOST_ROWS:,} are read")
            yield found
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        if isinstance(error, LogError):
            raise
        raise LogError(f"{path}: is not a table ({shown(error)})") from None


def _header(path: Path) -> str:
    """The first line that is not blank."""
    with open_text(path) as file:
        while line := file.readline(MOST_HEADER + 1):
            if len(line) > MOST_HEADER:
                raise LogError(
                    f"{path}: its first line has more than {MOST_HEADER:,} characters; begin it with the columns' names"
                )
            if line.strip():
                return line
    raise LogError(f"{path}: is empty")
