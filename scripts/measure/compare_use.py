"""Compare what two runs used per iteration, such as a live run on emulated hosts and the same job on the virtual clock.

python -m scripts.measure.compare_use runs/live runs/virtual     # both with runtime.telemetry_every_s

Processor seconds and bytes are work and not time, so a busy machine disturbs them little; but a cost model of another
machine says nothing about them: calibrate on this one first (python run.py calibrate).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.records.load import RecordError, load_run
from analysis.records.tables import Tables
from runtime.errors import print_error, refuse


def per_iteration(tables: Tables) -> dict[str, float]:
    """Means between the first and the last sample; raises ``ValueError`` for a record with fewer than two."""
    nodes, arrived = tables.nodes, tables.iterations["t"]
    times = sorted(set(nodes["t"])) if len(nodes) else []
    if len(times) < 2:
        raise ValueError("fewer than two samples of use; repeat it with runtime.telemetry_every_s=0.5")
    within = nodes[nodes["t"] > times[0]]
    iterations = int(((arrived > times[0]) & (arrived <= times[-1])).sum()) or 1
    used = {}
    for role in ("worker", "server", "host"):
        of_role = within[within["node"].str.startswith(f"{role}:")]
        used[f"{role}s: processor seconds"] = float((of_role["cpu_cores"] * of_role["period_s"]).sum()) / iterations
    hosts = within[within["node"].str.startswith("host:")]
    for way in ("out", "in"):
        used[f"hosts: bytes {way}"] = float((hosts[f"{way}_bytes_per_s"] * hosts["period_s"]).sum()) / iterations
    used["timings: cpu_s"] = float(tables.iterations["cpu_s"].mean())
    return used


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code: 0, or 2 for a directory that is not such a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("runs", nargs=2, type=Path, metavar="RUN", help="a run's directory")
    parser.error = refuse  # type: ignore[method-assign]
    try:
        arguments = parser.parse_args(argv)
        one, other = (per_iteration(load_run(path).tables) for path in arguments.runs)
    except (RecordError, ValueError) as error:
        return print_error("compare_use.py", error)
    for name, value in one.items():
        ratio = other[name] / value if value else float("nan")
        print(f"{name:28} {value:12.6g} {other[name]:12.6g}   {ratio - 1:+7.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
