"""The evaluator runs concurrently with the workers, at the configured priority."""

from __future__ import annotations

import os

import pytest

from tests.support.leaks import Start
from tests.support.long_tests import rows_long_after
from tests.support.runs import LEDGER

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    ("asked", "niceness"), rows_long_after([((), 5), (("runtime.evaluator_niceness=7",), 7)], always=1)
)
def test_only_the_evaluator_is_nice(start: Start, asked: tuple[str, ...], niceness: int) -> None:
    run = start("run", *LEDGER, "cluster.device={base_s: 0.01}", "workload.epochs=null", "max_time_s=60", *asked)
    run.await_training(1)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, run.pid_of("evaluator")) == min(own + niceness, 19)
    assert os.getpriority(os.PRIO_PROCESS, run.pid_of("worker")) == own
    run.interrupt()
