"""Pauses, unequal sequences and a slow loader: real processes and the virtual clock carry out the same plan."""

from __future__ import annotations

import pytest

from analysis.records.load import load_run
from injectors.plan import parse_plan
from injectors.schedule import Schedule
from tests.support.exact import assert_sound
from tests.support.leaks import Start
from tests.support.long_tests import long_after
from tests.support.runs import DIGITS, Run

pytestmark = pytest.mark.live

JOB = ("cluster.device={base_s: 0.03}", "workload.epochs=3", "max_time_s=20", "save_parameters=true")
PATTERNS = {
    "pauses": ("straggler.period_iters=5", "straggler.duration_s=0.06"),
    "sequence_lengths": ("straggler.num_sequences=1",),
    "slow_loader": ("straggler.queue=3",),
}


def injected_as_planned(run: Run) -> int:
    """Count the iterations that the plan makes longer; each is longer by the planned time or a little more."""
    schedule = Schedule(parse_plan((run.run_dir / "plan.json").read_bytes()))
    disturbed = 0
    rows = load_run(run.run_dir).tables.iterations
    for row in rows[rows.samples > 0].itertuples():
        delay_s, slowdown_frac = schedule.delay_for(f"worker:{row.worker}", row.issued_s)
        planned_s = delay_s + slowdown_frac * 0.03
        assert (row.injected_s > 0) == (planned_s > 0)
        assert row.injected_s >= planned_s * 0.999
        disturbed += planned_s > 0
    return disturbed


@pytest.mark.long(like="tests/live/test_record.py::test_a_delay_is_achieved_exactly_where_planned")
@pytest.mark.parametrize("name", long_after(PATTERNS, always=1))
def test_both_runtimes_carry_out_the_same_plan(start: Start, name: str) -> None:
    words = (*DIGITS, *JOB, f"straggler={name}", *PATTERNS[name])
    live = start("live", *words)
    live.finish()
    virtual = start("virtual", *words, "runtime=virtual")
    virtual.finish()
    plans = [(run.run_dir / "plan.json").read_bytes() for run in (live, virtual)]
    assert plans[0] == plans[1]
    assert parse_plan(plans[0]).pattern == name
    for run in (live, virtual):
        assert injected_as_planned(run) > 5
        assert_sound(run)
    assert (live.parameters() == virtual.parameters()).all(), "a straggler changes the time, not the result"
