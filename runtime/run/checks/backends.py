"""Rules of backends, runtimes and records; without gradients only time and estimates remain."""

from __future__ import annotations

from typing import Any

from runtime.config.rules import Rule
from runtime.run.checks.facts import Facts

LAUNCHES = "Launch"
"""The command that asks for a node."""


def is_written_in(task: object, backend: Any) -> bool:
    """Check that the task has the network's method, for example ``torch_module``."""
    networks = [name for name in dir(task) if name.endswith("_module")]
    return not networks or f"{backend.framework}_module" in networks


def _untrainable(job: Facts) -> dict[str, object]:
    """Say which backends can train the workload, if this one cannot."""
    name, able = job.names.backend, job.workload.backends
    if not job.backend.computes or (name in able and is_written_in(job.task, job.backend)):
        return {}
    others = " or ".join(f"backend={one}" for one in able if one != name)
    return {"able": others or "runtime=virtual backend=none"}


def _is_unmeasured(job: Facts) -> bool:
    """Whether the metric is neither measured nor estimated."""
    return not job.backend.computes and job.backend.load_progress() is None


def _ends(job: Facts) -> dict[str, object]:
    """The setting by which a metric ends the job."""
    ends = [name for name in ("stop_at_target", "stop_at_convergence") if getattr(job.config, name)]
    return {"setting": ends[0]} if ends and _is_unmeasured(job) else {}


END: Rule[Facts] = Rule(
    "an end by a metric that nobody measures",
    _ends,
    "{setting}=true: backend={names.backend} measures no {workload.metric}",
    "estimate it with backend.progress=NAME, or set {setting}=false",
)

BACKENDS: tuple[Rule[Facts], ...] = (
    Rule(
        "agents elsewhere and the virtual clock",
        lambda job: job.elsewhere and not job.runtime.real_time,
        "launcher={names.launcher}: runtime={names.runtime} starts no processes anywhere",
        "leave it out, or choose runtime=live",
    ),
    Rule(
        "backend and workload",
        _untrainable,
        "backend={names.backend}: cannot train workload={workload.name}",
        "choose {able}",
    ),
    Rule(
        "a live run without gradients",
        lambda job: job.runtime.needs_gradients and not job.backend.computes,
        "backend={names.backend}: computes no gradients",
        "runtime={names.runtime} needs them, choose runtime=virtual",
    ),
    Rule(
        "a target that nobody measures",
        lambda job: job.workload.target is not None and _is_unmeasured(job),
        "workload.target={workload.target:g}: backend={names.backend} measures no {workload.metric}",
        "estimate it with backend.progress=NAME, or set workload.target=null",
    ),
    END,
    Rule(
        "saved parameters without parameters",
        lambda job: job.config.save_parameters and not job.backend.computes,
        "save_parameters=true: backend={names.backend} has no parameters",
        "set it to false, or choose backend=torch",
    ),
    Rule(
        "rows of iterations in a live run",
        lambda job: job.config.record == "iterations" and job.runtime.needs_gradients,
        "record=iterations: runtime={names.runtime} records events",
        "choose runtime=virtual",
    ),
    Rule(
        "evictions and a strategy that launches no node",
        lambda job: job.scheduler.evicts and LAUNCHES not in {command.__name__ for command in job.strategy.needs},
        "scheduler: takes away nodes of low priority (evict_after_s), and strategy={names.strategy} launches none",
        "leave scheduler.evict_after_s=null, or choose a strategy that launches nodes",
    ),
)
"""In the order in which they are looked at."""
