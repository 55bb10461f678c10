"""Without compiled modules all runs that share no machines; what does is refused before it starts, with the cure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runtime import native
from runtime.virtual.machines import kernel
from tests.support.cli import refusal, run_cli

JOB = ("backend=none", "workload=ledger", "max_time_s=1", "view=none", "draw=false")
SWEEP = ("-m", "runtime=virtual", "strategy=bsp", "topology=ps,allreduce", *JOB)
COSTS = "schema: 1\nvalues: {compute_base_s: 0.1}\n"
RATED = COSTS.replace("}", ", link_bytes_per_s: 1000000.0}")
REAL = ("cluster.device=null", "cluster.costs=@real.yaml")
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "hosts": (("cluster=hosts",), "cluster.hosts: hosts need the compiled kernel"),
    "pauses": (("straggler=pause",), "straggler: disturbances of work in progress (pause) need the compiled kernel"),
    "rated": (("cluster.costs=@rated.yaml",), "cluster.costs: links with a rate (link_bytes_per_s) need the compiled"),
    "throttled": (("straggler=cpu_throttle", *REAL), "straggler: disturbances of work in progress (cpu) need the"),
}


def test_a_module_that_was_not_built_is_none_and_may_be_required_or_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(native.SWITCH, raising=False)
    assert native.native("runtime.virtual.never_built") is None
    monkeypatch.setenv(native.SWITCH, "1")
    with pytest.raises(ImportError):
        native.native("runtime.virtual.never_built")
    monkeypatch.setitem(sys.modules, native.HOSTS, native)
    monkeypatch.setenv(native.SWITCH, "0")
    assert native.native(native.HOSTS) is None
    assert kernel.missing("hosts").endswith("which STRAGGLAB_NATIVE=0 switches off: unset it")
    monkeypatch.delenv(native.SWITCH)
    assert native.native(native.HOSTS) is native


@pytest.fixture
def not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where no module was compiled."""
    monkeypatch.delenv(native.SWITCH, raising=False)
    for name in (native.HOSTS, native.EVENTS):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(kernel, "COMPILED", None)


@pytest.mark.usefixtures("not_built")
@pytest.mark.parametrize("case", REFUSED)
def test_jobs_that_share_machines_are_refused_before_they_start(case: str, tmp_path: Path) -> None:
    words, line = REFUSED[case]
    for name, text in (("rated.yaml", RATED), ("real.yaml", COSTS)):
        (tmp_path / name).write_text(text)
    words = tuple(word.replace("@", f"{tmp_path}/") for word in words)
    said = refusal("runtime=virtual", "strategy=bsp", *JOB, *words, f"hydra.run.dir={tmp_path}/run")
    assert line in said
    assert said.endswith(kernel.BUILD)
    assert not (tmp_path / "run" / "events.jsonl").exists()


@pytest.mark.usefixtures("not_built")
@pytest.mark.long(like="test_jobs_that_share_machines_are_refused_before_they_start")
def test_jobs_that_share_nothing_run(tmp_path: Path) -> None:
    done = run_cli(*SWEEP, f"hydra.sweep.dir={tmp_path}/sweep")
    assert (done.exit_code, done.err.count("kernel")) == (0, 0)


@pytest.mark.usefixtures("not_built")
@pytest.mark.parametrize(("detail", "code"), [("gpus_only", 0), ("iterations", 2)])
def test_jobs_of_a_set_that_only_hold_their_gpus_run(detail: str, code: int, tmp_path: Path) -> None:
    entries = "jobs.entries=[{job: a, submit_s: 0, gpus: 2, iterations: 30}]"
    words = ("jobs=list", entries, "runtime=virtual", "cluster=star_servers", f"replay.detail={detail}", "draw=false")
    done = run_cli(*words, "view=none", f"hydra.run.dir={tmp_path}/run")
    assert done.exit_code == code, done.err
    assert ("cluster.hosts: hosts need the compiled kernel" in done.err) == bool(code)
