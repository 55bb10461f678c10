"""One number of a run for searches of the best settings, such as Hydra's sweepers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.measures.metrics import summarise

if TYPE_CHECKING:
    from analysis.records.load import Run

FIELDS = {"tta": "tta_s", "jct": "jct_s", "final": "final_metric"}
"""Name -> field of the summary."""


def value_of(run: Run, name: str) -> float:
    """Seconds to the target (``tta``), of the job (``jct``), or the last value of the metric (``final``).

    It is not a number where there is no such value, and for a job that was cut off: its length is no completion time.
    """
    summary = summarise(run)
    value = summary[FIELDS[name]]
    return float("nan") if value is None or (name == "jct" and not summary["completed"]) else float(value)
