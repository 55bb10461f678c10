"""A YAML and its class agree on every value, or the YAML says why not."""

from __future__ import annotations

import dataclasses
import re
from numbers import Real
from typing import Any

import pytest
import yaml

from runtime.config.instantiate import locate
from tests.support.runs import ROOT

FOLDER = ROOT / "conf" / "strategy"
DISTINCT: dict[str, set[str]] = {
    "antdt_nd_asp": {"mode", "data"},
    "asp_even": {"data"},
    "coding_cyclic": {"scheme"},
    "coding_fractional": {"scheme", "eager"},
    "coding_group_based": {"scheme", "eager"},
    "coding_heter_aware": {"eager"},
    "coding_naive": {"scheme"},
    "composed": {"load", "detectors", "actions", "data"},
    "lb_bsp": {"predictor"},
    "lb_bsp_gpu": {"kind"},
    "lb_bsp_star": {"kind", "unanimous", "times"},
    "star_ahead": {"kappa_workload", "kappa_lr", "pause"},
    "star_h": {"kappa_workload", "kappa_lr"},
    "star_ml": {"kappa_workload", "kappa_lr", "pause", "learning"},
    "sync_switch": {"judge"},
    "sync_switch_elastic": {"judge", "straggler_policy", "data"},
    "sync_switch_restart": {"judge", "switch"},
}
"""What makes a configuration another one than its class by itself: choices of a rule, none of a size."""


def lines_of(name: str) -> dict[str, tuple[Any, str]]:
    """(value, comment) by field, those of ``defaults`` included."""
    text = (FOLDER / f"{name}.yaml").read_text()
    own: dict[str, Any] = yaml.safe_load(text)
    found: dict[str, tuple[Any, str]] = {}
    for other in own.pop("defaults", []):
        found |= lines_of(other) if other != "_self_" else {}
    for field, value in own.items():
        line = re.search(rf"^{field}:.*\n(?:[ #].*\n)*", text, re.MULTILINE)
        assert line is not None
        found[field] = value, line[0].partition("#")[2]
    return found


def unexplained(value: Any, default: Any, comment: str) -> bool:
    """Whether a number differs from the default, and the comment does not have that (``AntDT: 300``)."""
    if value == default or isinstance(value, bool) or not isinstance(value, Real):
        return False
    known = re.findall(r"(?<![\w.])(?:\d+(?:\.\d+)?|null)(?![\w]|\.\d)", comment)
    return all(word != "null" if default is None else word == "null" or float(word) != default for word in known)


def distinct(value: Any, default: Any) -> bool:
    """Whether a value that is not a number differs from the default."""
    if isinstance(value, list):
        return tuple(value) != tuple(default or ())
    return value != default and (isinstance(value, bool) or not isinstance(value, Real))


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_a_yaml_and_its_class_agree(name: str) -> None:
    lines = lines_of(name)
    target, _ = lines.pop("_target_")
    fields = {field.name: field for field in dataclasses.fields(locate(target))}
    defaults = {
        field: one.default if one.default_factory is dataclasses.MISSING else one.default_factory()
        for field, one in fields.items()
        if not (one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING)
    }
    compared = {field: line for field, line in lines.items() if field in defaults}
    silent = {field for field, (value, comment) in compared.items() if unexplained(value, defaults[field], comment)}
    assert silent == set(), "write the default of the class, which is the paper's value, and why it differs here"
    others = {field for field, (value, _) in compared.items() if distinct(value, defaults[field])}
    assert others == DISTINCT.get(name, set())


def test_a_number_without_its_reason_is_found() -> None:
    assert unexplained(6.0, 300.0, " seconds; L_trans")
    assert unexplained(6.0, 300.0, " seconds (3000 or 300.5)")
    assert not unexplained(6.0, 300.0, " seconds (AntDT: 300)")
    assert unexplained(16, None, " at most")
    assert not unexplained(16, None, " at most (null: no bound)")
    assert distinct("asp", "bsp")
    assert distinct(True, False)
    assert not distinct([1, 2], (1, 2))
