"""What Hydra keeps to itself is used in one file, which says so; whoever uses it elsewhere is caught."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from runtime.version import PACKAGES
from tests.support.cli import ROOT

PROGRAM = ("run.py", "scripts", "stragglab", *PACKAGES)
ONE_FILE = Path("runtime/config/hydra_internal.py")


def internals_used(root: Path) -> Iterator[Path]:
    """Files that import from ``hydra._internal``."""
    for name in PROGRAM:
        place = root / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place] if place.exists() else []:
            text = path.read_text()
            for node in ast.walk(ast.parse(text)) if "_internal" in text else ():
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    names = [f"{node.module}.{alias.name}" for alias in node.names]
                if any(name.startswith("hydra._internal") for name in names):
                    yield path.relative_to(root)


def test_one_file_looks_inside_hydra() -> None:
    assert set(internals_used(ROOT)) == {ONE_FILE}


def test_another_one_is_caught(tmp_path: Path) -> None:
    planted = {
        "runtime/a.py": "from hydra._internal.utils import get_args_parser\n",
        "scripts/b.py": "def work():\n    import hydra._internal.hydra\n",
        "analysis/c.py": "from hydra import _internal\n",
        "run.py": "import hydra\nfrom hydra.core.utils import run_job\n",
    }
    for name, text in planted.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = {str(path) for path in internals_used(tmp_path)}
    assert found == {"runtime/a.py", "scripts/b.py", "analysis/c.py"}
