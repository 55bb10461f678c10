"""Tables, arrays and lines: what is larger than it looks is refused before it is in memory."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reading import Unreadable, arrays, lines, tables
from reading.arrays import parse_arrays
from reading.lines import line_blocks
from reading.tables import csv_rows, parquet_columns


def test_rows_have_the_number_of_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfa,b\r\n1,"two\r\nlines"\r\n\r\n3,4\r\n')
    assert list(csv_rows(path)) == [(1, ["a", "b"]), (3, ["1", "two\r\nlines"]), (5, ["3", "4"])]
    assert list(csv_rows("a\n1\n")) == [(1, ["a"]), (2, ["1"])]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"x" * 140_000, "field larger than field limit"),
        (b"x," * 20_000, "line 1 has more than 10000 cells"),
        (b"x,y\n" + b"1," * 600_000, "it has a line of more than 1 MiB"),
        (b"a,b\n1,\xff\n", "it is not UTF-8 text"),
        (b'a,b\n1,"2\n', "line 2: unexpected end of data"),
    ],
)
def test_what_is_no_csv_of_use_is_one_line(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(Unreadable, match=said):
        list(csv_rows(tmp_path / "a.csv"))


WRITTEN: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "Zstandard": lambda data: pa.compress(data, "zstd", asbytes=True),
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "semicolons": lambda data: data.replace(b",", b";"),
    "tabs": lambda data: data.replace(b",", b"\t"),
    "bars": lambda data: data.replace(b",", b"|"),
}


@pytest.mark.parametrize("way", WRITTEN)
def test_content_says_how_a_table_is_written(way: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(WRITTEN[way]("\n\na,b,ü\n1,2,3\n".encode()))
    assert list(csv_rows(tmp_path / "a.csv")) == [(3, ["a", "b", "ü"]), (4, ["1", "2", "3"])]


def test_a_damaged_archive_and_a_text_of_too_many_bytes_or_lines_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = gzip.compress(b"a,b\n" + bytes(range(48, 58)) * 900)
    for damaged in (data[:-12], data[:20] + b"\xff\xff" + data[22:]):
        (tmp_path / "a.csv").write_bytes(damaged)
        with pytest.raises(Unreadable, match=r"^cannot be read"):
            list(csv_rows(tmp_path / "a.csv"))
    monkeypatch.setattr(tables, "MAX_LINES", 100)
    with pytest.raises(Unreadable, match="has more than 100 lines"):
        list(csv_rows("a,b\n" + "\n" * 100))
    monkeypatch.setattr(tables, "MAX_TABLE_BYTES", 100)
    (tmp_path / "a.csv").write_text("a,b\n" * 100)
    with pytest.raises(Unreadable, match="the most that is read; give a part of it"):
        list(csv_rows(tmp_path / "a.csv"))


def columns(path: Path, *names: str) -> tuple[dict[str, list[object]], int]:
    return parquet_columns(path, names, lambda there: None)


def test_needed_columns_of_a_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(10_000), "b": ["x"] * 10_000, "c": [None] * 10_000}), path)
    found, num_rows = columns(path, "a", "b")
    assert num_rows == 10_000
    assert found == {"a": list(range(10_000)), "b": ["x"] * 10_000}


def test_many_rows_in_a_small_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": pa.nulls(13_000_000, pa.int8())}), path, compression="zstd")
    assert path.stat().st_size < 50_000
    with pytest.raises(Unreadable, match="more than 8000000 rows"):
        columns(path, "a")


@pytest.mark.parametrize("coded", [True, False])
def test_long_cells_in_a_small_file_are_refused(tmp_path: Path, coded: bool) -> None:
    path = tmp_path / "a.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000, pa.int32()), ["x" * 20_000])
    pq.write_table(pa.table({"a": text if coded else text.dictionary_decode()}), path, compression="zstd")  # 40 MB
    assert path.stat().st_size < 20_000
    with pytest.raises(Unreadable, match="column a: has a cell of more than 10000 bytes"):
        columns(path, "a")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_much_text_in_a_small_file_is_refused(
    kind: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever holds the texts: empty ones, missing ones, letters of several bytes, repeated ones."""
    texts = pa.array(["", "é" * 250, None, "x" * 500, "x" * 500] * 1_000, pa.string()).cast(kind)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": texts}), path)
    monkeypatch.setattr(tables, "MAX_TEXT_BYTES", 1_500_000)
    assert len(columns(path, "a")[0]["a"]) == 5_000
    monkeypatch.setattr(tables, "MAX_TEXT_BYTES", 1_499_999)
    with pytest.raises(Unreadable, match="MiB of text"):
        columns(path, "a")
    pq.write_table(pa.table({"a": texts[:0]}), path)
    assert columns(path, "a") == ({"a": []}, 0)


def test_cells_that_hold_more_than_a_value_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [[1, 2]], "b": [{"c": 1}], "d": [b"bytes"], "e": [1.5]}), path)
    assert columns(path, "e") == ({"e": [1.5]}, 1)
    for name in "abd":
        with pytest.raises(Unreadable, match=f"column {name}: holds"):
            columns(path, name)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + b"\xff" * 20 + b"PAR1", b"PAR1" + b"\0" * 20 + b"PAR1"])
def test_what_is_no_parquet_is_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(Unreadable, match="not a Parquet file, or broken"):
        columns(tmp_path / "a.parquet", "a")


def packed(**given: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **given)
    return file.getvalue()


def member(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", content)
    return file.getvalue()


def header(shape: str, kind: str = "<f8") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04 no archive",
        packed(a=np.array([{"an": "object"}], object)),
        member(b""),
        member(header("(2,)") + b"\0" * 8),
        member(header("(1000000000000,)")),
        member(header("(-1,)")),
        member(header("(1,)", "|O") + b"\x80\x04."),
        member(header("((((1,)" + "(" * 60)),
        packed(a=np.arange(100))[:-30],
    ],
)
def test_what_is_no_file_of_arrays_is_one_line(data: bytes) -> None:
    with pytest.raises(Unreadable, match="is not a file of arrays"):
        parse_arrays(data)


def test_arrays_have_names_and_what_unpacks_to_too_much_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = parse_arrays(packed(a=np.arange(6.0).reshape(2, 3), b="text", c=np.array([], np.int64)))
    assert found["a"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert (str(found["b"]), found["c"].size) == ("text", 0)
    monkeypatch.setattr(arrays, "MAX_ARRAYS_BYTES", 1 << 20)
    data = member(b"\0" * ((1 << 20) + 1))
    assert len(data) < 1 << 14
    with pytest.raises(Unreadable, match="holds more than 1 MiB"):
        parse_arrays(data)


@given(st.binary(max_size=60).map(lambda data: data.replace(b"\x00", b"\n")), st.integers(1, 20))
def test_blocks_hold_every_line_once(data: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        found = [line for some in line_blocks(io.BytesIO(data)) for line in some]
    assert found == list(io.BytesIO(data))


def test_a_line_has_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 10)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    file = io.BytesIO(b"a\nb\n" + b"x" * 10_000)
    with pytest.raises(Unreadable, match=r"^line 3 has more than"):
        list(line_blocks(file))
    assert file.tell() < 200
