"""The garbage collector rests while libraries are imported, and leaves them alone afterwards."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.importing import importing, without
from tests.support.cli import run_text

LIBRARY = "a_library_of_stragglab"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module that remembers whether the collector was on when it was imported."""
    (tmp_path / f"{LIBRARY}.py").write_text("import gc\nwas_on = gc.isenabled()\nthings = [[] for _ in range(1000)]\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(LIBRARY, None)


def test_nobody_looks_for_garbage_meanwhile_or_at_what_was_imported(library: None) -> None:
    with importing():
        found = __import__(LIBRARY)
    assert not found.was_on
    assert gc.isenabled()
    assert not any(one is found.things for one in gc.get_objects())


def test_an_import_that_fails_leaves_the_collector_on(library: None) -> None:
    with pytest.raises(ModuleNotFoundError), importing():
        __import__("no_such_library_of_anybody")
    assert gc.isenabled()


def test_the_program_itself_leaves_it_on() -> None:
    done = run_text(
        "import gc, runpy, sys; from runtime.house import ROOT; sys.argv = ['run.py', '--version']\n"
        "try: runpy.run_path(str(ROOT / 'run.py'), run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print('collects' if gc.isenabled() else 'does not collect')"
    )
    assert done.out.splitlines()[-1] == "collects"


def test_an_optional_library_is_absent_meanwhile_and_can_be_imported_afterwards(library: None) -> None:
    with without(LIBRARY), pytest.raises(ModuleNotFoundError):
        __import__(LIBRARY)
    found = __import__(LIBRARY)
    assert found.things
    with without(LIBRARY):
        assert __import__(LIBRARY) is found, "what is there stays"
    assert sys.modules[LIBRARY] is found
