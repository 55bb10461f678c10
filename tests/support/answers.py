"""Queries of a coordinated job: the strategy's events and commands, and their results."""

from __future__ import annotations

from typing import Any

import msgspec

from runtime.core.coordinator import Coordinator
from runtime.core.job import ApplyOrder, ComputeOrder
from strategies.protocol import Arrived, Grad


class Line(msgspec.Struct, frozen=True):
    """One line of the record: an event and the strategy's answer."""

    event: Any
    commands: tuple[Any, ...]
    version: int
    state: Any


class Answers:
    """Mixed into a rig, which keeps these."""

    core: Coordinator
    lines: list[Line]
    notes: list[tuple[float, str, dict[str, Any]]]
    orders: dict[int, ComputeOrder]
    applied: list[tuple[float, ApplyOrder, list[Grad]]]
    dropped: list[int]
    checkpoints: list[tuple[int, bytes]]

    @property
    def events(self) -> list[Any]:
        return [line.event for line in self.lines]

    @property
    def commands(self) -> list[Any]:
        return [command for line in self.lines for command in line.commands]

    @property
    def updates(self) -> int:
        return len(self.applied)

    @property
    def used(self) -> list[Grad]:
        return [grad for _, _, grads in self.applied for grad in grads]

    @property
    def staleness(self) -> list[int]:
        """Of every gradient used."""
        return [order.version - 1 - grad.version for _, order, grads in self.applied for grad in grads]

    def arrivals(self, worker: int) -> int:
        """Gradients of a worker, empty ones left out."""
        return sum(isinstance(e, Arrived) and e.grad.worker == worker and e.grad.samples > 0 for e in self.events)

    def busy_workers(self) -> list[int]:
        """Workers with an order, including those that restart and have not got it yet."""
        return sorted(self.core.ledger.busy)

    def busy(self) -> dict[int, ComputeOrder]:
        """What every worker computes now."""
        busy = self.core.ledger.busy
        return {
            worker: self.orders[busy[worker].grad_id] for worker in sorted(busy) if busy[worker].grad_id in self.orders
        }

    def empties(self) -> list[int]:
        """Workers that were said to have arrived without samples."""
        return [event.grad.worker for event in self.events if isinstance(event, Arrived) and not event.grad.samples]

    def received(self, *kinds: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]

    def noted(self, kind: str) -> list[dict[str, Any]]:
        return [fields for _, name, fields in self.notes if name == kind]

    def transcript(self) -> bytes:
        """Everything that was said between the coordinator and the strategy."""
        return msgspec.json.encode([(line.event, line.commands, line.version) for line in self.lines])

    def everything(self) -> bytes:
        """The transcript with the strategy's state, what the runtime was asked to do, and the notes."""
        updates = [(t, order) for t, order, _ in self.applied]
        return msgspec.json.encode([self.lines, self.orders, updates, self.dropped, self.checkpoints, self.notes])
