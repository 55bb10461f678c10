"""Gates whose workers train alone: who waits for whom, who comes in when, and a user's own one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

from runtime.house import ROOT
from strategies.local_sgd.periodic import PeriodicGate
from strategies.parts.composed import Composed
from strategies.parts.gates import AloneGate, Verdict
from strategies.protocol import Grad, Restored, Started, StepAlone, Strategy
from tests.contract.catalogue import scenario
from tests.support.laws import dead, played, unaveraged, unconserved, unlawful, unrepeatable


@dataclass(kw_only=True)
class Twice(AloneGate):
    def waits(self, worker: int) -> bool:
        return self.steps[worker] == 2


def grad(number: int, worker: int, samples: int = 4) -> Grad:
    return Grad(
        id=number, worker=worker, incarnation=0, iteration=0, version=0, samples=samples, assigned_samples=samples
    )


def begun(*workers: int) -> Twice:
    gate = Twice()
    assert gate.begin(workers, 0) == workers
    return gate


def test_a_worker_without_data_waits_and_an_update_of_nothing_is_none() -> None:
    gate, empty = begun(0, 1), grad(0, 0, samples=0)
    assert gate.arrived(empty) == Verdict()
    assert gate.arrived(grad(1, 1, samples=0)) == Verdict(go=(0, 1), opens=True, outer=True)
    assert gate.version == 0
    assert gate.arrived(empty) == Verdict()
    assert gate.arrived(grad(2, 1)) == Verdict(step=(grad(2, 1),), go=(1,))
    assert gate.arrived(grad(3, 1, samples=0)) == Verdict(apply=(grad(2, 1),), go=(0, 1), outer=True)


def test_a_newcomer_comes_in_with_the_next_update_and_nobody_waits_for_who_left() -> None:
    gate = begun(0, 1)
    assert gate.joined(2) == Verdict()
    for number in (0, 1):
        gate.arrived(grad(number, 0))
    assert gate.lost(1, restarting=False) == Verdict(apply=(grad(0, 0), grad(1, 0)), go=(0, 2), outer=True)
    assert gate.waiting_groups() == [[0, 2]]
    assert gate.lost(2, restarting=True) == Verdict()
    assert gate.joined(2) == Verdict(go=(2,))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"outer_nesterov": True}, "outer_nesterov=true: needs outer_momentum above 0"),
        ({"outer_momentum": 1.0}, "outer_momentum=1.0: must be"),
        ({"outer_lr": 0.0}, "outer_lr=0.0: must be"),
        ({"period": 0}, "period=0: must be"),
        ({"bsp_frac": 1.5}, "bsp_frac=1.5: must be"),
    ],
)
def test_settings_out_of_range_are_refused_by_their_names(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PeriodicGate(**wrong)


def test_after_a_rollback_the_first_phase_lasts_as_long_as_without() -> None:
    """Half of 40 samples, eight in each update: the third ends the phase, and so does the third after a rollback."""
    gate = PeriodicGate(bsp_frac=0.5, period=2)
    gate.start(Started(t=0.0, workers=(0, 1), batch_samples=(4, 4), num_servers=0, total_samples=40))
    update = (grad(0, 0), grad(1, 1))
    for alone in (False, False, True):
        gate.applied(update)
        assert gate.alone == alone
    gate.observe_event(Restored(t=1.0, version=1, workers=(0, 1)))
    for alone in (False, True):
        assert not gate.alone
        gate.applied(update)
        assert gate.alone == alone


def test_a_part_of_a_job_without_an_end_is_refused() -> None:
    PeriodicGate(bsp_frac=0.0).validate_length(None)
    with pytest.raises(ValueError, match=r"bsp_frac=0.5: .* set workload.epochs"):
        PeriodicGate(bsp_frac=0.5).validate_length(None)


@pytest.fixture(scope="module")
def of_the_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The gate that docs/your_own.md writes."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "your_own.md").read_text(), re.DOTALL)
    (code,) = [block for block in blocks if "AloneGate" in block]
    assert len(code.splitlines()) <= 40
    folder = tmp_path_factory.mktemp("page")
    (folder / "gate_of_the_page.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield import_module("gate_of_the_page").ForASecond


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("mode", ["calm", "restarts", "departures"])
def test_the_gate_of_the_page_owes_what_every_strategy_owes(mode: str, seed: int, of_the_page: Any) -> None:
    def make() -> Strategy:
        return Composed(gate=of_the_page(round_s=3.0))

    run = scenario(make(), 4, mode, seed)
    assert run.job.num_servers == 0
    refused = played(run)
    assert refused + unlawful(run) + dead(run) + unconserved(run) + unaveraged(run) == []
    assert unrepeatable(make, run.lines) == []
    steps = [command for line in run.lines for command in line.commands if isinstance(command, StepAlone)]
    assert len(steps) > len(run.applied) > 3, "workers make more than one step between two updates"
