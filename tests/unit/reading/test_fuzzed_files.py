"""Every reader takes a mutated file, or refuses it with one line: a few for every commit, many with ``--long``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.unit.reading.fuzzed import Reader, mutated, readers, try_reader

READERS = readers()
FOUND = {
    "models": [b"schema: 1\nmodels:\n  small: {co" + b"9" * 5000 + b": ideal}\n"],
    "experiment": [b"w" + b"9" * 5000 + b": 1\n"],
    "costs": [b"schema: 1\nvalues: {a: " + b"9" * 90 + b"}\n", b"schema: 1\nvalues: {a: .inf}\n", b"- - -" * 100],
    "listed": [b"- {job: a, submit_s: 1.0e+308, gpus: 1, duration_s: 1.0e+308}\n", b"- {" + b"k" * 9000 + b": 1}\n"],
    "jobs table": [b"id,at,gpus,len\n" + b"a," + b"9" * 5000 + b",1,1\n", b"n," * 5000 + b"\n"],
    "philly": [b"[" * 5000, b'[{"jobid": ' + b"9" * 5000 + b"}]", b'[{"jobid": "\xed\xa0\x80"}]'],
    "trace": [b"time,duration,target,kind,magnitude\n" + b"0,5," + b"w" * 9000 + b",delay,0.2\n"],
}
"""What has been taken wrongly once."""


@pytest.mark.parametrize("name", READERS)
def test_the_files_that_are_mutated_are_good_ones(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    for data in reader.good:
        path = tmp_path / f"a{reader.ending}"
        path.write_bytes(data)
        reader.read(path)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("count", [15, pytest.param(500, marks=pytest.mark.long)])
def test_a_mutated_file_is_taken_or_refused_in_one_line(name: str, count: int, tmp_path: Path) -> None:
    reader, draw = READERS[name], random.Random(f"{count} {name}")
    for _ in range(count):
        data = mutated(draw.choice(reader.good), draw)
        assert not try_reader(reader, tmp_path / f"a{reader.ending}", data), data


@pytest.mark.parametrize(("name", "data"), [(name, data) for name, found in FOUND.items() for data in found])
def test_what_was_found_before(name: str, data: bytes, tmp_path: Path) -> None:
    assert not try_reader(READERS[name], tmp_path / f"a{READERS[name].ending}", data)


def test_a_reader_that_takes_a_file_wrongly_is_caught(tmp_path: Path) -> None:
    def fails(path: Path) -> None:
        raise KeyError("a")

    def talks(path: Path) -> None:
        raise ValueError("a\nb")

    for read, said in ((fails, "KeyError"), (talks, "several lines")):
        assert said in try_reader(Reader(".txt", read, ()), tmp_path / "a.txt", b"")
