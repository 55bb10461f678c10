"""Runs whose nodes change: frames, measures, shapes, figure and table of decisions of a small record made by hand."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import Any

import pandas as pd
import pytest

from analysis.claims.ledger import Claim
from analysis.claims.shapes import SHAPES
from analysis.experiments.elastic_measures import ELASTIC_MEASURES, last_window
from analysis.figures.elastic import ranges
from analysis.measures import elastic
from analysis.records.load import Run, load_run
from analysis.reports.elastic import decision_files
from analysis.reports.report import finish_run
from tests.support.records import Story, apply, bsp_story

PLAN = "60 s optimise servers, plan: Resize role server, count 2, cores 16 (workers 2, update_cores 5.6)"
MORE = "100 s adjust, idle servers: AddWorkers count 1, cores 3 (util 0.7)"
WAITS = "130 s adjust, hot server: stays, servers may change again in 20 s (server:1 used 15.3)"
END_S = 200


def story() -> Story:
    """One worker and one server of 8 and 16 cores; at 80 s two other servers, from 110 s on a second worker.

    A step per second while there is one worker, two with the other; none from 80 to 84 s.
    """
    made = Story("dlrover", runtime="virtual", num_workers=1, num_servers=1, global_batch_samples=8)
    lines: list[tuple[float, str, dict[str, Any]]] = [
        (0.0, "LayoutChanged", {"version": 0, "nodes": ["server:0", "worker:0"], "shares": {"server:0": 1.0}}),
        (0.0, "Allocated", {"node": "server:0", "cpu_cores": 16, "link_bytes_per_s": None}),
        (0.0, "Allocated", {"node": "worker:0", "cpu_cores": 8, "link_bytes_per_s": None}),
        (60.0, "decision", {"text": PLAN}),
        *[(60.0, "Requested", {"node": f"server:{n}", "cpu_cores": 16}) for n in (1, 2)],
        (60.0, "LayoutChanged", _layout(1, ["server:0", "server:1", "server:2", "worker:0"], [0])),
        *[(80.0, "ServerJoined", {"server": n, "incarnation": 0}) for n in (1, 2)],
        (80.0, "Repartitioning", {"shares": {"server:1": 0.5, "server:2": 0.5}}),
        (84.0, "Restored", {"workers": [0], "servers": [1, 2]}),
        (84.0, "LayoutChanged", _layout(2, ["server:1", "server:2", "worker:0"], [1, 2])),
        (84.0, "decision", {"text": f"{PLAN} (done)"}),
        (100.0, "decision", {"text": MORE}),
        (100.0, "Requested", {"node": "worker:1", "cpu_cores": 3}),
        (100.0, "LayoutChanged", _layout(3, ["server:1", "server:2", "worker:0", "worker:1"], [1, 2])),
        (110.0, "Joined", {"worker": 1, "incarnation": 0}),
        (120.0, "decision", {"text": f"{MORE} (denied)"}),
        (130.0, "decision", {"text": WAITS}),
    ]
    for second in range(1, END_S):
        workers = [0] if second < 110 else [0, 1]
        lines += [(second + 0.01 * worker, "Arrived", {"worker": worker}) for worker in workers if not 80 < second < 85]
        if second % 10 == 0:
            lines.append((second + 0.5, "Observed", {"servers": [0] if second < 84 else [1, 2], "workers": workers}))
    made.started()
    for t, kind, fields in sorted(lines, key=lambda line: line[0]):
        _tell(made, t, kind, fields)
    made.finished(float(END_S))
    return made


def _layout(version: int, nodes: list[str], holders: list[int]) -> dict[str, Any]:
    return {"version": version, "nodes": nodes, "shares": {f"server:{n}": 1 / len(holders) for n in holders}}


def _tell(made: Story, t: float, kind: str, fields: dict[str, Any]) -> None:
    if kind == "decision":
        made.event(t, "Woke", tag="decide")
        made.lines[-1]["state"] = {"workers": 1, "decision": fields["text"]}
    elif kind == "Arrived":
        grad = len(made.lines)
        made.arrived(t, fields["worker"], grad, [apply(grad)], compute_s=0.5)
    elif kind == "Observed":
        limit = {"limit_cores": 16.0, "busy_frac": 0.9}
        nodes = [{"node": f"server:{n}", "cpu_cores": 4.0 + 4.0 * n, **limit} for n in fields["servers"]]
        nodes += [{"node": f"worker:{n}", "cpu_cores": 2.0 + n} for n in fields["workers"]]
        made.event(t, kind, period_s=10.0, nodes=nodes)
    elif kind == "Restored":
        made.event(t, kind, line_version=made.version, version=made.version, **fields)
    elif kind in ("ServerJoined", "Joined"):
        made.event(t, kind, **fields)
    else:
        made.note(t, kind, **fields)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return load_run(story().write(tmp_path_factory.mktemp("elastic") / "run"))


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose nodes stay."""
    return load_run(bsp_story().write(tmp_path_factory.mktemp("still") / "run"))


def test_nodes_count_when_they_are_there_and_servers_when_they_hold_parameters(run: Run) -> None:
    frame = elastic.nodes_over_time(run)
    assert frame.to_numpy().tolist() == [
        [0.0, 1.0, 1.0, 24.0],
        [80.0, 1.0, 1.0, 56.0],
        [84.0, 1.0, 2.0, 40.0],
        [110.0, 2.0, 2.0, 43.0],
    ]
    assert elastic.switches(run).to_numpy().tolist() == [[80.0, 4.0, 5.0]], "from the last update to the first after"


def test_a_decision_is_one_row_with_how_it_ended(run: Run) -> None:
    frame = elastic.decisions(run)
    assert frame["number"].tolist() == [1, 2, 0]
    assert frame["t"].tolist() == [60.0, 100.0, 130.0]
    assert frame["stage"].tolist() == ["optimise servers", "adjust", "adjust"]
    assert frame["rule"].tolist() == ["plan", "idle servers", "hot server"]
    assert frame["what"].iloc[1:].tolist() == ["AddWorkers count 1, cores 3", "stays, servers may change again in 20 s"]
    assert frame["outcome"].tolist() == ["done", "denied", ""]
    assert frame["numbers"].iloc[0] == "workers 2, update_cores 5.6"


def test_measures(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {name: measure(run) for name, measure in ELASTIC_MEASURES.items()}
    begin, end = last_window(run)
    assert (end - begin, end) == (60.0, pytest.approx(END_S - 1 + 0.01 - 30.0))
    expected = {
        **{"steps_per_s_first": 1.0, "steps_per_s_last": 2.0, "steps_per_s_settled": 2.0, "speed_up_frac": 1.0},
        **{"workers_last": 2.0, "servers_last": 2.0, "cores_last": 43.0, "worker_cores_last": 5.5},
        **{"server_cores_most": 16.0, "worker_use_last": 2.5, "server_use_last": 20.0, "server_spread_last": 0.25},
        **{"changed_s_last": 110.0, "switches": 1.0, "stall_s_most": 5.0, "stall_s_sum": 5.0},
    }
    assert found == {name: pytest.approx(value, rel=0.02) for name, value in expected.items()}
    # In its last half minute a job idles: that is not a part of what it used in the minute before.
    nodes = run.tables.nodes
    idle = nodes.assign(cpu_cores=nodes["cpu_cores"].where(nodes["t"] <= end, 0.0))
    monkeypatch.setitem(vars(run), "tables", replace(run.tables, nodes=idle))
    assert [ELASTIC_MEASURES[f"{role}_use_last"](run) for role in ("worker", "server")] == [2.5, 20.0]


def test_measures_of_a_run_that_stays(still: Run) -> None:
    found = {name: measure(still) for name, measure in ELASTIC_MEASURES.items()}
    assert (found["switches"], found["stall_s_sum"], found["workers_last"]) == (0.0, 0.0, still.job["num_workers"])
    assert found["steps_per_s_first"] == pytest.approx(found["steps_per_s_last"])
    assert found["changed_s_last"] == 0.0
    assert not elastic.is_elastic(still)
    assert elastic.nodes_over_time(still)["cores"].isna().all(), "nodes were given none"
    assert all(isnan(found[name]) for name in ("worker_cores_last", "server_use_last", "server_spread_last"))
    finish_run(still.path)
    assert decision_files(still) == {}
    assert not (still.path / "figures" / "elastic.png").exists()
    assert not (still.path / "decisions.md").exists()


@pytest.mark.long(like="test_measures_of_a_run_that_stays")
def test_the_report_has_the_decisions_and_the_figure(run: Run) -> None:
    finish_run(run.path)
    table = pd.read_csv(run.path / "decisions.csv")
    assert table["number"].tolist() == [1, 2, 0]
    text = (run.path / "decisions.md").read_text().splitlines()
    assert text[3] == "| 2 | 100.0 | adjust | idle servers | AddWorkers count 1, cores 3 | denied | util 0.7 |"
    shown = pd.read_csv(run.path / "figures" / "elastic.csv")
    assert set(shown["panel"]) == {"nodes", "cores", "steps", "use", "stall"}
    assert ranges([4, 0, 1, 6, 5, 9]) == "0, 1, 4\N{EN DASH}6, 9"
    nodes = shown[(shown["panel"] == "nodes") & (shown["series"] == "workers")]
    assert nodes[["t", "value"]].to_numpy().tolist()[-1] == [float(END_S), 2.0]


def claim(shape: str, **given: Any) -> Claim:
    return Claim(id="x.y", where="I", check="number", shape=shape, **given)


def test_the_knee_is_where_more_cores_stop_to_help() -> None:
    rates = {"1": 1.0, "2": 2.0, "8": 7.9, "16": 8.0, "32": 8.0}
    runs = pd.DataFrame([{"model": "wd", "cores": cores, "rate": rate, "seed": 0} for cores, rate in rates.items()])
    asked = claim("knee_of_cores", of="rate", subject={"model": "wd"}, value=8.0)
    found = SHAPES["knee_of_cores"](runs, asked)
    assert found == (True, "no gain beyond 8 cores")
    rising = runs.assign(rate=runs["cores"].astype("float64"))
    assert SHAPES["knee_of_cores"](rising, asked) == (False, "no gain beyond 32 cores")
    assert SHAPES["knee_of_cores"](runs[runs["model"] == "xdfm"], asked) is None


def test_a_gain_must_grow_with_every_step_of_the_size_at_every_rate() -> None:
    shares = {("200", "4"): (0.9, 1.0), ("200", "16"): (0.8, 1.0), ("50", "4"): (1.0, 1.0), ("50", "16"): (0.5, 0.9)}
    rows = [
        {"lifetime": lifetime, "pods": pods, "system": system, "share": share, "seed": 0}
        for (lifetime, pods), both in shares.items()
        for system, share in zip(("plain", "kept"), both, strict=True)
    ]
    runs = pd.DataFrame(rows)
    asked = claim("gain_grows", of="share", subject={"system": "kept"}, against=[{"system": "plain"}])
    assert SHAPES["gain_grows"](runs, asked) == (True, "+0.0%, +40.0%; +10.0%, +20.0%")
    level = runs.assign(share=runs["share"].where(runs["pods"] == "4", 0.9))
    assert SHAPES["gain_grows"](level, asked) == (False, "+0.0%, +0.0%; +10.0%, +0.0%")
    assert SHAPES["gain_grows"](runs[runs["system"] == "kept"], asked) is None


def test_the_plan_must_be_that_of_table_2_for_both_models() -> None:
    rows = [("wd", 24.0, 3.0, 8.0), ("xdfm", 8.0, 20.0, 2.0)]
    runs = pd.DataFrame(rows, columns=["model", "workers_last", "worker_cores_last", "servers_last"])
    asked = claim("plan_of_table_2", of="workers_last")
    found = SHAPES["plan_of_table_2"](runs, asked)
    assert found.holds
    other = SHAPES["plan_of_table_2"](runs.assign(workers_last=[24.0, 9.0]), asked)
    assert other == (False, "wd 24 x 3 cores and 8 servers; xdfm 9 x 20 cores and 2 servers")
    assert SHAPES["plan_of_table_2"](runs.iloc[:1], asked) is None
