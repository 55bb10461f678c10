"""Names of compared cluster runs: the policy and the strategy, and the case (all other settings that vary). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.measures.labels import case_labels, with_files

NOT_SETTINGS = frozenset(
    {"schema", "kind", "run_id", "started_at", "seed", "versions", "machine", "plan_sha256", "fitted"}
)
"""Entries of ``meta.json`` about the run itself, not its settings; fitted files belong to the strategies."""
NAMED = ("policy", "placement", "strategy")
"""The settings that name a run: policy and placement of the cluster, and the strategy of each job."""


def settings_of(meta: dict[str, Any]) -> dict[str, Any]:
    """All settings of a cluster's run by their dotted names; settings in its section ``cluster`` lack this prefix.

    The hosts are a setting, too: ``hosts`` in words, such as ``4 x 8 GPUs``.
    """
    flat: dict[str, Any] = {}
    for key, value in meta.items():
        if key not in NOT_SETTINGS:
            _flatten("" if key == "cluster" else key, value, flat)
    return flat | {"hosts": hosts_text(meta)}


def hosts_text(meta: dict[str, Any]) -> str:
    """The hosts and their GPUs in words."""
    gpus = [host["gpus"] or 0 for host in meta["machine"]["hosts"]]
    kinds = {number: gpus.count(number) for number in sorted(set(gpus))}
    return " + ".join(f"{hosts} x {number} GPUs" for number, hosts in kinds.items())


def cluster_labels(metas: Sequence[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """(label, case) of each run.

    The label has the names among policy, placement and strategy that vary (the policy if none does), the fields in
    which runs of the same names differ, and the fitted files of runs that would otherwise have equal labels. The case
    has all other settings that vary, as ``key=value``.
    """
    settings = [settings_of(meta) for meta in metas]
    varying = {key for each in settings for key in each if len({repr(other.get(key)) for other in settings}) > 1}
    named = [key for key in NAMED if key in varying] or [key for key in NAMED if any(key in each for each in settings)][
        :1
    ]
    owned = sorted(key for key in varying if key.partition(".")[0] in {f"{name}_fields" for name in NAMED})
    labels = []
    for each in settings:
        name = tuple(each.get(key) for key in named)
        same = [other for other in settings if tuple(other.get(key) for key in named) == name]
        fields = [key for key in owned if len({repr(other.get(key)) for other in same}) > 1]
        words = [str(value) for value in name] + [f"{key.partition('.')[2]}={_show(each.get(key))}" for key in fields]
        labels.append(" ".join(words) or "cluster")
    rest = [{key: value for key, value in each.items() if key not in {*NAMED, *owned}} for each in settings]
    return with_files(labels, metas), case_labels([{"job": each} for each in rest])


def _flatten(prefix: str, value: Any, into: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _flatten(f"{prefix}.{key}" if prefix else str(key), item, into)
    else:
        into[prefix] = value


def _show(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
