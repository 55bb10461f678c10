"""Rows of CSV and columns of Parquet, read piece by piece: too large tables are refused before they are in memory."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from reading.errors import Unreadable, shown
from reading.files import MAX_TABLE_BYTES, MIB, open_file
from reading.numerals import separator_of
from reading.unpacked import open_unpacked_text

MAX_CELLS = 8_000_000
"""Cells in a table's needed columns: about a gigabyte of memory."""
MAX_COLUMNS = 10_000
MAX_LINES = 20_000_000
"""Empty ones included, which take time as well."""
MAX_FOOTER_BYTES = 16 * MIB
MAX_CELL_BYTES = 10_000
MAX_TEXT_BYTES = 512 * MIB
BATCH_ROWS = 4096


def csv_rows(file: Path | str) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of every row of a CSV file or text that is not empty, the header first.

    A file may be compressed and in any encoding; columns are apart by what the header has most of. Raises
    :class:`Unreadable` for a file that is no such text, or larger than is read.
    """
    if isinstance(file, str):
        yield from _rows(io.StringIO(file))
        return
    with open_unpacked_text(file, MAX_TABLE_BYTES, newline="") as opened:
        yield from _rows(_lines(opened))


def separator_in(path: Path) -> str:
    """Return the character between its columns; see :func:`csv_rows`."""
    with open_unpacked_text(path, MAX_TABLE_BYTES, newline="") as opened:
        return separator_of("".join(_until_header(_lines(opened))))


def _rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    begin = list(_until_header(lines))
    reader = csv.reader(chain(begin, lines), delimiter=separator_of("".join(begin)), strict=True)
    try:
        for cells in reader:
            if reader.line_num > MAX_LINES:
                raise Unreadable(f"has more than {MAX_LINES} lines, the most that are read; cut a part out of it")
            if len(cells) > MAX_COLUMNS:
                raise Unreadable(f"line {reader.line_num} has more than {MAX_COLUMNS} cells")
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise Unreadable(f"cannot be read (line {reader.line_num}: {error})") from None


def _until_header(lines: Iterator[str]) -> Iterator[str]:
    """The first line that is not blank, and those before it."""
    for number, line in enumerate(lines):
        yield line
        if line.strip() or number > MAX_LINES:
            return


def _lines(opened: TextIO) -> Iterator[str]:
    """Lines of text; one longer than a mebibyte is refused before it is read whole."""
    try:
        while line := opened.readline(MIB + 1):
            if len(line) > MIB:
                raise Unreadable("cannot be read (it has a line of more than 1 MiB)")
            yield line
    except UnicodeError:
        raise Unreadable("cannot be read (it is not UTF-8 text); store it as UTF-8") from None


def check_cells(num_rows: int, num_columns: int) -> None:
    """Raise :class:`Unreadable` for more cells than are kept."""
    if num_rows * num_columns > MAX_CELLS:
        raise Unreadable(
            f"has more than {MAX_CELLS // num_columns} rows, the most that are read of {num_columns} columns; "
            "cut a part out of it"
        )


def parquet_columns(
    path: Path, needed: Sequence[str], check: Callable[[list[str]], None]
) -> tuple[dict[str, list[object]], int]:
    """(the ``needed`` columns of a Parquet file, number of rows); ``check`` sees the names of all columns first.

    Raises :class:`Unreadable` for what is no such file, or larger than is read, and what ``check`` raises.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_file(path) as opened:
        try:
            _check_footer(opened)
            about = pq.ParquetFile(opened)
            names = about.schema_arrow.names
            if len(names) > MAX_COLUMNS:
                raise Unreadable(f"has more than {MAX_COLUMNS} columns")
            check(names)
            check_cells(about.metadata.num_rows, len(needed))
            texts = [name for name in needed if _is_text(name, about.schema_arrow.field(name).type)]
            # as numbers of a dictionary: a small file may repeat a long text any number of times
            file = pq.ParquetFile(opened, metadata=about.metadata, read_dictionary=texts)
            return _columns(file, needed)
        except Unreadable:
            raise
        except (pa.ArrowException, OSError, MemoryError, OverflowError, KeyError, NotImplementedError):
            raise Unreadable("cannot be read (it is not a Parquet file, or broken)") from None


def _columns(file: Any, needed: Sequence[str]) -> tuple[dict[str, list[object]], int]:
    found: dict[str, list[object]] = {name: [] for name in needed}
    num_rows = num_bytes = 0
    for batch in file.iter_batches(BATCH_ROWS, columns=list(needed), use_threads=False):
        num_rows += batch.num_rows
        check_cells(num_rows, len(needed))
        for name in needed:
            num_bytes += _text_bytes(name, batch.column(name))
            if num_bytes > MAX_TEXT_BYTES:
                raise Unreadable(f"has more than {MAX_TEXT_BYTES // MIB} MiB of text; cut a part out of it")
            found[name] += batch.column(name).to_pylist()
    return found, num_rows


def _is_text(name: str, kind: Any) -> bool:
    """Whether a column holds texts; raises :class:`Unreadable` if it holds something else than cells of a table."""
    import pyarrow as pa

    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_nested(inner) or pa.types.is_binary(inner) or pa.types.is_large_binary(inner):
        raise Unreadable(f"column {shown(name)}: holds {shown(kind)}, and no numbers, texts or times")
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _text_bytes(name: str, column: Any) -> int:
    """How many bytes of text the cells of a column have; raises :class:`Unreadable` for one of very many."""
    import pyarrow as pa

    is_coded = pa.types.is_dictionary(column.type)
    texts = column.dictionary if is_coded else column
    if not _is_text(name, texts.type):
        return 0
    lengths = _lengths(texts)
    if max(lengths, default=0) > MAX_CELL_BYTES:
        raise Unreadable(f"column {shown(name)}: has a cell of more than {MAX_CELL_BYTES} bytes")
    return sum(lengths[code] for code in column.indices.to_pylist() if code is not None) if is_coded else sum(lengths)


def _lengths(texts: Any) -> list[int]:
    """Bytes of each text, from where each begins: Arrow's functions take longer to import than a table to read."""
    import pyarrow as pa

    if not len(texts):
        return []
    begins = memoryview(texts.buffers()[1]).cast("q" if pa.types.is_large_string(texts.type) else "i")
    begins = begins[texts.offset : texts.offset + len(texts) + 1]
    return [end - begin for begin, end in itertools.pairwise(begins)]


def _check_footer(opened: Any) -> None:
    """The footer is read whole, whatever it says."""
    end = opened.seek(0, io.SEEK_END)
    if end < 12:
        raise Unreadable("cannot be read (it is not a Parquet file, or broken)")
    opened.seek(end - 8)
    if int.from_bytes(opened.read(4), "little") > min(MAX_FOOTER_BYTES, end):
        raise Unreadable("cannot be read (it is not a Parquet file, or broken)")
    opened.seek(0)
