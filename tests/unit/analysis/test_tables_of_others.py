"""Tables as programs of all countries write them: units, commas, blanks, empty cells, a column per rank, restarts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.logs.reading import Reading, read_log
from analysis.logs.roles import may_be_of_ranks
from analysis.logs.step_log import LogError, StepLog
from analysis.logs.table import Columns
from reading.units import unit_in, unit_of, unit_said

STEPS = 24


def rows(value: Callable[[int, int], str], *, separator: str = ",", head: str = "rank,step,seconds") -> str:
    """Three ranks; ``value`` of rank and step."""
    cells = [(str(rank), str(step), value(rank, step)) for step in range(STEPS) for rank in range(3)]
    return "\n".join([head.replace(",", separator), *(separator.join(row) for row in cells), ""])


def read(path: Path, text: str, columns: Columns = Columns(), **more: Any) -> StepLog:  # noqa: B008 (immutable)
    path.write_text(text)
    return read_log(path, Reading(columns, **more))


WRITTEN: dict[str, tuple[str, Callable[[int], str]]] = {
    "decimal comma": (";", lambda rank: f"{rank + 1},25"),
    "decimal comma, three digits": (";", lambda rank: f"{rank + 1},250"),
    "decimal comma between tabs": ("\t", lambda rank: f"{rank + 1},25"),
    "quoted decimal comma": (";", lambda rank: f'"{rank + 1},25"'),
    "blanks around": (",", lambda rank: f" {rank + 1}.25 "),
    "a point between semicolons": (";", lambda rank: f"{rank + 1}.25"),
    "exponent": (",", lambda rank: f"{rank + 1}25e-2"),
}
THOUSANDS: dict[str, tuple[str, Callable[[int], str]]] = {
    "quoted commas": (",", lambda rank: f'"{rank + 1},250"'),
    "commas and a point": (";", lambda rank: f"{rank + 1},250.0"),
    "points and a comma": (";", lambda rank: f"{rank + 1}.250,0"),
    "blanks": (",", lambda rank: f"{rank + 1} 250"),
    "narrow blanks": (";", lambda rank: f"{rank + 1}\N{NARROW NO-BREAK SPACE}250,0"),
    "apostrophes": (";", lambda rank: f"{rank + 1}'250.0"),
}


@pytest.mark.parametrize("way", WRITTEN)
def test_numbers_are_read_as_they_are_written(way: str, tmp_path: Path) -> None:
    separator, text = WRITTEN[way]
    log = read(tmp_path / "a.csv", rows(lambda rank, _: text(rank), separator=separator))
    assert log.own_s[0].tolist() == [1.25, 2.25, 3.25]
    assert any("a comma counts as the decimal point" in remark for remark in log.remarks) == ("comma" in way)


@pytest.mark.parametrize("way", THOUSANDS)
def test_thousands_may_be_apart(way: str, tmp_path: Path) -> None:
    separator, text = THOUSANDS[way]
    log = read(tmp_path / "a.csv", rows(lambda rank, _: text(rank), separator=separator), unit_s=1e-3)
    assert log.own_s[0].tolist() == pytest.approx([1.25, 2.25, 3.25])


@pytest.mark.parametrize(("name", "cell"), [("rank", ""), ("step", "nan"), ("step", ""), ("seconds", "N/A")])
def test_an_empty_cell_is_named_with_what_to_do(name: str, cell: str, tmp_path: Path) -> None:
    row = {"rank": "1", "step": "0", "seconds": "1.0"} | {name: cell}
    text = "rank,step,seconds\n0,0,1.0\n" + ",".join(row.values()) + "\n"
    with pytest.raises(LogError, match=rf"a.csv: row 2, column {name}\b.*(leave out the row|leave it out)"):
        read(tmp_path / "a.csv", text)


@pytest.mark.parametrize("cell", ["1_000", "0x10", "1,5", "soon", "\N{ARABIC-INDIC DIGIT THREE}", "inf", "1 5"])
def test_what_is_no_number_is_named(cell: str, tmp_path: Path) -> None:
    text = rows(lambda rank, step: f'"{cell}"' if (rank, step) == (1, 3) else "1.0")
    with pytest.raises(LogError, match=r"a.csv: row 11, column seconds, .*must be a finite number"):
        read(tmp_path / "a.csv", text)


@pytest.mark.parametrize("step", ["10000000000000000000", "1764350000000000000", "2.5"])
def test_a_step_is_a_whole_number_that_counts_and_dates_are_no_seconds(step: str, tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"row 1, column step, .*must be a whole number that counts steps.*--step"):
        read(tmp_path / "a.csv", f"rank,step,seconds\n0,{step},1\n1,{step},2\n")
    frame = pd.DataFrame({"rank": [0, 1], "step": 0, "seconds": 1.0, "at": pd.Timestamp("2026-01-01")})
    frame.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(LogError, match=r"column at holds datetime64.*must be numbers"):
        read_log(tmp_path / "a.parquet", Reading(Columns(start="at")))


MS = ("time_ms", "ms", "step_msec", "step_milliseconds", "step_ms_mean", "avg ms per step", "stepTimeMs")
UNITS = {
    1e-3: (*MS, "elapsed time per iteration (ms)"),
    1e-6: ("step_usec", "dur_microseconds", "t [\N{MICRO SIGN}s]", "t_\N{GREEK SMALL LETTER MU}s", "step time (us)"),
    1e-9: ("t_ns", "step_nanos", "dur_nsec_p50"),
    1.0: ("seconds", "durationNS", "step_sec", "work_s"),
    60.0: ("minutes", "Wallclock (min)"),
    3600.0: ("walltime [h]",),
}


def test_a_unit_may_stand_anywhere_in_a_name_and_most_names_say_none() -> None:
    for unit_s, names in UNITS.items():
        assert {name: unit_of(name) for name in names} == dict.fromkeys(names, unit_s)
    without = (
        "duration",
        "step_time",
        "min",
        "time (p50)",
        "duration_min",
        "columns",
        "bonus",
        "programs",
        "durationNS",
    )
    assert [name for name in without if unit_in(name) is not None] == []
    said = {"ms": 1e-3, "0.001": 1e-3, " Minutes ": 60.0, "h": 3600.0}
    assert {text: unit_said(text) for text in said} == said


def test_times_that_are_no_likely_seconds_are_remarked(tmp_path: Path) -> None:
    text = rows(lambda rank, _: f"{100.0 + 50 * rank}", head="rank,step,duration")
    said = "duration: its name says no unit, so it counts as seconds, and the usual one would be 150 s"
    assert any(said in remark for remark in read(tmp_path / "a.csv", text, Columns(seconds="duration")).remarks)
    log = read(tmp_path / "a.csv", text, Columns(seconds="duration"), unit_s=1e-3)
    assert not any("duration" in remark for remark in log.remarks)


CLOCKS = {"ms": 1e3, "us": 1e6, "ns": 1e9}


@pytest.mark.parametrize("unit", CLOCKS)
def test_starts_in_another_unit_than_the_times_are_refused_unless_their_name_says_it(unit: str, tmp_path: Path) -> None:
    frame = pd.DataFrame([(rank, step, 1.0 + rank) for step in range(STEPS) for rank in range(3)])
    frame = frame.set_axis(["rank", "step", "seconds"], axis=1)
    frame["began"] = ((1_772_438_635 + 3 * frame["step"]) * CLOCKS[unit]).astype("int64")
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(LogError, match=r"column began: steps begin 3.* s apart and take 2 s; .*began_ms"):
        read_log(tmp_path / "a.csv", Reading(Columns(start="began")))
    frame.rename(columns={"began": f"began_{unit}"}).to_csv(tmp_path / "a.csv", index=False)
    log = read_log(tmp_path / "a.csv", Reading(Columns(start=f"began_{unit}")))
    assert log.begin_s[:, 0].tolist() == pytest.approx([3.0 * step for step in range(STEPS)], abs=1e-3)


def test_columns_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    names = [f"rank{rank} {what}" for what in ("compute", "wait") for rank in range(2)]
    pd.DataFrame({"step": [0]} | {name: [1.0] for name in names}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(LogError, match="a row per rank and step is needed, or a column per rank"):
        read_log(tmp_path / "a.csv")
    with pytest.raises(LogError, match=r"columns must be apart by commas, semicolons, tabs or \|"):
        read(tmp_path / "a.csv", rows(lambda rank, _: f"{rank + 1}.0", separator=" "))


@pytest.mark.parametrize("name", ["rank3", "worker 3 (ms)", "time_3", "w3", "3", "gpu3/step_s"])
def test_a_column_of_a_rank_is_named_so_or_as_a_time(name: str) -> None:
    assert may_be_of_ranks(name)


@pytest.mark.parametrize("name", ["port_port1_loss", "gpu0_util", "layer1 grad norm", "top5_accuracy", "rank2 tokens"])
def test_other_columns_that_differ_by_a_number_are_no_times(name: str) -> None:
    assert not may_be_of_ranks(name)


@pytest.mark.parametrize("ordered", [False, True])
def test_of_rows_of_a_restarted_job_the_later_counts(ordered: bool, tmp_path: Path) -> None:
    """Steps 10 to 14 are there twice; ordered by rank and step, as some programs write them, or by time."""
    first = pd.DataFrame([(rank, step, 1.0 + rank) for step in range(15) for rank in range(3)])
    second = pd.DataFrame([(rank, step, 2.0 + rank) for step in range(10, 20) for rank in range(3)])
    frame = pd.concat([first, second]).set_axis(["rank", "step", "seconds"], axis=1)
    if ordered:
        frame = frame.sort_values(["rank", "step"], kind="stable")
    frame.to_csv(tmp_path / "a.csv", index=False)
    log = read_log(tmp_path / "a.csv")
    assert log.own_s[:, 0].tolist() == [1.0] * 10 + [2.0] * 10
    assert any("5 steps from 10 to 14 are there more than once" in remark for remark in log.remarks)
    pd.concat([second, second]).set_axis(frame.columns, axis=1).to_csv(tmp_path / "a.csv", index=False)
    (remark,) = (remark for remark in read_log(tmp_path / "a.csv").remarks if "more than once" in remark)
    assert remark.endswith("give their number since the job began"), "of steps that every epoch counts again"


def test_own_work_of_a_single_rank_is_no_step(tmp_path: Path) -> None:
    frame = pd.DataFrame({"rank": 0, "step": range(STEPS), "seconds": 0.5, "work": 0.25})
    frame.to_csv(tmp_path / "a.csv", index=False)
    log = read_log(tmp_path / "a.csv", Reading(Columns(compute="work")))
    assert not log.per_rank
    assert log.own_s[:, 0].tolist() == [0.5] * STEPS


@pytest.mark.parametrize("name", ["steps.txt", "steps.log", "steps", "a\udcff.csv"])
def test_a_table_needs_no_name_of_one(name: str, tmp_path: Path) -> None:
    """A name with bytes that are no text can be written: the page, the plan and the cost model name their log."""
    log = read(tmp_path / name, rows(lambda rank, _: f"{rank + 1}.0", separator="\t"))
    assert log.own_s[0].tolist() == [1, 2, 3]
    assert log.source.encode().endswith(name.replace("\udcff", "?").encode())
