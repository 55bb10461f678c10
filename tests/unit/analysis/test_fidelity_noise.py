"""What bounds a comparison of live and virtual runs: two live runs of a seed, slower devices, evaluations."""

from __future__ import annotations

from math import isnan

import pandas as pd
import pytest
from pandas import isna

from analysis.experiments.results import Results
from analysis.experiments.spec import load_spec
from analysis.figures.experiment.agreement import draw
from analysis.measures.agreement import OFF, WITHIN
from analysis.records.load import RecordError
from analysis.reports.fidelity import processor_speed
from analysis.reports.fidelity_page import has_paced, notes, sheets
from analysis.reports.sheets import DASH
from stragglab.grids.experiments import SPECS
from tests.support.records import Story, disturbance
from tests.unit.analysis.test_fidelity import Pairs, line, pairs, row, story, write

__all__ = ["pairs"]


def test_two_live_runs_of_a_seed_bound_every_model(pairs: Pairs) -> None:
    """The second live runs of two seeds take 2 % less and 7 % more."""
    pairs.add("bsp", seeds=2).add("asp", seeds=1)
    pairs.again = [
        write(pairs.folder, story(seed=seed, factor=f), f"again{seed}") for seed, f in ((0, 0.98), (1, 1.07))
    ]
    found = pairs.compare()
    jct, other = row(found, "jct_s"), row(found, "jct_s", "asp")
    assert (jct.again_pairs, jct.again_error, jct.again_worst) == (2, pytest.approx(0.045), pytest.approx(0.07))
    assert jct.error == 0.0
    assert (other.again_pairs, isnan(other.again_error)) == (0, True)
    received = "JCT of two live runs of the same seed more than 5 % apart: 1 of 1 cases: bsp under transient (+7.0 %)"
    assert line(found, "JCT of two") == received


@pytest.mark.long(like="test_two_live_runs_of_a_seed_bound_every_model")
def test_what_slower_devices_do_is_told(pairs: Pairs) -> None:
    """A job that follows moves by 1 %, one that amplifies by 6 %. Devices and so the plan differ; nothing else may."""
    pairs.add("bsp").add("asp")
    slow = {"runtime": "virtual", "device": {"base_s": 0.0101}, "plan": [disturbance(0.1, 0.3, "worker:1", 0.1000001)]}
    pairs.slowed = [
        write(pairs.folder, story(name, factor=f, **slow), name) for name, f in (("bsp", 1.01), ("asp", 1.06))
    ]
    found = pairs.compare()
    assert (row(found, "jct_s").slowed_pairs, row(found, "jct_s").slowed_error) == (1, pytest.approx(0.01, rel=1e-4))
    assert line(found, "virtual JCT moved").endswith("1 of 2 cases: asp under transient (+6.0 %)")


def test_how_fast_the_machine_computed_live_can_be_taken_out(pairs: Pairs) -> None:
    """Virtual jobs are a fifth too fast, since an iteration took a fifth less of the processor than live."""
    pairs.add("bsp", factor=0.8, cpu_s=0.016).add("asp", seeds=1)
    assert processor_speed(pairs.live[0], pairs.virtual[0]) == pytest.approx(0.8)
    before = pairs.compare()
    assert not has_paced(before)
    assert "At live's processor speed:" not in notes(before)
    pairs.paced = [
        write(pairs.folder, story(seed=seed, runtime="virtual", factor=f), f"paced{seed}")
        for seed, f in enumerate((0.97, 0.98, 0.99, 1.0, 1.01))
    ]
    found = pairs.compare()
    jct, other = row(found, "jct_s"), row(found, "jct_s", "asp")
    assert (jct.error, jct.verdict) == (pytest.approx(-0.2), OFF)
    assert (jct.paced_pairs, jct.paced_error, jct.paced_verdict) == (5, pytest.approx(-0.01), WITHIN)
    assert (jct.paced_low, jct.paced_high) == (pytest.approx(-0.03), pytest.approx(0.01))
    assert (other.paced_pairs, isnan(other.paced_error), isna(other.paced_verdict)) == (0, True, True)
    assert line(found, "at live's processor speed, JCT").endswith("within 5 %: 1 of 1 cases")
    times = next(iter(sheets(found)))
    assert [cells[-3:] for cells in times.rows] == [["-1.0 %", "-3.0 to +1.0", "yes"], [DASH, DASH, DASH]]
    assert len({len(times.heads), *map(len, times.rows)}) == 1
    assert "At live's processor speed:" in notes(found)
    metas = [run.meta for run in (*pairs.live, *pairs.virtual)]
    picture = draw(
        pairs.folder / "jct.png", Results(spec=load_spec(SPECS / "fidelity.yaml"), runs=found.runs, metas=metas)
    )
    shown = pd.read_csv(picture.with_suffix(".csv"))
    medians = shown[shown["seed"] == "median"].set_index("strategy")["error_frac"]
    assert medians.to_dict() == pytest.approx({"bsp": -0.2, "asp": 0.0})
    assert shown["error_at_live_speed_frac"].dropna().to_list() == [pytest.approx(-0.01)]


def test_records_without_processor_times_cannot_be_paced(pairs: Pairs) -> None:
    pairs.add("bsp", seeds=1, cpu_s=0.0)
    with pytest.raises(RecordError, match="has no processor time"):
        processor_speed(pairs.live[0], pairs.virtual[0])


@pytest.mark.few(1)
@pytest.mark.parametrize("asked", [19, 20])
def test_evaluations_before_the_target_are_those_that_missed_it(asked: int, pairs: Pairs) -> None:
    """One every 10 ms, of which the last reaches the target: of 20 the 19 before do not suffice, of 21 they do."""

    def often(received: Story) -> Story:
        rest = [each for each in received.lines if each.get("event", {}).get("type") != "Evaluated"]
        received.lines = rest[:1]
        for number in range(asked + 1):
            received.evaluated(0.01 * number, 0.9 if number == asked else 0.1)
        received.lines += rest[1:]
        for number, each in enumerate(received.lines):
            each["seq"] = number
        return received

    pairs.live = [write(pairs.folder, often(story(seed=seed)), f"live{seed}") for seed in range(5)]
    pairs.virtual = [write(pairs.folder, often(story(seed=seed, runtime="virtual")), f"v{seed}") for seed in range(5)]
    received = line(pairs.compare(), "evaluations before")
    assert received == f"evaluations before the target: {asked} or more" + (
        "; fewer than 20 in 5 of 5 live runs" if asked < 20 else ""
    )
