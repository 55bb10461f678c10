"""The script that fits the price of staleness: from runs to a line of settings, with runs that are made up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from runtime.run.jobs.models import Models
from runtime.virtual.costs import load_costs
from scripts.fitting import fit_kappa as script
from scripts.fitting import fit_messages
from scripts.fitting.fit_messages import HALF_FRAC, POLLING, STEPS, Shares, divide_work, main
from tests.support.records import Story, apply

KAPPA, PHI, BATCH = 0.5, 300.0, 8.0


def run_of(words: Sequence[str], log: Path) -> int:
    """A job whose x needs 20 (1 + phi / (x b)) (1 + kappa tau^2) updates, every gradient tau = 4 - x updates stale."""
    said = dict(word.split("=", 1) for word in words)
    x, seed, folder = int(said["strategy.x"]), int(said["seed"]), Path(said["hydra.run.dir"].strip("'"))
    tau = 4 - x
    needed = round(20 * (1 + PHI / (x * BATCH)) * (1 + KAPPA * tau**2))
    made = Story("static_x", seed=seed, runtime="virtual", fields={"x": x}, target=0.9, epochs=None)
    made.started()
    updates = needed if needed < 2000 else 1000
    for number in range(updates):
        made.arrived(0.01 * (number + 1), 0, number, [apply(number)], version=max(0, number - tau), compute_s=0.01)
    made.evaluated(0.01 * updates, 0.95 if updates == needed else 0.5)
    made.finished(0.01 * updates + 0.01)
    made.write(folder)
    (folder / ".hydra").mkdir()
    (folder / ".hydra" / "overrides.yaml").write_text(json.dumps([word for word in words if "hydra." not in word]))
    log.write_text("")
    return 0


def fitted(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert script.main([*words], run_of) == 0
    return capsys.readouterr().out


def test_from_jobs_to_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """x = 1 would need 4000 updates and is cut off; the records are used again by a second call."""
    words = ["digits", "--lr", "0.2", "--seeds", "0,1", "--mode-cost", "priced", "--phi", "300", "-o", str(tmp_path)]
    said = fitted(capsys, *words)
    assert "digits, learning rate 0.2, 4 workers, 2 seeds" in said
    assert "x = 1: never within 60 s, so it is worth infinity (0 of 2 reached it)" in said
    (line,) = [line for line in said.splitlines() if line.startswith("strategy.")]
    kappa, phi = (float(word.partition("=")[2]) for word in line.split()[1:])
    assert kappa == pytest.approx(KAPPA, rel=0.1)
    assert phi == PHI
    assert (tmp_path / "digits_lr_0.2_4.csv").is_file()
    assert "8 of 8 records exist already" in fitted(capsys, *words)


HERE = Path()


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_models_work_is_divided_and_none_is_lost(share: float) -> None:
    model = Models("star", HERE).find("vgg16")
    assert model is not None
    before = load_costs(model.costs).values
    after = load_costs(model.costs, changes=divide_work(model, share, 4.0)).values
    data_s, messages_s = after.data_s(128), 2 * after.carry_s(4 * model.num_parameters).between_s
    assert data_s == pytest.approx(share * before.data_s(128), rel=1e-4)
    assert data_s + messages_s == pytest.approx(before.data_s(128), rel=1e-4)
    assert (after.wait_cores, after.server_wait_cores) == (4.0, 4.0)


def test_the_share_and_the_cores_of_figure_2_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Communication falls with pre-processing, and its ends are the paper's where tasks poll on four cores."""

    def measure(share: float, cores: float, jobs: int) -> Shares:
        assert jobs == 7
        return Shares(1.0 - share * (1.0 + cores / 40), 0.02 + abs(cores - 4.0) / 100, 0.93)

    monkeypatch.setattr(fit_messages, "measure_shares", measure)
    out = tmp_path / "table.yaml"
    assert main(["--jobs", "7", "-o", str(out)]) == 0
    found = Models(str(out), HERE).find("lstm")
    plain = Models("star", HERE).find("lstm")
    assert found is not None
    assert plain is not None
    share = found.cost_changes["data_per_sample_s"] / load_costs(found.costs).values.data_per_sample_s
    assert share == pytest.approx((1 - HALF_FRAC) / 1.1, abs=2.0**-STEPS)
    assert (found.cost_changes["wait_cores"], 4.0 in POLLING) == (4.0, True)
    assert (found.costs, found.device, found.num_parameters) == (plain.costs, plain.device, plain.num_parameters)


def test_a_run_that_fails_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--jobs", "0"]) == 2
    assert capsys.readouterr().err.startswith("fit_messages.py: a run failed")
