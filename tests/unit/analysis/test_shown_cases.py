"""What pages and figures call a case."""

from __future__ import annotations

import pytest

from analysis.figures.names import GROUPS, named, shown_case
from runtime.house import ROOT

NO_GROUPS = {"experiment", "hydra"}
"""Folders of conf/ whose files nobody chooses for a run."""


def test_the_groups_are_those_of_the_configuration() -> None:
    assert {folder.name for folder in (ROOT / "conf").iterdir() if folder.is_dir()} - NO_GROUPS == GROUPS


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("straggler=rack, workload=digits", "one rack, workload=digits"),
        ("lr=4, num_workers=4", "lr=4, four workers"),
        ("lr=rack", "lr=rack"),
        ("targets=[rack, 4]", "targets=[rack, 4]"),
        ("", ""),
    ],
)
def test_a_choice_has_the_name_of_its_value_and_all_else_of_the_whole(case: str, said: str) -> None:
    names = {"rack": "one rack", "4": "a level", "num_workers=4": "four workers"}
    assert shown_case(case, names) == said
    with named(names):
        assert shown_case(case) == said
