"""``run.py advise``: from a log to a page, and what it refuses."""

from __future__ import annotations

import re
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.logs.step_log import StepLog
from analysis.measures.ranking import Ranked
from analysis.reports.advice import Advice, best_lines, page
from analysis.reports.remedies import ASYNCHRONOUS, LEFT_OUT, REMEDIES
from analysis.reports.whole_steps import whole_steps
from runtime.errors import ConfigError
from runtime.run.preflight import preflight
from stragglab.commands import advise
from stragglab.grids import advising
from stragglab.grids.choices import choices
from tests.support.pages import loaded

STEPS = 40


def table(path: Path, *, slow: float = 3.0, comm: float = 0.0) -> Path:
    """Four ranks; rank 2 is slow throughout; a round takes a tenth longer than the slowest rank."""
    rng = np.random.default_rng(0)
    own_s = np.exp(0.01 * rng.standard_normal((STEPS, 4)))
    own_s[:, 2] *= slow
    steps, ranks = np.meshgrid(np.arange(STEPS), np.arange(4), indexing="ij")
    columns = {"step": steps.ravel(), "rank": ranks.ravel(), "work": own_s.ravel()}
    seconds = np.repeat(own_s.max(axis=1) + 0.1 + comm, 4)
    pd.DataFrame({**columns, "seconds": seconds, "host": [f"h{rank}" for rank in ranks.ravel()]}).to_csv(path)
    return path


def words(path: Path, *more: str) -> list[str]:
    return [str(path), "-o", str(path.parent / "out"), "--jobs", "1", *more]


def test_a_table_becomes_a_ranking_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "log.csv")
    some = ("--topology", "ps", "--restart-s", "60", "--ranks-per-host", "2", "--strategies", "bsp,asp,coding_cyclic")
    assert advise.main(words(path, "--compute", "work", "--host", "host", *some)) == 0
    shown = capsys.readouterr()
    assert "persistent straggler: host h2 (rank 2), " in shown.out
    assert "assumed, to replace: the other hardware is as quick as the median rank" in shown.out
    assert "host h2 (rank 2): restart now: 77.47 s were lost since step 1, " in shown.out
    assert "more than a restart costs (60 s, --restart-s); it was due at step 31" in shown.out
    assert pd.read_csv(tmp_path / "out" / "prices.csv")["cure"].tolist() == ["replace host h2"]
    assert "check: bsp, repeated on the virtual clock, takes 1.0" in shown.out
    out = tmp_path / "out"
    ranking = pd.read_csv(out / "ranking.csv")
    assert set(ranking["strategy"]) == {"bsp", "asp", "coding_cyclic", "replace host h2"}
    assert ranking["strategy"].iloc[0] == "asp"
    assert ranking.set_index("strategy")["JCT relative to bsp"]["asp"] == pytest.approx(0.4, abs=0.1)
    page = (out / "advice.html").read_text()
    assert "what it needs" in page
    assert "Prices of cures" in page
    assert "data:image/png" in page
    assert loaded(page) == []
    assert "\N{EN DASH} x" not in page, "a rank that was never slow has no factor"
    ranks = pd.read_csv(out / "ranks.csv")
    assert ranks.set_index("rank")["when slow"][0] == "\N{EN DASH}"
    assert "h2" in ranks["host"].iloc[0]
    assert str(out / "advice.html") in shown.err
    assert "--ranks-per-host 2: is not used, since the log names its hosts" in shown.err


def test_a_baseline_that_is_not_repeated_is_not_ranked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "log.csv")
    some = ("--compute", "work", "--round-s", "3", "--strategies", "bsp")
    assert advise.main(words(path, *some)) == 1
    shown = capsys.readouterr().out
    assert "off by more than 10% (--limit): nothing is ranked" in shown
    assert "replace rank 2" in shown, "prices follow from the log, not from the virtual clock"
    assert "rank 2: wait: 77.47 s were lost since step 1, less than a restart costs" in shown
    assert "(120 s, assumed; --restart-s says what is right); restart after 4" in shown
    assert not (tmp_path / "out" / "ranking.csv").exists()


def test_a_log_without_ranks_says_what_it_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert advise.main(words(table(tmp_path / "log.csv"))) == 1
    shown = capsys.readouterr().out
    assert "all 4 ranks logged the same times" in shown
    assert "40 steps, the first of them left out (--skip 1):" in shown
    assert "39 steps, " in shown
    assert "nothing can be ranked" in shown
    assert "price" not in shown
    assert advise.main(words(tmp_path / "log.csv", "--skip", "0")) == 1
    assert "40 steps, " in capsys.readouterr().out


@pytest.mark.parametrize(("steps", "skip", "left"), [(1, 0, 1), (20, 1, 19)])
def test_a_few_steps_compare_ranks(
    steps: int, skip: int, left: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As profilers write them: who was slow, but no ranking."""
    path = table(tmp_path / "log.csv")
    frame = pd.read_csv(path)
    frame[frame["step"] < steps].to_csv(path)
    assert advise.main(words(path, "--compute", "work", "--skip", str(skip))) == 1
    shown = capsys.readouterr().out
    assert f"4 ranks, {left} steps: enough to compare ranks" in shown
    assert re.search(r"slow: rank 2 (2\.9|3\.0|3\.1)\d times\n", shown)
    assert f"nothing is ranked: 20 steps are needed besides those that --skip {skip} leaves out" in shown


REFUSED = {
    "--strategies asp,nothing": "--strategies nothing: no such strategy; choose from bsp",
    "--strategies bsp,spp": "--strategies spp: no such strategy; did you mean ssp?",
    "--strategies dlrover": "--strategies dlrover: changes the number of nodes",
    "--seconds ms": "has no column ms; --seconds names it",
    "--unit parsecs": "argument --unit: parsecs: must be seconds, such as 0.001, or the word of a unit, such as ms",
    "--base-frac 1": "--base-frac 1: must be from 0 to less than 1",
    "--skip -4": "--skip -4: must be 0 or more",
    "--secnds x": "unrecognized arguments: --secnds x; --help lists what there is",
    "--skip 30": "20 steps are needed besides those that --skip 30 leaves out; --skip 20 leaves enough",
    "--compute work --strategies bsp --strategy ssp": "--strategy ssp: topology=allreduce: strategy=ssp does not",
}


def test_a_folder_has_no_settings_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They would be without effect."""
    (tmp_path / "steps").mkdir()
    for ignored in ("--rank r", "--tokens 5", "--timer work"):
        assert advise.main(words(tmp_path / "steps", *ignored.split())) == 2
        assert f"advise: {ignored.split()[0]}: is for files, and {tmp_path / 'steps'} is a" in capsys.readouterr().err


@pytest.mark.few(1)
@pytest.mark.parametrize("wrong", REFUSED)
def test_what_cannot_be_is_one_line(wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "log.csv")
    if "--compute" not in wrong and "--seconds" not in wrong:
        wrong = f"--compute work {wrong}"
    assert advise.main(words(path, *wrong.split())) == 2
    error = capsys.readouterr().err
    says = next(text for flags, text in REFUSED.items() if wrong.endswith(flags))
    assert says in error
    assert error.startswith("advise: ")
    assert error.count("\n") == 1


def test_every_strategy_is_tried_or_left_out_for_a_reason() -> None:
    assert sorted([*REMEDIES, *LEFT_OUT]) == choices("strategy")
    assert set(REMEDIES) >= ASYNCHRONOUS


def test_a_reason_that_several_strategies_share_is_one_line() -> None:
    with pytest.raises(ConfigError, match=re.escape(advising.NEEDS_PS)):
        preflight(["topology=allreduce", "strategy=asp"])
    why = f"topology=allreduce: strategy={{}} does not work on it; {advising.NEEDS_PS}"
    refused = {"asp": why.format("asp"), "lgc": "k_fastest=9: too many", "ssp": why.format("ssp")}
    together = f"not possible: asp, ssp: topology=allreduce: these strategies do not work on it; {advising.PS}"
    assert advising.not_possible(refused) == [together, "not possible: lgc: k_fastest=9: too many"]
    alone = f"not possible: asp: topology=allreduce: strategy=asp does not work on it; {advising.PS}"
    assert advising.not_possible({"asp": refused["asp"]}) == [alone]


def test_without_slow_steps_ordinary_ones_remain() -> None:
    """Of ten steps one took 3 s instead of 1: 2 of 12 s. Half of all steps are above the median, and stay."""
    for others, left in (([1.0] * 9, "0.833"), ([0.99] * 4 + [1.0] + [1.01] * 4, "0.834")):
        own_s = np.array([[*others, 3.0]]).T
        log = StepLog(source="", ranks=("",), steps=tuple(range(10)), own_s=own_s)
        assert whole_steps(log)[2] == f"without these slow steps the job would take {left} of its time, at best"
    calm = StepLog(source="", ranks=("",), steps=tuple(range(10)), own_s=np.linspace(0.95, 1.05, 10)[:, None])
    assert "0.0% of the steps" in whole_steps(calm)[1]
    assert "would take 1.000 of its time" in whole_steps(calm)[2]


@pytest.mark.parametrize(("high", "named"), [(0.97, True), (1.02, False)])
def test_the_fastest_is_one_that_the_interval_shows(high: float, named: bool) -> None:
    """A ratio of 0.95 whose interval reaches above 1 is no gain, neither in words nor among the numbers."""
    noise = np.exp(0.01 * np.random.default_rng(0).standard_normal((40, 2)))
    log = StepLog(source="", ranks=tuple("01"), steps=tuple(range(40)), own_s=noise)
    job = advising.diagnose(log, [], advise.parse(["log.csv"]))
    ranking = [Ranked("asp", 0.95, 0.93, high, 1.0), Ranked("bsp", 1.0, nan, nan, 1.0)]
    advice = Advice(log=log, present="bsp", found=job.found, model=job.model, baseline_error=0.0, ranking=ranking)
    assert ("fastest, predicted" in page(advice, 0.1)) == named
    assert ("nothing that was tried is faster" in best_lines(advice)[0]) != named
