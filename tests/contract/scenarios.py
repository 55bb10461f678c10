"""Golden transcripts: a small scenario as text, and below each of its lines what then happens.

A scenario starts with settings (``strategy`` is a file of ``conf/strategy``, ``strategy.<field>`` changes it; the
others are ``workers``, ``servers``, ``batch``, ``samples``, ``batches_per_shard``, ``epochs``, ``overlap``). Then every
line is something that happens, a second after the last (``arrived 0 2 1``, or with commas: one after the other):

    start                                   arrived 0 [not finite]
    failed 1 [for good]                     lost 2 [for good]
    joined 2                                server lost [0]
    server joined 1                         moved
    server denied 1                         denied 4
    observed 25 57
    checkpoint                              restored
    arrived 0 taking 4 s                    timer
    ready 0 with 50 bytes                   sent 0 taking 1 s

(``timer`` is the one that the strategy set last, when it is due; ``timer switch``, ``children`` or ``decided`` the last
with that tag; ``moved``: the servers of the last Repartition hold the parameters; ``denied 4``: worker 4 does not come;
``observed 25 57``: every worker used 2.5 cores, every server 5.7.)

Indented lines are written by ``pytest --rewrite``: the strategy's events, ``->`` its commands, and in brackets what the
runtime notes. What differs in the worker alone, or in the gradient, too, is one line, and so is an order that is
carried out as it was given. Empty lines and lines that begin with ``#`` are kept as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import groupby, takewhile
from typing import Any

import msgspec

from runtime.core import inputs
from strategies.protocol import (
    EVER_S,
    Apply,
    Arrived,
    Average,
    Compute,
    Drop,
    Failed,
    Joined,
    Lost,
    NodeId,
    NodeUse,
    Observed,
    Partition,
    PushHalf,
    Ready,
    Restored,
    Score,
    Scored,
    Send,
    Started,
    StepAlone,
    Strategy,
    SumFragment,
)
from tests.contract.catalogue import make
from tests.support.harness import Rig, make_job

INDENT = "    "
VARIES = re.compile(
    r"(?<=^Arrived: gradient )\d+|(?<= of worker )\d+(?=, \d)|"
    r"(?<=^-> Compute: worker )\d+|(?<=^\[worker )\d+(?= computes)|(?<= computes gradient )\d+"
)
"""What neighbouring lines may differ in, to be written as one."""
COMPUTES = re.compile(r"\[(workers? [\d ]+) computes? (gradients? [\d ]+): (\d+ samples?) (on version \d+)\]")
SETTINGS = {"workers", "servers", "batch", "samples", "batches_per_shard", "epochs", "overlap"}


class Scribe(Rig):
    """Puts into words what happens at the rig."""

    def start(self) -> Rig:
        self.received: list[str] = []
        self.noted_meanwhile: list[str] = []
        return super().start()

    def event(self, t: float, event: Any, commands: Any, version: int, decide_us: float, state: object) -> None:
        super().event(t, event, commands, version, decide_us, state)
        self.received += [in_words(event), *(f"-> {in_words(command)}" for command in commands)]
        self.read_notes()

    def note(self, t: float, kind: str, /, **fields: Any) -> None:
        super().note(t, kind, **fields)
        match kind, fields:
            case "Starved", {"worker": worker}:
                self.noted_meanwhile.append(f"[worker {worker} finds no data]")
            case "EpochStarted", {"epoch": epoch} if epoch:
                self.noted_meanwhile.append(f"[epoch {epoch} begins]")
            case "Requeued", {"worker": worker, "samples": samples}:
                self.noted_meanwhile.append(f"[{counted(samples)} of worker {worker} back in the queue]")
            case "GaveUp", {"worker": worker, "samples": samples}:
                self.noted_meanwhile.append(f"[{counted(samples)} of worker {worker} given up]")

    def compute(self, order: Any) -> None:
        super().compute(order)
        samples = counted(sum(work.samples for work in order.ranges))
        self.noted_meanwhile.append(
            f"[worker {order.worker} computes gradient {order.grad_id}: {samples} on version {order.version}]"
        )

    def compute_reference(self, number: int, version: int) -> None:
        super().compute_reference(number, version)
        self.noted_meanwhile.append(f"[reference {number} is computed on version {version}]")

    def inner_products(self, grad_id: int, reference: int) -> None:
        super().inner_products(grad_id, reference)
        self.noted_meanwhile.append(f"[gradient {grad_id} is compared with reference {reference}]")

    def read_notes(self) -> None:
        """The runtime's actions follow its orders."""
        self.received += self.noted_meanwhile
        self.noted_meanwhile.clear()


def in_words(what: Any) -> str:
    """An event or a command."""
    name, said = type(what).__name__, details(what)
    return f"{name}: {said}" if said else name


def details(what: Any) -> str:
    """What there is to say about an event or a command."""
    match what:
        case Started():
            return f"workers {listed(what.workers)}, batches {listed(what.batch_samples)}"
        case Arrived(grad=grad):
            cut = f" of {grad.samples + grad.cut_samples}" if grad.cut_samples else ""
            return f"gradient {grad.id} of worker {grad.worker}, {counted(grad.samples)}{cut}"
        case Failed():
            return f"worker {what.worker}, {'retryable' if what.retryable else 'not retryable'}"
        case Lost():
            return f"worker {what.worker}, {'restarting' if what.restarting else 'for good'}"
        case Joined():
            return f"worker {what.worker}, incarnation {what.incarnation}"
        case Restored():
            return f"version {what.version}, workers {listed(what.workers)}"
        case Observed():
            return ", ".join(f"{use.node} {use.cpu_cores:g} cores" for use in what.nodes)
        case Compute(parts=(_, *_)):
            rows = " ".join(f"{part.index} x {part.coefficient:.4g}" for part in what.parts)
            return f"worker {what.worker}, {counted(what.num_samples)}: parts {rows}"
        case Compute():
            parts = f" in {what.accum} micro-batches" if what.accum > 1 else ""
            within = f" within {what.within_s:g} s" if (what.within_s or EVER_S) < EVER_S else ""
            return f"worker {what.worker}, {counted(what.num_samples)}{parts}{within}"
        case _:
            return details_of_rest(what)


def halves_of(what: PushHalf) -> str:
    """Where a half goes, and which halves are added."""
    sent = [] if what.to is None else [f"a half to {what.to}"]
    added = [f"add those of {listed(what.adds)}"] if what.adds else []
    return ", ".join([f"worker {what.worker}", *sent, *added])


def shares_of(what: SumFragment) -> str:
    """Which workers offer a fragment, whether it is summed, which workers mix."""
    offer = [f"offer {listed(what.offer)}"] if what.offer else []
    mix = [f"mix {listed(what.mix)}"] if what.mix else []
    return ", ".join([f"fragment {what.fragment}", *offer, *(["sum"] if what.sums else []), *mix])


def details_of_rest(what: Any) -> str:  # noqa: C901  (a table)
    """What is done with gradients; everything else has all its fields shown."""
    match what:
        case Partition():
            return f"{counted(what.num_samples)} in {what.num_parts} parts"
        case Apply():
            weights = listed(in_short(weight) for weight in sorted(set(what.weights)))
            measured = ", measured" if what.measure else ""
            ring = "".join(f", {child} a child of {parent}" for child, parent in what.children)
            return f"gradients {listed(what.grads)}, weight {weights}, rate x {what.lr_scale:g}{measured}{ring}"
        case Send():
            return f"gradients {listed(what.grads)}" + ("" if what.via is None else f" as a sum of {what.via}")
        case Ready():
            return f"gradient {what.grad.id} of worker {what.grad.worker}, {what.num_bytes} bytes"
        case StepAlone():
            return f"gradients {listed(what.grads)}" + ("" if what.lr_scale == 1.0 else f", rate x {what.lr_scale:g}")
        case Average():
            return f"workers {listed(what.workers)}"
        case PushHalf():
            return halves_of(what)
        case SumFragment():
            return shares_of(what)
        case Drop():
            return f"gradients {listed(what.grads)}, {'requeued' if what.requeue else 'given up'}"
        case Score():
            return f"gradient {what.grad}" + (", reference renewed" if what.refresh else "")
        case Scored(grad=grad):
            return f"gradient {grad.id}, <r, g> {what.dot:g}, |g|^2 {what.sqr_grad:g}, |r|^2 {what.sqr_ref:g}"
        case _:
            fields = msgspec.structs.asdict(what).items()
            return ", ".join(f"{name} {value}" for name, value in fields if name not in ("t", "reason"))


def in_short(weight: float) -> str:
    """A fraction where it is a simple one."""
    fraction = Fraction(weight).limit_denominator(1000)
    return str(fraction) if abs(weight - fraction) < 1e-12 else f"{weight:.4g}"


def listed(values: Any) -> str:
    return " ".join(str(value) for value in values)


def counted(samples: int) -> str:
    return f"{samples} sample" if samples == 1 else f"{samples} samples"


def fire(rig: Rig, tag: str = "") -> None:
    """The strategy's last timer (of a tag); later than it is due, if more has happened since."""
    at_s, tag = [timer for timer in rig.timers if timer[1].startswith(f"strategy:{tag}")][-1]
    rig.core.receive(rig.at(max(at_s, rig.t)), inputs.TimerFired(tag))


def move(rig: Rig) -> None:
    """The servers of the last Repartition have read their parts."""
    rig.restore(shares=tuple((NodeId.parse(server), share) for server, share in rig.moves[-1][1]))


def observe(rig: Rig, worker_tenths: int, server_tenths: int) -> None:
    """Tenths of a core that each worker and each server uses."""
    cores = {"worker": worker_tenths / 10, "server": server_tenths / 10}
    present = [node for node in rig.core.members.layout.nodes if node not in rig.core.members.awaited]
    uses = tuple(NodeUse(node=str(node), cpu_cores=cores[node.role]) for node in present)
    rig.core.receive(rig.at(None), inputs.Observed(1.0, uses))


def score(rig: Rig, grad_id: int, cosine: float) -> None:
    """Of a gradient whose mean is twice as long as that of the reference, which is 1."""
    sqr_grad = 4.0 * rig.grads[grad_id].samples ** 2
    rig.score_parts(grad_id, rig.references[-1][0], cosine, sqr_grad, float(rig.job.validation_samples**2))


HAPPENINGS: dict[str, Callable[..., object]] = {
    "start": lambda rig: rig.start(),
    "arrived N": lambda rig, worker: rig.arrive(worker),
    "arrived N taking N s": lambda rig, worker, compute_s: rig.arrive(worker, compute_s=compute_s),
    "ready N with N bytes": lambda rig, worker, num_bytes: rig.ready(worker, num_bytes=num_bytes),
    "sent N taking N s": lambda rig, worker, send_s: rig.arrive(worker, send_s=send_s),
    "arrived N not finite": lambda rig, worker: rig.arrive(worker, finite=False),
    "failed N": lambda rig, worker: rig.fail(worker),
    "failed N for good": lambda rig, worker: rig.fail(worker, retryable=False),
    "lost N": lambda rig, worker: rig.lose(worker),
    "lost N for good": lambda rig, worker: rig.lose(worker, restarting=False),
    "joined N": lambda rig, worker: rig.join(worker),
    "referred": lambda rig: rig.reference_ready(),
    "scored N downhill": lambda rig, grad: score(rig, grad, 0.5),
    "scored N uphill": lambda rig, grad: score(rig, grad, -0.5),
    "server lost": lambda rig: rig.lose_server(),
    "server lost N": lambda rig, server: rig.lose_server(server=server),
    "checkpoint": lambda rig: rig.core.receive(rig.at(None), inputs.TimerFired("runtime:checkpoint")),
    "restored": lambda rig: rig.restore(),
    "server joined N": lambda rig, server: rig.core.receive(rig.at(None), inputs.ServerJoined(server, 0)),
    "server denied N": lambda rig, server: rig.lose_server(server=server),
    "denied N": lambda rig, worker: rig.lose(worker, restarting=False),
    "moved": move,
    "observed N N": observe,
    "timer": fire,
    "timer switch": lambda rig: fire(rig, "switch"),
    "timer children": lambda rig: fire(rig, "children"),
    "timer decided": lambda rig: fire(rig, "decided"),
    "timer grace": lambda rig: fire(rig, "grace"),
}


def happen(rig: Scribe, line: str) -> None:
    """One line of a scenario."""
    for part in line.split(", "):
        several = re.fullmatch(r"(arrived|ready|sent) (\d+(?: \d+)*)(.*)", part)
        for one in [f"{several[1]} {worker}{several[3]}" for worker in several[2].split()] if several else [part]:
            words = one.split()
            kind = " ".join("N" if word.isdigit() else word for word in words)
            if kind not in HAPPENINGS:
                raise ValueError(f"{part}: nothing that can happen in a scenario")
            HAPPENINGS[kind](rig, *(int(word) for word in words if word.isdigit()))
            rig.read_notes()


def play(text: str) -> str:
    """The scenario with its results rewritten."""
    settings = dict(read_settings(text))
    rig = Scribe(make_strategy(settings), job_of(settings))
    written = []
    for line in text.splitlines():
        if line.startswith(INDENT):
            continue
        written.append(line)
        if is_happening(line):
            written += [INDENT + received for received in what_follows(rig, line)]
    return "\n".join(written) + "\n"


def what_follows(rig: Scribe, line: str) -> list[str]:
    """Events, commands and notes caused by one line."""
    rig.received, rig.noted_meanwhile = [], []
    over = rig.core.status
    happen(rig, line)
    end = [f"[{rig.core.status}: {rig.core.reason}]"] if rig.core.status and not over else []
    return [*carried_out([*merged(rig.received)]), *end] or ["nothing"]


def merged(lines: list[str]) -> Iterator[str]:
    """Neighbours that are alike but for the worker and the gradient, as one line."""
    for pattern, alike in groupby(lines, lambda line: VARIES.sub("#", line)):
        first, *more = alike
        if more and "#" in pattern:
            numbers = zip(*map(VARIES.findall, (first, *more)), strict=True)
            for text, plural in (("worker #", "workers #"), ("gradient #", "gradients #"), ("computes ", "compute ")):
                pattern = pattern.replace(text, plural)
            yield pattern.replace("#", "{}").format(*map(listed, numbers))
        else:
            yield from (first, *more)


def carried_out(lines: list[str]) -> Iterator[str]:
    """With what workers compute in the lines that order it, if that is what was ordered."""
    while lines:
        ordered = [*takewhile(lambda line: line.startswith("-> Compute: "), lines)]
        number = max(1, len(ordered))
        done = [COMPUTES.fullmatch(line) for line in lines[len(ordered) :][:number]] if ordered else []
        pairs = [*zip(ordered, done, strict=False)]
        if (
            pairs
            and len(done) == number
            and all(one and line.startswith(f"-> Compute: {one[1]}, {one[3]}") for line, one in pairs)
        ):
            yield from (f"{line}: {one[2]} {one[4]}" for line, one in pairs if one)
            lines = lines[2 * number :]
        else:
            yield from lines[:number]
            lines = lines[number:]


def is_happening(line: str) -> bool:
    """Neither a comment nor a setting."""
    return bool(line.strip()) and not line.startswith("#") and ": " not in line


def read_settings(text: str) -> Iterator[tuple[str, Any]]:
    """(name, value) of the lines at the top."""
    for line in text.splitlines():
        if ": " in line and not line.startswith(("#", INDENT)):
            name, _, value = line.partition(": ")
            if name not in SETTINGS and name.partition(".")[0] != "strategy":
                raise ValueError(f"{line}: no such setting of a scenario")
            yield name, {"true": True, "false": False, "null": None}.get(value, read_number(value))


def read_number(value: str) -> int | float | str | list[Any]:
    """What is none stays as it is."""
    if value.startswith("["):
        numbers: list[Any] = json.loads(value)
        return numbers
    try:
        return int(value) if value.isdigit() else float(value)
    except ValueError:
        return value


def make_strategy(settings: dict[str, Any]) -> Strategy:
    """The one that is named, changed as is said."""
    changes = {name.partition(".")[2]: value for name, value in settings.items() if name.startswith("strategy.")}
    return make(settings["strategy"], **changes)


def job_of(settings: dict[str, Any]) -> Any:
    """Sizes of the job; order of the shards by seed 0."""
    return make_job(
        num_workers=settings["workers"],
        num_servers=settings.get("servers", 1),
        global_batch_samples=settings["batch"],
        num_samples=settings["samples"],
        batches_per_shard=settings.get("batches_per_shard", 1),
        epochs=settings.get("epochs", 1),
        epoch_overlap=settings.get("overlap", False),
        max_time_s=1000.0,
        checkpoint_every_s=1000.0,
    )
