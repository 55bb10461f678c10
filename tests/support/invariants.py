"""What every record must satisfy, whatever happened to the run (``docs/record.md``, the laws of the protocol)."""

from __future__ import annotations

from typing import Any

from runtime.record.replay import decode
from runtime.record.replay import replay as retold
from strategies.protocol import Strategy

Line = dict[str, Any]


def problems(lines: list[Line], book: Book | None = None) -> list[str]:
    """Everything that is wrong with a record; empty when it is sound. ``book``: one that is empty, and stricter."""
    book = book or Book()
    previous_t = 0.0
    for number, line in enumerate(lines):
        if line["seq"] != number:
            book.wrong.append(f"line {number} has seq {line['seq']}")
        if line["t"] < previous_t:
            book.wrong.append(f"seq {number}: t goes back from {previous_t} to {line['t']}")
        previous_t = max(previous_t, line["t"])
        book.take(line)
    return book.wrong


class Book:
    """Follows one record line by line, as the laws say who may be busy and which gradients may be used."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.incarnation: dict[int, int | None] = {}
        """None: not known, since restarts are not notified while a server is away."""
        self.here: set[int] = set()
        self.idle: dict[int, bool] = {}
        """Worker that is here or on its way -> whether it may be given a Compute."""
        self.grads: set[int] = set()
        self.asked: set[int] = set()
        self.measured: set[int] = set()
        self.seen: set[int] = set()
        self.held: dict[int, int] = {}
        """Gradient -> the worker that holds it."""
        self.travelling: dict[int, int] = {}
        """Likewise, of those that were sent."""
        self.gone: set[int] = set()
        """Workers that were retired or taken away."""
        self.servers: set[int] = set()
        self.holders: set[int] = set()
        self.replicated: set[int] = set()
        """The servers of a job in which all but one are replicas."""
        self.version = 0
        self.halted = False
        self.going_back = False
        """From the next Lost on; a Restart that leads to it is in the line after the note."""

    def take(self, line: Line) -> None:
        if line["kind"] == "note":
            self.going_back |= line["note"]["type"] == "Rollback"
            if line["note"]["type"] == "Preempted":
                self.halt()
            return
        event, seq = line["event"], line["seq"]
        self.check(event["t"] == line["t"], f"seq {seq}: the event says t={event['t']}, its line {line['t']}")
        getattr(self, f"on_{event['type'].lower()}", lambda event, seq: None)(event, seq)
        finishing = False
        for command in line["commands"]:
            if self.halted or finishing:
                break
            finishing = self.obey(command, seq)
        self.check(
            line["version"] == self.version, f"seq {seq}: version {line['version']}, but {self.version} updates applied"
        )

    def check(self, holds: bool, otherwise: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.wrong.append(otherwise)

    # ---- events ------------------------------------------------------------------------------------------------------

    def on_started(self, event: Line, seq: int) -> None:
        self.incarnation = dict.fromkeys(event["workers"])  # the first of some may have died before
        self.idle = dict.fromkeys(event["workers"], True)
        self.here = set(event["workers"])
        self.holders = set(range(event["num_servers"]))
        self.servers = self.holders | set(event.get("replicas", ()))
        self.replicated = self.servers if event.get("replicas") else set()

    def on_arrived(self, event: Line, seq: int) -> None:
        grad = event["grad"]
        worker = grad["worker"]
        self.check(worker in self.here or not grad["samples"], f"seq {seq}: worker {worker} arrived, but is away")
        self.check(self.idle.get(worker) is False, f"seq {seq}: worker {worker} arrived without a Compute")
        self.check(grad["id"] not in self.seen, f"seq {seq}: gradient {grad['id']} arrived twice")
        known = self.incarnation.get(worker)
        self.check(known in (None, grad["incarnation"]), f"seq {seq}: the dead have spoken: {grad}")
        self.incarnation[worker] = grad["incarnation"]
        self.check(0 <= grad["samples"] <= grad["assigned_samples"], f"seq {seq}: {grad}")
        self.check(grad["version"] <= self.version, f"seq {seq}: computed on a version of the future: {grad}")
        self.check(grad["id"] not in self.held, f"seq {seq}: gradient {grad['id']} arrived, but was not sent")
        self.idle[worker] = True
        for member in grad.get("members", ()):
            other = self.travelling.pop(member, None)
            self.check(other is not None, f"seq {seq}: the sum {grad['id']} has gradient {member}, which was not sent")
            if other is not None and other != worker:
                self.check(self.idle.get(other) is False, f"seq {seq}: worker {other} is in a sum without a Compute")
                self.idle[other] = True
        self.seen.add(grad["id"])
        if grad["samples"]:
            self.grads.add(grad["id"])

    def on_ready(self, event: Line, seq: int) -> None:
        grad = event["grad"]
        worker = grad["worker"]
        self.check(self.idle.get(worker) is False, f"seq {seq}: worker {worker} is ready without a Compute")
        self.check(grad["id"] not in self.seen, f"seq {seq}: gradient {grad['id']} is ready, but has arrived")
        self.check(event["num_bytes"] >= 0, f"seq {seq}: {event}")
        self.held[grad["id"]] = worker

    def on_scored(self, event: Line, seq: int) -> None:
        grad = event["grad"]["id"]
        self.check(grad in self.asked & self.grads, f"seq {seq}: a score of {grad} that nobody waits for")
        self.check(event["ref_version"] <= self.version, f"seq {seq}: a reference of the future: {event}")
        self.asked.discard(grad)

    def on_measured(self, event: Line, seq: int) -> None:
        self.check(event["version"] in self.measured, f"seq {seq}: a norm that nobody asked for: {event}")
        self.measured.discard(event["version"])

    def on_failed(self, event: Line, seq: int) -> None:
        worker = event["worker"]
        self.check(self.idle.get(worker) is False, f"seq {seq}: worker {worker} failed without a Compute")
        self.idle[worker] = True

    def on_lost(self, event: Line, seq: int) -> None:
        worker = event["worker"]
        was_here = worker in self.here
        self.check(was_here or not event["restarting"], f"seq {seq}: worker {worker} was lost twice")
        if was_here:
            self.check(self.incarnation[worker] in (None, event["incarnation"]), f"seq {seq}: {event}")
        self.incarnation[worker] = event["incarnation"]
        self.here.discard(worker)
        self.idle.pop(worker, None)
        self.held = {grad: holder for grad, holder in self.held.items() if holder != worker}
        if event["restarting"]:
            self.idle[worker] = True
        if event.get("cause") in ("retired", "evicted"):
            self.gone.add(worker)
        if self.going_back:
            self.halt()

    def on_joined(self, event: Line, seq: int) -> None:
        worker = event["worker"]
        self.check(worker not in self.here, f"seq {seq}: worker {worker} joined, but was here")
        before = self.incarnation.get(worker, -1)  # a newcomer begins with 0
        self.check(event["incarnation"] > (0 if before is None else before), f"seq {seq}: {event}")
        self.check(worker not in self.gone, f"seq {seq}: worker {worker} joined, but had left for good")
        self.here.add(worker)
        self.idle.setdefault(worker, True)
        self.incarnation[worker] = event["incarnation"]

    def on_serverjoined(self, event: Line, seq: int) -> None:
        server = event["server"]
        self.check(server not in self.servers, f"seq {seq}: server {server} joined, but was here")
        self.servers.add(server)

    def on_serverlost(self, event: Line, seq: int) -> None:
        if event.get("holding", True):
            self.halt()
            return
        server = event["server"]
        self.check(server in self.servers, f"seq {seq}: server {server} was lost, but was not here")
        self.servers.discard(server)

    def halt(self) -> None:
        """Nothing counts until everybody is back at a checkpoint."""
        self.halted, self.going_back = True, False
        self.idle = dict.fromkeys(self.idle, True)
        self.grads.clear()
        self.held.clear()
        self.travelling.clear()
        self.asked.clear()
        self.measured.clear()

    def on_restored(self, event: Line, seq: int) -> None:
        if self.going_back and not self.halted:  # a replica that had not joined was lost, of which there is no event
            self.halt()
        self.check(self.halted, f"seq {seq}: restored although no server was lost")
        self.check(event["version"] <= self.version, f"seq {seq}: restored to a version that never was")
        self.halted, self.version = False, event["version"]
        holders = event.get("servers", ())
        there = self.servers | self.replicated  # one that follows may be lost, and back, while all are halted
        self.check(there.issuperset(holders), f"seq {seq}: {holders} hold the parameters, but are not all here")
        self.holders = set(holders)
        if self.replicated:  # replicas have to come again
            self.servers = set(holders)
        self.idle = dict.fromkeys(event["workers"], True)
        self.here = set(event["workers"])
        self.incarnation = dict.fromkeys([*self.incarnation, *event["workers"]])

    # ---- commands ----------------------------------------------------------------------------------------------------

    def obey(self, command: Line, seq: int) -> bool:
        """One command; True when it ended the job, so that those after it were not carried out."""
        match command["type"]:
            case "Compute":
                worker = command["worker"]
                self.check(self.idle.get(worker) is True, f"seq {seq}: Compute for worker {worker}: busy or gone")
                self.idle[worker] = False
            case "Send" | "Apply" | "Drop":
                self.use(command, seq)
            case "Score":
                grad = command["grad"]
                self.check(grad in self.grads - self.asked, f"seq {seq}: Score of gradient {grad}: not to be had")
                self.asked.add(grad)
            case "Restart":
                if command["node"].startswith("server:") or self.going_back:
                    self.halt()
            case "Repartition":
                there = self.servers.issuperset(command["servers"])
                self.check(there, f"seq {seq}: {command['servers']} are to hold the parameters, but are not all here")
                self.halt()
            case "Retire" if command["node"].startswith("server:"):
                self.servers.discard(int(command["node"].partition(":")[2]))
                self.servers |= self.holders  # who holds something stays
            case "Retire" if self.going_back:
                self.halt()
            case "Stop":
                return True
        return False

    def send(self, command: Line, seq: int) -> None:
        """Gradients leave their workers."""
        unknown = set(command["grads"]) - self.held.keys()
        self.check(not unknown, f"seq {seq}: Send of gradients {unknown} that nobody holds")
        for grad in command["grads"]:
            self.travelling[grad] = self.held.pop(grad, -1)

    def use(self, command: Line, seq: int) -> None:
        """Gradients are sent, applied or dropped."""
        what, grads = command["type"], set(command["grads"])
        if what == "Send":
            self.send(command, seq)
            return
        if what == "Drop":
            self.forget(command)
        self.check(grads <= self.grads, f"seq {seq}: {what} of gradients {grads - self.grads} that are not to be had")
        self.grads -= grads
        self.asked -= grads
        self.version += what == "Apply"
        self.measured |= {self.version} if command.get("measure") else set()

    def forget(self, command: Line) -> None:
        """Those that are held end here; all may be dropped then."""
        for grad in self.held.keys() & set(command["grads"]):
            self.idle[self.held.pop(grad)] = True
            self.grads.add(grad)


def replay(lines: list[Line], strategy: Strategy) -> list[str]:
    """Pass the recorded events to a fresh strategy; return where its answers or its state differ."""
    return [
        f"seq {step.recorded.seq}: recorded {step.recorded.commands} and state {step.recorded.state}, "
        f"answered {step.raised or step.commands} and state {step.state}"
        for step in retold(decode(lines), strategy)
        if not step.identical
    ]
