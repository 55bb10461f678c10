"""Who holds which cores, by the notes of a cluster's record alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Nodes = dict[tuple[str, str], tuple[int, float, bool]]
"""(machine, cores, low priority) of every node, by its job and its name."""


def after(held: Nodes, note: dict[str, Any]) -> Nodes:
    """What nodes hold after this note, if they held this before."""
    job = note.get("job", "")
    match note["type"]:
        case "Placed":
            placed = ((role, number, host) for role in note["cores"] for number, host in enumerate(note[f"{role}s"]))
            return held | {
                (job, f"{role}:{number}"): (host, note["cores"][role], False) for role, number, host in placed
            }
        case "Granted":
            return held | {(job, note["node"]): (note["host"], note["cores"], note["low"])}
        case "Allotted":
            machine, _, low = held[job, note["node"]]
            return held | {(job, note["node"]): (machine, note["cores"], low)}
        case "Returned":
            return {key: value for key, value in held.items() if key != (job, note["node"])}
        case "Ended":
            return {key: value for key, value in held.items() if key[0] != job}
    return held


def violations(notes: Iterable[dict[str, Any]], hosts: list[tuple[float, int]]) -> Iterator[str]:
    """Hosts of (cores, GPUs) whose nodes hold more than these, at any instant."""
    held: Nodes = {}
    for note in notes:
        held = after(held, note)
        for host, (cores, gpus) in enumerate(hosts):
            here = [(name, has) for (_, name), (number, has, _) in held.items() if number == host]
            if sum(has for _, has in here) > cores or sum(name.startswith("worker") for name, _ in here) > gpus:
                yield f"host {host} at {note['t']}"
