"""The fit of messages and polling to shares of communication: a known optimum is found, and a model's work remains."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.run.jobs.models import Models
from runtime.virtual.costs import load_costs
from scripts.fitting import fit_messages as script
from scripts.fitting.fit_messages import HALF_FRAC, POLLING, STEPS, Shares, divide_work, main

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

    monkeypatch.setattr(script, "measure_shares", measure)
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
