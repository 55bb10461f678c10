"""Profiles of Nsight Systems as SQLite: a published one, made ones with steps, and databases that are no profiles."""

from __future__ import annotations

import gzip
import sqlite3
from itertools import product
from pathlib import Path

import pytest

from analysis.logs import nsight
from analysis.logs.nsight import STEP
from analysis.logs.reading import read_log
from analysis.logs.step_log import LogError, Untimed
from stragglab.commands import advise
from tests.support.runs import ROOT

PUBLIC = ROOT / "tests" / "logs" / "public"
EXPOSED_MS, STEP_MS = 25.400, 598.52
"""Sums over the two devices that nsys-ai 0.3.0 reports of this profile (docs/user/reading-a-diff.md)."""
TABLES = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, globalPid INTEGER, shortName);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, globalTid INTEGER, textId INTEGER);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_Sum_f32'), (3, 'dataloader');
"""


def profile(path: Path, *, steps: int = 4, name: str = "step {}") -> Path:
    """Two processes with a device each; a step takes 1 s. Device 1 computes 0.6 s, device 0 0.4 s; then they sum."""
    with sqlite3.connect(path) as database:
        database.executescript(TABLES)
        for device, step in product(range(2), range(steps)):
            process, work = (device + 7) << 24, int((0.4 + 0.2 * device) * 1e9)
            start = int(1e10 * device + 1e9 * step)  # processes begin at other times
            tenth, end = start + 10**8, start + 10**9
            ranges = [(start, end, name.format(step), process + 5, None), (start, tenth, None, process + 5, 3)]
            database.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?)", ranges)
            kernels = [(tenth, tenth + work, device, process, 1), (tenth + work, end, device, process, 2)]
            database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?)", kernels)
    database.close()
    return path


def test_exposed_communication_is_what_others_published(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "before.sqlite"
    path.write_bytes(gzip.decompress((PUBLIC / "mfu_2gpu_before.sqlite.gz").read_bytes()))
    log = read_log(path)
    assert log.ranks == ("0", "1")
    assert log.comm_s is not None
    assert 1e3 * log.comm_s.sum() == pytest.approx(EXPOSED_MS, abs=0.005)
    assert 1e3 * (log.comm_s + log.own_s).sum() == pytest.approx(STEP_MS, abs=0.02)
    assert advise.main([str(path), "-o", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr().out
    assert "has no ranges of steps, so all of it counts as one" in shown
    assert "no rank is slower by 10% or more" in shown
    assert "4.2% is communication" in shown


@pytest.mark.parametrize("name", ["step {}", "iteration_{}", "ProfilerStep#{}", "Train Step: {}", "iter {}"])
def test_ranges_of_steps_tell_steps_and_ranks_apart(name: str, tmp_path: Path) -> None:
    """And the file is neither changed nor given companions."""
    path = profile(tmp_path / "a.sqlite", name=name)
    before = path.read_bytes()
    log = read_log(path)
    assert log.steps == (0, 1, 2, 3)
    assert log.own_s[2].tolist() == pytest.approx([0.5, 0.7])
    assert log.comm_s is not None
    assert log.comm_s[2].tolist() == pytest.approx([0.5, 0.3])
    assert log.data_s is not None
    assert log.data_s[2].tolist() == pytest.approx([0.1, 0.1])
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.sqlite"]
    assert not any(map(STEP.fullmatch, ("aten::add, op_id = 3", "step", "backward step 3", "optimizer_step 4x")))


KERNEL = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
NO_TIME = "a time or a number of a device is none"
STRINGS = "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_Sum_f32'), (3, 'dataloader')"
VIEW = "; CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM b"
COMPUTED = TABLES.replace("value TEXT)", "value TEXT AS (hex(zeroblob(100000000))))")
OTHERS = {
    "another database": ("CREATE TABLE a (b INTEGER)", LogError, "no profile of CUDA kernels"),
    "a view": (TABLES.replace("CREATE TABLE CUPTI", "CREATE TABLE b") + VIEW, LogError, "no profile of CUDA kernels"),
    "no kernels": (TABLES, Untimed, "has no CUDA kernels"),
    "texts for times": (TABLES + f"{KERNEL} ('soon', 'later', 0, 0, 1)", LogError, NO_TIME),
    "an end before the begin": (TABLES + f"{KERNEL} (5, 3, 0, 0, 1)", LogError, NO_TIME),
    "a text that is computed": (
        COMPUTED.replace(STRINGS, "INSERT INTO StringIds (id) VALUES (1)") + f"{KERNEL} (5, 8, 0, 0, 1)",
        *(LogError, "too big"),
    ),
    "many devices": (
        f"{TABLES}{KERNEL} " + ",".join(f"(5, 8, {place}, 0, 1)" for place in range(300)),
        *(LogError, "has 300 devices, and no more than 256 are read"),
    ),
    "a missing column": (
        "CREATE TABLE StringIds (id, value); CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end)",
        *(LogError, "no such column"),
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_databases_that_are_something_else_are_one_line(kind: str, tmp_path: Path) -> None:
    script, error, says = OTHERS[kind]
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.executescript(script)
    database.close()
    with pytest.raises(error, match=says):
        read_log(tmp_path / "a.db")


def test_a_damaged_database_a_compressed_one_and_one_that_repeats_texts_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = profile(tmp_path / "a.sqlite", steps=90)
    data = bytearray(path.read_bytes())
    (tmp_path / "a.sqlite.gz").write_bytes(gzip.compress(data))
    with pytest.raises(LogError, match=r"a\.sqlite\.gz: is a compressed database; unpack it"):
        read_log(tmp_path / "a.sqlite.gz")
    monkeypatch.setattr(nsight, "MOST_TEXTS", 1_000)
    with pytest.raises(LogError, match="events, the most that are read; profile fewer steps"):
        read_log(path)
    data[100 : len(data) // 2] = b"\xff" * (len(data) // 2 - 100)
    path.write_bytes(bytes(data))
    with pytest.raises(LogError, match="is no profile of Nsight Systems"):
        read_log(path)


def test_only_queries_are_allowed_and_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = profile(tmp_path / "a.sqlite")
    for text in ("ATTACH 'b.db' AS b", "CREATE TEMP TABLE c (d)", "PRAGMA journal_mode", "DELETE FROM StringIds"):
        with pytest.raises(LogError, match="is no profile"), nsight._open_database(path) as database:
            database.rows(f"{text} --")
    monkeypatch.setattr(nsight, "MOST_OPERATIONS", 3 * nsight.CHECKED_EVERY)
    endless = "SELECT count(*) FROM " + ", ".join(f"NVTX_EVENTS t{place}" for place in range(12))
    with pytest.raises(LogError, match="interrupted"), nsight._open_database(path) as database:
        database.rows(endless)
