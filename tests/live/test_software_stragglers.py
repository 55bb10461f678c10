"""Pauses, unequal sequences and a slow loader: real processes and the virtual clock carry out the same plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.logs.reading import read_log
from analysis.measures.straggling import straggling
from analysis.records.load import load_run
from analysis.sinks.exporting import export
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
        rows = load_run(run.run_dir).tables.iterations
        assert rows["loader_s"].equals(rows["injected_s"] * (name == "slow_loader"))
        assert_sound(run)
    assert (live.parameters() == virtual.parameters()).all(), "a straggler changes the time, not the result"


@pytest.mark.long(like="tests/live/test_record.py::test_a_delay_is_achieved_exactly_where_planned")
@pytest.mark.parametrize("runtime", ["virtual", "live"])
def test_advise_names_the_ranks_with_slow_loaders(start: Start, runtime: str, tmp_path: Path) -> None:
    words = ("straggler=slow_loader", "straggler.queue=3", "straggler.pick=2", f"runtime={runtime}")
    run = start(runtime, *DIGITS, *JOB, *words)
    run.finish()
    plan = parse_plan((run.run_dir / "plan.json").read_bytes())
    planned = {one.target.partition(":")[2] for one in plan.disturbances}
    for path in (run.run_dir, Path(export(run.run_dir, "steps", str(tmp_path)))):
        log = read_log(path)
        units = straggling(log, barrier=True, slow_frac=0.1).units
        assert {log.ranks[member] for unit in units for member in unit.group.members} == planned
        assert {unit.part for unit in units} == {"loading"}
