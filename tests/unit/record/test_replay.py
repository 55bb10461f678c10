"""A fresh strategy is asked again: python run.py replay says identical, or names the first line that is not."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from analysis.records.log import Log, RecordError
from runtime.config.instantiate import instantiate
from runtime.core import inputs
from runtime.record.recorder import Recorder
from stragglab.commands.replay import main
from stragglab.vouching.replaying import build_strategy
from strategies.protocol import Evaluated
from tests.contract.catalogue import faults, spec
from tests.support import invariants
from tests.support.faults import random_outcome, random_seconds
from tests.support.harness import HeapRun, make_job
from tests.support.runs import ROOT, read_lines

NAMES = ("bsp", "asp")
NUM_WORKERS, SEED = 4, 2
CONFIG = ".hydra/config.yaml"

Line = dict[str, Any]
Lines = list[Line]
Said = tuple[int, str, str]  # exit code, stdout, stderr
Replay = Callable[..., Said]


class Recorded(HeapRun):
    """A run on the heap that leaves a record; an evaluation says the number of its version, 0.25 s later."""

    def __init__(self, run_dir: Path, *details: Any) -> None:
        self.recorder = Recorder(run_dir)
        super().__init__(*details)

    def event(self, *fields: Any) -> None:
        super().event(*fields)
        self.recorder.event(*fields)

    def note(self, t: float, kind: str, /, **fields: Any) -> None:
        super().note(t, kind, **fields)
        self.recorder.note(t, kind, **fields)

    def evaluate(self, version: int, *, last: bool) -> None:
        asked_s, metrics = self.t, dict.fromkeys(("accuracy", "loss"), float(version))
        self.push(asked_s + 0.25, 1, lambda t: self.core.receive(t, inputs.Evaluated(version, asked_s, metrics)))


def make(run_dir: Path, strategy: dict[str, Any]) -> Path:
    """The record of a job with crashes, departures, outages and failed Computes."""
    (run_dir / ".hydra").mkdir(parents=True)
    OmegaConf.save({"names": "${hydra:x}", "strategy": strategy}, run_dir / CONFIG)
    (run_dir / "meta.json").write_text('{"schema": 1}')
    size = {"num_workers": NUM_WORKERS, "num_samples": 101, "global_batch_samples": 2 * NUM_WORKERS, "epochs": 3}
    job = make_job(**size, max_time_s=2000.0, checkpoint_every_s=5.0, eval_every_s=4.0)
    trouble = faults("departures", SEED, NUM_WORKERS)
    details = (instantiate(strategy), job, random_seconds(SEED), trouble, random_outcome(SEED))
    run = Recorded(run_dir, *details)
    run.run()
    t, version = run.core.finished_s, run.core.version  # it ends as a live run does
    run.recorder.event(t, Evaluated(t=t, version=version, asked_s=t, metrics={"loss": 1.0}), (), version, 0.0, None)
    run.recorder.note(t, "Finished", status="done", reason=run.core.reason, version=version)
    run.recorder.close()
    return run_dir


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("records")
    return {name: make(root / name, spec(name)) for name in NAMES}


@pytest.fixture
def asp(records: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(records["asp"], tmp_path / "asp"))


@pytest.fixture
def replayed(capsys: pytest.CaptureFixture[str]) -> Replay:
    return lambda run_dir, *options: (main([str(run_dir), *options]), *capsys.readouterr())


def rewrite(run_dir: Path, lines: Lines) -> Path:
    (run_dir / "events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return run_dir


def received(lines: Lines, kind: str = "") -> Lines:
    """The lines of events (of one kind), without the final score."""
    events = [line for line in lines if line["kind"] == "event"][:-1]
    return [line for line in events if kind in ("", line["event"]["type"])]


def num_commands(lines: Lines) -> int:
    return sum(len(line["commands"]) for line in lines)


def assert_different(said: Said, seq: int) -> str:
    assert (said[0], said[2]) == (1, "")
    assert f"\nresult    different at seq {seq}, after " in said[1]
    return said[1]


def assert_refused(said: Said) -> str:
    exit_code, out, err = said
    assert (exit_code, out, err.count("\n"), err[-1:]) == (2, "", 1, "\n")
    assert err.startswith("replay: ")
    return err


@pytest.mark.parametrize("name", NAMES)
def test_a_record_is_identical(records: dict[str, Path], name: str, replayed: Replay) -> None:
    lines = read_lines(records[name])
    events = received(lines)
    num_states = sum("state" in line for line in events)
    exit_code, out, err = replayed(records[name])
    assert (exit_code, err) == (0, "")
    assert out.splitlines() == [
        f"record    {records[name]}, seq 0 to {len(lines) - 1}",
        f"strategy  {instantiate(spec(name))!r}",
        f"replayed  {len(events)} events, {num_commands(events)} commands and {num_states} changes of state compared",
        "result    identical",
    ]
    assert invariants.replay(lines, build_strategy(records[name])) == []


def test_the_script_is_a_program(records: dict[str, Path], tmp_path: Path) -> None:
    """From anywhere; a reader that goes away (`| head`) ends it without a traceback."""
    command = [sys.executable, str(ROOT / "run.py"), "replay", str(records["bsp"]), "--show"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline().startswith(b"record    ")
        process.stdout.close()
        assert process.communicate(timeout=60)[1] == b""
    assert process.returncode <= 0


def test_a_killed_run_is_replayed_as_far_as_it_goes(asp: Path, replayed: Replay) -> None:
    """Killed in the last line, in its very last byte, before it, and before the final score."""
    path, lines = asp / "events.jsonl", read_lines(asp)
    data, last = path.read_bytes(), lines[-1]["seq"]
    whole = data.splitlines(keepends=True)
    torn = (data[:-30], f"{last - 1} (without a torn last line)")
    for kept, end in (torn, (data[:-1], last), (b"".join(whole[:-1]), last - 1), (b"".join(whole[:-2]), last - 2)):
        path.write_bytes(kept)
        exit_code, out, _ = replayed(asp)
        assert exit_code == 0
        assert f", seq 0 to {end}\nstrategy " in out
        assert f"replayed  {len(received(lines))} events" in out


SPOILT = ("more samples", "the next float", "no command", "another state", "a foreigner")


def spoil(lines: Lines, how: str) -> Line:
    """Returns the line that is the first to differ."""
    one = [line for line in received(lines, "Arrived") if len(line["commands"]) == 2][7]
    match how:
        case "more samples":
            one["commands"][1]["num_samples"] += 1
        case "the next float":
            one["commands"][0]["weights"] = [math.nextafter(one["commands"][0]["weights"][0], 0)]
        case "another state":
            one["state"] = {"blocked": 3}
        case "a foreigner":
            one["event"]["grad"]["worker"] = 17
        case "no command":
            lines[2]["commands"] = []
            return lines[2]
    return one


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_record_is_different(how: str, asp: Path, replayed: Replay) -> None:
    lines = read_lines(asp)
    seq = spoil(lines, how)["seq"]
    out = assert_different(replayed(rewrite(asp, lines)), seq)
    assert ("-> Compute: worker 17, " in out) == (how == "a foreigner")
    assert ("    expected (as recorded):\n        no command\n" in out) == (how == "no command")
    assert ("    got state (now): unchanged\n" in out) == (how == "another state")
    assert invariants.replay(lines, build_strategy(asp))[0].startswith(f"seq {seq}: ")


def test_the_first_difference_is_shown(asp: Path, replayed: Replay) -> None:
    lines = read_lines(asp)
    line = spoil(lines, "more samples")
    seq, grad, before = line["seq"], line["event"]["grad"], len(received([*lines[: line["seq"]], line]))
    out = assert_different(replayed(rewrite(asp, lines)), seq).splitlines()
    apply = f"        -> Apply: grads [{grad['id']}], weights [0.5], lr_scale 0.25, measure False"
    compute = f"        -> Compute: worker {grad['worker']}, num_samples"
    assert out[2] == f"seq {seq}, t {line['t']}"
    assert out[3].startswith(f"    Arrived: grad (id {grad['id']}, worker {grad['worker']}, incarnation ")
    assert out[4:7] == ["    expected (as recorded):", apply, f"{compute} 3, accum 1, requeue True"]
    assert out[7:10] == ["    got (now):", apply, f"{compute} 2, accum 1, requeue True"]
    assert out[10:] == [f"result    different at seq {seq}, after {before} identical events"]


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("meta.json", None, "meta.json: missing; name the directory of a run"),
        ("meta.json", '{"schema": 2}', "meta.json: not of schema 1; use the version"),
        ("events.jsonl", "torn", "events.jsonl: holds no event"),
        ("iterations.parquet", "", "recorded by rows, without decisions; repeat it with record=events"),
        (CONFIG, None, "config.yaml: missing; only it names the strategy's class, meta.json has just the fields"),
        (CONFIG, "strategy: asp", "config.yaml: strategy: is not there"),
        (
            CONFIG,
            "strategy: {_target_: strategies.basic.asp.ASP, data: '${x}'}",
            "data=${x}: refers to x, which is not set",
        ),
        (CONFIG, "strategy: {_target_: strategies.basic.asp.Gone}", "strategies.basic.asp has no class Gone"),
        (CONFIG, "strategy: {_target_: os.system, command: ls}", "allow its package with STRAGGLAB_ALLOW_TARGETS"),
        (
            CONFIG,
            "strategy: {_target_: strategies.parts.gates.AllGate}",
            "strategies.parts.gates.AllGate: is not a strategy",
        ),
        (CONFIG, "strategy: {a: '${oc.env:HOME}'}", "resolves something else than a setting"),
        (CONFIG, "strategy: " + "[" * 3000, "config.yaml: line 1: is nested more than"),
    ],
)
def test_what_is_no_run_is_refused(name: str, text: str | None, what: str, asp: Path, replayed: Replay) -> None:
    (asp / name).unlink() if text is None else (asp / name).write_text(text)
    assert what in assert_refused(replayed(asp))


@pytest.mark.parametrize(
    ("seq", "old", "new", "what"),
    [
        (2, b'"Started"', b'"Exploded"', ":3: Invalid value 'Exploded' - at `$.type`"),
        (2, b'"commands"', b'"orders"', ":3: Object missing required field `commands`"),
        (1, b'"seq":1', b'"seq":2', ":2: seq 2 where 1 is due, so lines are missing or duplicated"),
        (2, b'"t":0.0,"workers"', b'"t":0.5,"workers"', ":3: the event says t=0.5, its line t=0.0"),
        (1, b'"kind"', b'"ki', ":2: JSON is malformed"),
        (1, b"Started", b"\xff", ":2: 'utf-8' codec can't decode"),
        (0, b"{", b"[" * 100_000, ":1: maximum recursion depth exceeded"),
    ],
)
def test_a_damaged_line_is_refused(seq: int, old: bytes, new: bytes, what: str, asp: Path, replayed: Replay) -> None:
    path = asp / "events.jsonl"
    lines = path.read_bytes().split(b"\n")
    assert old in lines[seq]
    lines[seq] = lines[seq].replace(old, new, 1)
    path.write_bytes(b"\n".join(lines))
    said = assert_refused(replayed(asp))
    assert f"events.jsonl{what}" in said
    assert "; the record is damaged or of another version of Stragglab" in said


def test_useless_arguments_are_refused(records: dict[str, Path], tmp_path: Path, replayed: Replay) -> None:
    for until in (-1, 1, 100_000):
        said = assert_refused(replayed(records["asp"], f"--until={until}"))
        assert f"--until {until}: must be 2 (the first event) to " in said
    assert "--until: " in assert_refused(replayed(records["asp"], "--until=many"))
    assert "nothing: no such directory" in assert_refused(replayed(tmp_path / "nothing"))
    assert "is a file, not a directory" in assert_refused(replayed(records["asp"] / "meta.json"))
    assert "meta.json: missing" in assert_refused(replayed(tmp_path))


def test_a_line_has_so_many_bytes(asp: Path, replayed: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reading.lines.MAX_LINE_BYTES", 1_000)
    monkeypatch.setattr("reading.lines.BLOCK_BYTES", 1_000)
    lines = (asp / "events.jsonl").read_text().splitlines(keepends=True)
    (asp / "events.jsonl").write_text("".join([*lines[:3], "[" * 100_000]))
    code, out, err = replayed(asp)
    assert (code, out) == (2, "")
    assert "events.jsonl: line 4 has more than" in err
    assert err.count("\n") == 1
    with pytest.raises(RecordError, match=r"events.jsonl: line 4 has more than"):
        list(Log(asp / "events.jsonl").blocks())


def test_a_description_has_so_many_bytes(asp: Path, replayed: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stragglab.vouching.replaying.MAX_META_BYTES", 5)
    code, out, err = replayed(asp)
    assert (code, out) == (2, "")
    assert "meta.json: has more than 5 bytes" in err


def test_show_prints_every_event(records: dict[str, Path], replayed: Replay) -> None:
    events = received(read_lines(records["bsp"]))
    exit_code, out, _ = replayed(records["bsp"], "--show")
    shown = out.splitlines()
    assert exit_code == 0
    assert [line for line in shown if line[:4] == "seq "] == [f"seq {line['seq']}, t {line['t']}" for line in events]
    assert sum(line.startswith("    -> ") for line in shown) == num_commands(events)
    assert sum(line.startswith("    state: ") for line in shown) == sum("state" in line for line in events)
    assert any("weights [4 x 0.125], lr_scale 1.0" in line for line in shown)
