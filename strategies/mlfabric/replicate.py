"""How far a replica may lag behind the server: MLfabric's bounded divergence (pure).

Slides 16 and 17: a replica receives the same updates in the same order, perhaps later, and is never further than
``div_max`` from the server. With ``u_k`` the change that update k asks for and ``mu`` the momentum, the server does
``h <- mu h + u_k, w <- w + h``. Behind by the updates 1..L, and with the momentum h at its own last update, a replica
is away by ``sum_k (1 + mu + ... + mu^(L-k)) u_k + (mu + ... + mu^L) h``: the momentum it has not followed counts, too,
and the sum over updates alone is not a bound. Norms are enough for a bound, so no process needs both vectors.

Where the momentum sums gradients and the learning rate of each update comes after it (``v <- mu v + g_k``,
``w <- w - r_k v``), ``norms`` and ``carried`` are of gradients and of v, and ``rates`` are the r_k.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Lag:
    """What the server has applied and a replica has not.

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

    def applied(self, norm: float, rate: float = 1.0) -> Lag:
        """As the server applies an update of this norm, at this rate."""
        return replace(self, norms=(*self.norms, norm), rates=(*self._rates, rate))

    @property
    def _rates(self) -> tuple[float, ...]:
        return (1.0,) * len(self.norms) if self.rates is None else self.rates

    def replicated(self) -> Lag:
        """As the replica applies the oldest update that it lacks."""
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
    after, count = lag.applied(next_norm, rate), 0
    while after.norms and after.bound > div_max:
        after, count = after.replicated(), count + 1
    return count
