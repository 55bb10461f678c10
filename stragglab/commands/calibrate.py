"""Fit the cost model of the virtual runtime to live runs (runtime=virtual cluster.costs=NAME).

python run.py calibrate runs/a runs/b --name my_machine   # writes runtime/fitted/costs/my_machine.yaml; installed: here
python run.py calibrate runs/my_sweep -o mine.yaml         # every run in it; cluster.costs=mine.yaml uses it
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from analysis.files import write_file
from analysis.records.load import RecordError, Run, find_runs
from runtime.errors import ConfigError, print_error, refuse
from runtime.house import INSTALLED, NAME
from runtime.record.progress import counted
from runtime.run.probing import refuse_unwritable_file
from runtime.virtual.costs import DIRECTORY, SCHEMA, Costs, parse_costs
from stragglab.terminal.finding import readable, records_below

if TYPE_CHECKING:
    from rich.console import Console

    from analysis.fitting.estimates import Calibration
    from analysis.fitting.robust import Estimate

KEPT = "no cost model was written; the same command starts again"
"""Printed after a signal."""

UNITS = {1.0: "s", 1e-3: "ms", 1e-6: "us", 1e-9: "ns", 1e-12: "ps"}
FOLDER = Path() if INSTALLED else DIRECTORY
"""Where models go by their names: to those that come along, or, if this is an installed package, to the working
directory."""
WHERE = "the working directory" if INSTALLED else "runtime/fitted/costs/"


def main(argv: list[str] | None = None) -> int:
    """Return the exit code: 0, or 2 for invalid input or an existing output file."""
    from rich.console import Console

    from analysis.fitting.calibration import calibrate, check

    try:
        arguments = _parser().parse_args(argv)
        refuse_unwritable_file("-o", arguments.out)
        paths = records_below(arguments.folders, find_runs)
        runs = readable(counted(paths, len(paths), "reading records"))
        check(runs)
        target = _target(arguments, runs[0])
        fitted = calibrate(runs, [_num_parameters(run, arguments.num_parameters) for run in runs])
        text = describe(fitted, runs, f"python run.py calibrate {shlex.join(argv or sys.argv[1:])}")
        parse_costs(text.encode(), str(target))  # never write what cannot be read back
        write_file(target, text)
    except (RecordError, ConfigError, OSError) as error:
        return print_error("calibrate", error)
    console = Console(highlight=False, markup=False)
    show(fitted, console)
    ranges = [f"{name} {low} to {high}" for name, (low, high) in fitted.covered.items()]
    console.print(f"covered    {', '.join(ranges)}", soft_wrap=True)
    console.print(f"cost model {target}", soft_wrap=True)
    return 0


# ---- in and out -----------------------------------------------------------------------------------------------------


def _target(arguments: argparse.Namespace, run: Run) -> Path:
    """Path of the model; an existing one is replaced only with --force."""
    name = arguments.name or f"local_{run.job.get('transport', 'tcp')}"
    if Path(name).name != name:
        raise ConfigError(f"--name {name}: must be a plain name; -o FILE writes elsewhere")
    target: Path = arguments.out or FOLDER / f"{name}.yaml"
    if target.suffix != ".yaml":
        raise ConfigError(f"-o {target}: must end in .yaml")
    if target.exists() and not arguments.force:
        raise ConfigError(f"{target}: exists. Give --force to replace it, another --name, or -o FILE")
    return target


def _num_parameters(run: Run, given: int | None) -> int:
    """Model size: from the record (a killed run has no last line), from its saved parameters, or as given."""
    import numpy as np

    for recorded in (run.job.get("num_parameters"), getattr(run.finished, "num_parameters", None)):
        if recorded is not None:
            return int(recorded)
    if (saved := run.path / "parameters.npy").exists():
        return int(np.load(saved, mmap_mode="r").size)
    if given is None:
        raise RecordError(f"{run.path}: its model size is not recorded. Give --num-parameters N")
    return given


def describe(fitted: Calibration, runs: Sequence[Run], command: str) -> str:
    """The text of the cost file: values, their standard errors, and what they were fitted to."""
    import yaml

    content: dict[str, Any] = {
        "schema": SCHEMA,
        "values": {name: _round(each.value, 4) for name, each in _order(fitted)},
        "errors": {name: _round(each.error, 2) for name, each in _order(fitted) if math.isfinite(each.error)},
        "runs": [str(run.meta.get("run_id", run.path.name)) for run in runs],
        "machine": dict(runs[0].meta.get("machine", {})),
        "covered": {name: list(least_most) for name, least_most in fitted.covered.items()},
    }
    head = (
        f"Made from live runs by\n{command}\n"
        "Seconds, seconds per sample or byte; runtime/virtual/costs.py says of what.\n"
        "Not determined by these runs, so at its default:\n"
        + "\n".join(f"  {', '.join(names)}: {reason}" for reason, names in _missing(fitted).items())
    )
    comment = "\n".join(f"# {line}" for line in head.splitlines())
    return f"{comment}\n{yaml.safe_dump(content, sort_keys=False, allow_unicode=True)}"


# ---- console output -------------------------------------------------------------------------------------------------


def show(fitted: Calibration, console: Console) -> None:
    """Print the fitted costs and their errors, and why others were not fitted."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("cost", "value", "± std. error", "of", ""):
        table.add_column(head, justify="left" if head in ("cost", "") else "right", no_wrap=bool(head))
    for name, each in _order(fitted):
        table.add_row(name, *_format(name, each), f"{each.observations:,}", each.note)
    console.print(table)
    console.print("Not determined by these runs, so at its default:")
    for reason, names in _missing(fitted).items():
        console.print(f"  {', '.join(names)}: {reason}", soft_wrap=True)


def _missing(fitted: Calibration) -> dict[str, list[str]]:
    """The costs without a value, by reason."""
    found: dict[str, list[str]] = {}
    for name, reason in fitted.missing.items():
        found.setdefault(reason, []).append(name)
    return found


def _order(fitted: Calibration) -> list[tuple[str, Estimate]]:
    """The estimates in the order of the cost model's fields."""
    names = [each.name for each in msgspec.structs.fields(Costs)]
    return sorted(fitted.estimates.items(), key=lambda item: names.index(item[0]))


def _format(name: str, each: Estimate) -> tuple[str, str]:
    """Value and error in the unit that suits the larger of them."""
    unit, factor = "", 1.0
    if name.endswith("_s"):
        size = max(each.value, each.error if math.isfinite(each.error) else 0.0)
        factor = next((factor for factor in UNITS if size >= factor), min(UNITS))
        unit = f" {UNITS[factor]}"
    error = f"{_round(each.error / factor, 2):g}{unit}" if math.isfinite(each.error) else "unknown"
    return f"{_round(each.value / factor, 3):g}{unit}", error


def _round(value: float, digits: int) -> float:
    """Round to significant digits, so that the file does not suggest more precision than was measured."""
    return float(f"{value:.{digits}g}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{NAME} calibrate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path, help="a live run, or a directory of live runs")
    parser.add_argument("--name", help=f"name of the model in {WHERE} (default: local_<transport>)")
    parser.add_argument("-o", "--out", metavar="FILE", type=Path, help="write here instead (must end in .yaml)")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    parser.add_argument("--num-parameters", metavar="N", type=int, help="model size of runs that do not record theirs")
    parser.error = refuse  # type: ignore[method-assign]
    return parser
