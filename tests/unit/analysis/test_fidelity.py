"""Pairs of live and virtual records: what agrees, what does not, and what is no pair. Every judge sees a bad record."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas import isna

from analysis.experiments.results import Results
from analysis.experiments.spec import Cell, load_spec
from analysis.figures.experiment.agreement import draw
from analysis.measures.agreement import OFF, SIDES, UNCLEAR, WITHIN
from analysis.measures.metrics import summarise
from analysis.records.load import RecordError, Run, load_run
from analysis.reports.fidelity import Fidelity, fidelity, processor_speed, total_variation
from analysis.reports.fidelity_page import following, notes, sheets, verdict
from analysis.reports.sheets import DASH
from stragglab.grids.experiments import SPECS
from tests.support.records import Simulation, Story, disturbance

PNG = b"\x89PNG\r\n\x1a\n"
RULES = {"bsp": "bsp", "asp": "asp", "ssp": "asp"}
Change = Callable[[Story], None]


def story(strategy: str = "bsp", *, seed: int = 0, factor: float = 1.0, cpu_s: float = 0.02, **given: Any) -> Story:
    """A whole job; ``factor`` stretches its clock, ``cpu_s`` is of an iteration; every seed has losses of its own."""
    received = Story(
        strategy, **{"seed": seed, "plan": [disturbance(0.1, 0.3, "worker:1", 0.1)], "target": 0.3, **given}
    )
    Simulation(received, RULES[strategy], duration=lambda worker, _: 0.05 + 0.001 * worker + 0.002 * seed).run()
    for line in received.lines:
        event = line.get("event", {})
        line["t"] *= factor
        event |= {key: event[key] * factor for key in ("t", "asked_s") if key in event}
        if event.get("type") == "Arrived":
            event["timings"]["cpu_s"] = cpu_s
            event["loss"] = 1.0 / (1 + seed + 3 * event["grad"]["iteration"] + event["grad"]["worker"])
    return received


def unchanged(received: Story) -> None:
    """A record as it was simulated."""


def write(folder: Path, received: Story, name: str) -> Run:
    return load_run(received.write(folder / name))


_KEPT: dict[str, Run] = {}
_SUMMARIES: dict[Path, dict[str, Any]] = {}


def kept(folder: Path, strategy: str, **given: Any) -> Run:
    """A record that nobody changes: most tests have the same, and making it takes longer than comparing it."""
    key = repr((strategy, sorted(given.items())))
    if key not in _KEPT:
        folder.mkdir(exist_ok=True)
        _KEPT[key] = write(folder, story(strategy, **given), f"{len(_KEPT)}_{strategy}_{given.get('runtime', 'live')}")
    return _KEPT[key]


class Pairs:
    """Live and virtual records of the same jobs, five seeds each; those without changes are in ``shared``."""

    def __init__(self, folder: Path, shared: Path) -> None:
        self.folder, self.shared = folder, shared
        self.live: list[Run] = []
        self.virtual: list[Run] = []
        self.again: list[Run] = []
        self.slowed: list[Run] = []
        self.paced: list[Run] = []
        self.probed: list[Run] = []

    def add(self, strategy: str, change: Change = unchanged, *, seeds: int = 5, **given: Any) -> Pairs:
        """``given`` and ``change`` are about the virtual one; ``both`` are settings of both."""
        both = given.pop("both", {})
        for seed in range(seeds):
            self.live.append(kept(self.shared, strategy, seed=seed, **both))
            changed = {"seed": seed, "runtime": "virtual", **both, **given}
            if change is unchanged:
                self.virtual.append(kept(self.shared, strategy, **changed))
                continue
            received = story(strategy, **changed)
            change(received)
            self.virtual.append(write(self.folder, received, f"{len(self.live)}_{strategy}_{seed}_virtual"))
        return self

    def compare(self) -> Fidelity:
        with pytest.MonkeyPatch.context() as patch:  # records in ``shared`` are compared again and again
            patch.setattr("analysis.reports.fidelity.summarise", summarised)
            return fidelity([in_cell(run, side) for side in SIDES for run in getattr(self, side)])


def in_cell(run: Run, side: str) -> tuple[Cell, Run]:
    """The record as that of an experiment."""
    levels = {"straggler": str(run.job["straggler"]), "strategy": str(run.job["strategy"]), "side": side}
    return Cell(levels, int(run.meta["seed"])), run


def summarised(run: Run) -> dict[str, Any]:
    if run.path not in _SUMMARIES:
        _SUMMARIES[run.path] = summarise(run)
    return _SUMMARIES[run.path]


@pytest.fixture
def pairs(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return Pairs(tmp_path, tmp_path_factory.getbasetemp() / "fidelity")


def row(found: Fidelity, measure: str, strategy: str = "bsp") -> Any:
    rows = found.measures[(found.measures["measure"] == measure) & (found.measures["strategy"] == strategy)]
    assert len(rows) == 1
    return rows.iloc[0]


def line(found: Fidelity, start: str) -> str:
    """The one of the verdict that begins so."""
    (one,) = [text for text in verdict(found) if text.startswith(start)]
    return one


def test_the_same_records_agree_in_everything(pairs: Pairs) -> None:
    found = pairs.add("bsp").add("asp").compare()
    assert (found.measures["error"] == 0).all()
    assert (found.measures["verdict"] == WITHIN).all()
    assert {*found.distances.values()} == {0.0}
    assert (found.rankings["verdict"] == WITHIN).all()
    assert found.losses["equal"].tolist() == [True] * 5
    assert not any("not" in text or "inconclusive" in text for text in verdict(found)[:-2])


def test_few_seeds_decide_nothing_and_the_page_says_so(pairs: Pairs) -> None:
    found = pairs.add("bsp", seeds=4).compare()
    assert verdict(found)[0].startswith("fewer than 5 seeds: every case is inconclusive")
    assert (found.measures["verdict"].dropna() == UNCLEAR).all()


def test_the_error_is_the_median_of_the_pairs(pairs: Pairs) -> None:
    """The first seed is 1 % off, the next 2 %, and so on: the median is 3 %, the interval 1 to 5 %."""
    pairs.add("bsp")
    pairs.virtual = [
        write(pairs.folder, story(seed=seed, factor=1.01 + 0.01 * seed, runtime="virtual"), f"off_{seed}")
        for seed in range(5)
    ]
    jct = row(pairs.compare(), "jct_s")
    lives = [run.lines[-1].t for run in pairs.live]
    virtuals = [run.lines[-1].t for run in pairs.virtual]
    assert (jct.live, jct.virtual) == (pytest.approx(np.median(lives)), pytest.approx(np.median(virtuals)))
    assert (jct.error, jct.low, jct.high) == (pytest.approx(0.03), pytest.approx(0.01), pytest.approx(0.05))
    assert (jct.verdict, jct.seeds, jct.worst) == (WITHIN, 5, pytest.approx(0.05))


def test_eight_per_cent_off_is_a_miss(pairs: Pairs) -> None:
    """The negative control of the whole comparison."""
    found = pairs.add("bsp", factor=1.08).add("asp").compare()
    assert row(found, "jct_s").error == pytest.approx(0.08)
    assert (row(found, "jct_s").verdict, row(found, "jct_s", "asp").verdict) == (OFF, WITHIN)
    received = line(found, "JCT (job completion time) within")
    assert received.endswith("within 5 %: 1 of 2 cases; not bsp (+8.0 %) under transient")


def test_a_target_that_only_one_side_reaches_is_a_miss(pairs: Pairs) -> None:
    def never(received: Story) -> None:
        for line in received.lines:
            if line.get("event", {}).get("type") == "Evaluated":
                line["event"]["metrics"] = {"accuracy": 0.1}

    found = pairs.add("bsp", never).compare()
    tta = row(found, "tta_s")
    assert (tta.error, tta.verdict, tta.live_missed, tta.virtual_missed) == (inf, OFF, 0, 5)
    assert "not bsp (one side only) under transient" in line(found, "TTA (time to accuracy) within")


def test_staleness_is_compared_as_a_distribution(pairs: Pairs) -> None:
    """One arrival in 32 that read an older version: 1/32 of the mass moves."""

    def older(received: Story) -> None:
        arrived = [line["event"] for line in received.lines if line.get("event", {}).get("type") == "Arrived"]
        arrived[-1]["grad"]["version"] -= 7

    found = pairs.add("bsp", older, seeds=1).compare()
    assert found.distances["transient", "bsp"] == pytest.approx(1 / 32)
    mean = row(found, "staleness_mean")
    assert mean.virtual - mean.live == pytest.approx(7 / 32)
    assert (row(found, "staleness_max").live, row(found, "staleness_max").virtual) == (0, 7)


counts = st.dictionaries(st.sampled_from("01234"), st.integers(1, 50), min_size=1)


@given(counts, counts)
def test_total_variation_is_a_distance(one: dict[str, int], other: dict[str, int]) -> None:
    distance = total_variation(one, other)
    assert 0 <= distance <= 1 + 1e-12
    assert distance == pytest.approx(total_variation(other, one))
    assert total_variation(one, {key: 3 * count for key, count in one.items()}) == pytest.approx(0, abs=1e-12)
    assert total_variation({"0": 3, "1": 1}, {"0": 1, "1": 1}) == pytest.approx(0.25)
    assert total_variation({}, {}) == 0
    assert isnan(total_variation({"0": 1}, {}))


def test_a_swapped_ranking_is_reported(pairs: Pairs) -> None:
    found = pairs.add("bsp").add("asp", factor=1.4).compare()
    jct = found.rankings.iloc[0]
    assert (jct.live, jct.virtual) == ("asp < bsp", "bsp < asp")
    assert (jct.pairs, jct.kept, jct.swapped, jct.verdict) == (1, 0, "asp / bsp", OFF)
    assert line(found, "ranking of the strategies by JCT").endswith(
        "0 of 1 patterns of stragglers; not asp / bsp under transient"
    )
    assert line(found, "pairs of strategies that JCT") == (
        "pairs of strategies that JCT distinguishes live: 0 of 1 in the same order, 1 swapped, 0 undecided"
    )


def arrivals(received: Story) -> list[dict[str, Any]]:
    return [line["event"] for line in received.lines if line.get("event", {}).get("type") == "Arrived"]


def test_one_bit_of_one_loss_is_seen(pairs: Pairs) -> None:
    def flip(received: Story) -> None:
        last = next(event for event in reversed(arrivals(received)) if event["grad"]["worker"] == 2)
        last["loss"] = float(np.nextafter(last["loss"], 2.0))

    found = pairs.add("bsp", flip, seeds=2).compare()
    assert found.losses["equal"].tolist() == [False] * 2
    assert (found.losses["losses"][0], found.losses["different"][0], found.losses["missing"][0]) == (32, 1, 0)
    assert found.losses["first"][0] == "iteration 7 of worker 2"
    assert ": 0 of 2 pairs; not seed 0, seed 1 under transient" in line(found, "losses of BSP")


def test_losses_that_one_record_lacks_and_no_losses_at_all_are_not_equal(pairs: Pairs) -> None:
    def forget_one(received: Story) -> None:
        arrivals(received)[5]["loss"] = None

    def forget(received: Story) -> None:
        for event in arrivals(received):
            event["loss"] = None

    lacks = Pairs(pairs.folder, pairs.shared).add("bsp", forget_one, seeds=1).compare().losses
    assert (lacks["missing"][0], lacks["equal"][0]) == (1, False)
    pairs.add("bsp", forget, seeds=1)
    pairs.live = pairs.virtual
    found = pairs.compare()
    assert (found.losses["losses"][0], found.losses["equal"][0]) == (0, False)


def test_a_record_without_a_partner_is_refused(pairs: Pairs) -> None:
    pairs.add("bsp")
    live, virtual = pairs.live, pairs.virtual
    pairs.virtual = virtual[:1]
    with pytest.raises(RecordError, match="no virtual record of bsp under transient, seed 1"):
        pairs.compare()
    pairs.live, pairs.virtual = live[1:], virtual
    with pytest.raises(RecordError, match="no live record of bsp under transient, seed 0"):
        pairs.compare()


@pytest.mark.parametrize("side", ["virtual", "again"])
def test_another_plan_is_refused(side: str, pairs: Pairs) -> None:
    pairs.add("bsp", seeds=1)
    runtime = "virtual" if side == "virtual" else "live"
    setattr(pairs, side, [write(pairs.folder, story(runtime=runtime, plan=[]), "other")])
    with pytest.raises(RecordError, match="another straggler plan"):
        pairs.compare()


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


@pytest.mark.long(like="test_the_same_records_agree_in_everything")
def test_how_fast_the_machine_computed_live_can_be_taken_out(pairs: Pairs) -> None:
    """Virtual jobs are a fifth too fast, since an iteration took a fifth less of the processor than live."""
    pairs.add("bsp", factor=0.8, cpu_s=0.016).add("asp", seeds=1)
    assert processor_speed(pairs.live[0], pairs.virtual[0]) == pytest.approx(0.8)
    before = pairs.compare()
    assert not following(before)
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


def with_copies(received: Story, *copies_s: float) -> Story:
    """A reading of the memory's speed every half a second."""
    for number, copy_s in enumerate(copies_s):
        received.note(0.5 * number, "MemoryProbed", copy_s=copy_s)
    received.lines.sort(key=lambda line: line["t"])
    received.lines = [{**line, "seq": number} for number, line in enumerate(received.lines)]
    return received


def test_processors_may_follow_the_speed_of_memory(pairs: Pairs) -> None:
    """In every second an iteration takes twice the virtual run's processor time, and the memory is equally fast."""
    for seed in range(5):
        live = with_copies(story(seed=seed, factor=10.0, cpu_s=0.04), *[2e-4] * 8)
        pairs.live.append(write(pairs.folder, live, f"live{seed}"))
        for factor, side in ((5.0, pairs.virtual), (9.8, pairs.probed)):
            virtual = story(seed=seed, factor=factor, runtime="virtual")
            side.append(write(pairs.folder, virtual, f"virtual{factor:g}_{seed}"))
    found = pairs.compare()
    jct = row(found, "jct_s")
    assert (jct.error, jct.probed_error, jct.probed_verdict) == (pytest.approx(-0.5), pytest.approx(-0.02), WITHIN)
    assert line(found, "at the memory's speed, JCT").endswith("within 5 %: 1 of 1 cases")
    assert next(iter(sheets(found))).rows[0][-3:] == ["-2.0 %", "-2.0 to -2.0", "yes"]
    assert "At the memory's speed:" in notes(found)
    assert found.memory is not None
    windows = found.memory.even.windows, found.memory.odd.windows
    assert line(found, "processor time of an iteration, live against virtual, by") == (
        "processor time of an iteration, live against virtual, by the memory's speed: 2.00 times (copy / 200 us)^0.00, "
        f"fitted to {windows[0]} even seconds live: 0.0 % off in the median, 0.0 % in {windows[1]} odd ones; with one "
        "factor for all seconds 0.0 % and 0.0 %"
    )


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

    pairs.live = [write(pairs.folder, often(story()), "live")]
    pairs.virtual = [write(pairs.folder, often(story(runtime="virtual")), "virtual")]
    received = line(pairs.compare(), "evaluations before")
    few = "; fewer than 20 in 1 of 1 live runs" if asked < 20 else ""
    none_late = f"; live ones whose result came after the next was asked for: 0 of {asked + 1}"
    assert received == f"evaluations before the target: {asked} or more{few}{none_late}"
