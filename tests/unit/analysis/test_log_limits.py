"""What a log may hold without taking all memory or time: each limit is said in one line, with how to continue."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import signal
import socket
from collections.abc import Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from pkgutil import iter_modules

import pandas as pd
import pyarrow as pa
import pytest

from analysis import logs
from analysis.logs import table_file
from analysis.logs.reading import read_log
from tests.support.log_samples import refusal

HEADER = "rank,step,seconds\n"
TITAN = "[rank{}]:[titan] step: {:2d}  loss: 7.1  tps: 8,000  mfu: 9%\n"


def test_what_has_no_end_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.log"))
        kinds = {tmp_path / "pipe.csv": "pipe", tmp_path / "socket.log": "socket", Path("/dev/zero"): "device"}
        for path, kind in kinds.items():
            assert f"is a {kind}; write what it gives to a file" in refusal(path)


def test_pipes_folders_and_circles_of_links_are_no_logs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank7.json")
    (tmp_path / "rank8.json").mkdir()
    assert "holds neither a run nor traces" in refusal(tmp_path)
    (tmp_path / "a.log").symlink_to(tmp_path / "a.log")
    assert "no such file" in refusal(tmp_path / "a.log")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "again").symlink_to(tmp_path / "folder")
    assert "holds neither a run nor traces" in refusal(tmp_path / "folder")


@pytest.mark.parametrize(("name", "place"), [("a.csv.gz", -8), ("a.log", -4), ("rank0.json.gz", 30)])
def test_a_damaged_archive_is_one_line(name: str, place: int, tmp_path: Path) -> None:
    """The check sum, the length and the content itself; and half of an archive."""
    trace = json.dumps({"traceEvents": [{"ph": "X", "name": "ProfilerStep#1", "ts": 1, "dur": 2}]})
    texts = {"a.log": TITAN.format(0, 1), "a.csv.gz": HEADER + "0,1,1\n1,1,1\n", "rank0.json.gz": trace}
    data = bytearray(gzip.compress((texts[name] * 9).encode(), mtime=0))
    data[place] ^= 0xFF
    (tmp_path / name).write_bytes(data)
    assert "cannot be read" in refusal(tmp_path / name)
    whole = pa.compress((TITAN.format(0, 1) * 5000).encode(), "zstd", asbytes=True)
    (tmp_path / "cut.log").write_bytes(whole[: len(whole) // 2])
    refusal(tmp_path / "cut.log")


@pytest.mark.parametrize("name", ["a.csv.gz", "a.log", "rank0.json", "rank0.json.gz", "a.parquet"])
def test_a_file_is_read_up_to_so_many_bytes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.logs.opening.MOST_BYTES", 1 << 20)
    monkeypatch.setattr(table_file, "MOST_TABLE_BYTES", 1 << 20)
    data = (HEADER if "csv" in name else "[").encode() + b" " * (1 << 21)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("z") else data)
    assert "has more than 1 MiB unpacked, the most that is read; give a part of it" in refusal(tmp_path / name)


LIMITS = {
    "lines.MOST_LINES": ("a.log", "\n" * 101, "has more than 100 lines, the most that are read; give a part of it"),
    "gathering.MOST_RANKS": (
        "a.csv",
        HEADER + "".join(f"{row},0,1\n" for row in range(101)),
        "has 101 ranks, and no more",
    ),
    "table_rows.MOST_ROWS": (
        *("a.csv", "step," + ",".join(f"rank{rank}" for rank in range(20)) + "\n" + ("0" + ",1" * 20 + "\n") * 6),
        "has more than 100 steps of ranks; give fewer of them",
    ),
    "trace_file.MOST_OBJECTS": ("rank0.json", json.dumps({"traceEvents": [{}] * 100}), "has more than 100 objects"),
    "metric_table.MOST_ROWS": (
        *("a.csv", "step,step_time,data_time\n" + "".join(f"{step},1,0.5\n" for step in range(60))),
        "has more than 100 times, the most that are read; give a part",
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_log_has_so_many_parts(limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, text, says = LIMITS[limit]
    monkeypatch.setattr(f"analysis.logs.{limit}", 100)
    if limit == "table_rows.MOST_ROWS":  # and refused before it is taken apart
        monkeypatch.setattr("analysis.logs.table_rows.whole_numbers", None)
    (tmp_path / name).write_text(text)
    assert says in refusal(tmp_path / name)


def test_a_folder_has_so_many_traces_and_what_needs_more_memory_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("analysis.logs.trace_folder.MOST_FILES", 2)
    for rank in range(3):
        (tmp_path / f"rank{rank}.json").touch()
    assert "has 3 traces; name a folder of 2 at most" in refusal(tmp_path)
    monkeypatch.setattr("analysis.logs.reading.read_table", full)
    (tmp_path / "a.csv").write_text(HEADER)
    assert "needs more memory than there is; give a part of it" in refusal(tmp_path / "a.csv")


def test_of_a_line_so_many_characters_are_read_and_that_is_said(tmp_path: Path) -> None:
    step = "".join(TITAN.format(rank, 1) for rank in range(2)) + TITAN.format(0, 2)
    (tmp_path / "a.log").write_text(step[:-1] + "x" * 200_000 + " step: 3 tps: 5\n" + TITAN.format(1, 2))
    log = read_log(tmp_path / "a.log")
    assert log.steps == (1, 2)
    assert any("line 3 and perhaps others have more than 65,536 characters" in remark for remark in log.remarks)


@pytest.mark.parametrize("kind", ["csv", "parquet", "log"])
def test_a_log_has_so_many_steps_of_ranks(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("rows", "table_file", "table_rows"):
        monkeypatch.setattr(f"analysis.logs.{module}.MOST_ROWS", 100)
    path = tmp_path / f"a.{kind}"
    if kind == "log":
        path.write_text("".join(TITAN.format(0, step) for step in range(101)))
    elif kind == "csv":
        path.write_text(HEADER + "".join(f"0,{step},1\n" for step in range(101)))
    else:
        pa.parquet.write_table(pa.table({"rank": [0] * 101, "step": range(101), "seconds": [1.0] * 101}), path)
    assert re.search("has (more than )?10[01] (rows|steps of ranks)", refusal(path))


def test_ranks_have_short_names_and_steps_in_common(tmp_path: Path) -> None:
    """To sort names in natural order, each is taken apart."""
    (tmp_path / "a.csv").write_text(HEADER + "0,0,1\n" + "a1" * 101 + ",0,1\n")
    assert "row 2, column rank: has more than 200 characters" in refusal(tmp_path / "a.csv")
    # 4,000 rows, and 16 million steps of ranks of which nothing is known.
    (tmp_path / "a.csv").write_text(HEADER + "".join(f"{row},{row},1\n" for row in range(4_000)))
    assert "has 4,000 ranks and 4,000 steps, and no more than 8,000,000" in refusal(tmp_path / "a.csv")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_is_read_a_few_cells_at_a_time(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_file, "PIECE_CELLS", 30)
    frame = pd.DataFrame({"step": range(100), **{f"c{number}": 1.0 for number in range(9)}})
    path = tmp_path / f"a.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    pieces = list(table_file.TableFile(path).pieces(["step"]))
    assert {len(piece) for _, piece in pieces} == {3, 1}
    assert pd.concat([piece["step"] for _, piece in pieces]).tolist() == list(range(100))


def test_a_table_has_so_much_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Parquet file of a few kilobytes may say gigabytes of it."""
    monkeypatch.setattr(table_file, "PIECE_TEXT_BYTES", 1 << 20)
    rows = {"rank": ["x" * 5_000] * 1_000, "step": range(1_000), "seconds": [1.0] * 1_000}
    pa.parquet.write_table(pa.table(rows), tmp_path / "a.parquet")
    assert "has 1,000 rows with more than 1 MiB; shorten its texts" in refusal(tmp_path / "a.parquet")


def test_a_table_has_so_many_columns_and_a_short_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(f"c{number}" for number in range(30_000)) + "\n1\n")
    assert "has 30,000 columns, and no more than 20,000 are read" in refusal(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("x" * 2_000_000 + "\n")
    assert "its first line has more than 1,048,576 characters" in refusal(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text(",".join("y" * 20_000 + str(number) for number in range(12)) + "\n1\n")
    assert len(refusal(tmp_path / "a.csv")) < 1_000, "long names are not repeated in full"


@pytest.mark.parametrize("text", ['{"other":' + "[" * 100_000, '{"traceEvents":' + "[" * 100_000, '{"a":' * 100_000])
def test_brackets_without_end_are_no_trace(text: str, tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(text)
    assert "trace (" in refusal(tmp_path / "rank0.json")


LENGTH = 1 << 17
CPU_S = 10
"""Twenty times what linear expressions need, and much less than a quadratic one."""
OLD = re.compile(r"(?:\[rank(\d+)\]:)?.*?\bstep:\s*(\d+)\b.*?\btps:\s*([0-9,]+)")


def hard_lines(pattern: re.Pattern[str] | re.Pattern[bytes]) -> Iterator[str]:
    """Long lines of what the expression looks for, again and again, and never to its end."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:[A-Za-z# :=/|\[,-]|\\[\[\]()|.])+", source)]
    pieces = [*dict.fromkeys(word for word in words if len(word) > 1), " ", "1", "[", "a"]
    for one, other in product(pieces, [*pieces[:2], " ", "1", ""]):
        yield (f"{one}{other}" * (LENGTH // len(one + other)))[:LENGTH]


def ends(pattern: re.Pattern[str] | re.Pattern[bytes], cpu_s: int) -> bool:
    """Whether the expression is done with all its hard lines, in a process that is ended after that processor time."""
    if (child := os.fork()) == 0:
        used = int(sum(os.times()[:2]))
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (used + cpu_s, used + cpu_s))
        try:
            for line in hard_lines(pattern):
                pattern.search(line if isinstance(pattern.pattern, str) else line.encode())  # type: ignore[arg-type]
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def patterns() -> Iterator[tuple[str, re.Pattern[str] | re.Pattern[bytes]]]:
    """Of all readers, with the name of the module; those of roles search short names only."""
    modules = (f"analysis.logs.{one.name}" for one in iter_modules(logs.__path__) if one.name != "roles")
    for name in (*modules, "reading.units", "reading.numerals"):
        for value in vars(import_module(name)).values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, re.Pattern):
                    yield name.rpartition(".")[2], each


ALL = {f"{module} {number}": each for number, (module, each) in enumerate(patterns())}


@pytest.mark.few(2)
@pytest.mark.parametrize("pattern", ALL)
def test_no_line_makes_an_expression_take_more_than_linear_time(pattern: str) -> None:
    assert ends(ALL[pattern], CPU_S)


@pytest.mark.long(like="test_no_line_makes_an_expression_take_more_than_linear_time")
def test_an_expression_that_backtracks_is_noticed() -> None:
    assert not ends(OLD, 1)
