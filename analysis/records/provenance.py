"""One caption per figure: runs, machine and seeds, so that no figure lacks its context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

SEPARATOR = " \N{MIDDLE DOT} "
"""Between the parts of a caption."""
UNKNOWN = "unknown"
"""The text for a commit that a record cannot name, such as an installed package's."""


def caption(metas: Sequence[dict[str, Any]]) -> str:
    """Runtime and calibration, job, disturbance, fitted files, seeds and machine of the runs behind a figure."""
    if not metas:
        return "by arithmetic: nothing was run"
    if metas[0].get("kind") == "cluster":
        return cluster_caption(metas)
    parts = (
        _runtime(metas),
        _job(metas),
        _list_fitted(metas),
        _size(metas),
        _seeds(metas),
        _machine(metas),
        _version(metas),
    )
    return SEPARATOR.join(part for part in parts if part)


def short_caption(metas: Sequence[dict[str, Any]]) -> str:
    """Runtime and calibration, size, seeds; the version only if it had uncommitted changes."""
    if not metas:
        return "by arithmetic: nothing was run"
    version = _version(metas)
    size = _hosts(metas) if metas[0].get("kind") == "cluster" else _size(metas)
    parts = (_runtime(metas), size, _seeds(metas), version if "-dirty" in version else "")
    return SEPARATOR.join(part for part in parts if part)


def cluster_caption(metas: Sequence[dict[str, Any]]) -> str:
    """Runtime and calibration, jobs, policies, fitted files, hosts, seeds, machine of the cluster runs of a figure."""
    set_up = [{"job": meta.get("cluster") or {}} for meta in metas]
    names = (("jobs", "jobs"), ("policy", "policy"), ("placement", "placement"), ("strategy", "strategy"))
    said = [f"{name}: {_all(set_up, key)}" for key, name in names if _all(set_up, key)]
    straggler = _all(set_up, "straggler")
    said += [f"models: {models}" for models in [_all([{"job": _replay(meta)} for meta in metas], "models")] if models]
    said += [f"stragglers: {straggler}"] if straggler not in ("", "none") else []
    parts = (
        _runtime(metas),
        ", ".join(said),
        _list_fitted(metas),
        _hosts(metas),
        _seeds(metas),
        _machine(metas),
        _version(metas),
    )
    return SEPARATOR.join(part for part in parts if part)


def _replay(meta: dict[str, Any]) -> dict[str, Any]:
    return (meta.get("cluster") or {}).get("replay") or {}


def _hosts(metas: Sequence[dict[str, Any]]) -> str:
    found = []
    for meta in metas:
        hosts = meta["machine"]["hosts"]
        jobs = (meta.get("cluster") or {}).get("num_jobs")
        text = f"{len(hosts)} hosts with {sum(host['gpus'] or 0 for host in hosts)} GPUs"
        found.append(f"{jobs} jobs on {text}" if jobs else text)
    return ", ".join(dict.fromkeys(found))


def _runtime(metas: Sequence[dict[str, Any]]) -> str:
    found = []
    for runtime, calibration in dict.fromkeys((meta.get("runtime"), meta.get("calibration")) for meta in metas):
        found.append(f"{runtime} runtime" + (f" (calibration {calibration})" if calibration else ""))
    return ", ".join(found)


def _list_fitted(metas: Sequence[dict[str, Any]]) -> str:
    """All fitted files: two of one name are different files."""
    found = dict.fromkeys(name for meta in metas for name in meta.get("fitted") or ())
    return f"fitted: {', '.join(found)}" if found else ""


def _job(metas: Sequence[dict[str, Any]]) -> str:
    workload, straggler = _all(metas, "workload"), _all(metas, "straggler")
    return ", ".join(filter(None, (workload, straggler and f"stragglers: {straggler}", _all(metas, "backend"))))


def _size(metas: Sequence[dict[str, Any]]) -> str:
    parts = [(_all(metas, "num_workers"), "workers"), (_all(metas, "num_servers"), "servers")]
    found = [f"{value} {name.removesuffix('s') if value == '1' else name}" for value, name in parts if value]
    batch = _all(metas, "global_batch_samples")
    return ", ".join([*found, *([f"global batch {batch}"] if batch else [])])


def _seeds(metas: Sequence[dict[str, Any]]) -> str:
    seeds = sorted({meta["seed"] for meta in metas})
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {ranges(seeds)}"


def ranges(numbers: Iterable[int]) -> str:
    """The numbers, sorted, as ranges: ``0-2, 5`` for 0, 1, 2 and 5."""
    runs = [[n for _, n in group] for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}\N{EN DASH}{run[-1]}" for run in runs)


def _machine(metas: Sequence[dict[str, Any]]) -> str:
    found = dict.fromkeys(_one_machine(meta.get("machine") or {}) for meta in metas)
    return "; ".join(name for name in found if name)


def _one_machine(machine: dict[str, Any]) -> str:
    cores, kernel = machine.get("num_cores"), machine.get("kernel")
    parts = (machine.get("cpu"), f"{cores} cores" if cores else None, f"Linux {kernel}" if kernel else None)
    return ", ".join(part for part in parts if part)


def _version(metas: Sequence[dict[str, Any]]) -> str:
    """The version, and the commit where it is known, which identifies the code better."""
    found = dict.fromkeys(version_text(meta.get("versions") or {}) for meta in metas)
    return ", ".join(version for version in found if version)


def version_text(versions: Mapping[str, str]) -> str:
    """``Stragglab 0.1.0 (1a2b3c4)`` of the versions that a record has, as far as they are known; else empty."""
    version, commit = ("" if v == UNKNOWN else v for v in (versions.get("stragglab", ""), versions.get("commit", "")))
    found = f"{version} ({commit})" if version and commit else version or commit
    return f"Stragglab {found}" if found else ""


def without(said: str, known: str) -> str:
    """The parts of a caption that another one does not have."""
    return SEPARATOR.join(part for part in said.split(SEPARATOR) if part not in known.split(SEPARATOR))


def _all(metas: Sequence[dict[str, Any]], key: str) -> str:
    return ", ".join(dict.fromkeys(str(meta["job"][key]) for meta in metas if meta["job"].get(key) is not None))
