"""Every field of ``summary.json`` on one record whose numbers are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.measures.metrics import summarise
from analysis.records.load import load_run
from tests.support.records import Story, apply, compute, disturbance, drop

PLAN = (disturbance(1.0, 3.0, "worker:1", 0.5), disturbance(0.0, 10.0, "server:0", 0.1))


def story() -> Story:
    """Two workers for six seconds: one gradient stale, one dropped, one left over, one iteration delayed by 0.5 s."""
    job = {"num_workers": 2, "num_samples": 32, "global_batch_samples": 16, "max_time_s": 6.0, "target": 0.5}
    received = Story("asp", plan=PLAN, convergence={"evaluations": 2, "max_change": 0.25}, **job)
    own: dict[str, Any] = {"pull_s": 0.1, "data_s": 0.1, "send_s": 0.1, "injected_s": 0.0, "overrun_s": 0.0}
    received.started()
    received.lines[-1]["commands"] = [compute(0), compute(1)]
    received.evaluated(0.0, 0.1, t=0.25)
    received.arrived(1.0, 0, 0, [apply(0), compute(0)], **own | {"wait_s": 0.1, "compute_s": 0.6, "stage_s": 0.012})
    received.arrived(
        1.5, 1, 1, [apply(1), compute(1)], version=0, **own | {"wait_s": 0.2, "data_s": 0.2, "compute_s": 0.9}
    )
    late = own | {"wait_s": 0.0, "compute_s": 0.7, "overrun_s": 0.05}
    received.arrived(2.0, 0, 2, [drop(2), compute(0)], version=1, iteration=1, **late)
    received.evaluated(2.0, 0.3, t=2.25)
    received.note(2.5, "Updated", server=0, version=2, updates=2, busy_s=0.4, injected_s=0.2)
    received.arrived(3.0, 0, 3, [apply(3), compute(0)], iteration=2, **own | {"wait_s": 0.1, "compute_s": 0.6})
    delayed = own | {"wait_s": 0.0, "compute_s": 1.4, "injected_s": 0.5}
    received.arrived(3.2, 1, 4, [], version=2, iteration=1, **delayed)
    received.evaluated(4.0, 0.7, t=4.2)
    received.event(4.5, "Lost", worker=1, incarnation=0, reason="killed", restarting=True)
    received.event(5.0, "Joined", worker=1, incarnation=1)
    received.event(5.0, "Failed", worker=0, reason="out of luck", retryable=True)
    received.evaluated(5.5, 0.6)
    received.finished(6.0, epochs_done=0, samples_applied=24, shards_done=3, shards_total=8)
    return received


def quantiles(median: float, p90: float, p99: float) -> dict[str, float]:
    return {"median": median, "p90": p90, "p99": p99}


EXPECTED: dict[str, Any] = {
    **{"runtime": "live", "calibration": None, "seed": 0, "strategy": "asp", "strategy_fields": {}},
    **{"straggler": "transient", "workload": "digits", "backend": "torch", "topology": "ps"},
    **{"num_workers": 2, "num_servers": 1},
    # ---- its end, and when what was reached
    **{"status": "done", "reason": "", "warning": None, "warnings": [], "completed": False, "jct_s": 6.0},
    **{"metric": "accuracy", "higher_is_better": True, "target": 0.5, "tta_s": 4.0, "tta_missed": False},
    **{"tta_step_s": 2.0, "tta_interp_s": 3.0, "converged_s": 2.0, "final_metric": 0.6, "best_metric": 0.7},
    "evaluations": 4,
    # ---- gradients
    **{"updates": 3, "updates_void": 0, "dropped_frac": 1 / 5, "epochs_done": 0, "mean_uses_per_sample": 24 / 32},
    "grads": {"applied": 3, "dropped": 1, "void": 0, "open": 1, "empty": 0},
    "samples": {"applied": 24, "dropped": 8, "void": 0, "open": 8},
    **{"computed_per_applied": 40 / 24, "staleness_mean": 1 / 3, "staleness_max": 1, "staleness": {"0": 2, "1": 1}},
    # ---- workers: 0.7, 0.8 and 0.7 s of worker 0, 1.1 and 1.5 s of worker 1
    "iterations": 5,
    "bpt_s": quantiles(0.8, 1.34, 1.484),
    "bpt_by_worker_s": {"0": quantiles(0.7, 0.78, 0.798), "1": quantiles(1.3, 1.46, 1.496)},
    "server_bpt_s": quantiles(0.2, 0.2, 0.2),
    "time_spent_s": {"wait_s": 0.4, "pull_s": 0.5, "data_s": 0.6, "compute_s": 3.7, "send_s": 0.5, "injected_s": 0.5},
    "wait_frac": 0.4 / 6.2,
    "use_by_worker_frac": {"0": 2.8 / 3.0, "1": 3.0 / 3.2},
    **{"straggler_iterations": 2, "iterations_with_straggler_frac": 1.0},
    "delay_frac": (1.2 + 1.6 - 1.0 - 1.25) / (1.0 + 1.25),
    "waste_frac": (1.2 + 1.6 - 1.0 - 1.25) / (1.2 + 1.6),
    # ---- injections
    "injected_planned_s": 0.5 + 3 * 0.1,
    **{"injected_achieved_s": 0.5 + 0.2, "injected_measured_s": 0.5 + 0.2},
    "disturbances": [
        {**PLAN[0], "hits": 1, "planned_s": 0.5, "achieved_s": 0.5, "first_effect_s": 1.5},
        {**PLAN[1], "hits": 3, "planned_s": 0.3, "achieved_s": 0.2, "first_effect_s": 1.0},
    ],
    **{"overruns": 1, "overrun_total_s": 0.05, "overrun_max_s": 0.05, "staged_s": 0.012},
    # ---- decisions and accidents; the 99th percentile of 13 decisions, of which one takes 100 times as long
    **{"decide_p50_us": 10.0, "decide_p99_us": 10.0 + 0.88 * 990.0, "decide_frac": (12 + 100) * 1e-5 / 6.0},
    **{"workers_lost": 1, "workers_joined": 1, "failures": 1, "servers_lost": 0, "rollbacks": 0, "torn": False},
    "integrity": {"ok": True, "problems": [], "unchecked": []},
}


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Leaves by their paths."""
    if isinstance(value, dict | list) and value:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return {key: leaf for name, one in pairs for key, leaf in flat(one, f"{path}.{name}").items()}
    return {path: value}


def test_every_field_of_the_summary(tmp_path: Path) -> None:
    received = story()
    received.lines[5]["decide_us"] = 1000.0
    summary = summarise(load_run(received.write(tmp_path / "run")))
    about = {key: received.meta[key] for key in ("run_id", "plan_sha256")}
    found, expected = flat(summary), flat(EXPECTED | about)
    assert found.keys() == expected.keys()
    wrong = {
        path: (found[path], value)
        for path, value in expected.items()
        if found[path] != (pytest.approx(value) if isinstance(value, float) else value)
    }
    assert wrong == {}
