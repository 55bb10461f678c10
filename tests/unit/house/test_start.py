"""No command waits for a library that it does not use: what each of them has loaded where it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.reports.report import finish_run
from tests.support.records import asp_story, bsp_story
from workloads.digits import Digits

ROOT = Path(__file__).resolve().parents[3]
LARGE = ("torch", "tensorflow", "jax", "pandas", "pyarrow", "matplotlib", "PIL", "sklearn", "scipy")
HYDRA = (*LARGE, "hydra")
PLAIN = (*LARGE, "numpy", "attr")
SHOWN = {
    "--version": (*HYDRA, "numpy"),
    "--info": PLAIN,
    "--help": (*(name for name in LARGE if name != "pyarrow"), "pyarrow.compute", "attr"),  # it tries a Parquet file
    "strategy=nope": PLAIN,
    "workload.epochs=-1": PLAIN,
    "strategy=ssp strategy.bound=-1": LARGE,
    "verify nowhere": (*HYDRA, "numpy"),
    "advise --help": (*HYDRA, "numpy"),
}
"""A command line, and what it must not have loaded at its end."""
OTHERS = ("figures", "replay", "export", "new", "check", "doctor", "cleanup")
MORE = {"compare nowhere": (*HYDRA, "numpy"), **{f"{name} --help": (*HYDRA, "numpy") for name in OTHERS}}
RUNS = {
    "runtime=virtual backend=none workload.target=null workload.epochs=1 draw=false view=none": LARGE,
    "runtime=virtual backend=numpy workload=ledger workload.epochs=1 draw=false view=none": LARGE,
}
PROGRAM = """
import json, os, runpy, sys
for line, banned in json.load(sys.stdin).items():
    sys.stdout.flush()
    if pid := os.fork():
        os.waitpid(pid, 0)
        continue
    said = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    sys.argv = ["run.py", *line.split()]
    try:
        runpy.run_path("run.py", run_name="__main__")
    except SystemExit as end:
        code = end.code
    found = [line, code, [name for name in banned if name in sys.modules]]
    os.write(said, (json.dumps(found) + chr(10)).encode())
    os._exit(0)
"""


def loaded(lines: dict[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """What each command line has loaded of what it must not load; all have ended as programs end."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, input=json.dumps(lines), capture_output=True, text=True, check=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line for line, _, _ in found] == list(lines), done.stderr
    assert all(code in (0, 2) for _, code, _ in found), found
    return {line: names for line, _, names in found if names}


@pytest.mark.parametrize("lines", [SHOWN, pytest.param(MORE, marks=pytest.mark.long)], ids=["some", "others"])
def test_what_is_shown_or_refused_waits_for_no_large_library(lines: dict[str, tuple[str, ...]]) -> None:
    """It takes seconds, as each starts an interpreter's worth of modules; users wait for each dozens of times a day."""
    assert loaded(lines) == {}
    assert loaded({"strategy=nope": ("hydra", "torch")}) == {"strategy=nope": ["hydra"]}, "the negative control"


@pytest.mark.long(like="test_comparing_finished_records_waits_for_no_frames")
def test_a_virtual_run_without_gradients_waits_for_no_framework(tmp_path: Path) -> None:
    """But for the first on a machine, which converts the digits."""
    Digits(data_dir=str(ROOT / "data")).prepare()
    assert loaded({f"{line} hydra.run.dir={tmp_path / str(at)}": RUNS[line] for at, line in enumerate(RUNS)}) == {}


def test_comparing_finished_records_waits_for_no_frames(tmp_path: Path) -> None:
    """Nor for scipy: one seed has no interval."""
    for name, story in (("bsp", bsp_story()), ("asp", asp_story())):
        finish_run(story.write(tmp_path / name), draw=False)
    assert loaded({f"compare {tmp_path}": (*HYDRA,)}) == {}
