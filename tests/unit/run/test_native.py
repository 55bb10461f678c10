"""Compiled twins are optional: without them everything runs, and a job that is slower for it says so once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runtime import native
from tests.support.cli import run_cli
from tests.support.long_tests import rows_long_after

JOB = ("backend=none", "workload=ledger", "max_time_s=1", "view=none", "draw=false")
SWEEP = ("-m", "runtime=virtual", "strategy=bsp", "seed=0,1", *JOB)


def test_a_twin_that_was_not_built_is_none_and_may_be_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.SWITCH, raising=False)
    assert native.native("runtime.virtual.never_built") is None
    monkeypatch.setenv(native.SWITCH, "1")
    with pytest.raises(ImportError):
        native.native("runtime.virtual.never_built")


def test_the_switch_turns_twins_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, native.HOSTS, native)
    monkeypatch.setenv(native.SWITCH, "0")
    assert native.native(native.HOSTS) is None
    assert native.slower() == "", "it is what was wanted"
    monkeypatch.delenv(native.SWITCH)
    assert native.native(native.HOSTS) is native
    assert native.slower() == ""
    monkeypatch.setitem(sys.modules, native.HOSTS, None)  # as if it had not been built
    assert native.slower() == native.SLOWER


@pytest.mark.long(like="test_the_switch_turns_twins_off")
@pytest.mark.parametrize(("cluster", "times"), rows_long_after([("hosts", 1), ("local", 0)], always=1))
def test_jobs_on_hosts_say_once_that_they_are_slower(
    cluster: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(native.SWITCH, raising=False)
    monkeypatch.setitem(sys.modules, native.HOSTS, None)
    done = run_cli(*SWEEP, f"cluster={cluster}", f"hydra.sweep.dir={tmp_path}/sweep")
    assert done.exit_code == 0
    assert done.err.count(native.SLOWER) == times
