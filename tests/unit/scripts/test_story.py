"""run.py story: twelve questions that people ask of a run, answered from its record alone."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

from analysis.records.integrity import integrity
from analysis.records.load import load_run
from analysis.records.nodes import Node, parse_node
from analysis.records.schema import OLD_NOTES
from analysis.reports.story.lines import Fields, RawLine
from analysis.reports.story.telling import tell
from stragglab.commands.story import main
from tests.support.cli import run_cli

COUNTS_ONLY = "runtime=virtual workload=ledger backend=numpy workload.epochs=8 draw=false"
Told = Callable[..., str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Runs a job on the virtual clock once; the directory of its record."""
    folder, done = tmp_path_factory.mktemp("stories"), dict[str, Path]()

    def get(settings: str) -> Path:
        if settings not in done:
            place = folder / str(len(done))
            result = run_cli(*COUNTS_ONLY.split(), *settings.split(), f"hydra.run.dir={place}")
            assert result.exit_code == 0, result
            done[settings] = place
        return done[settings]

    return get


OPENED: list[str] = []
sys.addaudithook(lambda event, about: OPENED.append(str(about[0])) if event == "open" else None)
CODE = (".py", ".pyc", ".so")


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Tells a story from a copy of the record: nothing else is read but code."""

    def tell(record: Path, *words: str) -> str:
        copy = tmp_path_factory.mktemp("copies") / "record"
        copytree(record, copy)
        OPENED.clear()
        assert main([str(copy), *words]) == 0
        read = [name for name in OPENED if not name.startswith((str(copy), "/proc/", "/sys/")) and not name.isdigit()]
        assert [name for name in read if not name.endswith(CODE)] == []
        return capsys.readouterr().out

    return tell


def test_what_else_is_read_is_noticed(tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    (other := tmp_path / "other.json").write_text("{}")
    (record := tmp_path / "record").mkdir()
    monkeypatch.setattr(f"{__name__}.main", lambda words: int(other.read_text() == ""))
    with pytest.raises(AssertionError, match=r"other\.json"):
        told(record)


def events(record: Path) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(line) for line in (record / "events.jsonl").read_text().splitlines()]


def test_which_rank_and_which_link_of_a_worker_were_disturbed(run: Callable[[str], Path], told: Told) -> None:
    """A worker's story is that of its parts, too, and no other worker's; their names say which they are."""
    record = run(
        "topology=allreduce cluster=hybrid backend=none workload=digits workload.target=null straggler=persistent "
        "straggler.targets=['rank:(1,2,0)','link:1:(2,3)'] straggler.sleep_iters=0.1"
    )
    parts = {"rank:(1,2,0)": "iteration", "link:1:(2,3)": "message"}
    for name, work in parts.items():
        assert re.search(
            rf"{re.escape(name)}: the plan's delay \(\+[\d.]+ s per {work}\) begins", told(record, "worker:1")
        )
        assert name not in told(record, "worker:2")
    plan = load_run(record).plan
    assert set(plan["target"]) == {*parts}
    assert {str(parse_node(name)) for name in parts} == {*parts}


def test_why_was_server_0_restarted(run: Callable[[str], Path], told: Told) -> None:
    record = run("strategy=antdt_nd straggler=persistent_server workload.epochs=20")
    story = told(record, "server:0")
    assert re.search(r"the strategy orders Restart\n +because the timer \"decide\" .* KILL_RESTART server:0", story)
    assert "server:0 was lost (restarted by the strategy)" in story
    assert re.search(r"the plan's delay \(\+0\.\d+ s per update\) begins", story)


def test_who_waited_for_whom_in_round_40(run: Callable[[str], Path], told: Told) -> None:
    record = run("strategy=bsp straggler=persistent straggler.targets=[worker:2] workload.epochs=4")
    assert "waited" not in told(record, "worker:2")
    story = told(record, "update:40")
    assert story.count("gradient") == 5  # four that arrived, and the one that was waited for
    assert "the update made version 40; worker:2 came last" in story
    waits = re.findall(r"worker:(\d) arrived: \d+ samples, 0 updates old, then waited ([0-9.e-]+) s", story)
    arrivals = {
        line["event"]["grad"]["worker"]: line["t"]
        for line in events(record)
        if line.get("event", {}).get("type") == "Arrived" and line["event"]["grad"]["version"] == 39
    }
    assert {int(worker): float(wait) for worker, wait in waits} == {
        worker: pytest.approx(arrivals[2] - t, rel=1e-2) for worker, t in arrivals.items() if worker != 2
    }


def test_why_was_this_gradient_dropped(run: Callable[[str], Path], told: Told) -> None:
    record = run("strategy=backup_workers straggler=persistent straggler.targets=[worker:1] straggler.sleep_iters=5")
    first = next(line for line in events(record) for one in line.get("commands", ()) if one["type"] == "Drop")
    number = next(one for one in first["commands"] if one["type"] == "Drop")["grads"][0]
    story = told(record, f"gradient:{number}")
    assert "samples of worker:1" in story
    assert re.search(r"dropped, samples requeued; it was [1-9]\d* updates old\n +because gradient \d+ of worker", story)


ROLLED_BACK = "strategy=bsp straggler=kill straggler.targets=[server:1] straggler.mean_s=0.5 workload.epochs=20"


def test_what_became_of_updates_that_were_rolled_back(run: Callable[[str], Path], told: Told) -> None:
    record = run(ROLLED_BACK)
    made, version, gradient = dict[int, list[int]](), 0, None
    for line in events(record):
        for command in line.get("commands", ()):
            if command["type"] == "Apply":
                version += 1
                made[version] = command["grads"]
        if line.get("event", {}).get("type") == "Restored" and version > line["event"]["version"]:
            version, gradient = line["event"]["version"], made[version][0]
            made = {number: grads for number, grads in made.items() if number <= version}
    assert gradient is not None, "nothing was rolled back"
    all_of_it = told(record)
    assert "server:1: the plan's kill begins" in all_of_it
    assert re.search(r"server:1 was lost \(.+\)(.|\n)*the parameters of version \d+ were restored", all_of_it)
    words = r"the update that made version \d+ is rolled back: all .* version \d+\n +because server:\d was lost"
    assert re.search(words, told(record, f"gradient:{gradient}"))
    assert "is rolled back" in told(record, f"update:{version + 1}")
    story = told(record, "worker:0")
    assert re.search(r"[1-9]\d* applied, then rolled back \(server:\d was lost", story)
    applied = sum(int(number) for number in re.findall(r"(\d+) applied(?:;|$)", story, re.M))
    assert applied == len(made), "every update of bsp has one gradient of worker 0"


def line(
    seq: int, t: float, event: Fields | None = None, *commands: Fields, version: int = 0, **note: object
) -> RawLine:
    kind = "event" if event else "note"
    return RawLine(seq=seq, t=t, kind=kind, event=event, note=note or None, commands=commands, version=version)


def test_why_was_a_timer_set() -> None:
    grad = {"id": 3, "worker": 0, "iteration": 0, "version": 0, "samples": 4}
    wake = {"type": "Wake", "at_s": 1.5, "tag": "enough"}
    go = {"type": "Compute", "worker": 0, "num_samples": 4}
    lines = [
        line(0, 1.0, {"type": "Arrived", "grad": grad}, wake, {"type": "Wake", "at_s": 9.0, "tag": "enough"}),
        line(1, 1.5, {"type": "Woke", "tag": "enough"}, {"type": "Apply", "grads": [3]}, wake, go, version=1),
        line(2, 1.6, {"type": "Woke", "tag": "enough"}, {"type": "Restart", "node": "worker:0"}, version=1),
    ]
    why = {entry.what: entry.why for entry in tell(lines, (), Node("worker", (0,))).entries}
    fired = 'the timer "enough" of the strategy fired'
    assert any('; waited 0.5 s for the timer "enough"' in what for what in why)
    assert why["the strategy orders Restart"] == fired, "a timer that sets itself again needs no cause"
    why = {entry.what: entry.why for entry in tell(lines, (), Node("update", (1,))).entries}
    assert why["the update made version 1"] == f"{fired}; it was set when gradient 3 of worker:0 arrived at 1.000 s"


def test_an_order_that_waited_and_a_restart_that_was_overtaken() -> None:
    """The note ``Deferred`` is the cause of what is requested after the rollback."""
    lines = [
        line(0, 1.0, {"type": "Woke", "tag": "decide"}, {"type": "Restart", "node": "server:0"}),
        line(1, 2.0, {"type": "ServerLost", "server": 1, "reason": "killed", "holding": True, "cause": "died"}),
        line(2, 2.5, type="Deferred", order="join", node="worker:4"),
        line(3, 3.0, {"type": "Restored", "version": 0, "workers": [0], "servers": [0, 1]}),
        line(4, 3.0, type="Requested", node="worker:4", pending_s=0.0),
    ]
    told = {entry.what: entry.why for entry in tell(lines, (), None).entries}
    assert told["worker:4 the order to join waits until all tasks continue"] == ""
    assert told["worker:4 the requested node waits 0 s for a machine"] == (
        "join ordered at 2.500 s, which waited while all tasks went back"
    )
    void = "the restart of server:0 that was ordered at 1.000 s is void: all tasks went back before"
    assert told[void] == "server:1 was lost (killed)"
    lines[1] = line(1, 2.0, {"type": "ServerLost", "server": 0, "reason": "restarted", "cause": "restarted"})
    told = {entry.what: entry.why for entry in tell(lines, (), None).entries}
    assert void not in told
    assert told["server:0 was lost (restarted)"] == "the strategy orders Restart at 1.000 s"


def test_notes_of_older_records_are_told_alike(run: Callable[[str], Path], told: Told, tmp_path: Path) -> None:
    record = run("strategy=bsp failover=checkpoint straggler=kill straggler.mean_s=0.5 workload.epochs=20")
    old = tmp_path / "old"
    copytree(record, old)
    text = (old / "events.jsonl").read_text()
    assert '{"type":"Rollback"' in text
    for name, now in OLD_NOTES.items():
        text = text.replace(f'{{"type":"{now}"', f'{{"type":"{name}"')
    (old / "events.jsonl").write_text(text)
    for subject in ((), ("worker:0",)):
        assert told(old, *subject) == told(record, *subject)
    new, before = load_run(record), load_run(old)
    assert before.tables.restarts.equals(new.tables.restarts)
    assert "GoingBack" in set(before.tables.notes["type"])
    assert integrity(before).ok


def test_why_did_job_b_wait(tmp_path: Path, told: Told) -> None:
    jobs = "[{job: a, submit_s: 0, gpus: 24, iterations: 60000}, {job: b, submit_s: 10, gpus: 20, iterations: 300}]"
    words = "runtime=virtual jobs=list policy=las cluster=star_servers replay.detail=gpus_only"
    settings = [f"hydra.run.dir={tmp_path / 'set'}", "replay.max_iterations=null", "draw=false", f"jobs.entries={jobs}"]
    assert run_cli(*words.split(), *settings).exit_code == 0
    story = told(tmp_path / "set", "b")
    assert "waits\n              because it asks for 20 GPUs, 16 of 40 are free; held by a (24)" in story
    assert "job a gave its GPUs back at" in story
    assert "is ordered to give its GPUs back" in told(tmp_path / "set", "a")


def test_what_happened_between_two_times_and_at_the_end(run: Callable[[str], Path], told: Told) -> None:
    record = run("strategy=asp straggler=transient workload.epochs=6")
    plan = json.loads((record / "plan.json").read_text())["disturbances"]
    window = next(one for one in plan if one["start_s"] > 0)
    begins = rf"{window['start_s']:.3f} +\d+  the plan's delay \(\+{window['magnitude']:g} s per iteration\) begins"
    assert re.search(begins, told(record, window["target"])), "when a worker was slowed"
    lines = told(record, "--from", "1", "--to", "2").splitlines()[1:]
    assert all(1 <= float(line.split()[0]) <= 2 for line in lines if line[0] != " ")
    assert re.search(r"the run ended: \w+ \(.*\)", told(record).splitlines()[-1])


RING = "topology=allreduce straggler=persistent straggler.targets=[worker:3] workload.epochs=3"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("settings", "subjects", "said"),
    [
        (f"strategy=bsp {RING}", ["update:10", "worker:0"], r"worker:3 came last|waited 0\.\d+ s for worker:3"),
        (
            "strategy=lb_bsp straggler=persistent straggler.targets=[worker:3] workload.epochs=10",
            ["worker:3"],
            r"orders a gradient of \d+ samples instead of \d+\n +because gradient \d+ of worker:\d arrived",
        ),
        (
            "strategy=dlrover straggler=none workload.epochs=25",
            [""],
            r"server:2: the strategy orders Launch .*\n +because the timer \"decide\" .*plan",
        ),
        (
            "strategy=sync_switch straggler=persistent workload.epochs=15",
            [""],
            r"the strategy decides: mode asp.*\n +because",
        ),
    ],
    ids=["ring", "sizes", "nodes", "mode"],
)
def test_why_did_that_change(
    settings: str, subjects: list[str], said: str, run: Callable[[str], Path], told: Told
) -> None:
    """Who a ring waits for; another number of samples; another mode; more nodes."""
    for subject in subjects:
        assert re.search(said, told(run(settings), *subject.split()))


def test_what_is_no_record_or_has_no_lines(
    run: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (
        ("nothing", ""),
        ("events.jsonl", '{"seq": 0, "t": "x"}\n'),
        ("plan.json", '{"disturbances": []}'),
    ):
        (tmp_path / name).write_text(text)
        assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 3
    record = run("strategy=asp straggler=none backend=none workload.target=null record=iterations")
    assert main([str(record), "update:5"]) == 2
    assert "as rows (iterations.parquet); repeat it with record=events" in capsys.readouterr().err
