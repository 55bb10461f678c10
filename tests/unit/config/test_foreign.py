"""Settings that somebody else has written describe a job and do nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reading.plain import parse_yaml
from runtime.config.anchoring import anchored_spec, start_directory
from runtime.config.foreign import plain_section, refuse_elsewhere, refuse_foreign, taken_from_record
from runtime.errors import ConfigError
from tests.support.cli import ROOT, run_cli

ELSEWHERE = "outside of the working directory"


@pytest.mark.parametrize(
    "line",
    [
        "seed=3",
        "strategy=ssp",
        "+strategy/sub=a.b-c",
        "strategy.bound=${seed}",
        "~workload.target",
        "workload.optimizer={name: sgd, lr: 0.1}",
        "straggler.targets=[worker:0, 'worker:1']",
        "straggler.path=traces/own.csv",
        f"straggler.path={ROOT}/injectors/traces/x.csv",
        "eval_every_s=null",
    ],
)
def test_settings_of_a_job_are_taken(line: str, tmp_path: Path) -> None:
    refuse_foreign(line, tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hydra.run.dir=x", "is not a setting of a job"),
        ("++hydra.job.env_set={A: b}", "is not a setting of a job"),
        ("hydra/launcher=joblib", "is not a setting of a job"),
        ("+hydra/callbacks=tensorboard", "is not a setting of a job"),
        ("hydra.searchpath=[file:///tmp]", "is not a setting of a job"),
        ("~hydra", "is not a setting of a job"),
        ("+strategy@hydra.job=bsp", "is not a setting of a job"),
        ("project=.", "is not a setting of a job"),
        ("straggler.name=${oc.env:HOME}", "resolves something else"),
        ("straggler.name='${oc.decode:${oc.env:HOME}}'", "resolves something else"),
        ("straggler.name=${hydra:runtime.cwd}", "resolves something else"),
        ("straggler.name=${..hydra.runtime.cwd}", "resolves something else"),
        ("straggler={name: [${oc.env:HOME}]}", "resolves something else"),
        ("strategy=../../own/evil", "must be the name of a choice"),
        ("strategy=/tmp/evil", "must be the name of a choice"),
        ("straggler.path=/proc/self/environ", ELSEWHERE),
        ("straggler.path=../../../etc/passwd", ELSEWHERE),
        ("straggler.path=~/keys.csv", "is not a setting"),
        ("straggler.path='~/keys.csv'", ELSEWHERE),
        ("+straggler.more=[[{a: /dev/zero}]]", ELSEWHERE),
        ("strategy._target_=strategies.basic.bsp.BSP", "_target_ is not taken from others"),
        ("+strategy={_target_: os.system}", "_target_ is not taken from others"),
        ("seed=1,2", "is several values"),
        ("strategy=glob(*)", "is several values"),
        ("--config-dir=/tmp", "is not a setting; write setting=value"),
        ("cleanup", "is not a setting; write setting=value"),
        ("a=" + "[" * 3000, "is not a setting; write setting=value"),
        ("names.straggler='\x1b[31m'", "is not a setting; write setting=value"),
        ("a=1\nb=2", "is not a setting; write setting=value"),
    ],
)
def test_what_does_more_than_describe_a_job_is_refused(line: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        refuse_foreign(line, tmp_path)
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_links_lead_nowhere_else(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "secret.csv").write_text("a")
    (here / "own.csv").write_text("a")
    (here / "link.csv").symlink_to("../secret.csv")
    (here / "loop.csv").symlink_to("loop.csv")
    (here / "inside.csv").symlink_to("own.csv")
    for name in ("own.csv", "inside.csv", "not there", str(here / "own.csv"), "worker:1", 3, None, ""):
        refuse_elsewhere(name, here, "x")
    for name in ("link.csv", "../secret.csv", str(tmp_path / "secret.csv")):
        with pytest.raises(ConfigError, match=ELSEWHERE):
            refuse_elsewhere(name, here, "x")


def test_a_record_keeps_neither_its_project_nor_settings_of_hydra(tmp_path: Path) -> None:
    words = ["seed=3", f"project={tmp_path}", "hydra.run.dir=x", "strategy=ssp"]
    taken = taken_from_record(words, tmp_path)
    assert taken == (["seed=3", "strategy=ssp"], [f"project={tmp_path}", "hydra.run.dir=x"])
    for strange in ({"seed": 3}, "seed=3", None, [["seed=3"]]):
        with pytest.raises(ConfigError, match="is not a list of settings"):
            taken_from_record(strange, tmp_path)


def section(text: str, start: Path) -> object:
    return plain_section(parse_yaml(text.encode()), "strategy", start)


def test_references_of_a_record_are_to_single_values(tmp_path: Path) -> None:
    text = """
        seed: 3
        rate: ${seed}
        strategy: {a: "${rate}", b: {c: "${.d}", d: 4, e: "${..a}"},
                   f: "${oc.select:no.x,null}", g: "${oc.select:seed}"}
    """
    found = {"a": 3, "b": {"c": 4, "d": 4, "e": 3}, "f": None, "g": 3}
    assert section(text, tmp_path) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("strategy: {a: '${oc.env:HOME}'}", "resolves something else"),
        ("strategy: {a: 'x${seed}'}\nseed: 1", "resolves something else"),
        ("strategy: {a: '${hydra.job}'}\nhydra: {job: 1}", "resolves something else"),
        ("strategy: {a: '${gone}'}", "strategy.a=${gone}: refers to gone, which is not set"),
        ("strategy: {a: '${b}'}\nb: [1]", "refers to a section"),
        ("strategy: {a: '${strategy.a}'}", "too many times"),
        ("strategy: {a: {b: [/proc/self/environ]}}", ELSEWHERE),
        ("strategy: {a: '${b}'}\nb: /etc/passwd", ELSEWHERE),
        ("other: 1", "strategy: is not there"),
        ("[1]", "strategy: is not there"),
    ],
)
def test_what_a_record_may_not_resolve(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        section(text, tmp_path)
    assert said in str(caught.value)


TRACE = "time,duration,target,kind,magnitude\n0,5,worker:0,slowdown,2.0\n"
VIRTUAL = (
    *("runtime=virtual", "backend=none", "workload.epochs=1", "workload.target=null", "view=none", "draw=false"),
    "eval_every_s=null",
)


def test_directories_and_files_that_are_there_become_absolute(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "digits").mkdir()
    spec = {
        "_target_": "mine.yaml",
        "data_dir": "data",
        "raw_dir": None,
        "costs": "mine.yaml",
        "progress": "digits",
        "path": "injectors/traces/example.csv",
        "nested": {"data_dir": "/there", "files": ["mine.yaml", "worker:0", 3]},
        "text": "x" * 5000 + "/y",
    }
    expected = spec | {
        "data_dir": f"{tmp_path}/data",
        "costs": f"{tmp_path}/mine.yaml",
        "nested": {"data_dir": "/there", "files": [f"{tmp_path}/mine.yaml", "worker:0", 3]},
    }
    assert anchored_spec(spec, tmp_path) == expected


def test_files_of_the_user_are_found_by_a_job_that_changes_its_directory(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(TRACE)
    shutil.copy(ROOT / "runtime" / "fitted" / "costs" / "local_tcp.yaml", tmp_path / "mine.yaml")
    for chdir, name in (("false", "a"), ("true", "b")):
        words = (f"hydra.job.chdir={chdir}", f"hydra.run.dir={name}", "cluster.costs=mine.yaml", "straggler=trace")
        done = run_cli(*VIRTUAL, *words, "straggler.path=mine.csv", cwd=tmp_path)
        assert done.exit_code == 0, done.err
    assert (tmp_path / "a" / "events.jsonl").read_bytes() == (tmp_path / "b" / "events.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "data", "mine.csv", "mine.yaml"]


@pytest.mark.long(like="test_files_of_the_user_are_found_by_a_job_that_changes_its_directory")
def test_a_directory_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    for words in ((), ("--help",)):
        gone.mkdir(exist_ok=True)
        command = [sys.executable, "-c", script, str(ROOT / "run.py"), *words]
        done = subprocess.run(command, cwd=gone, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "run.py: the current directory does not exist any more; change into one that does\n"
    gone.mkdir()
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    with pytest.raises(ConfigError, match="does not exist any more"):
        start_directory()
    monkeypatch.chdir(tmp_path)
