"""Threads that were to make the kernel look at quotas, and cannot begin."""

from __future__ import annotations

import msgspec
import pytest

from runtime.live.machines import ticks
from runtime.live.machines.mechanisms import NOTHING, TICKS_DEMANDED
from runtime.live.machines.shared import SharedMachines, build_shared


@pytest.fixture(autouse=True)
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        def __init__(self) -> None:
            raise OSError("no thread can begin")

    monkeypatch.setattr(ticks, "Ticks", Refused)


def shared_with(ticks_because: str) -> SharedMachines:
    return build_shared(None, msgspec.structs.replace(NOTHING, ticks=True, ticks_because=ticks_because))


def test_a_run_that_may_have_them_does_without() -> None:
    shared = shared_with("runtime.ticks=auto")
    assert (shared.obstacle, shared.no_ticks) == ("", "no thread can begin")
    shared.close()


def test_a_run_that_must_have_them_is_refused_in_one_line() -> None:
    shared = shared_with(TICKS_DEMANDED)
    assert shared.obstacle == (
        "runtime.ticks=true: no thread can begin; use runtime.ticks=auto, or runtime.ticks=false"
    )
