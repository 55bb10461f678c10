"""What follows from codes by arithmetic: the table of the notes, digit for digit, and codes that are broken."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

import numpy as np
import pytest

from analysis.experiments.spec import Cell, cells, load_spec
from stragglab.tables.coding import CLUSTERS, SYSTEMS, code_of, every_set, finished, row, speeds_of
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
    found = re.findall(r"(\d+) and (\d+) of (\d+)", SPEC.notes)
    assert len(found) == len(CLUSTERS) == 4
    for cluster, (one, two, workers) in zip(CLUSTERS, found, strict=True):
        for s, fewest in (("1", one), ("2", two)):
            if (cluster, s) != ("D", "2"):  # seconds of search for its groups
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
    assert np.isfinite(finished(good, speeds, every_set(8, 1))).all()
    assert np.isinf(finished(Code(broken), speeds, every_set(8, 1))).any()


def test_faults_only_ever_delay() -> None:
    """With three workers of which two are needed: without a fault the second is the last that is waited for."""
    code = code_of("cyclic", (1, 2, 4), 1)
    assert finished(code, (1, 2, 4), every_set(3, 0)).tolist() == pytest.approx([2 / 3 / 2])
    assert finished(code, (1, 2, 4), every_set(3, 1)).tolist() == pytest.approx([1 / 3, 2 / 3, 2 / 3])
