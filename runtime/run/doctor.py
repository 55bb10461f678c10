"""``python run.py doctor``: what this machine can do; ``doctor --cluster SETTINGS``: what a launcher's can.

The second waits for the agents of a run with these settings, asks them what they are, and sends them home: a job never
starts. An agent that a run would refuse is refused here, with the same line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runtime.errors import ConfigError, print_error
from runtime.house import NAME
from runtime.live.machines import doctor

if TYPE_CHECKING:
    from rich.console import Console

CLUSTER = "--cluster"
GB = 1e9
FRAMEWORKS = ("torch", "tensorflow")


def main(argv: Sequence[str]) -> int:
    """Print a table; the exit code is 0 whatever is missing, 2 if nodes are missing or do not agree with us."""
    if CLUSTER not in argv:
        return doctor.main(argv)
    if "-h" in argv or "--help" in argv:
        print(doctor.HELP)
        return 0
    try:
        show(look([word for word in argv if word != CLUSTER]))
    except ConfigError as error:
        return print_error(NAME, error)
    return 0


def look(settings: Sequence[str]) -> list[dict[str, Any]]:
    """The nodes of a run with these settings, as their agents see them; raises :class:`ConfigError`."""
    from runtime.run.checks.facts import device_of
    from runtime.run.checks.job import CheckedJob
    from runtime.run.preflight import preflight
    from runtime.run.prepare import prepare

    ready = preflight(settings)
    if ready.jobs is None or len(ready.jobs.pending) != 1:
        raise ConfigError(f"doctor {CLUSTER}: takes the settings of one job; {doctor.USAGE}")
    _, job = ready.jobs.pending[0]
    launcher = job.config.names.launcher
    starter = getattr(job.runtime, "launcher", None) if isinstance(job, CheckedJob) else None
    if not isinstance(job, CheckedJob) or starter is None or not starter.elsewhere:
        raise ConfigError(f"doctor {CLUSTER}: launcher={launcher} has no other machines; choose launcher=join or ray")
    prepare(ready.jobs.needs)
    job.runtime.await_nodes(job.config.workload.task, job.backend.framework, device_of(job.backend))
    try:
        nodes: list[dict[str, Any]] = starter.describe()
        return nodes
    finally:
        starter.release()


def show(nodes: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """A row for each node, then what does not work there."""
    from rich.console import Console
    from rich.table import Table

    console = console or Console()
    console.width = max(doctor.WIDTH, console.width)
    table = Table(box=None, padding=(0, 2))
    for title in ("node", "address", "host", "cores", "memory", "GPUs", "code", "framework", "works"):
        table.add_column(title, no_wrap=title != "works")
    for node in nodes:
        works = ", ".join(name for name, lack in node["capabilities"].items() if not lack)
        versions = ", ".join(f"{name} {node['versions'][name]}" for name in FRAMEWORKS if name in node["versions"])
        about = (f"{node['memory_bytes'] / GB:.0f} GB", ", ".join(node["gpus"]) or "none", code_of(node["code"]))
        table.add_row(node["node"], node["address"], node["hostname"], str(node["cores"]), *about, versions, works)
    console.print(table)
    for node in nodes:
        for name, lack in node["capabilities"].items():
            if lack:
                console.print(f"{node['node']}, {name}: {lack}", highlight=False)


def code_of(code: Mapping[str, Any]) -> str:
    """The commit of a node's files, or the start of their hash."""
    return f"{code['commit'][:8]}{'+' if code['dirty'] else ''}" if code["commit"] else str(code["sha256"][:8])
