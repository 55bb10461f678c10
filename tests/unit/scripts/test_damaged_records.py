"""A damaged record is one line, whatever command reads it, and its neighbours are looked at all the same."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.logs.run_record import read_record
from analysis.logs.step_log import LogError
from analysis.records.load import RecordError
from analysis.reports.cluster import finish_cluster
from analysis.reports.report import finish_run
from stragglab.commands import calibrate, compare, export, figures, replay, verify
from stragglab.commands import predictors as score_predictors
from tests.support.cli import run_cli

JOB = (
    "runtime=virtual backend=none workload.target=null workload.epochs=2 straggler=none view=none draw=false "
    "cluster.num_workers=3"
)
DEEP = b"[" * 100_000


def with_line(number: int, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(record: Path) -> None:
        lines = (record / "events.jsonl").read_bytes().split(b"\n")
        lines[number] = change(lines[number])
        (record / "events.jsonl").write_bytes(b"\n".join(lines))

    return damage


def with_meta(**fields: Any) -> Callable[[Path], None]:
    """Fields of ``meta.json``; those of its job by ``job``."""

    def damage(record: Path) -> None:
        meta = json.loads((record / "meta.json").read_bytes())
        job = fields.get("job")
        meta |= {**fields, "job": {**meta["job"], **job}} if isinstance(job, dict) else fields
        (record / "meta.json").write_text(json.dumps(meta))

    return damage


def written(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda record: (record / name).write_bytes(content) and None


def joined(record: Path) -> None:
    """Two lines without the newline between them."""
    data = (record / "events.jsonl").read_bytes()
    (record / "events.jsonl").write_bytes(data.replace(b"}\n{", b"}{", 1))


def instead(name: str, make: Callable[[Path], None]) -> Callable[[Path], None]:
    """A folder, or a pipe that nobody writes to, where a file should be."""

    def damage(record: Path) -> None:
        (record / name).unlink(missing_ok=True)
        make(record / name)

    return damage


def of_event(**fields: Any) -> Callable[[bytes], bytes]:
    def change(line: bytes) -> bytes:
        content = json.loads(line)
        content["event"] |= fields
        return json.dumps(content).encode()

    return change


def arrival(record: Path) -> int:
    """The number of the first line of a gradient that arrived."""
    lines = (record / "events.jsonl").read_bytes().split(b"\n")
    return next(number for number, line in enumerate(lines) if b'"Arrived"' in line)


def in_arrival(**fields: Any) -> Callable[[Path], None]:
    return lambda record: with_line(arrival(record), of_event(**fields))(record)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "no text in the log": with_line(3, lambda line: line.replace(b'"t', b'"\xff', 1)),
    "brackets in the log": with_line(3, lambda line: DEEP),
    "brackets in an event": with_line(3, lambda line: line[:-1] + b',"state":' + DEEP),
    "a short line": with_line(3, lambda line: line[: len(line) // 2]),
    "an empty line": with_line(3, lambda line: b""),
    "joined lines": joined,
    "a list for a line": with_line(3, lambda line: b"[]"),
    "a text for a time": in_arrival(timings="soon"),
    "a number beyond all": in_arrival(grad={"id": 10**30, "worker": 0}),
    "zeros in the log": with_line(3, lambda line: bytes(1000)),
    "no text in meta.json": written("meta.json", b'{"schema": 1, "runtime": "\xff"}'),
    "brackets in meta.json": written("meta.json", DEEP),
    "a seed that is none": with_meta(seed={"a": [1]}),
    "a job that is none": with_meta(job=[1]),
    "workers without end": with_meta(job={"num_workers": 10**12}),
    "a strategy that is none": with_meta(job={"strategy": ["ssp"]}),
    "a target that is none": with_meta(job={"target": "high"}),
    "versions that are none": with_meta(versions=[1]),
    "a plan of brackets": written("plan.json", DEEP),
    "a plan of words": written("plan.json", b'{"schema": 1, "disturbances": [{"start_s": "x"}]}'),
    "no plan": lambda record: (record / "plan.json").unlink(),
    "a folder for the plan": instead("plan.json", Path.mkdir),
    "a pipe for the log": instead("events.jsonl", os.mkfifo),
    "a pipe for the sums": instead("SHA256SUMS", os.mkfifo),
}
ONE_LINE = {
    "verify": lambda paths, out: verify.main(paths),
    "compare": lambda paths, out: compare.main(paths),
    "figures": lambda paths, out: figures.main([*paths, "--out", str(out)]),
    "export": lambda paths, out: export.main([*paths, "--to", "mllog", "--where", str(out)]),
    "calibrate": lambda paths, out: calibrate.main([*paths, "-o", str(out / "costs.yaml")]),
    "predictors": lambda paths, out: score_predictors.main([*paths, "--out", str(out)]),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged") / "run"
    assert run_cli(*JOB.split(), f"hydra.run.dir={folder}").exit_code == 0
    return folder


@pytest.fixture
def pair(original: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A record that will be damaged, and its neighbour."""
    return Path(shutil.copytree(original, tmp_path / "bad")), Path(shutil.copytree(original, tmp_path / "good"))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_refused_with_one_line(damage: str, pair: tuple[Path, Path]) -> None:
    bad, _ = pair
    DAMAGES[damage](bad)
    with pytest.raises(RecordError) as error:
        finish_run(bad, draw=False)
    assert str(bad) in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(LogError, match=str(bad)):
        read_record(bad)
    failed = [check for check in verify.verify(bad) if check.verdict == "failed"]
    assert failed
    assert not any("\n" in check.found for check in failed)
    assert replay.main([str(bad)]) in (0, 1, 2), "it reads nothing but the log and the schema"


@pytest.mark.few(2)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("command", ONE_LINE)
def test_its_neighbours_are_looked_at(
    command: str, damage: str, pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = pair
    DAMAGES[damage](bad)
    code = ONE_LINE[command]([str(bad), str(good)], tmp_path / "out")
    said = capsys.readouterr()
    lines = [line for line in (said.err + said.out).splitlines() if str(bad) in line]
    assert len(lines) == 1, said
    assert "Traceback" not in said.err
    assert code == {"verify": 1, "calibrate": 2}.get(command, 0)  # there is nothing to fit in a virtual run


OF_SETS: dict[str, Callable[[Path], None]] = {
    "no text": written("cluster.jsonl", b'{"seq": 0, "t": 0, "kind": "note", "note": {"type": "\xff"}}\n'),
    "brackets": written("cluster.jsonl", DEEP + b"\n"),
    "a host that is none": with_meta(machine={"hosts": [{"gpus": "many"}]}),
    "a set that is none": with_meta(cluster=[1]),
    "half a table": lambda set_: written("jobs.parquet", (set_ / "jobs.parquet").read_bytes()[100:])(set_),
    "a folder for the log": instead("cluster.jsonl", Path.mkdir),
}


@pytest.fixture(scope="module")
def original_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged") / "set"
    words = "runtime=virtual cluster=star_servers jobs=list replay.max_iterations=5 record=iterations draw=false"
    assert run_cli(*words.split(), "view=none", f"hydra.run.dir={folder}").exit_code == 0
    return folder


@pytest.mark.parametrize("damage", OF_SETS)
def test_so_is_a_damaged_set_of_jobs(damage: str, original_set: Path, tmp_path: Path) -> None:
    bad = Path(shutil.copytree(original_set, tmp_path / "bad"))
    OF_SETS[damage](bad)
    with pytest.raises(RecordError) as error:
        finish_cluster(bad, draw=False)
    assert str(bad) in str(error.value)
    assert "\n" not in str(error.value)
    failed = [check.found for check in verify.verify(bad) if check.verdict == "failed"]
    assert failed
    assert not any("\n" in found for found in failed)


@pytest.mark.parametrize("content", [b"", bytes(1000)])
def test_a_log_without_a_line_is_that_of_a_run_that_was_killed(content: bytes, pair: tuple[Path, Path]) -> None:
    bad, _ = pair
    written("events.jsonl", content)(bad)
    assert finish_run(bad, draw=False)["status"] == "killed"
    assert "complete" in {check.question for check in verify.verify(bad) if check.verdict == "failed"}
