"""The story of one job in a set, from the set's log: why it waited, its resources, and the jobs that took them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analysis.reports.story.lines import Fields, RawLine
from analysis.reports.story.telling import Entry, Story
from analysis.reports.story.words import fields_text, note_in_words

HOLDERS_SHOWN = 5


def tell_job(lines: Iterable[RawLine], num_gpus: int, policy: str, job: str | None) -> Story:
    """The story of a job by its name (None: all jobs) from the lines of ``cluster.jsonl``.

    Args:
        lines: all lines in order.
        num_gpus: GPUs of all hosts together.
        policy: name of the policy that decides which job starts.
        job: whose story; times of its entries are in seconds of the set's clock.
    """
    held: dict[str, int] = {}
    wanted: dict[str, int] = {}
    entries, last = [], ""
    for line in lines:
        note = line.note or {}
        name, kind = str(note.get("job", "")), note.get("type")
        if kind == "Submitted":
            wanted[name] = int(note.get("gpus", 0))
        if job in (None, name):
            place = f"job {name}: " if job is None and name else ""
            for what, why in _entries(note, held, wanted.get(name, 0), num_gpus, policy, last):
                entries.append(Entry(line.t, line.t, line.seq, place + what, why))
        if kind in ("Placed", "Granted", "Returned"):
            held[name] = len(note.get("workers", ()))
        elif kind in ("Queued", "Ended") and held.pop(name, None) is not None:
            last = f"job {name} gave its GPUs back at {line.t:.3f} s"
    return Story(entries, job is None or job in wanted)


def _entries(  # noqa: C901 (a case for each note)
    note: Fields, held: dict[str, int], wanted: int, num_gpus: int, policy: str, last: str
) -> Iterator[tuple[str, str]]:
    """(what happened, why) of one note."""
    name, free = note.get("job"), num_gpus - sum(held.values())
    match note:
        case {"type": "Submitted"}:
            duration = note.get("duration_s")
            alone = "" if duration is None else f"; alone it would take {duration:.4g} s"
            yield f"is submitted and asks for {wanted} GPUs{alone}", ""
        case {"type": "Queued"} if name in held:
            yield "gives its GPUs back and waits", ""
        case {"type": "Queued"}:
            why = _holds_back(held, free >= wanted, policy)
            yield "waits", f"it asks for {wanted} GPUs, {free} of {num_gpus} are free; {why}"
        case {"type": "Placed"}:
            hosts = sorted({*note.get("workers", ()), *note.get("servers", ())})
            where = ", ".join(f"host:{host}" for host in hosts)
            why = f"{free} of {num_gpus} GPUs are free" + (f"; {last}" if last else "")
            yield f"gets {len(note.get('workers', ()))} GPUs on {where}", why
        case {"type": "Preempted"}:
            yield "is ordered to give its GPUs back", f"policy {policy} prefers another job"
        case {"type": "Started"}:
            yield "trains", ""
        case {"type": "Ended", "status": status, "reason": reason}:
            yield f"has ended: {status}", str(reason)
        case {"type": "Granted", "node": node, "cores": cores, "host": host}:
            yield f"gets {node}, with {cores:g} cores of host:{host}", ""
        case {"type": "Denied", "node": node, "reason": reason}:
            yield f"does not get {node}", str(reason)
        case {"type": "Returned", "node": node}:
            yield f"gives {node} back", ""
        case {"type": "Reserved"}:
            yield "is granted a reservation", fields_text(note, "job", "demands")
        case {"type": "Refused"}:
            yield "is refused a reservation", fields_text(note, "job", "demands")
        case {"type": "Finished"}:
            yield note_in_words(note), ""
        case _:
            yield f"{note.get('type')} ({fields_text(note, 'job')})", ""


def _holds_back(held: dict[str, int], enough: bool, policy: str) -> str:
    """Say what keeps a job waiting: the jobs that hold GPUs, the largest first, or a rule."""
    if enough or not held:
        return f"policy {policy} or the placement holds it back"
    order = sorted(held.items(), key=lambda item: (-item[1], item[0]))
    said = ", ".join(f"{name} ({number})" for name, number in order[:HOLDERS_SHOWN])
    rest = sum(number for _, number in order[HOLDERS_SHOWN:])
    return f"held by {said}" + (f" and {len(order) - HOLDERS_SHOWN} others ({rest})" if rest else "")
