"""Tables of operators against the results that their publishers computed, and against graphs worked by hand."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.logs.step_log import LogError
from runtime.hybrid import operators
from runtime.hybrid.operators import Operator, arrange, job_of
from runtime.hybrid.what_if import WhatIf
from stragglab.commands import advise
from stragglab.tables import hybrid_cures
from stragglab.tables import what_if as what_if_tables
from stragglab.tables.what_if import lines, read_job

HERE = Path(__file__).parent / "bytedance"
PUBLISHED = json.loads((HERE / "published.json").read_text())
WHOLE = os.environ.get("STRAGGLAB_BYTEDANCE")
"""A folder with trace-AR.parquet and trace-SE.parquet as they were published."""
whole = pytest.mark.skipif(WHOLE is None, reason="STRAGGLAB_BYTEDANCE names no folder with the whole traces")


def of_kind(published):
    """Published names of kinds, as ours."""
    return {name.replace("-pp-comm", "-messages"): value for name, value in published.items()}


def assert_published(found, published, rel):
    assert found.slowdown == pytest.approx(published["slowdown"], rel=rel)
    assert found.ideal_s == pytest.approx(published["ideal_s"], rel=1e-6)
    for name in ("by_replica", "by_stage"):
        expected = {int(one): value for one, value in published[name].items()}
        assert getattr(found, name) == pytest.approx(expected, rel=rel)
    assert found.by_kind == pytest.approx(of_kind(published["by_kind"]), rel=rel)


def test_a_job_with_a_long_stage_is_as_its_publishers_found():
    """ST: S = 1.1787; stage 3 alone makes steps 1.23 times as long."""
    table, found = read_job(HERE / "ST.parquet")
    assert_published(found, PUBLISHED["ST"], 1e-5)
    step_s = dict(zip(map(str, table.steps), found.job.step_s(found.job.measured_s), strict=True))
    assert step_s == pytest.approx(PUBLISHED["ST"]["step_s"], rel=1e-5)


def test_the_slow_worker_is_found_in_two_steps():
    """AR: replica 0, stage 0 is slow; of two of 44 steps, so ideal durations are others than the published ones."""
    _, found = read_job(HERE / "AR-2-steps.parquet")
    assert next(iter(found.by_worker)) == (0, 0)
    assert found.slowest == [(0, 0)]
    assert found.computing[0, 0] == pytest.approx(2.355, abs=0.02)
    assert max(value for worker, value in found.computing.items() if worker != (0, 0)) < 1.06
    assert found.slowdown == pytest.approx(PUBLISHED["AR"]["slowdown"], rel=0.02)
    assert found.cured_by_slowest == pytest.approx(1.0, abs=0.02)


@whole
def test_a_job_with_a_slow_worker_is_as_its_publishers_found():
    table, found = read_job(Path(WHOLE or ".", "trace-AR.parquet"))
    assert len(table.operators) * len(table.steps) == 117_216
    assert_published(found, PUBLISHED["AR"], 5e-4)
    assert next(iter(found.by_worker)) == (0, 0)
    assert found.computing[0, 0] == pytest.approx(2.355, abs=5e-4)
    assert found.cured_by_slowest == pytest.approx(PUBLISHED["AR"]["cured_by_slowest"], abs=1e-5)


@whole
def test_a_job_with_unequal_sequences_is_as_its_publishers_found():
    _, found = read_job(Path(WHOLE or ".", "trace-SE.parquet"))
    assert found.slowdown == pytest.approx(1.5374, rel=5e-4)
    assert found.ideal_s == pytest.approx(5.8975, rel=1e-5)
    assert found.cured_by_slowest < 0.1  # no few workers are to blame


def rows(*, slow_s=1.0, send_s=0.5, wait_s=0.0, replicas=2):
    """Two stages, one micro-batch: F 1 s and B 2 s on each, and messages between; ``slow_s``: F of replica 1, stage 0.

    Ranks begin at other times (``wait_s``), which their messages' durations contain.
    """
    found = []
    for replica in range(replicas):
        first_s = slow_s if replica else 1.0
        at_s = first_s + wait_s
        found += [
            (replica, 0, "forward-compute", 0.0, first_s),
            (replica, 0, "forward-send", first_s, wait_s + send_s),
            (replica, 1, "forward-recv", at_s, send_s),
            (replica, 1, "forward-compute", at_s + send_s, 1.0),
            (replica, 1, "backward-compute", at_s + send_s + 1.0, 2.0),
            (replica, 1, "backward-send", at_s + send_s + 3.0, send_s),
            (replica, 0, "backward-recv", first_s, at_s - first_s + 2 * send_s + 3.0),
            (replica, 0, "backward-compute", at_s + 2 * send_s + 3.0, 2.0),
        ]
    frame = pd.DataFrame(found, columns=["dp_rank", "stage", "optype", "start_ts", "duration"])
    return frame.assign(step=7, seq_id=0)


def arranged(frame):
    names = ("dp_rank", "stage", "step", "optype", "seq_id", "start_ts", "duration")
    return arrange(*(frame[name].to_numpy() for name in names))


def what_if(frame):
    return WhatIf(job_of(arranged(frame)))


def test_a_step_is_its_longest_path_and_waiting_for_the_other_end_is_no_part_of_a_transfer():
    # by hand: F 1, message 0.5, F 1 and B 2, message 0.5, B 2
    found = what_if(rows())
    assert found.whole_s == found.ideal_s == 7.0
    assert found.slowdown == 1.0
    assert found.cured_by_slowest == 0.0
    found = what_if(rows(wait_s=3.0))
    assert found.whole_s == 7.0
    sent = found.job.operators.index(Operator(0, 0, "forward-send", 0))
    assert found.job.measured_s[sent].tolist() == [0.5]
    frame = rows()
    wrong = (frame["optype"] == "forward-recv") & (frame["dp_rank"] == 0)
    frame.loc[wrong, "start_ts"] += 2.0  # by a clock that is 2 s ahead: it ends before it began
    assert what_if(frame).job.measured_s[sent].tolist() == [0.0]


def test_a_slow_pass_costs_its_replica_what_it_takes_longer():
    # replica 1's forward pass on stage 0 takes 5 s; the mean of the four is 2 s. By hand: all ideal 9 s; as measured
    # 11 s in replica 1 and 7 s in replica 0
    found = what_if(rows(slow_s=5.0))
    assert found.ideal_s == pytest.approx(9.0)
    assert found.whole_s == pytest.approx(11.0)
    assert found.by_replica == pytest.approx({1: 11.0 / 9.0, 0: 1.0})
    assert next(iter(found.by_worker)) == (1, 0)
    # stage 1 alone: its forward passes of 1 s, shorter than the ideal 2 s, make steps of 8 s
    assert found.by_worker == pytest.approx({(1, 0): 11.0 / 9.0, (0, 0): 1.0, (1, 1): 8.0 / 9.0, (0, 1): 8.0 / 9.0})
    assert found.computing[1, 0] == pytest.approx(7.0 / 3.0)


def test_steps_that_lack_operators_or_have_them_in_another_order_are_left_out():
    frame = pd.concat([rows(), rows().iloc[1:].assign(step=8), rows().assign(step=9)])
    table = arranged(frame)
    assert (table.steps, table.left_out) == ([7, 9], 1)
    other = rows().assign(step=10)
    other.loc[(other["stage"] == 1) & (other["optype"] == "backward-compute"), "start_ts"] = 0.1
    table = arranged(pd.concat([rows(), other]))
    assert (table.steps, table.left_out) == ([7], 1)
    table = arranged(pd.concat([other.assign(step=6), rows(), rows().assign(step=8)]))
    assert (table.steps, table.left_out) == ([7, 8], 1), "the order of most steps is the usual one"


def said(path, capsys, tmp_path):
    code = advise.main([str(path), "-o", str(tmp_path / "out")])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_advise_says_what_stragglers_cost_and_which_they_are(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(hybrid_cures, "MOST_PLANNED", 100)
    code, out, _ = said(HERE / "AR-2-steps.parquet", capsys, tmp_path)
    assert code == 0
    assert "4 replicas of 4 stages, 2 steps, 5,328 operations" in out
    assert "cures are not computed" in out
    assert "first suspect: replica 0, stage 0; its forward and backward passes take 2.3" in out
    table = pd.read_csv(tmp_path / "out" / "slow_workers.csv")
    assert table.iloc[0][["replica", "stage"]].tolist() == [0, 0]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"slow_{name}.csv" for name in ("kinds", "replicas", "stages", "workers")
    ]


def test_a_job_without_a_slow_worker_has_no_suspect(tmp_path):
    """All ranks take equally long, or one whole stage is long; of tables as text."""
    rows().to_csv(tmp_path / "a.csv", index=False)
    pd.read_parquet(HERE / "ST.parquet").to_csv(tmp_path / "b.csv", index=False)
    for path in (tmp_path / "a.csv", tmp_path / "b.csv"):
        table, found = read_job(path)
        said = lines(table, found)
        assert not any("first suspect" in line for line in said)
        assert "no worker is a suspect: the slowest ones cost less than half of the lost time" in said
    assert found.slowdown == pytest.approx(PUBLISHED["ST"]["slowdown"], rel=1e-5)
    assert "2 replicas of 4 stages, 32 steps, 6,784 operations" in said[0]


def test_a_table_of_very_many_replicas_or_operators_and_two_tables_are_refused(tmp_path, monkeypatch, capsys):
    path = str(HERE / "ST.parquet")
    assert advise.main([path, path, "-o", str(tmp_path / "out")]) == 2
    assert "one table of operators is read at a time" in capsys.readouterr().err
    rows(replicas=20).to_csv(tmp_path / "a.csv", index=False)
    monkeypatch.setattr(what_if_tables, "MOST_VISITS", 4_000)
    with pytest.raises(LogError, match="has 28 replicas, stages and kinds with 160 operators in a step"):
        read_job(tmp_path / "a.csv")
    monkeypatch.setattr(operators, "MOST_OPERATORS", 15)
    with pytest.raises(ValueError, match=r"^steps have 16 operators, and no more than 15 are read; give fewer ranks$"):
        what_if(rows())


def changed(name, row, value):
    frame = rows()
    frame[name] = frame[name].astype(object)
    frame.loc[row, name] = value
    return frame


TWICE = "step 7: has forward-compute 0 of replica 0, stage 0 twice; give each once"
NO_SENDS = "has no optype forward-send, so that nothing is known of what stages wait for"
REFUSED = {
    "row 4, column duration, nan: must be a finite number": lambda: changed("duration", 3, np.nan),
    "row 4, column duration, -1: must be 0 or more": lambda: changed("duration", 3, -1.0),
    "row 4, column duration, 1e+308: must be 0 or more, and at most 1e+09": lambda: changed("duration", 3, 1e308),
    "all operations take 0 s; give their seconds in the column duration": lambda: rows().assign(duration=0.0),
    "row 1, column step, 0.5: must be a whole number": lambda: changed("step", 0, 0.5),
    "optype nap: is unknown; known are params-all-gather, forward-compute": lambda: changed("optype", 3, "nap"),
    TWICE: lambda: pd.concat([rows(), rows()[:1]]),
    "has no rows": lambda: rows()[:0],
    NO_SENDS: lambda: rows()[rows()["optype"].str.endswith("compute")],
    "no step has all operators": lambda: pd.concat([rows().iloc[1:], rows().iloc[:1].assign(step=8)]),
    "has 160 rows of 160 operators in 20 steps; give whole steps": lambda: pd.concat(
        [rows(replicas=1).assign(step=step, dp_rank=step) for step in range(20)]
    ),
    "column mc: stages have several chunks of layers; only tables with one are read": lambda: rows().assign(mc=1),
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_table_that_cannot_be_used_is_refused_in_one_line(words, capsys, tmp_path):
    path = tmp_path / "operators.csv"
    REFUSED[words]().to_csv(path, index=False)
    code, out, err = said(path, capsys, tmp_path)
    assert (code, out) == (2, "")
    assert f"operators.csv: {words}" in err
    assert err.count("\n") == 1
