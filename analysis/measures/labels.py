"""Names of compared runs: the strategy's label, and the case (all other settings in which runs differ)."""

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
    """The strategy of each run, with the hyper-parameters in which runs of the same strategy differ.

    Runs that differ in nothing but the content of fitted files have these in their names, too.
    """
    by_name: dict[str, list[dict[str, Any]]] = {}
    for meta in metas:
        by_name.setdefault(meta["job"]["strategy"], []).append(meta)
    differing = {name: _varying([_fields(meta) for meta in own]) for name, own in by_name.items()}
    mixed = {name for name, own in by_name.items() if _mixes_files(own)}
    labels = []
    for meta in metas:
        name = meta["job"]["strategy"]
        label = _describe(name, _fields(meta), differing[name])
        labels.append(f"{label} fitted={_files(meta)}" if name in mixed else label)
    return labels


def _fields(meta: dict[str, Any]) -> dict[str, Any]:
    return meta["job"].get("strategy_fields") or {}


def _files(meta: dict[str, Any]) -> str:
    """Name the files by which a run's strategy predicts; older records do not say whether there are any."""
    files = meta.get("fitted")
    return "unknown" if files is None else ", ".join(files) or "none"


def with_files(labels: Sequence[str], metas: Sequence[dict[str, Any]]) -> list[str]:
    """The labels, with the fitted files of runs that would otherwise be called as runs with other ones."""
    found: dict[str, set[str]] = {}
    for label, meta in zip(labels, metas, strict=True):
        found.setdefault(label, set()).add(_files(meta))
    mixed = {label for label, files in found.items() if _differ(files)}
    return [
        f"{label} fitted={_files(meta)}" if label in mixed else label for label, meta in zip(labels, metas, strict=True)
    ]


def _differ(files: set[str]) -> bool:
    """Whether these are different files; that older records do not say that there are none is no difference."""
    return len(files) > 1 and files != {"unknown", "none"}


def _mixes_files(metas: Sequence[dict[str, Any]]) -> bool:
    """Whether runs with the same hyper-parameters predict by different files."""
    found: dict[bytes, set[str]] = {}
    for meta in metas:
        found.setdefault(msgspec.json.encode(_fields(meta)), set()).add(_files(meta))
    return any(_differ(files) for files in found.values())


def case_labels(metas: Sequence[dict[str, Any]]) -> list[str]:
    """The case of each run: the settings outside the strategy that vary, as ``setting=value``; empty if none does."""
    settings = [_settings(meta) for meta in metas]
    chosen: list[str] = []
    for key in sorted(_varying(settings), key=_rank):
        if len({_point(s, [*chosen, key]) for s in settings}) > len({_point(s, chosen) for s in settings}):
            chosen.append(key)
    return [", ".join(f"{_setting(key)}={_show(s.get(key))}" for key in chosen) for s in settings]


def _setting(key: str) -> str:
    """The setting of the command line that a key of the record is of: ``straggler.delay_s``."""
    head, dot, rest = key.partition(".")
    group = head.removesuffix("_fields")
    return f"{'workload' if group == 'task' else group}{dot}{rest}" if head.endswith("_fields") else key


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
    if isinstance(value, list):
        return f"[{','.join(map(_show, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)
