"""Tables of jobs as schedulers and clusters write them: whatever the form, the same jobs, or one line with the cure."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from injectors.arrivals.base import Submission
from injectors.arrivals.table import JobTable
from tests.support.long_tests import long_after

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


class Job(NamedTuple):
    """The truth about one: it waits for ``wait_s`` after its submission."""

    name: str
    submit_s: int
    wait_s: int
    lasts_s: int
    gpus: int


def jobs(seed: int) -> list[Job]:
    """Ten of them, the first at 0."""
    rng = random.Random(seed)
    at = [0, *sorted(rng.randrange(1, 90_000) for _ in range(9))]
    return [
        Job(str(1000 + n), at[n], rng.randrange(600), rng.randrange(60, 200_000), rng.choice([1, 2, 4, 8]))
        for n in range(10)
    ]


Row = dict[str, str]
Settings = dict[str, Any]


class Written(NamedTuple):
    """Rows of a table, and the settings that read it."""

    rows: list[Row]
    settings: Settings


def plain(truth: list[Job]) -> Written:
    rows = [{"id": one.name, "at": f"{one.submit_s}", "gpus": f"{one.gpus}", "len": f"{one.lasts_s}"} for one in truth]
    settings = {"submit_column": "at", "gpus_column": "gpus", "job_column": "id", "duration_column": "len"}
    return Written(rows, settings)


def renamed(made: Written, column: str, setting: str, name: str, cell: Callable[[str], str], **more: Any) -> Written:
    """With another name and other cells of a column."""
    rows = [
        {(name if key == column else key): cell(text) if key == column else text for key, text in row.items()}
        for row in made.rows
    ]
    return Written(rows, {**made.settings, setting: name, **more})


def moment(made: Written, name: str, cell: Callable[[float], str], **more: Any) -> Written:
    return renamed(
        made, "at", "submit_column", name, lambda text: cell(float(text)) if text.isdecimal() else text, **more
    )


def length(made: Written, name: str, cell: Callable[[int], str], **more: Any) -> Written:
    return renamed(made, "len", "duration_column", name, lambda text: cell(int(text)) if text else text, **more)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def hours(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


SUBMITTED: dict[str, Callable[[Written], Written]] = {
    "seconds": lambda made: made,
    "milliseconds by name": lambda made: moment(made, "submit_ms", lambda s: f"{1000 * s:.0f}"),
    "microseconds by name": lambda made: moment(made, "submitTimeUs", lambda s: f"{1e6 * s:.0f}"),
    "milliseconds by setting": lambda made: moment(made, "t", lambda s: f"{1000 * s:.0f}", submit_unit_s=0.001),
    "epoch": lambda made: moment(made, "t", lambda s: f"{at(s).timestamp():.0f}", submit_as="epoch"),
    "epoch with decimals": lambda made: moment(made, "t", lambda s: f"{at(s).timestamp():.3f}", submit_as="epoch"),
    "epoch in ms": lambda made: moment(
        made, "epoch (ms)", lambda s: f"{1e3 * at(s).timestamp():.0f}", submit_as="epoch"
    ),
    "epoch in us": lambda made: moment(
        made, "t", lambda s: f"{1e6 * at(s).timestamp():.0f}", submit_as="epoch", submit_unit_s=1e-6
    ),
    "ISO with a zone": lambda made: moment(made, "t", lambda s: at(s).isoformat(), submit_as="time"),
    "UTC at the end": lambda made: moment(made, "t", lambda s: f"{at(s):%Y-%m-%d %H:%M:%S} UTC", submit_as="time"),
    "ISO with Z": lambda made: moment(made, "t", lambda s: f"{at(s):%Y-%m-%dT%H:%M:%S}Z", submit_as="time"),
    "ISO with nanoseconds": lambda made: moment(
        made, "t", lambda s: f"{at(s):%Y-%m-%dT%H:%M:%S}.000000000Z", submit_as="time"
    ),
    "sacct": lambda made: moment(made, "Submit", lambda s: f"{at(s):%Y-%m-%dT%H:%M:%S}", submit_as="time", zone="UTC"),
    "slashes": lambda made: moment(made, "t", lambda s: f"{at(s):%Y/%m/%d %H:%M:%S}", submit_as="time", zone="UTC"),
    "ctime": lambda made: moment(made, "t", lambda s: at(s).ctime(), submit_as="time", zone="UTC"),
}
LASTING: dict[str, Callable[[Written], Written]] = {
    "seconds": lambda made: made,
    "milliseconds by name": lambda made: length(made, "duration_ms", lambda s: f"{1000 * s}"),
    "milliseconds by setting": lambda made: length(made, "len", lambda s: f"{1000 * s}", duration_unit_s=0.001),
    "minutes": lambda made: length(made, "walltime (minutes)", lambda s: f"{s / 60:.9f}"),
    "Slurm": lambda made: length(
        made, "Elapsed", lambda s: f"{s // 86400}-{hours(s % 86400)}" if s >= 86400 else hours(s)
    ),
    "PBS": lambda made: length(made, "resources_used.walltime", hours),
    "pandas": lambda made: length(made, "run", lambda s: f"{s // 86400} days {hours(s % 86400)}"),
    "Python": lambda made: length(made, "run", lambda s: str(timedelta(seconds=s))),
    "Kubernetes": lambda made: length(made, "age", lambda s: f"{s // 86400}d{s // 3600 % 24}h{s // 60 % 60}m{s % 60}s"),
    "ISO": lambda made: length(made, "run", lambda s: f"PT{s // 3600}H{s // 60 % 60}M{s % 60}S"),
    "iterations": lambda made: Written(
        [{**row, "iters": row["len"], "iter_ms": "1000"} for row in made.rows],
        {
            **made.settings,
            "duration_column": None,
            "iterations_column": "iters",
            "seconds_per_iteration_column": "iter_ms",
        },
    ),
}
SIZES: dict[str, Callable[[str], str]] = {
    "number": lambda n: n,
    "decimals": lambda n: f"{n}.0",
    "AllocTRES": lambda n: f"billing=9,cpu=64,gres/gpu={n},mem=32G,node=1",
    "types in AllocTRES": lambda n: f"cpu=64,gres/gpu:a100={n},mem=32G",
    "both in AllocTRES": lambda n: f"cpu=64,gres/gpu:a100={n},gres/gpu={n},node=2",
}


def _more_rows(made: Written, *rows: Row) -> Written:
    return Written([*made.rows, *rows], {**made.settings, "skip_incomplete": True})


def _with_steps(made: Written) -> Written:
    """As ``sacct`` prints them without -X."""
    steps = [{**row, "id": f"{row['id']}.{step}"} for row in made.rows[::3] for step in ("batch", "extern", "0", "17")]
    return Written([*made.rows, *steps], made.settings)


def _unnamed(made: Written) -> Written:
    """Names that no folder can have."""
    rows = [{**row, "id": f"ns-a/pod:{row['id']}"} for row in made.rows]
    return Written(rows, {**made.settings, "job_column": None})


OTHERS: dict[str, Callable[[Written], Written]] = {
    "none": lambda made: made,
    "steps": _with_steps,
    "steps, ids as sacct calls them, and not named": lambda made: Written(
        [{**{k: v for k, v in row.items() if k != "id"}, "JobID": row["id"]} for row in _with_steps(made).rows],
        {**made.settings, "job_column": None},
    ),
    "names": _unnamed,
    "without a time": lambda made: _more_rows(
        made, *({**made.rows[1], "id": f"n{n}", "at": t} for n, t in enumerate(("", "Unknown", "N/A", "None", "NaT")))
    ),
    "without GPUs": lambda made: _more_rows(made, {**made.rows[2], "id": "x", "gpus": "0"}),
    "never started": lambda made: _more_rows(made, {**made.rows[2], "id": "x", "len": "0"}),
    "still running": lambda made: _more_rows(made, {**made.rows[2], "id": "x", "len": ""}),
    "twice": lambda made: Written([*made.rows, made.rows[4]], made.settings),
    "other columns": lambda made: Written(
        [{"note": "a, b", **row, "State": "COMPLETED"} for row in made.rows], made.settings
    ),
}
FILES: dict[str, tuple[str, str, Callable[[str], bytes]]] = {
    "commas": ("a.csv", ",", str.encode),
    "semicolons": ("a.csv", ";", str.encode),
    "tabs": ("a.tsv", "\t", str.encode),
    "bars": ("sacct.txt", "|", str.encode),
    "byte order mark": ("a.csv", ",", lambda text: text.encode("utf-8-sig")),
    "UTF-16 of PowerShell": ("a.csv", ";", lambda text: text.replace("\n", "\r\n").encode("utf-16")),
    "gzip": ("a.csv.gz", ",", lambda text: gzip.compress(text.encode())),
    "gzip without its suffix": ("a.csv", ",", lambda text: gzip.compress(text.encode())),
    "Zstandard": ("a.tsv.zst", "\t", lambda text: pa.compress(text.encode(), "zstd", asbytes=True)),
    "empty lines": ("a.csv", ",", lambda text: f"\n{text.replace(chr(10), chr(10) * 2)}".encode()),
    "carriage returns": ("a.csv", ",", lambda text: text.replace("\n", "\r\n").encode()),
    "blanks": ("a.csv", ",", lambda text: text.replace(",", " , ").encode()),
}


def store(folder: Path, made: Written, way: str = "commas", *, seed: int = 0) -> JobTable:
    """The table as a file, its rows in any order, and the source that reads it."""
    name, separator, encode = FILES[way]
    names = list(made.rows[0])
    rows = list(made.rows)
    random.Random(seed).shuffle(rows)
    cells = [names, *([row[key] for key in names] for row in rows)]
    quoted = [[f'"{text}"' if separator in text or "," in text else text for text in line] for line in cells]
    if way == "blanks":
        quoted = [[text.replace(",", ";") for text in line] for line in cells]
    file = folder / name
    file.write_bytes(encode("".join(separator.join(line) + "\n" for line in quoted)))
    return JobTable(path=str(file), **made.settings)


def is_read(source: JobTable, truth: list[Job], what: str = "") -> None:
    """Jobs, in the order of submission, from the first on."""
    found: list[Submission] = source.submissions(0)
    assert [(one.gpus, one.duration_s) for one in found] == [(one.gpus, pytest.approx(one.lasts_s)) for one in truth], (
        what
    )
    first = found[0].submit_s
    assert [one.submit_s - first for one in found] == pytest.approx([float(one.submit_s) for one in truth], abs=0.01), (
        what
    )
    if source.job_column is not None:
        assert [one.job for one in found] == [one.name for one in truth], what


@pytest.mark.parametrize("seed", long_after(list(range(60)), always=20))
def test_jobs_are_the_same_however_they_are_written(seed: int, tmp_path: Path) -> None:
    rng, truth = random.Random(seed), jobs(seed)
    changed = set(rng.sample(["submitted", "lasting", "sizes", "others", "file"], k=rng.randint(1, 3)))

    def pick(axis: str, ways: dict[str, Any]) -> str:
        return rng.choice(list(ways)[1:]) if axis in changed else next(iter(ways))

    ways = [
        pick("submitted", SUBMITTED),
        pick("lasting", LASTING),
        pick("sizes", SIZES),
        pick("others", OTHERS),
        pick("file", FILES),
    ]
    made = OTHERS[ways[3]](plain(truth))
    made = LASTING[ways[1]](SUBMITTED[ways[0]](made))
    made = renamed(made, "gpus", "gpus_column", "gpus", SIZES[ways[2]])
    is_read(store(tmp_path, made, ways[4], seed=seed), truth, str(ways))


@pytest.mark.few(6)
@pytest.mark.parametrize("form", SUBMITTED)
@pytest.mark.parametrize("started", [True, False])
def test_start_and_end_say_how_long(form: str, started: bool, tmp_path: Path) -> None:
    """Without a start, what a job waited counts."""
    truth = jobs(3) if started else [one._replace(wait_s=0) for one in jobs(3)]
    made = plain(truth)
    columns = {}
    for name, of in (
        ("begin", lambda one: one.submit_s + one.wait_s),
        ("end", lambda one: one.submit_s + one.wait_s + one.lasts_s),
    ):
        cells = SUBMITTED[form](
            Written([{**row, "at": f"{of(one)}"} for row, one in zip(made.rows, truth, strict=True)], made.settings)
        )
        own = cells.settings["submit_column"]
        columns[name] = [row[own] for row in cells.rows]
    made = SUBMITTED[form](made)
    unit = "_ms" if "ms" in made.settings["submit_column"] else "_us" if "Us" in made.settings["submit_column"] else ""
    rows = [
        {**row, f"begin{unit}": columns["begin"][n], f"end{unit}": columns["end"][n]} for n, row in enumerate(made.rows)
    ]
    settings = {**made.settings, "duration_column": None, "end_column": f"end{unit}"}
    if started:
        settings["start_column"] = f"begin{unit}"
    is_read(store(tmp_path, Written(rows, settings)), truth)


def refused(folder: Path, made: Written, **more: Any) -> str:
    with pytest.raises(ValueError, match=r"\w") as caught:
        store(folder, Written(made.rows, {**made.settings, **more})).submissions(0)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_decimal_commas_are_read_between_semicolons(tmp_path: Path) -> None:
    text = "at;gpus;s\n0;1;1,5\n2,25;2;1.250,5\n"
    (tmp_path / "a.csv").write_text(text)
    found = JobTable(path=str(tmp_path / "a.csv"), submit_column="at", gpus_column="gpus", duration_column="s")
    assert [(one.submit_s, one.duration_s) for one in found.submissions(0)] == [(0.0, 1.5), (2.25, 1250.5)]
    (tmp_path / "a.csv").write_text('at,gpus,s\n0,1,"1,250"\n')
    assert found.submissions(0)[0].duration_s == 1250.0


UNLIKELY: dict[str, tuple[Callable[[Written], Written], str]] = {
    "epoch in ms": (
        lambda made: moment(made, "t", lambda s: f"{1e3 * at(s).timestamp():.0f}", submit_as="epoch"),
        "submit_unit_s=0.001 if it counts milliseconds",
    ),
    "epoch in ms as a number": (
        lambda made: moment(made, "t", lambda s: f"{1e3 * at(s).timestamp():.0f}"),
        "submit_unit_s=0.001 if it counts milliseconds, and submit_as=epoch if since 1970",
    ),
    "the end of all clocks": (
        lambda made: moment(made, "t", lambda s: "9223372036854775807", submit_as="epoch"),
        "years if it has seconds; correct it, or leave the row out",
    ),
    "durations in ms": (lambda made: length(made, "len", lambda s: f"{1000 * s}"), "duration_unit_s=0.001 if it has"),
    "iterations in ms": (
        lambda made: Written(
            [{**row, "iters": row["len"], "each": "1000"} for row in made.rows],
            {
                **made.settings,
                "duration_column": None,
                "iterations_column": "iters",
                "seconds_per_iteration_column": "each",
            },
        ),
        "seconds_per_iteration_unit_s=0.001 if it has",
    ),
    "epoch where times are said": (
        lambda made: moment(made, "t", lambda s: f"{at(s).timestamp():.0f}", submit_as="time", zone="UTC"),
        "must be a time such as 2017-10-09 07:01:55; submit_as=epoch reads numbers since 1970",
    ),
    "never started": (
        lambda made: Written([*made.rows, {**made.rows[2], "id": "x", "len": "00:00:00"}], made.settings),
        "00:00:00: a job of no time never started; skip_incomplete=true leaves such rows out",
    ),
    "unknown": (
        lambda made: Written([*made.rows, {**made.rows[2], "id": "x", "at": "Unknown"}], made.settings),
        "Unknown: must be there; skip_incomplete=true leaves such rows out",
    ),
    "no such column": (
        lambda made: Written(made.rows, {**made.settings, "duration_column": "duration"}),
        "duration_column=null: the table has none (end_column and start_column name moments)",
    ),
    "ends before it starts": (
        lambda made: Written(
            [{**row, "end": "-1"} for row in made.rows], {**made.settings, "duration_column": None, "end_column": "end"}
        ),
        "is before the job's start",
    ),
}


@pytest.mark.parametrize("kind", UNLIKELY)
def test_what_is_not_likely_is_refused_with_the_cure(kind: str, tmp_path: Path) -> None:
    change, said = UNLIKELY[kind]
    assert said in refused(tmp_path, change(plain(jobs(1))))


def test_a_unit_that_somebody_says_is_believed(tmp_path: Path) -> None:
    """Jobs of 40 days, submitted over 30 years."""
    text = "at,gpus,s\n0,1,3456000\n900000000,1,3456000\n"
    (tmp_path / "a.csv").write_text(text)
    said = {"submit_unit_s": 1.0, "duration_unit_s": 1.0}
    named = {"submit_column": "at", "gpus_column": "gpus", "duration_column": "s"}
    found = JobTable(path=str(tmp_path / "a.csv"), **named, **said).submissions(0)  # type: ignore[arg-type]
    assert [(one.submit_s, one.duration_s) for one in found] == [(0.0, 3456000.0), (9e8, 3456000.0)]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"duration_column": "len", "end_column": "end"}, "duration_column=len: end_column says it already"),
        ({"start_column": "begin"}, "start_column=begin: needs end_column, too"),
        ({"submit_unit_s": 0.0}, "submit_unit_s=0.0: must be more than 0"),
        ({"iterations_column": "n", "max_duration_s": 30.0}, "max_duration_s=30: no column says how long jobs last"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: Settings, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        JobTable(path="a.csv", submit_column="at", gpus_column="gpus", **settings)
