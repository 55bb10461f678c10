"""Show what crashed runs have left on the machine (control groups), and remove it with --reap.

A run cleans up after itself however it ends, unless its janitor is killed together with it. The list comes from the
registry of control groups that runs keep, never from the pattern of a name; a live run is never touched.

python run.py cleanup          # show
python run.py cleanup --reap   # remove them, including their processes

Every user has a registry: $XDG_STATE_HOME/stragglab, or ~/.local/state/stragglab.
Exit code: 0, or 1 if something could not be removed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from runtime.errors import ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.live.machines.crash_registry import CrashRegistry, RegisteredRun, registry_dir, standing


def main(argv: list[str] | None = None) -> int:
    """Return the exit code: 0, 1 if something could not be removed, 2 for an unusable registry."""
    try:
        arguments = _parser().parse_args(argv)
        if not registry_dir().exists():
            print(f"nothing: no run was ever registered in {registry_dir()}")
            return 0
        registry = CrashRegistry()
    except ConfigError as error:
        return print_error("cleanup", error)
    lines = [*_runs(registry, arguments.reap), *_clean_torn(registry, arguments.reap)]
    for line, _ in lines:
        print(line)
    if not lines:
        print(f"nothing: no run is registered in {registry.path}")
    return 0 if all(good for _, good in lines) else 1


def _runs(registry: CrashRegistry, reap: bool) -> Iterator[tuple[str, bool]]:
    """(line, success) for each run."""
    for entry in registry.entries():
        what = standing(entry)
        if what == "running":
            yield f"{_name(entry)} is running: left alone", True
        elif what == "elsewhere":
            where = f"{entry.owner.machine}, which is another machine or container"
            yield f"{_name(entry)} was started on {where}: left alone; clean up there", True
        else:
            yield _clean_crashed(registry, entry, reap, rebooted=what == "rebooted")


def _clean_crashed(registry: CrashRegistry, entry: RegisteredRun, reap: bool, rebooted: bool) -> tuple[str, bool]:
    paths = ", ".join(path for path, _, _ in entry.directories) or "nothing"
    about = f"{_name(entry)} ended before a reboot" if rebooted else f"{_name(entry)} crashed; it made {paths}"
    if not reap:
        return f"{about}: --reap {'removes it from the registry' if rebooted else 'removes that'}", True
    if left := registry.reap(entry):
        return f"{about}: could not remove {', '.join(left)}; try again as the user who ran it, or as root", False
    return f"{about}: {'removed from the registry' if rebooted else 'removed'}", True


def _clean_torn(registry: CrashRegistry, reap: bool) -> Iterator[tuple[str, bool]]:
    for name in registry.torn():
        if reap:
            registry.discard(name)
        yield f"{registry.path / name} is torn and unreadable: {'removed' if reap else '--reap removes it'}", True


def _name(entry: RegisteredRun) -> str:
    return f"run {entry.run_id} (process {entry.owner.pid})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{NAME} cleanup", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reap", action="store_true", help="remove the groups (default: only show them)")
    parser.error = refuse  # type: ignore[method-assign]
    return parser
