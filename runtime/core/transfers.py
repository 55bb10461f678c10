"""Gradients that their workers hold until the strategy says what becomes of them (pure).

Only of a strategy that needs ``Send``. Between ``Ready`` and ``Send`` a gradient is *ready*: its worker has it, nothing
of it travels, and nothing happens to it without a command. For all others its Compute continues meanwhile
(:attr:`GradientLedger.busy`): the worker is not idle, and its samples may still come back to the queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from runtime.core.job import Port, SendOrder, SumOrder
from runtime.core.ledger import GradientLedger
from strategies.protocol import Grad, ProtocolError, Send


@final
class Transfers:
    """Orders transfers of ready gradients, each once; ``number`` gives a sum its id."""

    def __init__(self, ledger: GradientLedger, port: Port, number: Callable[[], int]) -> None:
        self.ledger, self.port, self._number = ledger, port, number
        self.aggregators: frozenset[str] = frozenset()
        self.away: set[str] = set()
        """Aggregators that cannot sum now, so that gradients go to the servers themselves."""
        self.sums: dict[int, SumOrder] = {}
        """Ordered, and not at the servers yet."""

    def ready(self, grad: Grad) -> None:
        """A worker has finished a gradient and holds it."""
        self.ledger.ready[grad.id] = grad

    def send(self, command: Send) -> None:
        """Let gradients travel; all of them must be ready, or none travels."""
        ready, ids = self.ledger.ready, command.grads
        if not ids or len(set(ids)) != len(ids):
            raise ProtocolError(f"{command}: needs at least one gradient, and none twice")
        if unknown := [grad_id for grad_id in ids if grad_id not in ready]:
            raise self._refuse(command, unknown[0])
        if command.via is not None:
            self._check_sum(command)
        orders = tuple(
            SendOrder(grad_id=grad.id, worker=grad.worker, incarnation=grad.incarnation)
            for grad in [ready.pop(grad_id) for grad_id in ids]
        )
        if command.via is not None and command.via not in self.away:
            made = SumOrder(grad_id=self._number(), via=command.via, members=orders)
            self.sums[made.grad_id] = made
            self.port.send_sum(made)
            return
        for order in orders:
            self.port.send(order)

    def lost(self, aggregator: str) -> list[SumOrder]:
        """An aggregator is lost, with these sums."""
        self.away.add(aggregator)
        gone = [made for made in self.sums.values() if made.via == aggregator]
        for made in gone:
            del self.sums[made.grad_id]
        return gone

    def joined(self, aggregator: str) -> None:
        """An aggregator can sum again."""
        self.away.discard(aggregator)

    def _check_sum(self, command: Send) -> None:
        if command.via not in self.aggregators:
            there = ", ".join(sorted(self.aggregators)) or "none"
            raise ProtocolError(f"{command}: there is no such aggregator (Strategy.aggregators; there are {there})")
        if len(command.grads) < 2 or any(self.ledger.ready[grad_id].round is not None for grad_id in command.grads):
            raise ProtocolError(f"{command}: a sum has two gradients or more, and none of parts of a round")

    def discard(self, ids: tuple[int, ...]) -> tuple[list[Grad], tuple[int, ...]]:
        """Let workers forget the ready gradients of ``ids``; returns these, and the other ids."""
        ledger = self.ledger
        if not ledger.ready or len(set(ids)) != len(ids):
            return [], ids
        held = [ledger.ready[grad_id] for grad_id in ids if grad_id in ledger.ready]
        others = tuple(grad_id for grad_id in ids if grad_id not in ledger.ready)
        for grad in held:
            ledger.end(grad.worker)
            ledger.remember(grad)
            self.port.forget(grad.worker, grad.id)
        return held, others

    def _refuse(self, command: Send, grad_id: int) -> ProtocolError:
        worker = next((order.worker for order in self.ledger.busy.values() if order.grad_id == grad_id), None)
        held = f"held are {sorted(self.ledger.ready)}"
        if worker is None:
            return ProtocolError(f"{command}: nobody holds gradient {grad_id} ({held})")
        return self.ledger.error(worker, f"{command}: gradient {grad_id} is not ready, or travels already ({held})")
