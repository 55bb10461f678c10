"""A record whose strategy predicted by a file that has been fitted again since is out of date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from predictors.fitted_file import FITTED
from stragglab.vouching.fitted_since import is_refitted
from strategies.star.learned import ModeLearner


def learner(weights: str = "") -> tuple[tuple[str, ...], dict[str, Any]]:
    """What a record names, and what its settings say."""
    names = ModeLearner(use_ml_from_start=True, weights=weights).fitted
    return names, {"strategy": {"learning": {"weights": weights}}}


def by_another_command(path: Path, command: str) -> str:
    with np.load(FITTED / "modes.npz") as arrays:
        np.savez(path, **{**{name: arrays[name] for name in arrays.files}, "command": command})
    return str(path)


def test_files_that_come_along() -> None:
    names, settings = learner()
    assert not is_refitted(names, settings)
    assert not is_refitted((), settings)
    assert is_refitted((names[0][:-1] + "x",), settings)
    assert is_refitted((*names, "resources 00000000"), settings)
    gone = {"strategy": {"learning": {"weights": "nowhere/mine.npz"}}}
    assert not is_refitted(("mine 01234567",), gone), "of a file that is gone nothing is known"


@pytest.mark.parametrize("name", ["mine.npz", "modes.npz"])
def test_a_file_of_ones_own_is_the_one_that_settings_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    names, settings = learner(by_another_command(path, "one"))
    assert not is_refitted(names, settings)
    by_another_command(path, "two")
    assert is_refitted(names, settings)


def test_the_settings_of_an_entry_of_a_list_name_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "modes.npz"
    names, _ = learner(by_another_command(path, "one"))
    settings = {"jobs": {"entries": [{"settings": ["strategy=star_ml", f"strategy.learning.weights={path}"]}]}}
    assert not is_refitted(names, settings)
    by_another_command(path, "two")
    assert is_refitted(names, settings)
