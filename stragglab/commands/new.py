"""Make a project of your own: a folder with a strategy, a workload, an optimizer, a straggler and an experiment.

python run.py new my_lab      # makes the folder my_lab, which works as it is: change what you need
python run.py check my_lab    # checks every file of it, and its strategies by the contract suite

The last part of the path is the name of the project's package, too. Nothing that exists is overwritten.
"""

from __future__ import annotations

import argparse
import importlib.util
import keyword
from collections.abc import Sequence
from pathlib import Path

from runtime.errors import FAILED, ConfigError, print_error, refuse
from runtime.house import FOLDERS, INSTALLED, NAME, ROOT, command

TEMPLATE = ROOT / ("project" if INSTALLED else "stragglab/project")
PLACEHOLDER = "my_lab"
NEXT = """{folder}: a project with a strategy, a workload, an optimizer, a straggler and an experiment
next:  {command} check {folder}
       {command} project={folder} runtime=virtual strategy=my_strategy workload=my_workload straggler=my_straggler
       {command} experiment my_experiment project={folder}
       {folder}/README.md says what is what
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Make the folder; returns the exit code: 0, 2 for a name that cannot be used, 1 if it cannot be written."""
    parser = argparse.ArgumentParser(
        prog=f"{NAME} new", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.error = refuse  # type: ignore[method-assign]
    try:
        folder: Path = parser.parse_args(argv).folder
        refuse_name(folder)
        create(folder)
    except ConfigError as error:
        return print_error("new", error)
    except OSError as error:
        return print_error("new", error, FAILED)
    print(NEXT.format(folder=folder, command=command()), end="")
    return 0


def refuse_name(folder: Path) -> None:
    """Raise :class:`ConfigError` unless the last part of the path can be the name of a new package."""
    name = folder.name
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigError(f"{folder}: cannot be the name of a package; use letters, digits and _, not a digit first")
    if name in (*FOLDERS, "stragglab", "hydra_plugins"):
        raise ConfigError(f"{folder}: {name} is the name of a part of Stragglab; choose another")
    if folder.exists():
        raise ConfigError(f"{folder}: exists already; choose another name, or remove it")
    found = importlib.util.find_spec(name)
    if found is not None and found.origin:
        raise ConfigError(f"{folder}: there is a module {name} already ({found.origin}); choose another name")


def create(folder: Path) -> None:
    """Copy the template, with the project's name in its files and paths."""
    for path in sorted(TEMPLATE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            place = folder / str(path.relative_to(TEMPLATE)).replace(PLACEHOLDER, folder.name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(path.read_text(encoding="utf-8").replace(PLACEHOLDER, folder.name), encoding="utf-8")
