"""Names of what is compared: the strategy's label, and the case (all other settings in which runs differ)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec

STRATEGY_KEYS = frozenset({"strategy", "strategy_fields", "data", "num_shards"})
"""Settings of the job that belong to the strategy (or follow from it) and so do not separate cases."""
FIRST = (
    *("straggler", "straggler_fields", "workload", "metric", "target"),
    *("backend", "topology", "transport", "num_workers", "num_servers", "runtime"),
)
"""The settings that name a case best; others are used only where these do not distinguish two cases."""


def strategy_labels(metas: Sequence[dict[str, Any]]) -> list[str]:
    """The strategy of each run, with the hyper-parameters in which runs of the same strategy differ."""
    jobs = [meta["job"] for meta in metas]
    by_name: dict[str, list[dict[str, Any]]] = {}
    for job in jobs:
        by_name.setdefault(job["strategy"], []).append(job.get("strategy_fields") or {})
    differing = {name: _varying(fields) for name, fields in by_name.items()}
    return [_describe(job["strategy"], job.get("strategy_fields") or {}, differing[job["strategy"]]) for job in jobs]


def case_labels(metas: Sequence[dict[str, Any]]) -> list[str]:
    """The case of each run: the settings outside the strategy that vary, as ``key=value``; empty if none does."""
    settings = [_settings(meta) for meta in metas]
    chosen: list[str] = []
    for key in sorted(_varying(settings), key=_rank):
        if len({_point(s, [*chosen, key]) for s in settings}) > len({_point(s, chosen) for s in settings}):
            chosen.append(key)
    return [", ".join(f"{key}={_show(s.get(key))}" for key in chosen) for s in settings]


def _settings(meta: dict[str, Any]) -> dict[str, Any]:
    flat = {"runtime": meta.get("runtime"), "calibration": meta.get("calibration")}
    for key, value in meta["job"].items():
        if key in STRATEGY_KEYS:
            continue
        flat |= {f"{key}.{name}": item for name, item in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def _rank(key: str) -> tuple[int, str]:
    head = key.partition(".")[0]
    return (FIRST.index(head) if head in FIRST else len(FIRST), key)


def _varying(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Keys whose values are not all equal, in order of appearance."""
    keys = dict.fromkeys(key for each in settings for key in each)
    return [key for key in keys if len({_point(each, [key]) for each in settings}) > 1]


def _point(settings: dict[str, Any], keys: Sequence[str]) -> Hashable:
    return msgspec.json.encode([settings.get(key) for key in keys])


def _describe(name: str, fields: dict[str, Any], keys: Sequence[str]) -> str:
    return " ".join([name, *(f"{key}={_show(fields.get(key))}" for key in keys)])


def _show(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
