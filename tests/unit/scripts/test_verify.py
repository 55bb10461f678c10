"""run.py verify: a record that was tampered with anywhere is found, and says where."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.records import sums as checking
from analysis.records.load import load_afresh
from analysis.reports import vouching
from analysis.reports.verification import verify_record
from analysis.reports.vouching import Check
from runtime.record import sums as writing
from stragglab.commands.verify import main
from stragglab.vouching.record import verify
from tests.support.cli import run_cli
from tests.support.records import bsp_story
from tests.support.tampering import sum_again

JOB = (
    "runtime=virtual strategy=ssp workload=ledger backend=numpy workload.epochs=2 straggler=transient view=none "
    "save_parameters=true cluster.num_workers=3"
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify") / "run"
    assert run_cli(*JOB.split(), f"hydra.run.dir={folder}").exit_code == 0
    return folder


@pytest.fixture
def record(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


@pytest.fixture(scope="module")
def undrawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nothing is derived of it, so nothing but its own sums can contradict it."""
    folder = tmp_path_factory.mktemp("verify") / "undrawn"
    assert run_cli(*JOB.split(), "workload.epochs=1", "draw=false", f"hydra.run.dir={folder}").exit_code == 0
    return folder


@pytest.fixture
def bare(undrawn: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(undrawn, tmp_path / "bare"))


def edit_compute_s(path: Path, by_s: float) -> None:
    """A longer computation of the first iteration: no law of the protocol says how long one takes."""
    lines = path.read_text().splitlines()
    number = next(at for at, line in enumerate(lines) if json.loads(line).get("event", {}).get("type") == "Arrived")
    line = json.loads(lines[number])
    line["event"]["timings"]["compute_s"] += by_s
    lines[number] = json.dumps(line, separators=(",", ":"))
    path.write_text("\n".join(lines) + "\n")


def failures(path: Path) -> dict[str, str]:
    return {check.question: check.found for check in verify(path) if check.verdict == "failed"}


def rewrite(path: Path, change: Callable[[dict], None]) -> None:  # type: ignore[type-arg]
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_an_untouched_record_passes(original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(original)]) == 0
    said = capsys.readouterr().out
    assert "1 run verified: nothing failed" in said
    checks = {check.question: check.verdict for check in verify(original)}
    asked = ("complete", "files", "summary", "tables", "parameters", "plan", "decisions")
    assert {checks[name] for name in asked} == {"ok"}


@pytest.mark.long(like="test_an_untouched_record_passes")
def test_a_virtual_run_again_writes_the_same_bytes_and_another_seed_others(record: Path) -> None:
    (check,) = [check for check in verify(record, again=True) if check.question == "again"]
    assert check.verdict == "ok", check.found
    overrides = record / ".hydra" / "overrides.yaml"
    overrides.write_text(overrides.read_text() + "- seed=5\n")
    (check,) = [check for check in verify(record, again=True) if check.question == "again"]
    assert check.verdict == "failed"
    assert "events.jsonl" in check.found


def test_the_last_digit_of_a_sum_depends_on_the_code(record: Path) -> None:
    """Other code may add up in another order; the same code may not."""
    path = record / "summary.json"
    summary = json.loads(path.read_bytes())
    for part, verdict in ((1e-15, "ok"), (1e-9, "failed")):
        path.write_text(json.dumps({**summary, "jct_s": summary["jct_s"] * (1 + part)}))
        for same_code, expected in ((False, verdict), (True, "failed")):
            checks = {
                check.question: check.verdict for check in verify_record(load_afresh(record), same_code=same_code)
            }
            assert checks["summary"] == expected


def change_table(record: Path) -> None:
    frame = pd.read_parquet(record / "tables" / "iterations.parquet")
    frame.loc[3, "compute_s"] += 1e-6
    frame.to_parquet(record / "tables" / "iterations.parquet", index=False)


def change_summary(record: Path) -> None:
    rewrite(record / "summary.json", lambda content: content.update(jct_s=1.0))
    sum_again(record)


def change_parameters(record: Path) -> None:
    vector = np.load(record / "parameters.npy")
    vector[7] = np.nextafter(vector[7], np.float32(9))
    np.save(record / "parameters.npy", vector)


@pytest.mark.parametrize(
    ("change", "questions"),
    [(change_table, {"files", "tables"}), (change_parameters, {"files", "parameters"}), (change_summary, {"summary"})],
    ids=["a table", "parameters", "summary"],
)
def test_the_smallest_change_is_noticed(change: Callable[[Path], None], questions: set[str], record: Path) -> None:
    """Of other files and with sums made again, too: tests/unit/scripts/test_tampered_records.py."""
    change(record)
    assert set(failures(record)) == questions


@pytest.mark.parametrize("by_s", [0.0, 1e-6])
def test_a_duration_that_was_edited_is_found_where_nothing_was_drawn(bare: Path, by_s: float) -> None:
    """Written again with the same numbers the line is the same, so it is the number that is found."""
    checks = {check.question: check.verdict for check in verify(bare)}
    assert (checks["summary"], checks["tables"], checks["files"]) == ("unchecked", "unchecked", "ok")
    edit_compute_s(bare / "events.jsonl", by_s)
    found = {"files": "events.jsonl: not as the run has left it, by SHA256SUMS"}
    assert failures(bare) == (found if by_s else {})


def test_another_program_reads_the_sums(bare: Path) -> None:
    """``sha256sum`` of the system."""
    if shutil.which("sha256sum") is None:
        pytest.skip("no sha256sum here")
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(check, cwd=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    settings = (".hydra/config.yaml", ".hydra/hydra.yaml", ".hydra/overrides.yaml")
    names = ("events.jsonl", "meta.json", "parameters.npy", "plan.json", *settings)
    assert done.stdout.splitlines() == [f"{name}: OK" for name in names]
    edit_compute_s(bare / "events.jsonl", 1e-6)
    assert subprocess.run(check, cwd=bare, capture_output=True, check=False).returncode == 1


def test_what_is_written_is_what_is_checked() -> None:
    """The two know nothing of each other."""
    assert writing.SUMS == checking.SUMS
    optional = {"hosts.jsonl", "parameters.npy"}
    assert set(vouching.REQUIRED) == {*writing.OF_JOB, *writing.OF_CLUSTER} - optional


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[1:], "events.jsonl: not as the run has left it"),
        (lambda lines: [*lines, f"{'0' * 64}  iterations.parquet"], "iterations.parquet: not as the run has left it"),
        (lambda lines: [*lines, f"{'0' * 64}  logs/worker_0.log"], "logs/worker_0.log: not as the run has left it"),
        (lambda lines: ["no sum"], "SHA256SUMS: is not what sha256sum writes"),
    ],
)
def test_sums_that_were_edited(bare: Path, change: Callable[[list[str]], list[str]], words: str) -> None:
    path = bare / "SHA256SUMS"
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    assert words in failures(bare)["files"]


def test_a_file_that_was_added_is_named_and_an_older_record_has_no_sums(bare: Path) -> None:
    (bare / "notes of mine.txt").write_text("x")
    found = {check.question: check for check in verify(bare)}["no sums"]
    assert (found.verdict, found.found) == ("unchecked", "nothing vouches for notes of mine.txt")
    (bare / "SHA256SUMS").unlink()
    assert {check.question: check.verdict for check in verify(bare)}["files"] == "unchecked"


def test_a_decision_that_the_strategy_does_not_take(record: Path) -> None:
    path = record / ".hydra" / "config.yaml"
    path.write_text(path.read_text().replace("bound: 3", "bound: 0"))
    assert "bound: 0" in path.read_text()
    sum_again(record)
    assert set(failures(record)) == {"decisions", "settings"}


def test_a_run_with_code_of_its_user_is_not_wrong_where_that_is_not_named(record: Path) -> None:
    config = record / ".hydra" / "config.yaml"
    config.write_text(config.read_text().replace("_target_: strategies.basic.ssp.SSP", "_target_: my_lab.ssp.SSP"))
    assert "name the project" in failures(record)["decisions"], "nothing says that there is one"
    rewrite(record / "meta.json", lambda meta: meta["versions"].update(project="my lab 0123456789ab"))
    shutil.rmtree(record / "columns")
    sum_again(record)
    found = {check.question: check for check in verify(record, again=True)}
    assert {name for name, check in found.items() if check.verdict == "failed"} == set()
    for name in ("decisions", "settings", "again"):
        assert found[name].verdict == "unchecked"
        assert "the project my lab, which project=DIR names" in found[name].found


def test_a_run_that_was_killed(original: Path, record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = record / "events.jsonl"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for name in ("summary.json", "timeline.json", "tables", "columns", "figures", "parameters.npy", "SHA256SUMS"):
        target = record / name
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    found = failures(record)
    assert set(found) == {"complete"}
    assert "the last one torn" in found["complete"]
    assert main([str(record)]) == 1
    assert "1 run: 1 failed" in capsys.readouterr().out
    assert main([str(original), str(record)]) == 1
    good, bad, end = capsys.readouterr().out.splitlines()
    assert (good.partition(" ")[0], bad.partition(" ")[0], end) == ("ok", "failed", "2 runs: 1 failed")


def test_another_version_of_the_framework_is_named(tmp_path: Path) -> None:
    """Live it is in a note, since only the agent imports it."""
    story = bsp_story()
    story.lines.insert(0, {"t": 0.0, "kind": "note", "note": {"type": "Imported", "versions": {"torch": "0.0.1"}}})
    story.lines = [{**line, "seq": seq} for seq, line in enumerate(story.lines)]
    checks = {check.question: check for check in verify(story.write(tmp_path / "run"))}
    assert checks["code"].verdict == "unchecked"
    assert f"torch 0.0.1 there, {version('torch')} here" in checks["code"].found


def again(path: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Check, list[str]]:
    """(the last check, the command line that was started) for a record with other overrides; nothing is started."""
    (path / ".hydra" / "overrides.yaml").write_text(words)
    started: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        assert "cwd" not in options  # the caller's
        started.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("stragglab.vouching.record.subprocess", SimpleNamespace(run=run, TimeoutExpired=TimeoutError))
    (check,) = [check for check in verify(path, again=True) if check.question == "again"]
    return check, [word for command in started for word in command]


def test_the_project_of_a_record_and_its_settings_of_hydra_are_left_out(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "- project=/tmp\n- seed=3\n- hydra.job.chdir=true\n- +hydra/callbacks=tensorboard\n"
    check, command = again(bare, words, monkeypatch)
    assert command[-4:-1] == ["seed=3", "draw=false", "view=none"]
    assert not any(word.startswith(("project=", "hydra.job", "+hydra")) for word in command)
    assert "(without the record's own project=/tmp, hydra.job.chdir=true, +hydra/callbacks=tensorboard)" in check.found


@pytest.mark.parametrize(
    ("words", "said"),
    [("- strategy=../../evil", "must be the name of a choice"), ("a: 1", "is not a list of settings")],
)
def test_nothing_is_started_with_what_a_record_may_not_ask(
    words: str, said: str, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, command = again(bare, words, monkeypatch)
    assert (check.question, check.verdict) == ("again", "unchecked")
    assert said in check.found
    assert command == []


def code_of(record: Path) -> Check:
    (found,) = [check for check in verify(record) if check.question == "code"]
    return found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda versions: versions.update(commit="0123456-dirty"), ""),
        (lambda versions: versions.update(code="0" * 64), f"code {'0' * 12} there, "),
        (lambda versions: versions.pop("code"), "no fingerprint of the code in meta.json"),
    ],
)
def test_other_files_are_other_code_whatever_the_commit(
    bare: Path, change: Callable[[dict[str, str]], object], words: str
) -> None:
    rewrite(bare / "meta.json", lambda meta: change(meta["versions"]))
    found = code_of(bare)
    assert found.verdict == ("unchecked" if words else "ok")
    assert words in found.found


def test_an_installed_package_that_was_edited_is_not_the_code(
    undrawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``RECORD`` has a hash of every file that was installed."""
    (tmp_path / "stragglab-9.dist-info").mkdir()
    (tmp_path / "stragglab-9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: stragglab\nVersion: 9\n")
    (tmp_path / "stragglab").mkdir()
    lines = []
    for name in ("kept.py", "edited.py", "gone.py"):
        (tmp_path / "stragglab" / name).write_text("pass\n")
        digest = hashlib.sha256(b"pass\n").digest()
        lines.append(f"stragglab/{name},sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')},5")
    (tmp_path / "stragglab-9.dist-info" / "RECORD").write_text("\n".join([*lines, "stragglab-9.dist-info/RECORD,,"]))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("runtime.version.INSTALLED", True)
    assert code_of(undrawn).verdict == "ok"
    (tmp_path / "stragglab" / "edited.py").write_text("pass \n")
    (tmp_path / "stragglab" / "gone.py").unlink()
    found = code_of(undrawn)
    assert found.verdict == "unchecked"
    assert found.found.endswith("edited since it was installed: stragglab/edited.py, stragglab/gone.py")
