"""What Megatron-LM prints besides the timers of all ranks: of the quickest and the slowest rank, or of one rank."""

from __future__ import annotations

import os
import re
from pathlib import Path
from statistics import median

import pytest

from analysis.logs.reading import Reading, read_log
from analysis.logs.step_log import LogError, StepLog, without_first
from analysis.reports.whole_steps import whole_steps
from tests.support.runs import ROOT

PUBLIC = ROOT / "tests" / "logs" / "public"
STEPS = 24


def iteration(step: int, milliseconds: float = 300.0) -> str:
    return f" iteration {step:8d}/ 900 | elapsed time per iteration (ms): {milliseconds:.1f} | global batch size: 64 |"


def minmax(least: float, most: float) -> list[str]:
    return [
        "(min, max) time across ranks (ms):",
        f"    forward-backward ...............................: ({least:.2f}, {most:.2f})",
        "    optimizer ......................................: (40.10, 41.20)",
    ]


def straggler(least: tuple[float, int], most: tuple[float, int]) -> str:
    """As README_STRAGGLER.md of Megatron-LM shows it."""
    return (
        f"INFO:megatron.core.utils:[2026-03-14 23:07:56] | MnRtt/Rnk: {least[0]:.2f}ms/{least[1]} | "
        f"MxRtt/Rnk: {most[0]:.2f}ms/{most[1]} | MnPwr/Rnk: 601796W/8 | MxPwr/Rnk: 683801W/18 | MnTmp/Rnk: 52C/0 | "
        "MxTmp/Rnk: 65C/21 | MnUtl/Rnk: 97%/8 | MxUtl/Rnk: 100%/6 | MnClk/Rnk: 1950MHz/28 | MxClk/Rnk: 1980MHz/0 | "
        "MnDRtt/Rnk: 14.27ms/23 | MxDRtt/Rnk: 34.65ms/3 | MnEtpt/Rnk: 296.02TF/0 | MxEtpt/Rnk: 297.32TF/8"
    )


def read(path: Path, lines: list[str], timer: str | None = None) -> StepLog:
    path.write_text("\n".join(lines))
    return read_log(path, Reading(timer=timer))


def test_the_mean_of_recent_iterations_behind_a_time_is_passed_over(tmp_path: Path) -> None:
    """As AMD's Primus prints it."""
    lines = [iteration(step).replace("300.0 |", f"{300.0 + step:.1f}/305.5 |") for step in range(1, STEPS)]
    assert read(tmp_path / "a.log", lines).own_s[:3, 0].tolist() == pytest.approx([0.301, 0.302, 0.303])


def test_the_quickest_and_the_slowest_rank_give_the_cost_without_a_name(tmp_path: Path) -> None:
    lines = [line for step in range(1, STEPS) for line in (iteration(step), *minmax(210.0, 273.0))]
    log = read(tmp_path / "a.log", lines)
    assert not log.per_rank
    assert log.extremes[3][0].quickest_s == pytest.approx(0.21)
    assert log.extremes[3][0].slowest_s == pytest.approx(0.273)
    assert any("--timing-log-option all" in remark for remark in log.remarks)
    said = whole_steps(log)
    assert any("slowest rank's forward-backward takes 1.300 times as long as the quickest's" in line for line in said)
    assert any("0.063 s more" in line and "21.0% of the time" in line for line in said)
    assert any("which rank that is, this log does not say" in line for line in said)
    untrue = [line for line in (*log.remarks, *said) if "one rank only" in line or "no times of parts" in line]
    assert not untrue, "the log has two ranks' times of a part"
    assert read(tmp_path / "a.log", lines, "optimizer").extremes[3][0].slowest_s == pytest.approx(0.0412)
    with pytest.raises(LogError, match="no timer gather of all ranks in it; it has forward-backward, optimizer"):
        read(tmp_path / "a.log", lines, "gather")
    lines = [line for step in range(10, 250, 10) for line in (iteration(step), *minmax(210.0, 270.0))]
    log = read(tmp_path / "a.log", lines)
    assert log.own_s[5, 0] == pytest.approx(3.0), "the mean of ten iterations"
    assert log.extremes[30][0].apart_s == pytest.approx(0.6)
    assert any("20.0% of the time" in line for line in whole_steps(log))


def test_the_slowest_rank_alone_is_a_part_of_steps(tmp_path: Path) -> None:
    """Megatron-LM started with ``--timing-log-option max`` prints these lines."""
    lines = list[str]()
    for step in range(1, STEPS):
        lines += [iteration(step, 200.0 + 9 * (step % 5)), "max time across ranks (ms):"]
        lines.append(f"    forward-backward ...............................: {150.0 + 9 * (step % 5):.2f}")
    log = read(tmp_path / "a.log", lines)
    assert log.part_fracs["forward-backward of the slowest rank"][0, 0] == pytest.approx(159 / 209)
    assert not log.extremes
    said = whole_steps(log)
    assert any("100% of what longer steps take more is forward-backward of the slowest rank" in line for line in said)
    assert any("slow ranks make these steps longer" in line for line in said)


@pytest.mark.parametrize(("slow", "says"), [((7,), "rank 7 is the slowest in 23 of 23"), (range(9), "rank changes")])
def test_log_straggler_names_the_slowest_rank_if_it_is_mostly_one(slow: range, says: str, tmp_path: Path) -> None:
    lines = list[str]()
    for step in range(1, STEPS):
        lines += [iteration(step), "0: " + straggler((3000.0, 1), (3600.0, slow[step % len(slow)]))]
    log = read(tmp_path / "a.log", lines)
    assert log.steps == tuple(range(1, STEPS))
    assert {one.slowest for one in log.extremes[4]} <= {str(rank) for rank in (*slow, 3)}
    said = whole_steps(log)
    assert any(says in line for line in said)
    assert any("traced operations takes 1.200 times" in line for line in said)
    assert any("get_batch takes 2.428 times" in line for line in said)


def test_lines_of_log_straggler_alone_are_a_log(tmp_path: Path) -> None:
    log = read(tmp_path / "a.log", [straggler((3453.08, 8), (3468.20, 0)) for _ in range(STEPS)])
    assert log.steps == tuple(range(STEPS))
    assert log.own_s[:, 0].tolist() == pytest.approx([3.4682] * STEPS)
    assert any("lines of iterations" in remark for remark in log.remarks)


TIMERS = re.compile(
    r"elapsed time per iteration \(ms\): ([\d.]+) (?:(?!elapsed time per).)*?\ntime \(ms\) \|([^\n]*)", re.DOTALL
)


@pytest.mark.parametrize("name", ["meg_gpt2_perf_n16.out", "meg_ds_zero_gpt2_perf_n16.out"])
def test_published_timers_are_what_a_regular_expression_finds(name: str) -> None:
    found = TIMERS.findall((PUBLIC / name).read_text())
    log = read_log(PUBLIC / name)
    assert len(found) == len(log.steps) == 3
    for place, (elapsed, timers) in enumerate(found):
        some = re.findall(r"([\w/ -]+): ([\d.]+)", timers)
        assert len(some) > 4
        for timer, milliseconds in some:
            frac = float(log.part_fracs[timer.strip()][place, 0])
            assert frac == pytest.approx(float(milliseconds) / float(elapsed), abs=1e-8), (place, timer)


MEASURED = {
    "14970.5 854.7 836.3 871.1 874.6 871.8 872.7 872.8 1148.7 1080.9 1081.0 1079.8 1084.5 1081.6 1081.6": (874, 1082),
    "19367.4 16922.8 1296.5 1054.1 753.9 756.8 756.2 989.1 1435.3 1815.6 1811.4 1877 1808.1 1815.6 1813.3": (755, 1813),
    "25400.4 10667.8 719.9 755.9 755.3 758.6 754.1 1410.7 1649.3 1654.9 1784 1641.7 1725.8 1648.9 1652.3": (755, 1651),
}
"""Of 1F1B with 10 ms, ZB with 30 and ZB-CPU with 60: milliseconds of 15 iterations, and their medians before and with a
delay of link 6-7 from iteration 9 on or so: PipeMorph, NSDI'26, experiments/increasing-delay, 14B,
github.com/wutianyuan1/PipeMorph."""


@pytest.mark.parametrize("milliseconds", MEASURED)
def test_iterations_before_and_with_a_delay_are_told_apart(milliseconds: str, tmp_path: Path) -> None:
    before, delayed = MEASURED[milliseconds]
    lines = [iteration(step, float(each)) for step, each in enumerate(milliseconds.split(), 1)]
    said = whole_steps(without_first(read(tmp_path / "a.log", lines), 1))
    (change,) = (line for line in said if line.startswith("from step"))
    text = r"from step (\d+) to 15 the median step takes ([\d.]+) s, ([\d.]+) times .* \(([\d.]+) s from"
    found = re.match(text, change)
    assert found
    assert int(found[1]) in (8, 9)
    assert float(found[2]) == pytest.approx(delayed / 1e3, rel=0.01)
    assert float(found[4]) == pytest.approx(before / 1e3, rel=0.01)
    assert float(found[3]) == pytest.approx(delayed / before, rel=0.02)


PIPEMORPH = os.environ.get("STRAGGLAB_PIPEMORPH")
"""A copy of PipeMorph's repository; its licence is not stated, so it is not kept here."""
CHANGE = re.compile(r"from step (\d+) to \d+ the median step takes ([\d.]+) s")


@pytest.mark.skipif(PIPEMORPH is None, reason="STRAGGLAB_PIPEMORPH names no copy of PipeMorph's repository")
def test_all_of_pipemorph_s_logs_in_which_a_delay_costs_a_tenth_or_more() -> None:
    """Commit 7ff0dc6: the delay begins with iteration 9 or so of 15. docs/advise.md has these numbers."""
    delayed, found, close = 0, list[list[int]](), 0
    for path in sorted(Path(PIPEMORPH or ".").rglob("log.txt")):
        times = [float(one) for one in re.findall(r"elapsed time per iteration \(ms\): ([\d.]+)", path.read_text())]
        if len(times) != 15 or (last_ms := median(times[-3:])) < 1.1 * median(times[3:7]):
            continue
        delayed += 1
        if changes := CHANGE.findall("\n".join(whole_steps(without_first(read_log(path), 1)))):
            found.append([int(step) for step, _ in changes])
            close += float(changes[-1][1]) * 1e3 == pytest.approx(last_ms, rel=0.05)
    assert (delayed, len(found), close) == (112, 108, 95)
    assert all(8 <= steps[0] <= 11 for steps in found)
    assert sorted(map(len, found)) == [1] * 104 + [2] * 4
