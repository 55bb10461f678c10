"""Paths in settings are relative to the directory in which the user started, in every process that reads them.

A job's process may change its directory (``hydra.job.chdir=true``), and tasks are started by an agent. So paths become
absolute once, when the configuration is composed. The record keeps them as they were written: an absolute path means
nothing on another machine, and would make equal runs differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from runtime.config.instantiate import TARGET
from runtime.config.parse import Config
from runtime.errors import ConfigError

SECTIONS = ("strategy", "straggler", "runtime", "backend", "scheduler", "jobs", "policy", "placement", "prevention")
FOLDER = "_dir"
"""Suffix of settings that are directories, which may not exist yet."""


def anchored(config: Config, start: Path) -> Config:
    """``config`` with absolute paths; relative ones are below ``start``."""
    sections = {name: anchored_spec(getattr(config, name), start) for name in SECTIONS}
    task = anchored_spec(config.workload.task, start)
    workload = msgspec.structs.replace(config.workload, task=task)
    cluster = msgspec.structs.replace(config.cluster, costs=_anchor("costs", config.cluster.costs, start))
    trace_dir = _anchor("trace_dir", config.topology.trace_dir, start)
    topology = msgspec.structs.replace(config.topology, trace_dir=trace_dir)
    models = None if config.replay.models is None else _anchor("models", config.replay.models, start)
    replay = msgspec.structs.replace(config.replay, models=models)
    return msgspec.structs.replace(
        config, workload=workload, cluster=cluster, topology=topology, replay=replay, **sections
    )


def anchored_spec(spec: Mapping[str, Any], start: Path) -> dict[str, Any]:
    """Anchor one section and those nested in it."""
    return {name: _anchor(name, value, start) for name, value in spec.items()}


def _anchor(name: str, value: Any, start: Path) -> Any:
    if isinstance(value, Mapping):
        return anchored_spec(value, start)
    if isinstance(value, list | tuple):
        return [_anchor("", item, start) for item in value]
    if not isinstance(value, str) or not value or name == TARGET:
        return value
    return str(start / value) if name.endswith(FOLDER) or _is_file(value, start) else value


def _is_file(value: str, start: Path) -> bool:
    """A text with a slash or a suffix may name a file; a missing one may be the repository's, or an error."""
    if "/" not in value and not Path(value).suffix:
        return False
    try:
        return (start / value).is_file()
    except (OSError, ValueError):  # too long for a name, or with a null byte
        return False


def start_directory() -> Path:
    """The working directory; raises :class:`ConfigError` if it does not exist any more."""
    try:
        return Path(os.getcwd())
    except FileNotFoundError:
        raise ConfigError("the current directory does not exist any more; change into one that does") from None
