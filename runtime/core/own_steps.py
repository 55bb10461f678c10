"""Gradients by which workers have moved their own parameters since the last update (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import final

from runtime.core.job import Port, StepOrder
from runtime.core.ledger import GradientLedger
from runtime.core.membership import Membership
from strategies.protocol import Average, Grad, ProtocolError, StepAlone


@final
class OwnSteps:
    """``grads`` are those gradients; an update names all of them, or none.

    ``meanwhile``: workers may average while they compute.
    """

    def __init__(
        self, ledger: GradientLedger, members: Membership, port: Port, *, replicas: bool, meanwhile: bool
    ) -> None:
        self.ledger, self.members, self.port = ledger, members, port
        self.replicas, self.meanwhile = replicas, meanwhile
        self.grads: dict[int, Grad] = {}
        self._samples: Counter[int] = Counter()
        """Samples of these by worker."""
        self._since: int | None = None
        """The version after which workers have optimizers of their own."""

    def step(self, command: StepAlone, version: int, rate: Callable[[int], float]) -> None:
        """Order one step from the worker of each gradient; ``rate(n)`` is the rate n samples after ``version``.

        These are a worker's own samples times the number of workers, which do not depend on who is faster.
        """
        if not self.replicas:
            raise ProtocolError(f"{command}: servers hold the parameters, so no worker has parameters of its own")
        if len(set(command.grads)) != len(command.grads) or not command.grads:
            raise ProtocolError(f"{command}: needs at least one gradient, and none twice")
        self._since = version if self._since is None else min(version, self._since)
        for grad_id in command.grads:
            grad = self.ledger.grads.get(grad_id)
            if grad is None or grad_id in self.grads:
                raise ProtocolError(f"{command}: gradient {grad_id} has not arrived, or is used")
            if grad.worker in self.ledger.busy or grad.worker in self.members.parents:
                raise self.ledger.error(grad.worker, f"{command}: only an idle worker of the ring steps alone")
            self.grads[grad_id] = grad
            lr = rate(self._samples[grad.worker] * len(self.members.here())) * command.lr_scale
            self._samples[grad.worker] += grad.samples
            self.port.step_alone(StepOrder(grad_id=grad_id, worker=grad.worker, lr=lr, samples=grad.samples))

    def average(self, command: Average) -> None:
        """Order that these workers continue from the mean of their own parameters."""
        workers = command.workers
        if len(workers) < 2 or len(set(workers)) != len(workers):
            raise ProtocolError(f"{command}: needs at least two workers, and none twice")
        for worker in workers:
            if not self._samples[worker]:
                raise self.ledger.error(worker, f"{command}: it has not stepped alone since the last update")
            if not self.meanwhile and (worker in self.ledger.busy or worker in self.ledger.starved):
                raise self.ledger.error(worker, f"{command}: only idle workers average")
        self.port.average(workers)

    def check_drop(self, grads: Sequence[int]) -> None:
        """Refuse to discard a gradient that has moved parameters already."""
        if stepped := [grad_id for grad_id in grads if grad_id in self.grads]:
            raise ProtocolError(f"Drop of {stepped}: their workers have stepped by them")

    def moves(self, used: Sequence[Grad], weights: Sequence[float], version: int) -> tuple[tuple[int, float], ...]:
        """The part of each worker's move in the update of ``version``, which uses it up; empty: it is of gradients.

        Raises ``ProtocolError`` if some of the gradients have moved parameters and others have not, or not all that
        have are named.
        """
        if not self.grads and (self._since is None or version <= self._since):
            return ()
        if self.grads.keys() != {grad.id for grad in used}:
            raise ProtocolError(
                f"Apply of {[grad.id for grad in used]}: after steps of workers alone an update is of all gradients "
                f"of such steps ({sorted(self.grads)}), and of no others"
            )
        factors: dict[int, float] = {}
        for grad, weight in zip(used, weights, strict=True):
            factors[grad.worker] = factors.get(grad.worker, 0.0) + weight * grad.samples
        self.void()
        return tuple(sorted(factors.items()))

    def void(self) -> None:
        """All workers have the parameters of the last update again."""
        self.grads = {}
        self._samples.clear()
