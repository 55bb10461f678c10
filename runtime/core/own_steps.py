"""Gradients by which workers have moved their own parameters since the last update (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, final

from runtime.core.job import FragmentOrder, Port, PushOrder, StepOrder
from runtime.core.ledger import GradientLedger
from runtime.core.membership import Membership
from strategies.protocol import Average, Grad, ProtocolError, PushHalf, StepAlone, SumFragment

Factors = tuple[tuple[int, float], ...]
"""(worker, factor of its move)."""


class Moves(NamedTuple):
    """The moves that an update sums, in all and for each fragment, and the workers that go on with their own."""

    moves: Factors = ()
    fragments: tuple[Factors, ...] = ()
    stays: tuple[int, ...] = ()


@final
class OwnSteps:
    """``grads`` are those gradients; an update names all of a worker, or none.

    ``outer``: the strategy names it; ``meanwhile``: workers may average, and be sent halves, while they compute.
    """

    def __init__(
        self,
        ledger: GradientLedger,
        members: Membership,
        port: Port,
        outer: Mapping[str, Any],
        *,
        replicas: bool,
        meanwhile: bool,
    ) -> None:
        self.ledger, self.members, self.port = ledger, members, port
        self.replicas, self.meanwhile = replicas, meanwhile
        self.outer_lr = float(outer["lr"])
        """Rate of updates by what workers have moved their own parameters by."""
        self.fragments = int(outer.get("fragments", 0))
        self.grads: dict[int, Grad] = {}
        self._samples: Counter[int] = Counter()
        """Samples of these by worker."""
        self._since: int | None = None
        """The version after which workers have optimizers of their own."""
        self._summed: Counter[tuple[int, int]] = Counter()
        """How many of a worker's samples the sums of a fragment have taken, by (fragment, worker)."""
        self._offered: dict[int, dict[int, int]] = {}
        """The samples that workers have offered for the next sum of a fragment, by fragment."""
        self._halves: Counter[tuple[int, int]] = Counter()
        """Halves that are sent and not added, by (source, target)."""

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
            if not self.meanwhile:
                self._check_idle(worker, f"{command}: only idle workers average")
        self.port.average(workers)

    def push_half(self, command: PushHalf) -> None:
        """Order that a worker sends half of its own parameters, and adds halves that it was sent."""
        worker, to = command.worker, command.to
        if to is None and not command.adds:
            raise ProtocolError(f"{command}: sends nothing and adds nothing")
        self._check_idle(worker, f"{command}: only an idle worker sends or adds")
        if to is not None:
            if not self._samples[worker]:
                raise self.ledger.error(worker, f"{command}: it has not stepped alone since the last update")
            if to == worker or to not in self.members.here():
                raise self.ledger.error(worker, f"{command}: a half goes to another worker of the ring")
            if not self.meanwhile:
                self._check_idle(to, f"{command}: only an idle worker is sent a half")
            self._halves[worker, to] += 1
        for source in command.adds:
            if not self._halves[source, worker]:
                raise self.ledger.error(worker, f"{command}: worker {source} has sent it no half that is not added")
            self._halves[source, worker] -= 1
        self.port.push_half(PushOrder(worker=worker, to=to, adds=command.adds))

    def sum_fragment(self, command: SumFragment) -> None:
        """Order that workers offer, sum and mix a fragment."""
        fragment, offered = command.fragment, self._offered.setdefault(command.fragment, {})
        if not 0 <= fragment < self.fragments:
            raise ProtocolError(f"{command}: the strategy has declared {self.fragments} fragments")
        for worker in command.offer:
            samples = self._samples[worker] - self._summed[fragment, worker]
            if worker in offered or samples <= 0:
                raise self.ledger.error(worker, f"{command}: it has offered that, or not stepped alone since")
            self._check_idle(worker, f"{command}: only idle workers offer")
            offered[worker] = samples
        if command.sums and not offered:
            raise ProtocolError(f"{command}: no worker has offered this fragment")
        for worker in command.mix:
            if worker in offered and not command.sums:
                raise self.ledger.error(worker, f"{command}: what it has offered is not summed yet")
            self._check_idle(worker, f"{command}: only idle workers mix")
        summed = offered if command.sums else {}
        self._summed.update({(fragment, worker): samples for worker, samples in summed.items()})
        if command.sums:
            self._offered[fragment] = {}
        self.port.sum_fragment(
            FragmentOrder(
                fragment=fragment,
                of=self.fragments,
                offer=command.offer,
                moves=_shares(summed),
                samples=sum(summed.values()),
                lr=self.outer_lr,
                mix=command.mix,
                kept_frac=command.kept_frac,
            )
        )

    def _check_idle(self, worker: int, message: str) -> None:
        if worker in self.ledger.busy or worker in self.ledger.starved:
            raise self.ledger.error(worker, message)

    def check_drop(self, grads: Sequence[int]) -> None:
        """Refuse to discard a gradient that has moved parameters already."""
        if stepped := [grad_id for grad_id in grads if grad_id in self.grads]:
            raise ProtocolError(f"Drop of {stepped}: their workers have stepped by them")

    def moves(self, used: Sequence[Grad], weights: Sequence[float], version: int) -> Moves:
        """The part of each worker's move in the update of ``version``, which uses it up; empty: it is of gradients.

        Workers that compute, or have steps that it does not name, go on; after halves were sent all workers have equal
        parts, and none goes on. Raises ``ProtocolError`` if some of the gradients have moved parameters and others have
        not, or not all that have moved a worker are named.
        """
        if not self.grads and (self._since is None or version <= self._since):
            return Moves()
        factors: dict[int, float] = {}
        for grad, weight in zip(used, weights, strict=True):
            factors[grad.worker] = factors.get(grad.worker, 0.0) + weight * grad.samples
        named = {grad.id for grad in used}
        left = {grad.worker for grad in self.grads.values() if grad.id not in named}
        if not named <= self.grads.keys() or left & factors.keys() or (left and (self.fragments or self._halves)):
            raise ProtocolError(
                f"Apply of {sorted(named)}: after steps of workers alone an update is of all gradients of such steps "
                f"({sorted(self.grads)}) of each of its workers, with fragments or halves of all, and of no others"
            )
        if self._halves:
            factors = self._equal_parts(sorted(named))
        fragments = tuple([_shares(self._since_sum(fragment)) for fragment in range(self.fragments)])
        stays = sorted(left | (self.ledger.busy.keys() & set(self.members.here())))
        self.void(factors)
        return Moves(tuple(sorted(factors.items())), fragments, tuple(stays))

    def _equal_parts(self, named: Sequence[int]) -> dict[int, float]:
        """The parts of all workers: their weights sum to their number, so that moves need none."""
        here = self.members.here()
        if (left := +self._halves) or self.ledger.busy:
            raise ProtocolError(
                f"Apply of {list(named)}: after halves were sent no worker computes ({sorted(self.ledger.busy)} do), "
                f"and all halves are added; these (source, target) are not: {sorted(left)}"
            )
        return dict.fromkeys(here, 1.0 / len(here))

    def _since_sum(self, fragment: int) -> dict[int, int]:
        """Samples that no sum of this fragment has taken, by worker."""
        left = {worker: samples - self._summed[fragment, worker] for worker, samples in self._samples.items()}
        return {worker: samples for worker, samples in left.items() if samples}

    def void(self, workers: Collection[int] | None = None) -> None:
        """These workers have what is common again; None: all."""
        self.grads = (
            {} if workers is None else {one.id: one for one in self.grads.values() if one.worker not in workers}
        )
        for worker in list(self._samples) if workers is None else workers:
            self._samples.pop(worker, None)
        self._halves.clear()
        self._offered = {}
        self._summed.clear()


def _shares(samples: Mapping[int, int]) -> Factors:
    """Every worker's share of the samples, in rank order."""
    total = sum(samples.values())
    return tuple([(worker, samples[worker] / total) for worker in sorted(samples)])
