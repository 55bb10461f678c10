"""AntDT-DD: batch sizes and gradient accumulation for a dedicated cluster of unequal devices (section VI-B).

Symbols: of type k there are n_k workers; F_k(b) is the time of a micro-batch of b samples, v_k the speed; B_k its
micro-batch with B_k^min (saturation) <= B_k <= B_k^max (memory); C_k its number of micro-batches, from C^min
``accum_min`` to C^max ``accum_max``; B the global batch.

1. Profile (``profiling``): rounds that sum to B, in which every worker computes ``profile_iters`` batches of each of
   ``profile_sizes``. No profile if ``devices`` has all speeds.
2. Types (``device_types``): given, or workers whose speeds differ by a factor of at most ``type_ratio``. F_k is the
   curve through the medians (``curve: linear``: b / v_k); B_k^min the largest size that takes at most 10 % longer than
   the smallest; B_k^max is given.
3. Eq. 4, once (``micro_batches``): min max_k C_k F_k(B_k) with sum_k n_k C_k B_k = B and the bounds. For every
   combination of C_k the exact split of B among the workers; least time, then fewest micro-batches.
4. From the next round on worker i of type k computes its X_i samples in C_k micro-batches of near-equal size
   (``accumulation``); a round of all workers is one update.
5. Members change: step 3 again. A worker's median time over ``check_iters`` differs from its profile by a factor of
   ``type_ratio``: step 1 again, twice as long; at most three profiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.antdt.accumulation import AccumulationLoad
from strategies.antdt.device_types import DeviceSpec
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import AllGate


@final
@dataclass(kw_only=True)
class AntDTDD(Composition):
    """One update per round of all workers; after a profile, fast devices accumulate micro-batches for the slow ones.

    Source: AntDT section VI-B, Eq. 4; the algorithm is above.

    Departures: totals are per worker and not per type, since the equation often has no whole solution otherwise. The
    rounds of the profile sum to B as well: while some workers try a size, the others share the rest. Where saturated
    micro-batches cannot sum to B, the least is one sample, and the state reports it (``below_saturation``).

    Attributes:
        accum_min: least micro-batches of a worker (the paper: usually 1).
        accum_max: most micro-batches of a worker (for example 5).
        types: device type of every worker, by rank; who joins later counts as the slowest. None: workers whose profiled
            speeds differ by a factor of at most ``type_ratio`` are of one type.
        type_ratio: see ``types``; above 1.
        devices: what is known of each type; no profile is run when every type's speed is given.
        max_batch_samples: largest micro-batch of a type without one in ``devices`` (memory); None: no cap.
        profile_sizes: batch sizes to measure; None: a quarter, half and all of the even share.
        profile_iters: iterations of each of these sizes.
        check_iters: after so many iterations with the plan, a worker whose median time differs from its profile by a
            factor of ``type_ratio`` triggers another profile, twice as long; 0: never, as in the paper.
        curve: ``measured`` times with straight lines between the sizes, or ``linear``: F(b) = b / v, as in the paper.
        warmup_iters: first iterations of a process that are ignored.
        data: allocation policy, ``shared``, ``dynamic`` or ``even``; batch sizes differ by much.
    """

    accum_min: int = 1
    accum_max: int = 5
    types: tuple[str, ...] | None = None
    type_ratio: float = 1.2
    devices: dict[str, DeviceSpec] | None = None
    max_batch_samples: int | None = None
    profile_sizes: tuple[int, ...] | None = None
    profile_iters: int = 5
    check_iters: int = 100
    curve: str = "measured"
    warmup_iters: int = 3
    data: str = "shared"

    def compose(self) -> Parts:
        """A gate of rounds, with batches and accumulation by device."""
        load = AccumulationLoad(
            accum_min=self.accum_min,
            accum_max=self.accum_max,
            types=self.types,
            type_ratio=self.type_ratio,
            devices=self.devices,
            max_batch_samples=self.max_batch_samples,
            profile_sizes=self.profile_sizes,
            profile_iters=self.profile_iters,
            check_iters=self.check_iters,
            curve=self.curve,
            warmup_iters=self.warmup_iters,
        )
        return Parts(gate=AllGate(), load=load)
