"""Everything that Stragglab asks of a strategy, and whether every file of ``conf/`` can be used."""

from pathlib import Path

import stragglab

PROJECT = Path(__file__).resolve().parents[1]


def test_the_project_passes_all_checks() -> None:
    """``stragglab check`` prints what is wrong; pytest shows it for a test that failed."""
    assert stragglab.check(PROJECT) == 0
