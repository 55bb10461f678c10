"""JSON of other programs than profilers: the form that a file has, and the reader for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from analysis.logs.golden_values import is_golden, read_golden
from analysis.logs.step_log import LogError, StepLog
from analysis.logs.step_records import is_step_records, read_step_records


class Form(NamedTuple):
    """How a form of JSON is recognised, and its reader."""

    name: str
    holds: Callable[[Any], bool]
    read: Callable[[str, Any], StepLog]


FORMS = (
    Form("golden values of Megatron-LM", is_golden, read_golden),
    Form("step_records", is_step_records, read_step_records),
)
NO_TIMES = (
    "has weights by step, as torchft's regression tests keep them, and no time of any step; log the seconds of every "
    "step and rank"
)

NO_DURATIONS = (
    "is an execution trace of PyTorch: it has operators and their order, and no time of any; give the trace of "
    "torch.profiler of the same steps"
)


def read_json(path: Path, content: Any) -> StepLog | None:
    """The log of a file that has one of these forms; None: it has none.

    Raises:
        LogError: it has one of them and is damaged, or is known to have no times.
    """
    if _has_weights(content):
        raise LogError(f"{path}: {NO_TIMES}")
    if isinstance(content, dict) and {"schema", "nodes"} <= content.keys():
        raise LogError(f"{path}: {NO_DURATIONS}")
    return next((form.read(str(path), content) for form in FORMS if form.holds(content)), None)


def _has_weights(content: Any) -> bool:
    while isinstance(content, list) and content:
        content = content[0]
    return isinstance(content, dict) and "global_parameter_history" in content
