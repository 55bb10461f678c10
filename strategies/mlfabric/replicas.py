"""Updates that replicas of the servers lack, within a bounded divergence, and must receive before more are applied.

MLfabric, slide 15: a replica receives the same updates in the same order, and later. It is never further than
``div_max`` from the servers, at any instant, since an update waits for what the replicas must have first. A gradient
that a lost worker does not have any more, or that does not come, cannot be sent: then the servers send a copy of all
parameters instead.

With ``u_k`` the change that update k asks for and ``mu`` the momentum, the server does ``h <- mu h + u_k, w <- w + h``.
Behind by the updates 1..L, and with the momentum h at its own last update, a replica is away by
``sum_k (1 + mu + ... + mu^(L-k)) u_k + (mu + ... + mu^L) h``: the momentum it has not followed counts, too, and the sum
over updates alone is not a bound. Norms are enough for a bound, so no process needs both vectors.

Where the momentum sums gradients and the learning rate of each update comes after it (``v <- mu v + g_k``,
``w <- w - r_k v``), ``norms`` and ``carried`` are of gradients and of v, and ``rates`` are the r_k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from strategies.mlfabric.bandwidths import Expected
from strategies.parts.weights import STALENESS_RULES, lr_scale, mean_weight, staleness_factor
from strategies.protocol import Grad, Ready, Replicate, Replicated, Started


@dataclass(frozen=True, kw_only=True)
class Lag:
    """The updates that the server has applied and a replica has not.

    Attributes:
        momentum: mu, from 0 to below 1.
        norms: |u_k| of these updates, the oldest first.
        carried: |h| of the replica, or a bound on it.
        rates: of these updates; 1 where norms are of what they move.
    """

    momentum: float
    norms: tuple[float, ...] = ()
    carried: float = 0.0
    rates: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum={self.momentum}: must be 0 or more and below 1")

    def after_update(self, norm: float, rate: float = 1.0) -> Lag:
        """The lag after the server has applied an update of this norm, at this rate."""
        return replace(self, norms=(*self.norms, norm), rates=(*self._rates, rate))

    @property
    def _rates(self) -> tuple[float, ...]:
        return (1.0,) * len(self.norms) if self.rates is None else self.rates

    def after_replication(self) -> Lag:
        """The lag after the replica has applied the oldest update that it lacks."""
        carried = self.momentum * self.carried + self.norms[0]
        return replace(self, norms=self.norms[1:], carried=carried, rates=self._rates[1:])

    @property
    def bound(self) -> float:
        """No less than the distance |w_server - w_replica|."""
        followed, total = self.carried, 0.0
        for norm, rate in zip(self.norms, self._rates, strict=True):
            followed = self.momentum * followed + norm
            total += rate * followed
        return total


def to_replicate(lag: Lag, next_norm: float, div_max: float, rate: float = 1.0) -> int:
    """How many of the oldest updates the replica must have before the server applies one of ``next_norm``.

    With all that it lacks it may still be further away than ``div_max`` after the next; then the count includes
    the next itself, which both must apply together: with momentum, one update may be too long for any lag.

    Slides: "u_1 is scheduled ahead at the replica to satisfy the bound". The test is of the bound *after* the next
    update, since momentum makes what is missing count for more with every update that follows.
    """
    after, count = lag.after_update(next_norm, rate), 0
    while after.norms and after.bound > div_max:
        after, count = after.after_replication(), count + 1
    return count


@dataclass(kw_only=True)
class Follower:
    """One replica: the version that it has followed to, or will have with the copy that is on its way."""

    version: int
    expected: Expected
    asked: set[int] = field(default_factory=set)
    """The gradient that is on its way to it, if one is."""
    waiting: set[int] = field(default_factory=set)
    """Gradients that it holds before their updates."""
    copying: bool = False


@final
class Replicas:
    """Follows the replicas of one job.

    Args:
        divergence_max: bound on their distance from the servers.
        late_factor: see :class:`strategies.mlfabric.ordered.OrderedGate`; then the servers send a copy.
        lr_rule: by which the rate of an update depends on its gradient.
        factor: on the rate of every update.
    """

    def __init__(self, divergence_max: float, late_factor: float, lr_rule: str, factor: float) -> None:
        self._most, self._late_factor = divergence_max, late_factor
        self._lr_rule, self._factor = lr_rule, factor

    def start(self, started: Started) -> None:
        self._lr, self._step, self._momentum = started.lr or 0.0, started.step, started.momentum
        self._global_batch = sum(started.batch_samples)
        self._at_first = started.replicas
        self._carried = [0.0]
        self._copies = 0

    def begin(self, version: int) -> None:
        """The servers are at ``version``, and workers hold nothing; after the start, replicas have to come again."""
        first, self._at_first = self._at_first, ()
        self._first = version
        self._carried = [max(self._carried)]
        """A bound of the norm of the momentum at each version from ``_first`` on."""
        self._norms: list[float] = []
        self._rates: list[float] = []
        self._applied: list[int] = []
        self._sqr_norms: dict[int, float] = {}
        self._worker_of: dict[int, int] = {}
        self._gone: set[int] = set()
        """Gradients that do not come to replicas any more: their workers are lost, or they take too long."""
        self._pruned = 0
        self.followers = {server: self._follower(version) for server in first}

    def _follower(self, version: int) -> Follower:
        return Follower(version=version, expected=Expected(self._late_factor))

    @property
    def version(self) -> int:
        return self._first + len(self._norms)

    # ---- what happens ------------------------------------------------------------------------------------------------

    def ready(self, ready: Ready) -> None:
        """A gradient that will be applied, or dropped."""
        if ready.sqr_norm is None:
            raise ValueError("replicas: need gradients with norms, and this backend computes none")
        self._sqr_norms[ready.grad.id] = ready.sqr_norm
        self._worker_of[ready.grad.id] = ready.grad.worker

    def forget(self, grad: Grad) -> None:
        """No task keeps it any more."""
        del self._sqr_norms[grad.id], self._worker_of[grad.id]
        self._gone.discard(grad.id)
        for follower in self.followers.values():
            self._end_transfer(follower, grad.id)
            follower.waiting.discard(grad.id)

    def apply(self, grad: Grad) -> None:
        norm, rate = self._norm(grad, self.version), self._rate(grad)
        del self._sqr_norms[grad.id]
        self._applied.append(grad.id)
        self._carried.append(self._momentum * self._carried[-1] + norm)
        self._norms.append(norm)
        self._rates.append(rate)
        for follower in self.followers.values():
            if grad.id in follower.waiting and not follower.copying and follower.version == self.version - 1:
                follower.version += 1
            follower.waiting.discard(grad.id)

    def follow(self, event: Replicated) -> None:
        """A replica has followed."""
        follower = self.followers.get(event.server)
        if follower is None:
            return
        follower.version = max(follower.version, event.version)
        if event.grad is None:
            follower.copying = False
            for grad in self._applied[: event.version - self._first]:
                self._end_transfer(follower, grad)
            return
        self._end_transfer(follower, event.grad)
        self._gone.discard(event.grad)
        if event.grad in self._sqr_norms:
            follower.waiting.add(event.grad)
        self._prune()

    def _prune(self) -> None:
        """Forget the workers of updates that all replicas have followed."""
        followed = min(follower.version for follower in self.followers.values()) - self._first
        while self._pruned < followed:
            grad = self._applied[self._pruned]
            self._worker_of.pop(grad, None)
            self._gone.discard(grad)
            self._pruned += 1

    def _end_transfer(self, follower: Follower, grad: int) -> None:
        follower.asked.discard(grad)
        follower.expected.end(grad)

    def lose_worker(self, worker: int) -> None:
        """The gradients that the worker kept are lost, and those that it has not sent to the servers."""
        self._gone.update(grad for grad, owner in self._worker_of.items() if owner == worker)

    def lose(self, server: int) -> None:
        """A replica is gone."""
        self.followers.pop(server, None)

    def join(self, server: int) -> Replicate:
        """A replica is there and has nothing: it gets a copy of the present version."""
        follower = self.followers[server] = self._follower(self.version)
        follower.copying = True
        self._copies += 1
        return Replicate(server=server)

    # ---- the bound ---------------------------------------------------------------------------------------------------

    def _norm(self, grad: Grad, version: int) -> float:
        """The norm of the weighted gradient if it is applied at this version."""
        weight = mean_weight(grad.samples)
        if self._lr_rule in STALENESS_RULES:
            weight *= staleness_factor(self._lr_rule, version - grad.version, version + 1)
        return weight * math.sqrt(self._sqr_norms[grad.id])

    def _rate(self, grad: Grad) -> float:
        """The largest rate of its update: schedules only lower the learning rate."""
        if self._step == "tally":
            return float(grad.samples)
        return self._lr * lr_scale(self._lr_rule, grad.assigned_samples, self._global_batch) * self._factor

    def _lag(self, follower: Follower) -> Lag:
        since = follower.version - self._first
        norms, rates = tuple(self._norms[since:]), tuple(self._rates[since:])
        return Lag(momentum=self._momentum, norms=norms, carried=self._carried[since], rates=rates)

    @property
    def bound(self) -> float:
        """No replica is further from the servers."""
        return max((self._lag(follower).bound for follower in self.followers.values()), default=0.0)

    def may_apply(self, grad: Grad) -> bool:
        """Whether all replicas are within the bound after this update, too."""
        norm, rate = self._norm(grad, self.version), self._rate(grad)
        for follower in self.followers.values():
            together = follower.version == self.version and grad.id in follower.waiting and not follower.copying
            if not together and to_replicate(self._lag(follower), norm, self._most, rate):
                return False
        return True

    def pass_over(self, t: float) -> None:
        """Give up transfers to replicas that take too long."""
        for follower in self.followers.values():
            if not follower.copying:
                self._gone.update(follower.expected.overdue(t))

    def is_hopeless(self, grad: Grad) -> bool:
        """Whether it is too long for the bound by itself, and some replica cannot receive it before its update."""
        norm, rate = self._norm(grad, self.version), self._rate(grad)
        level = Lag(momentum=self._momentum, carried=self._carried[-1])
        lacks = any(grad.id not in follower.waiting for follower in self.followers.values())
        return grad.id in self._gone and lacks and to_replicate(level, norm, self._most, rate) > 0

    # ---- transfers ---------------------------------------------------------------------------------------------------

    def transfers(
        self, order: Sequence[Grad], arrived: bool, t: float, alone_s: Callable[[int], float]
    ) -> Iterator[Replicate]:
        """Transfers to replicas that must precede the updates in this ``order``; ``arrived``: the first update has.

        ``alone_s(worker)``: seconds of a gradient's transfer.
        """
        ahead = order[:1] if arrived else ()
        for server, follower in self.followers.items():
            if follower.copying:
                continue
            since = follower.version - self._first
            lacking = [*self._applied[since:], *(grad.id for grad in ahead)][: self._count_needed(follower, order)]
            missing = [grad for grad in lacking if grad in self._gone and grad not in follower.waiting]
            if any(grad not in self._sqr_norms for grad in missing):  # applied: it is in a copy
                follower.copying = True
                self._copies += 1
                yield Replicate(server=server)
                continue
            following = next((grad for grad in lacking if grad not in follower.waiting), None)
            # one after the other: they come over one link, in order
            if following is not None and following not in missing and not follower.asked:
                follower.asked.add(following)
                follower.expected.note_sent((following,), t, alone_s(self._worker_of[following]), 0.0)
                yield Replicate(server=server, grad=following)

    def _count_needed(self, follower: Follower, order: Iterable[Grad]) -> int:
        """How many of the updates that it lacks, and then of ``order``, it must have for all of these."""
        lag, needed = self._lag(follower), 0
        for place, grad in enumerate(order):
            norm, rate = self._norm(grad, self.version + place), self._rate(grad)
            count = to_replicate(lag, norm, self._most, rate)
            lag = lag.after_update(norm, rate)
            for _ in range(count):
                lag = lag.after_replication()
            needed += count
        return needed

    @property
    def next_s(self) -> float:
        """When the next transfer to a replica is overdue."""
        return min((one.expected.next_s for one in self.followers.values() if not one.copying), default=math.inf)

    def log_state(self) -> dict[str, float | int | str]:
        behind = max((self.version - one.version for one in self.followers.values()), default=0)
        return {"divergence": self.bound, "behind": behind, "replicas": len(self.followers), "copies": self._copies}
