"""The golden transcripts still hold: ``pytest --rewrite`` rewrites them, and their difference shows what changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.catalogue import NAMES, spec
from tests.contract.scenarios import play

FOLDER = Path(__file__).resolve().parents[1] / "transcripts"
PATHS = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_scenario_goes_as_it_is_written(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    played = play(text)
    if request.config.getoption("--rewrite"):
        path.write_text(played)
        return
    assert played.splitlines() == text.splitlines()


def test_every_class_of_strategies_has_a_transcript() -> None:
    assert {spec(path.stem)["_target_"] for path in PATHS} == {spec(name)["_target_"] for name in NAMES}


def test_another_answer_is_found() -> None:
    """Negative control: a transcript in which one word is wrong does not hold."""
    text = (FOLDER / "bsp.txt").read_text()
    for right, wrong in (("weight 1/6", "weight 1/3"), ("-> Compute: workers 0 1 2", "-> Compute: workers 0 2 2")):
        assert right in text
        spoilt = text.replace(right, wrong, 1)
        assert play(spoilt) == text != spoilt


def test_what_cannot_happen_is_refused() -> None:
    text = (FOLDER / "bsp.txt").read_text()
    with pytest.raises(ValueError, match="exploded 3: nothing that can happen"):
        play(f"{text}\nexploded 3\n")
    with pytest.raises(ValueError, match="sammples: 3: no such setting"):
        play(f"sammples: 3\n{text}")
