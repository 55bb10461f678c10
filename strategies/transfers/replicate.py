"""How far a replica may lag behind the server: MLfabric's bounded divergence (pure).

Slides 16 and 17: a replica receives the same updates in the same order, perhaps later, and is never further than
``div_max`` from the server. With ``u_k`` the change that update k asks for and ``mu`` the momentum, the server does
``h <- mu h + u_k, w <- w + h``. Behind by the updates 1..L, and with the momentum h at its own last update, a replica
is away by ``sum_k (1 + mu + ... + mu^(L-k)) u_k + (mu + ... + mu^L) h``: the momentum it has not followed counts, too,
and the sum over updates alone is not a bound. Norms are enough for a bound, so no process needs both vectors.
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
    """

    momentum: float
    norms: tuple[float, ...] = ()
    carried: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum={self.momentum}: must be 0 or more and below 1")

    def applied(self, norm: float) -> Lag:
        """As the server applies an update of this norm."""
        return replace(self, norms=(*self.norms, norm))

    def replicated(self) -> Lag:
        """As the replica applies the oldest update that it lacks."""
        carried = self.momentum * self.carried + self.norms[0]
        return replace(self, norms=self.norms[1:], carried=carried)

    @property
    def bound(self) -> float:
        """No less than the distance |w_server - w_replica|."""
        mu, factor, total = self.momentum, 0.0, 0.0
        for norm in reversed(self.norms):
            factor = 1 + mu * factor
            total += norm * factor
        return total + self.carried * mu * factor


def to_replicate(lag: Lag, next_norm: float, div_max: float) -> int:
    """How many of the oldest updates the replica must have before the server applies one of ``next_norm``.

    With all that it lacks it may still be further away than ``div_max`` after the next; then the count includes
    the next itself, which both must apply together: with momentum, one update may be too long for any lag.

    Slides: "u_1 is scheduled ahead at the replica to satisfy the bound". The test is of the bound *after* the next
    update, since momentum makes what is missing count for more with every update that follows.
    """
    after, count = lag.applied(next_norm), 0
    while after.norms and after.bound > div_max:
        after, count = after.replicated(), count + 1
    return count


def swap_gap(momentum: float, difference: float) -> float:
    """Distance of two servers that apply two updates in opposite orders; ``difference`` is |u_1 - u_2| (slide 17)."""
    return momentum * difference
