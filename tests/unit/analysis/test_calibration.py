"""Known costs go into generated records, with noise and outliers; the fit gets them back, and says how well."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from analysis.fitting.calibration import calibrate
from analysis.fitting.estimates import Calibration
from analysis.fitting.pacing import paced_s
from analysis.fitting.ring_costs import updates_of
from analysis.fitting.staleness import MOST_PHI, fit_staleness, squared
from analysis.records.load import RecordError, Run, load_run
from runtime.virtual.costs import Costs, load_costs
from stragglab.commands import calibrate as script
from tests.support.as_live import PARAMETERS, run_as_live, set_as_live
from tests.support.live_records import Live
from tests.support.records import Story, disturbance

DEVICE = {"base_s": 0.02, "per_sample_s": 0.00125}
COSTS = Costs(
    **{"compute_base_s": 4e-3, "compute_per_sample_s": 3e-4, "jitter_sigma": 0.08, "jitter_rho": 0.4},
    **{"sleep_overshoot_s": 1.2e-4, "data_base_s": 1e-4, "data_per_sample_s": 5e-6, "control_s": 3e-4},
    **{"decision_s": 5e-5, "latency_s": 2e-4, "transfer_per_byte_s": 2e-9},
    **{"update_base_s": 6e-5, "update_per_byte_s": 4e-10},
)
PACED = msgspec.structs.replace(COSTS, jitter_sigma=0.002)


def fit(*runs: Run) -> Calibration:
    return calibrate(runs, [run.job["num_parameters"] for run in runs])


def unpaced_runs(path: Path, seed: int = 0, costs: Costs = COSTS, **given: Any) -> list[Run]:
    """Three batch sizes, two numbers of workers, both strategies, two model sizes."""
    shapes = [("bsp", 16, 4, 10_000), ("bsp", 64, 4, 10_000), ("asp", 32, 4, 60_000), ("asp", 64, 2, 60_000)]
    return [
        Live(costs, rule, seed=seed, batch=batch, num_workers=workers, num_parameters=size, **given).write(
            path / f"{number}" / rule
        )
        for number, (rule, batch, workers, size) in enumerate(shapes)
    ]


def paced_runs(path: Path, seed: int = 0, **given: Any) -> list[Run]:
    """The same, on devices of a given speed and with one model size."""
    shapes = [("bsp", 16, 4), ("bsp", 64, 4), ("asp", 32, 4)]
    return [
        Live(PACED, rule, seed=seed, batch=batch, num_workers=workers, device=DEVICE, **given).write(
            path / f"{number}" / rule
        )
        for number, (rule, batch, workers) in enumerate(shapes)
    ]


def errors_away(fitted: Calibration, truth: dict[str, float]) -> dict[str, float]:
    """By how many of its standard errors each value is off."""
    return {
        name: abs(fitted.estimates[name].value - value) / fitted.estimates[name].error for name, value in truth.items()
    }


def received(costs: Costs, *names: str) -> dict[str, float]:
    return {name: getattr(costs, name) for name in names}


@pytest.fixture(scope="module")
def plain_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Made once; nobody changes them."""
    return unpaced_runs(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def plain_fit(plain_runs: list[Run]) -> Calibration:
    return fit(*plain_runs)


OF_ALL = ["jitter_sigma", "data_base_s", "data_per_sample_s", "control_s", "decision_s"]
OF_ALL += ["update_base_s", "update_per_byte_s"]
UNPACED = ["compute_base_s", "compute_per_sample_s", "jitter_rho", "latency_s", "transfer_per_byte_s"]
UNPACED_TRUTH = received(COSTS, *OF_ALL, *UNPACED, "update_per_byte_s")
PACED_TRUTH = received(PACED, *OF_ALL, "update_per_byte_s", "sleep_overshoot_s")
STAGED = msgspec.structs.replace(COSTS, stage_base_s=3e-4, stage_per_byte_s=8e-9)
LOOSE = {**dict.fromkeys(("decision_s", "update_per_byte_s", "sleep_overshoot_s"), 0.2), "jitter_rho": 0.25}
LOOSE |= {"jitter_sigma": 0.15}
"""Relative tolerances of what is hard to tell: a spread, a correlation, a shortest gap, a sum of few updates."""


def check_recovery(fits: list[Calibration], truth: dict[str, float]) -> None:
    """The typical fit is within the tolerance, and nearly every truth within three standard errors."""
    away = np.array([list(errors_away(fitted, truth).values()) for fitted in fits])
    assert (away < 3).mean() > 0.9, dict(zip(truth, away.T, strict=True))
    for number, (name, value) in enumerate(truth.items()):
        values = [fitted.estimates[name].value for fitted in fits]
        assert np.median(values) == pytest.approx(value, rel=LOOSE.get(name, 0.05)), name
        assert np.median(away[:, number]) < 2.5, name


def test_costs_with_a_device_are_recovered(tmp_path: Path) -> None:
    fits = [fit(*paced_runs(tmp_path / str(seed), seed)) for seed in range(2)]
    check_recovery(fits, PACED_TRUTH)
    for name in ("compute_base_s", "compute_per_sample_s"):
        assert fits[0].missing[name] == "every run is paced by a device"


def test_without_noise_the_fit_is_exact(tmp_path: Path) -> None:
    """And copies to a device are told from computing there."""
    costs = msgspec.structs.replace(STAGED, jitter_sigma=0.0)
    fitted = fit(*unpaced_runs(tmp_path, costs=costs, noise=0.0, outliers=0.0))
    truth = {name: value for name, value in UNPACED_TRUTH.items() if not name.startswith("jitter")}
    for name, value in (truth | received(STAGED, "stage_base_s", "stage_per_byte_s")).items():
        assert fitted.estimates[name].value == pytest.approx(value, rel=1e-3), name
    assert fitted.estimates["jitter_sigma"].value == pytest.approx(0.0, abs=1e-6)


def test_disturbed_runs_tell_the_same(tmp_path: Path) -> None:
    """One worker slept half of the time, one server all the time."""
    plan = [disturbance(0.0, 0.6, "worker:1", 0.05), disturbance(0.8, 9.0, "server:0", 0.01)]
    fitted = fit(*unpaced_runs(tmp_path, plan=plan))
    truth = {name: value for name, value in UNPACED_TRUTH.items() if name != "decision_s"}
    away = errors_away(fitted, truth | {"sleep_overshoot_s": COSTS.sleep_overshoot_s})
    assert sum(each < 3 for each in away.values()) >= len(away) - 1, away


def test_updates_of_a_server_that_was_stopped_now_and_then_are_left_out(tmp_path: Path) -> None:
    """While it is stopped nobody knows what an update takes; the others, and it at other times, tell the same."""
    stops = [disturbance(start_s, start_s + 0.1, "server:0", 1.0, "pause") for start_s in (0.2, 0.6, 1.0)]
    run = Live(COSTS, plan=stops).write(tmp_path / "stopped")
    ends_s = run.tables.server_busy["t"].tolist()
    reports = list(pairwise([0.0, *ends_s]))
    calm = [all(end <= stop["start_s"] or stop["end_s"] <= begin for stop in stops) for begin, end in reports]
    assert 10 < fit(run).estimates["update_base_s"].observations <= sum(calm) < len(calm)


def test_one_batch_and_one_model_size_tell_no_slope(tmp_path: Path) -> None:
    fitted = fit(Live(COSTS, batch=32).write(tmp_path / "a"))
    assert fitted.missing["compute_per_sample_s"] == fitted.missing["data_per_sample_s"] == "one batch size only"
    partial = Live(COSTS, batch=10, rounds=2, seed=1).write(tmp_path / "the end of an epoch")
    both = fit(Live(COSTS, batch=32, rounds=60).write(tmp_path / "b"), partial)
    assert both.missing["data_per_sample_s"] == "one batch size only"
    assert fitted.missing["transfer_per_byte_s"] == "one model size only"
    assert fitted.missing["update_per_byte_s"] == "one size of updates only"
    whole = {
        "compute_base_s": COSTS.compute_base_s + COSTS.compute_per_sample_s * 32,
        "data_base_s": COSTS.data_s(32),
        "latency_s": COSTS.transfer_s(40_000),
        "update_base_s": COSTS.update_s(20_000, 4),
    }
    for name, value in whole.items():
        assert fitted.estimates[name].value == pytest.approx(value, rel=0.15), name
        assert fitted.estimates[name].note.startswith("at one ")


def test_a_device_that_was_missed_says_nothing_of_sleeping(tmp_path: Path) -> None:
    live = Live(PACED, device=DEVICE)
    live.write(tmp_path / "a")
    for line in live.story.lines:
        if line.get("event", {}).get("type") == "Arrived":
            line["event"]["timings"]["overrun_s"] = 0.01
    fitted = fit(load_run(live.story.write(tmp_path / "b")))
    assert {"sleep_overshoot_s", "jitter_sigma"} <= fitted.missing.keys()


def test_what_happens_now_and_then(tmp_path: Path) -> None:
    live = Live(COSTS, noise=0.0, outliers=0.0)
    story = live.story
    for at, back in ((1.0, 1.5), (2.0, 2.7)):
        story.event(at, "Lost", worker=1, incarnation=0, reason="killed", restarting=True)
        story.event(back, "Joined", worker=1, incarnation=1)
    story.evaluated(3.0, 0.5, t=3.25)
    story.evaluated(4.0, 0.5)  # of the final parameters: no time is charged
    story.note(4.0, "Checkpointed", id=0, version=0, seconds=0.02)
    fitted = fit(live.write(tmp_path / "a"))
    assert fitted.estimates["launch_s"].value == pytest.approx(0.6)
    assert fitted.estimates["evaluation_s"].value == pytest.approx(0.25)
    assert fitted.estimates["checkpoint_base_s"].value == pytest.approx(0.02 - 2 * COSTS.control_s, rel=1e-3)
    assert np.isnan(fitted.estimates["evaluation_s"].error)


@pytest.mark.parametrize(
    ("job", "machine", "reason"),
    [
        ([{}, {"runtime": "virtual"}], [], "a virtual run. A cost model is fitted to live runs"),
        ([{"transport": "tcp"}, {"transport": "shm"}], [], "transport is tcp and shm. Fit a model to each"),
        ([{"backend": "torch"}, {"backend": "numpy"}], [], "backend is torch and numpy. Fit a model to each"),
        ([{"task_fields": {"model": "mlp"}}, {"task_fields": {"model": "cnn"}}], [], "task_fields is"),
        ([{}, {"seed": 1}], [{}, {"num_cores": 64}], "different machines"),
        ([{"backend_fields": {"device": "cuda"}}] * 2, [{"gpus": [0]}, {"gpus": [0, 1]}], r"on cuda \[0\] with 4 work"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    tmp_path: Path, job: list[dict[str, Any]], machine: list[dict[str, Any]], reason: str
) -> None:
    runs = [Live(COSTS, rounds=5, **given).write(tmp_path / str(number)) for number, given in enumerate(job)]
    for run, fields in zip(runs, machine, strict=False):
        run.meta["machine"] |= fields
    with pytest.raises(RecordError, match=reason):
        fit(*runs)


def refusal(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    """What it says when it refuses: one line."""
    assert script.main([str(each) for each in argv]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("calibrate: ")
    assert said.err.count("\n") == 1
    return said.err


def test_the_file_is_a_cost_model(
    tmp_path: Path, plain_runs: list[Run], plain_fit: Calibration, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, fitted = plain_runs, plain_fit
    assert fitted.covered == {"batch_samples": (16, 64), "num_workers": (2, 4)}
    assert fitted.missing["sleep_overshoot_s"] == "nothing sleeps: no device, no injected delay"
    away = errors_away(fitted, UNPACED_TRUTH)
    assert sum(each < 3.5 for each in away.values()) >= len(away) - 1, away
    known = {each.name for each in msgspec.structs.fields(Costs)}
    assert fitted.estimates.keys() | fitted.missing.keys() == known
    assert not fitted.estimates.keys() & fitted.missing.keys()
    target = tmp_path / "new" / "mine.yaml"
    assert script.main([str(runs[0].path.parents[1]), "-o", str(target)]) == 0
    model = load_costs(str(target))
    assert model.values.control_s == pytest.approx(fitted.estimates["control_s"].value, rel=1e-3)
    assert model.file.errors["control_s"] == pytest.approx(fitted.estimates["control_s"].error, rel=0.05)
    assert set(model.file.runs) == {run.meta["run_id"] for run in runs}
    assert model.file.machine["cpu"] == "Test CPU"
    assert not model.extrapolates(32, 4)
    assert model.extrapolates(32, 8)
    assert model.extrapolates(128, 4)
    said = capsys.readouterr().out
    assert target.read_text().startswith("# Made from live runs by\n# python run.py calibrate ")
    for text in (said, target.read_text()):
        assert "launch_s: no worker was lost and came back" in text
    for name in UNPACED_TRUTH:
        assert name in said


def test_a_model_is_not_replaced_unasked_and_its_default_name_says_the_transport(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Live(COSTS, transport="shm", rounds=20).write(tmp_path / "run")
    target = tmp_path / "mine.yaml"
    target.write_text("precious")
    assert "exists. Give --force to replace it" in refusal(capsys, tmp_path / "run", "-o", target)
    assert target.read_text() == "precious"
    assert script.main([str(tmp_path / "run"), "-o", str(target), "--force"]) == 0
    assert load_costs(str(target)).values.control_s > 0
    monkeypatch.setattr(script, "FOLDER", tmp_path / "costs")
    assert script.main([str(tmp_path / "run")]) == 0
    assert script.main([str(tmp_path / "run"), "--name", "mine"]) == 0
    assert sorted(path.name for path in (tmp_path / "costs").iterdir()) == ["local_shm.yaml", "mine.yaml"]


def test_the_model_size_is_recorded_saved_or_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    live = Live(COSTS)
    live.write(tmp_path / "run")
    del live.story.meta["job"]["num_parameters"]
    live.story.write(tmp_path / "run")
    target = tmp_path / "mine.yaml"
    assert "Give --num-parameters N" in refusal(capsys, tmp_path / "run", "-o", target)
    assert script.main([str(tmp_path / "run"), "-o", str(target), "--num-parameters", "10000"]) == 0
    np.save(tmp_path / "run" / "parameters.npy", np.zeros(10_000, dtype=np.float32))
    assert script.main([str(tmp_path / "run"), "-o", str(target), "--force"]) == 0


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "mine.yaml"
    assert "nowhere: no such directory; name" in refusal(capsys, tmp_path / "nowhere", "-o", target)
    good, virtual, disturbed = tmp_path / "good", tmp_path / "virtual", tmp_path / "disturbed"
    Live(COSTS, rounds=5).write(good)
    Live(COSTS, rounds=5, runtime="virtual").write(virtual)
    plan = [disturbance(0.0, 100.0, f"worker:{worker}", 0.1) for worker in range(4)]
    Live(COSTS, rounds=5, plan=plan).write(disturbed)
    assert "a virtual run" in refusal(capsys, good, virtual, "-o", target)
    assert "no undisturbed iteration in it. Add a run with straggler=none" in refusal(capsys, disturbed, "-o", target)
    assert "must end in .yaml" in refusal(capsys, good, "-o", tmp_path / "mine.txt")
    assert "must be a plain name" in refusal(capsys, good, "--name", "../mine")
    Story(num_workers=1, device=None).write(tmp_path / "empty")
    assert "no undisturbed iteration" in refusal(capsys, tmp_path / "empty", "-o", target)
    (good / "events.jsonl").write_text("nonsense\n")
    assert "events.jsonl:1" in refusal(capsys, good, "-o", target)
    assert not target.exists()


def test_a_device_below_its_saturation_is_no_faster_and_who_has_joined_has_that_of_worker_0() -> None:
    rows = pd.DataFrame({"worker": [0, 1, 0], "samples": [10, 100, 1000]})
    job = {"num_workers": 2, "device": {"base_s": 0.01, "per_sample_s": 0.001, "saturation_s": 0.1}}
    assert list(paced_s(job, rows)) == pytest.approx([0.1, 0.11, 1.01])
    rows = pd.DataFrame({"worker": [5, 0], "samples": [10, 10]})
    for devices in ({"device": {"base_s": 0.1}}, {"devices": [{"base_s": 0.1}, {"base_s": 0.3}]}):
        assert list(paced_s({"num_workers": 2, **devices}, rows)) == [0.1, 0.1]


STALENESS = {1: 9.0, 2: 1.0, 3: 0.4, 4: 0.0}
"""Mean squares of four equal workers, about."""
BATCH = 32.0


def jobs(
    kappa: float,
    phi: float,
    *,
    seeds: int = 1,
    noise: float = 0.0,
    limit: float = np.inf,
    sizes: tuple[int, ...] = (1, 2, 3, 4),
) -> pd.DataFrame:
    """Updates by the model, with errors of ``noise``; who needs more than ``limit`` updates was cut off there."""
    rng, rows = np.random.default_rng(1), []
    for seed in range(seeds):
        for x in sizes:
            ideal = 100.0 * (1 + phi / (x * BATCH)) * (1 + kappa * STALENESS[x])
            needed = ideal * np.exp(noise * rng.standard_normal())
            rows.append((seed, x, min(needed, limit), needed <= limit, STALENESS[x]))
    return pd.DataFrame(rows, columns=["seed", "x", "updates", "reached", "sqr_staleness"])


@pytest.mark.parametrize(("kappa", "phi"), [(0.0, 300.0), (0.14, 300.0), (2.0, 5000.0), (0.5, 20.0)])
def test_kappa_and_phi_are_found(kappa: float, phi: float) -> None:
    found = fit_staleness(jobs(kappa, phi), BATCH)
    assert found.kappa == pytest.approx(kappa, rel=0.02, abs=0.002)
    assert found.phi_samples == pytest.approx(phi, rel=0.05)
    assert not found.bound


def test_the_interval_holds_what_is_true() -> None:
    found = fit_staleness(jobs(0.3, 300.0, seeds=6, noise=0.05), BATCH, 300.0)
    low, high = found.kappa_interval
    assert low < 0.3 < high
    assert high - low < 0.2
    assert low <= found.kappa <= high


def test_one_seed_has_no_interval_and_a_given_phi_is_kept() -> None:
    found = fit_staleness(jobs(0.3, 300.0, seeds=1), BATCH)
    assert np.isnan(found.kappa_interval).all()
    found = fit_staleness(jobs(0.2, 300.0), BATCH, 300.0)
    assert found.phi_samples == 300.0
    assert found.kappa == pytest.approx(0.2, rel=0.01)
    with pytest.raises(ValueError, match="fewer than two x reached the target"):
        fit_staleness(jobs(0.1, 300.0, sizes=(4,)), BATCH)


def test_progress_per_sample_has_the_largest_phi() -> None:
    """A rate in proportion to the update's share of the batch: x gradients do x / N of the work of all."""
    rows = jobs(0.2, MOST_PHI)
    found = fit_staleness(rows.assign(updates=100.0 * 4 / rows["x"] * (1 + 0.2 * rows["sqr_staleness"])), BATCH)
    assert found.kappa == pytest.approx(0.2, rel=0.01)
    assert found.phi_samples > 1e4


def test_what_was_never_reached_is_worth_infinity() -> None:
    """x = 1 would need 100 (1 + 300/32) (1 + 2 9) = 19712 updates and was cut off after 1500, less than x = 2 needs:
    the other x decide."""
    cut = jobs(2.0, 300.0)
    cut.loc[cut["x"] == 1, ["updates", "reached"]] = [1500.0, False]
    found = fit_staleness(cut, BATCH)
    assert found.kappa == pytest.approx(2.0, rel=0.05)
    assert not found.bound


@pytest.mark.long(like="test_the_interval_holds_what_is_true")
def test_a_job_that_was_cut_off_is_only_known_to_need_more() -> None:
    """One of two seeds of x = 1: the fit may say more than it made, and must not say less."""
    cut = jobs(2.0, 300.0, seeds=2)
    first = (cut["x"] == 1) & (cut["seed"] == 0)
    cut.loc[first, ["updates", "reached"]] = [5000.0, False]
    assert fit_staleness(cut, BATCH, 300.0).kappa == pytest.approx(2.0, rel=0.02)
    cut.loc[first, "updates"] = 40_000.0
    assert fit_staleness(cut, BATCH, 300.0).kappa > 2.1


def test_kappa_is_a_bound_if_nothing_stale_ever_arrived() -> None:
    rows = jobs(50.0, 300.0, limit=2000.0).assign(
        sqr_staleness=lambda frame: frame["sqr_staleness"].where(frame["x"] < 3, 0.0)
    )
    rows.loc[rows["x"] >= 3, ["updates", "reached"]] = [400.0, True]
    assert fit_staleness(rows, BATCH, 300.0).bound


def test_the_squares_of_worked_stalenesses() -> None:
    """Updates of 3 of 4, one gradient of three 1 update late: 1/3; s = 0.75 of a batch: (0.75 / 1.75 / 3)^2."""
    found = squared(np.array([0.0, 0.0, 1.0]), 0.75)
    assert found == pytest.approx({"priced": 1 / 3, "pooled": (0.75 / 1.75 / 3) ** 2})


@pytest.mark.long(like="test_rings_of_two_and_of_five_tell_a_step_from_its_bytes")
def test_interruptions_are_what_computing_takes_longer_while_others_send(tmp_path: Path) -> None:
    """Each of them is found within 10 %: workers and servers are interrupted in bursts, and counted on average."""
    costs = {"interrupt_per_byte_s": 2e-9, "jitter_sigma": 0.1}
    apart = run_as_live(tmp_path / "a", strategy="asp_even", more=costs)
    together = run_as_live(
        tmp_path / "b", "cluster.hosts.count=1", "cluster.hosts.cpu_cores=16", strategy="asp_even", more=costs
    )
    both = calibrate([apart, together], [PARAMETERS] * 2)
    found = {name: estimate.value for name, estimate in both.estimates.items()}
    assert found["interrupt_per_byte_s"] == pytest.approx(2e-9, rel=0.1)
    assert found["carry_per_byte_s"] == pytest.approx(2e-9, rel=0.1)
    assert found["carry_within_per_byte_s"] == pytest.approx(3e-10, rel=0.1)
    assert found["compute_base_s"] == pytest.approx(32 * 1e-4, rel=0.05), "at one batch size"
    in_step = calibrate([run_as_live(tmp_path / "c", more=costs), together], [PARAMETERS] * 2)
    assert "asynchronous" in in_step.missing["interrupt_per_byte_s"], "nobody sends while workers compute"
    without = calibrate(
        [run_as_live(tmp_path / "d", strategy="asp_even", more={"jitter_sigma": 0.1}), together], [PARAMETERS] * 2
    )
    assert without.estimates["interrupt_per_byte_s"].value < 2e-10


@pytest.mark.long(like="test_rings_of_two_and_of_five_tell_a_step_from_its_bytes")
def test_what_neighbours_cost_is_found_in_the_jobs_of_a_set(tmp_path: Path) -> None:
    """Carrying, interruptions and control messages are those of the set, whatever they were of jobs alone."""
    alone = {"carry_per_byte_s": 4e-9, "control_s": 1e-4}
    costs = {"interrupt_per_byte_s": 2e-9, "control_s": 1e-3, "jitter_sigma": 0.1}
    apart = run_as_live(tmp_path / "a", more=alone)
    together = run_as_live(tmp_path / "b", "cluster.hosts.count=1", "cluster.hosts.cpu_cores=16")
    sizes = {"p": 1, "q": 3, "r": 2, "s": 2}
    entries = [
        f"{{job: {job}, submit_s: 0.0, gpus: {gpus}, servers: 1, iterations: 150}}" for job, gpus in sizes.items()
    ]
    jobs = set_as_live(tmp_path / "c", "placement=spread", entries=",".join(entries), more=costs)
    runs = [apart, together, *jobs]
    found = {name: each.value for name, each in calibrate(runs, [PARAMETERS] * len(runs)).estimates.items()}
    assert found["interrupt_per_byte_s"] == pytest.approx(2e-9, rel=0.15)
    assert found["carry_per_byte_s"] == pytest.approx(2e-9, rel=0.1)
    assert found["carry_within_per_byte_s"] == pytest.approx(3e-10, rel=0.1)
    assert found["control_s"] == pytest.approx(1e-3, rel=0.1)
    assert "cluster.hosts.count=1" in calibrate([apart], [PARAMETERS]).missing["carry_within_per_byte_s"]
    with pytest.raises(RecordError, match="job q shared its hosts and is not among the runs"):
        calibrate([together, jobs[0]], [PARAMETERS] * 2)


RING = ("topology=allreduce", "workload.epochs=10")
TWO = ("cluster.hosts.count=2", "cluster.hosts.cpu_cores=null", "cluster.num_workers=2", *RING)


def test_the_member_that_comes_last_shows_what_a_sum_took() -> None:
    """An update that one of two workers began with alone shows nothing, nor does the start."""
    run: Any = SimpleNamespace(job={"num_workers": 2}, meta={})
    pulls = [(0, 0, 0.001), (0, 1, 0.001), (1, 0, 0.009), (1, 1, 0.005), (2, 0, 0.007)]
    rows = pd.DataFrame(pulls, columns=["version_read", "worker", "pull_s"]).assign(run=0, block=0, disturbed=False)
    updates = updates_of(run, rows, num_parameters=1001)
    assert updates["reduce_s"].tolist() == [0.005]
    assert updates[["steps", "part_bytes", "num_bytes", "wire_s"]].to_numpy().tolist() == [[2, 2004, 4004, 0.0]]


@pytest.mark.long(like="test_rings_of_two_and_of_five_tell_a_step_from_its_bytes")
def test_a_step_between_hosts_is_what_its_message_does_not_explain(tmp_path: Path) -> None:
    """Of two workers that keep each other waiting, with a core each; what carries a message is known from servers."""
    served = run_as_live(tmp_path / "a")
    costs = {"ring_step_s": 7e-4, "jitter_sigma": 0.1}
    ring = run_as_live(tmp_path / "b", *TWO, more=costs)
    found = calibrate([served, ring], [PARAMETERS] * 2)
    assert found.estimates["ring_step_s"].value == pytest.approx(7e-4, rel=0.1)
    assert "carry_per_byte_s" in found.missing["ring_per_byte_s"]
    without = calibrate([served, run_as_live(tmp_path / "c", *TWO, more={"jitter_sigma": 0.1})], [PARAMETERS] * 2)
    assert without.estimates["ring_step_s"].value < 7e-5
    throttled = calibrate([served, run_as_live(tmp_path / "d", *RING, more=costs)], [PARAMETERS] * 2)
    assert throttled.estimates["ring_step_s"].value == pytest.approx(7e-4, rel=0.25), "with what quotas add to messages"
    assert "topology=allreduce" in calibrate([served], [PARAMETERS]).missing["ring_step_s"]


def test_rings_of_two_and_of_five_tell_a_step_from_its_bytes(tmp_path: Path) -> None:
    """Without hosts; the update itself is known from servers, whose costs the rings do not change."""
    costs = {"ring_step_s": 5e-4, "ring_per_byte_s": 4e-9, "update_base_s": 1e-3, "latency_s": 2e-4}
    costs["jitter_sigma"] = 0.1
    local = ("cluster=local", "cluster.device=null")
    served = run_as_live(tmp_path / "a", *local, more=costs)
    rings = [
        run_as_live(tmp_path / str(workers), *local, f"cluster.num_workers={workers}", *RING, more=costs)
        for workers in (2, 5)
    ]
    assert "topology=allreduce" in calibrate([served], [PARAMETERS]).missing["ring_step_s"]
    found = calibrate([served, *rings], [PARAMETERS] * 3).estimates
    assert found["ring_step_s"].value == pytest.approx(5e-4, rel=0.1)
    assert found["ring_per_byte_s"].value == pytest.approx(4e-9, rel=0.05)
    assert found["update_base_s"].value == pytest.approx(1e-3, rel=0.05)
    assert found["latency_s"].value == pytest.approx(2e-4, rel=0.05), "of messages to servers: replicas push nothing"
