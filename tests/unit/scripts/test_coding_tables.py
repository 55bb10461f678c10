"""What follows from codes by arithmetic: the table of the notes, digit for digit, and codes that are broken."""

from __future__ import annotations

import re
from math import inf, isnan
from pathlib import Path

import numpy as np
import pytest
import torch

from analysis.experiments.spec import Cell, cells, load_spec
from stragglab.grids.experiments import TABLES
from stragglab.tables import delayed_sgd
from stragglab.tables.coding import CLUSTERS, SYSTEMS, code_of, decoding_times, every_set, row, speeds_of
from stragglab.tables.transfers import delays_row, groups_row, replicas_row, transfers_row
from strategies.gradient_coding import Code

SPEC = load_spec(Path(__file__).resolve().parents[3] / "conf" / "experiment" / "gc_tables.yaml")
EXPECTED = {
    # cluster, s: smallest k; naive; cyclic without a fault, with the mean and the worst one (Wang et al., Eq. 3)
    ("A", "1"): (12, 1.50, 3.00, 3.00, 3.00),
    ("A", "2"): (8, 1.00, 1.50, 2.95, 3.00),
    ("B", "1"): (29, 1.81, 3.62, 3.62, 3.62),
    ("B", "2"): (58, 1.21, 1.81, 3.61, 3.62),
    ("C", "1"): (161, 2.52, 2.52, 4.95, 5.03),
    ("C", "2"): (161, 1.68, 2.52, 4.87, 5.03),
    ("D", "1"): (81, 1.40, 2.79, 2.79, 2.79),
    ("D", "2"): (54, 0.93, 2.79, 2.79, 2.79),
}


def computed(cluster: str, s: str, system: str) -> dict[str, float]:
    return row(Cell({"cluster": cluster, "s": s, "system": system}, 0))  # type: ignore[return-value]


@pytest.mark.few(3)
@pytest.mark.parametrize(("cluster", "s"), EXPECTED)
def test_the_times_of_naive_and_cyclic(cluster: str, s: str) -> None:
    naive, cyclic, heter = (computed(cluster, s, f"coding_{name}") for name in ("naive", "cyclic", "heter_aware"))
    found = (naive["no_fault"], cyclic["no_fault"], cyclic["mean_fault"], cyclic["worst_fault"])
    assert heter["parts"] == EXPECTED[cluster, s][0]
    assert found == pytest.approx(EXPECTED[cluster, s][1:], abs=0.0051)
    assert naive["worst_fault"] == inf
    assert (naive["decode_from"], cyclic["decode_from"]) == (naive["workers"], naive["workers"] - int(s))
    assert (naive["copies_off"], cyclic["copies_off"]) == (0, 0)
    assert (heter["no_fault"], heter["mean_fault"], heter["worst_fault"]) == pytest.approx((1.0, 1.0, 1.0))


def test_the_notes_say_from_how_many_workers_groups_decode() -> None:
    found = re.findall(r"(\d+) and (\d+) of (\d+)\s+(?:workers )?\((?:Cluster-)?([A-D])", SPEC.notes)
    assert [cluster for *_, cluster in found] == ["A", "C"]
    for one, two, workers, cluster in found:
        for s, fewest in (("1", one), ("2", two)):
            group = computed(cluster, s, "coding_group_based")
            assert (int(fewest), int(workers)) == (group["decode_from"], group["workers"])


def test_a_row_for_every_cell() -> None:
    assert set(SPEC.axes["system"]) == set(SYSTEMS)
    few = [cell for cell in cells(SPEC) if cell.levels["cluster"] == "A"]
    assert len(few) == 8
    assert all(set(SPEC.measures) <= row(cell).keys() for cell in few)
    for cluster in CLUSTERS:  # the abstract's factor for every s, 3 on Cluster-A: cyclic over heter-aware
        speeds = speeds_of(cluster)
        assert computed(cluster, "1", "coding_cyclic")["worst_fault"] == pytest.approx(np.mean(speeds) / min(speeds))
    assert SPEC.table == "coding"


def test_a_code_with_an_entry_lost_is_found_out() -> None:
    """One part of one worker gone: it has a copy too few, and some faults cannot be decoded."""
    speeds = speeds_of("A")
    good = code_of("heter_aware", speeds, 1)
    broken = good.matrix.copy()
    broken[7, np.flatnonzero(broken[7])[0]] = 0.0
    assert np.isfinite(decoding_times(good, speeds, every_set(8, 1))).all()
    assert np.isinf(decoding_times(Code(broken), speeds, every_set(8, 1))).any()


def test_faults_only_ever_delay() -> None:
    """With three workers of which two are needed: without a fault the second is the last that is waited for."""
    code = code_of("cyclic", (1, 2, 4), 1)
    assert decoding_times(code, (1, 2, 4), every_set(3, 0)).tolist() == pytest.approx([2 / 3 / 2])
    assert decoding_times(code, (1, 2, 4), every_set(3, 1)).tolist() == pytest.approx([1 / 3, 2 / 3, 2 / 3])


SPECS = Path(__file__).resolve().parents[3] / "conf" / "experiment"


def transfers(case: str, system: str, seed: int = 0) -> dict[str, float]:
    return transfers_row(Cell({"case": case, "system": system}, seed))  # type: ignore[return-value]


def test_the_cases_that_are_worked_by_hand() -> None:
    assert transfers("worked", "fair")["mean_s"] == pytest.approx(2.925)
    assert transfers("worked", "shortest")["mean_s"] == pytest.approx(1.9)
    assert [transfers("worked", name)["max_delay"] for name in ("fair", "shortest", "deadline")] == [6, 6, 4]
    assert [transfers("due", name)["idle_s"] for name in ("deadline", "drop")] == pytest.approx([1.0, 0.0])
    assert transfers("due", "drop")["dropped"] == 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("case", ["sizes", "uplinks"])
def test_random_cases_keep_the_bound_and_the_bytes(case: str, seed: int) -> None:
    rows = {name: transfers(case, name, seed) for name in ("fair", "shortest", "deadline", "drop")}
    assert rows["shortest"]["mean_s"] < rows["fair"]["mean_s"]
    assert rows["deadline"]["violations"] == rows["drop"]["violations"] == 0
    assert rows["deadline"]["max_delay"] <= 8
    assert rows["drop"]["dropped"] >= rows["fair"]["dropped"] == rows["shortest"]["dropped"] == 0
    assert all(row["idle_s"] > -1e-9 for row in rows.values())


@pytest.mark.parametrize("u", [1, 3, 7])
def test_a_late_update_in_three_ways(u: int) -> None:
    """Slides 7 to 9, for N' = 8 others."""
    rows = {name: delays_row(Cell({"u": str(u), "system": name}, 0)) for name in ("unordered", "buffered", "ordered")}
    assert [rows[name]["beyond"] for name in rows] == [8 - u, 0, 0]
    assert rows["buffered"]["others_more"] == 1
    assert float(rows["ordered"]["frozen_s"]) < float(rows["buffered"]["frozen_s"])  # type: ignore[arg-type]
    assert not isnan(float(rows["ordered"]["mean_s"]))  # type: ignore[arg-type]


def test_groups_save_bytes_and_nobody_waits_for_them() -> None:
    rows = {k: groups_row(Cell({"workers": "16", "aggregators": str(k)}, 1)) for k in (0, 1, 2)}
    assert [row["waits"] for row in rows.values()] == [0, 0, 0]
    bytes_in = [float(row["bytes_frac"]) for row in rows.values()]  # type: ignore[arg-type]
    assert bytes_in[0] == 1 > bytes_in[1] > bytes_in[2]


def test_a_replica_within_the_bound_and_one_that_nobody_orders() -> None:
    rows = {name: replicas_row(Cell({"system": name}, 0)) for name in ("never", "bounded", "swapped")}
    assert float(rows["never"]["largest"]) > 1 >= float(rows["bounded"]["largest"])  # type: ignore[arg-type]
    assert float(rows["bounded"]["largest"]) > 0.5, "no more is sent than the bound needs"  # type: ignore[arg-type]
    assert rows["bounded"]["end"] == rows["never"]["end"] == 0
    assert float(rows["swapped"]["end"]) > 1e-3  # type: ignore[arg-type]
    assert rows["swapped"]["swap"] == pytest.approx(1.27279, abs=5e-6)
    assert [rows[name]["mean_lag"] for name in ("never", "swapped")] == [150.5, 0.5], "1 to 300; 1 and 0 by turns"


@pytest.mark.parametrize("delay", [0, 2])
def test_it_is_sgd_with_the_gradients_of_older_parameters(delay: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch's gradients: five updates, the same samples, AdaDelay's rate; the excess of the mean of the iterates."""
    monkeypatch.setattr(delayed_sgd, "UPDATES", 5)
    monkeypatch.setattr(delayed_sgd, "EVERY", 5)
    rows, least = delayed_sgd.problem(3)
    chance, inputs = np.random.default_rng([6, 3]), torch.from_numpy(rows)
    path = [torch.zeros(delayed_sgd.FEATURES, dtype=torch.float64)]
    for t in range(1, 6):
        tau = min(t - 1, int(chance.integers(delay, delay + 1)))
        some = inputs[chance.integers(delayed_sgd.SAMPLES, size=delayed_sgd.BATCH)]
        old = path[t - 1 - tau].clone().requires_grad_()
        torch.nn.functional.softplus(-(some @ old)).mean().backward()
        assert old.grad is not None
        path.append(path[-1] - old.grad / (t + tau) ** 0.5)
    mean = torch.stack(path[1:]).mean(dim=0)
    expected = float(torch.nn.functional.softplus(-(inputs @ mean)).mean()) - least
    found = delayed_sgd.curves_of(3, delay, delay)[-1]
    assert found[delayed_sgd.RATES.index(1.0)] == pytest.approx(expected)


def test_the_best_rate_counts_and_how_fast_it_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Curves of one slope, of which the third is the lowest: 0.02 / sqrt(t)."""
    t = np.arange(1, delayed_sgd.UPDATES // delayed_sgd.EVERY + 1) * delayed_sgd.EVERY
    curves = np.outer(t**-0.5, [0.05, 0.03, 0.02, 0.04, 0.06, 0.07])
    monkeypatch.setattr(delayed_sgd, "curves_of", lambda *_: curves)
    found = delayed_sgd.row(Cell({"tau": "8", "delays": "narrow"}, 0))
    expected = {"excess": 1000 * 0.02 * delayed_sgd.UPDATES**-0.5, "exponent": -0.5, "rate": delayed_sgd.RATES[2]}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", ["order", "delays", "groups", "replicas", "convergence"])
def test_a_table_has_the_measures_of_its_experiment(name: str) -> None:
    spec = load_spec(SPECS / f"mlfabric_{name}.yaml")
    assert spec.table in TABLES
    if name == "convergence":
        return  # minutes
    rows = {"order": transfers_row, "delays": delays_row, "groups": groups_row, "replicas": replicas_row}[name]
    assert set(spec.measures) == set(rows(next(cells(spec))))
