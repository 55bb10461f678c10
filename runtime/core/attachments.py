"""Which replicas sum an update, and whose children the others are (pure).

A child is a worker without an optimizer: it computes on the parameters of its parent, which keeps its gradients and
adds them to its own share of the sum. Everybody else is in the ring. Every ``Apply`` says who is a child from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, final

from runtime.core.ledger import GradientLedger
from runtime.core.membership import Membership
from strategies.protocol import Apply, Grad, ProtocolError


class Reformed(NamedTuple):
    """The workers that do not sum an update, and (worker, source) of those that are no longer children after it.

    A source is in the ring before and after; all its state is taken over.
    """

    excluded: tuple[int, ...]
    returning: tuple[tuple[int, int], ...]


WHOLE_RING = Reformed((), ())


@final
class Attachments:
    """Changes the parents of ``members``.

    ``replicas``: whether there are any, or servers, with which no worker is a child.
    """

    def __init__(self, ledger: GradientLedger, members: Membership, *, replicas: bool) -> None:
        self.ledger, self.members, self.replicas = ledger, members, replicas
        self.kept: dict[int, int] = {}
        """The parent that keeps a child's gradient, by gradient."""

    def ordered(self, grad_id: int, worker: int) -> int | None:
        """A worker begins to compute a gradient: its parent, which gives it the parameters; None: it has them."""
        parent = self.members.parents.get(worker)
        if parent is not None:
            self.kept[grad_id] = parent
        return parent

    def holder(self, grad_id: int, worker: int) -> int:
        """Return the task that keeps this gradient of ``worker``, or will when it is computed."""
        return self.kept.get(grad_id, worker)

    def forget(self, grads: Iterable[int]) -> None:
        """These gradients are used, dropped or will never be computed."""
        for grad_id in grads:
            self.kept.pop(grad_id, None)

    def void(self) -> None:
        """All replicas take over one version: nobody is a child, and no gradient is left."""
        self.members.parents = {}
        self.kept.clear()

    def reform(self, command: Apply, used: Sequence[Grad]) -> Reformed:
        """Carry out ``command.children``; ``used`` are the gradients of the update, which the ledger has given out.

        Raises ``ProtocolError`` for an order that the replicas could not carry out.
        """
        if not command.children and not self.members.parents:
            return WHOLE_RING
        if not self.replicas:
            raise ProtocolError(f"{command}: servers hold the parameters, so no worker can be the child of another")
        before, after = self.members.parents, self._check(command)
        for grad in used:
            if (holder := self.holder(grad.id, grad.worker)) in before:
                raise ProtocolError(f"{command}: worker {holder} keeps gradient {grad.id}, and is not in the ring")
        self._check_idle(command, before.keys() ^ after.keys())
        self._check_empty(command, after.keys() - before.keys())
        self.forget(grad.id for grad in used)
        self.members.parents = after
        stays = [worker for worker in self.members.here() if worker not in before and worker not in after]
        back = sorted(before.keys() - after.keys())
        return Reformed(tuple(sorted(before)), tuple((one, _donor(before[one], stays)) for one in back))

    def _check(self, command: Apply) -> dict[int, int]:
        """The children with their parents: each worker is here and has one role, and a parent has the parameters."""
        after = dict(command.children)
        if len(after) != len(command.children):
            raise ProtocolError(f"{command}: a child has one parent")
        for child, parent in command.children:
            for worker in (child, parent):
                if not self.members.is_here(worker):
                    raise ProtocolError(f"{command}: worker {worker} is not running")
            if parent in after:
                raise ProtocolError(f"{command}: worker {parent} is a child itself")
            if parent in self.members.parents:
                raise ProtocolError(f"{command}: worker {parent} was not in the ring, so it has no parameters to give")
        if not [worker for worker in self.members.here() if worker not in after and worker not in self.members.parents]:
            raise ProtocolError(f"{command}: nobody stays in the ring")
        return after

    def _check_idle(self, command: Apply, changed: Iterable[int]) -> None:
        """Check that a worker enters or leaves the ring between two gradients, never while one is computed."""
        for worker in sorted(changed):
            if worker in self.ledger.busy:
                raise ProtocolError(f"{command}: worker {worker} computes; only an idle one leaves or enters the ring")

    def _check_empty(self, command: Apply, leaving: Iterable[int]) -> None:
        """Check that a worker outside of the ring keeps nothing, since that could not be summed."""
        coming = [(order.grad_id, order.worker) for order in self.ledger.busy.values()]
        kept = {
            self.holder(*one): one[0]
            for one in [*((one.id, one.worker) for one in self.ledger.grads.values()), *coming]
        }
        for worker in sorted(leaving):
            if worker in kept:
                keeps = f"worker {worker} keeps gradient {kept[worker]}, or will"
                raise ProtocolError(f"{command}: {keeps}; it leaves the ring when that is used")


def _donor(parent: int, stays: Sequence[int]) -> int:
    """Whose state a returning child takes over: its parent's, to which it is connected, if that stays in the ring."""
    return parent if parent in stays else min(stays)
