"""Gradient coding: every update is the full gradient, whichever s workers are late or dead.

Symbols: m workers, k parts of a round's samples, s stragglers; worker i has throughput c_i, g_j is the gradient sum of
part j. Row i of B (m x k) has the weights with which worker i adds them; the row vector a decodes.

1. Parts per worker (Wang et al., Eq. 5 and 6; ``partitions``): n_i = k (s + 1) c_i / sum_j c_j (``speeds``), at most k;
   the excess is shared by the others in the same way. Whole parts follow by largest remainder (ties: the lower i).
   Worker i gets the n_i parts after worker i - 1's parts, in a circle, so that every part j is at a set W_j of s + 1
   workers. By default k is the least number up to 8 m that makes all n_i whole, else 4 m. The first three schemes below
   ignore throughputs and have k = m.
2. B (``matrices``), zero outside of W_j in column j; ``schemes`` takes the best of ``draws`` (50) random matrices:

   - ``naive``: B = I; s = 0.
   - ``fractional_repetition``: m / (s + 1) blocks of s + 1 parts, each at s + 1 workers: worker i = 0, 1, ... has block
     i mod (m / (s + 1)), and B[i, j] = 1 on its parts.
   - ``cyclic`` (Tandon et al., Algorithm 2): H (s x m) is standard normal, but its last column makes H 1 = 0. Instead
     of the parts of step 1, worker i has part i and the next s parts, R: B[i, i] = 1, B[i, R] = -H[:, R]^-1 H[:, i].
   - ``heter_aware`` (Wang et al., Algorithm 1): C (s + 1 x m) is uniform on (0, 1); for every part C[:, W_j] B[W_j, j]
     = 1, so that C B = 1.
   - ``group_based`` (Algorithms 2 and 3): a group is a set of workers whose parts are disjoint and cover all k. P
     disjoint groups are kept. ``prune=packing`` (ours) keeps the smallest group (ties: the lower ids), then the
     smallest group of the workers that are left, and so on. ``paper`` drops the group that meets most others (ties: the
     last), until all are disjoint. B is 1 on the parts of their workers. The other workers are coded by Algorithm 1 for
     s - P stragglers, so their C has s - P + 1 rows.

3. A round (``rounds``): worker i sends row i, sum_j B[i, j] g_j, as one gradient.
4. As soon as a group is complete, or all but s workers have sent (``decoding``): a has a B = 1 and is zero at the
   missing workers. It is 1 at the workers of a complete group, or at one worker of each block
   (``fractional_repetition``); else the shortest such vector. So sum_i a_i (row i) = sum_j g_j; the update is this sum
   divided by the samples of the round.
5. The next round begins for the workers whose row has arrived. Rows of the last round that come later are dropped, and
   their workers then compute the row of the present round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import (
    Bool,
    NonNegativeInt,
    Number,
    OneOf,
    PositiveFloat,
    PositiveInt,
    Whole,
    check_settings,
)
from strategies.gradient_coding.decoding import check_tolerance
from strategies.gradient_coding.group import Recipe
from strategies.gradient_coding.rounds import Rounds
from strategies.gradient_coding.schemes import MAX_DRAWS, ONE_PART_EACH, SCHEMES, check_size
from strategies.gradient_coding.speeds import Speeds
from strategies.parts.composed import Composed
from strategies.parts.gates import AllGate
from strategies.parts.load.shares import EvenLoad, ThroughputLoad, is_speed
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Apply,
    Arrived,
    Command,
    Compute,
    Drop,
    Failed,
    Joined,
    Lost,
    Partition,
    Restored,
    Started,
    Stop,
    Strategy,
)


@final
@dataclass(kw_only=True)
class GradientCoding(Strategy):
    """A round of the global batch is cut into k parts, each computed by s + 1 workers; each sends one weighted sum.

    Sources: Tandon et al., "Gradient coding", ICML 2017 (``fractional_repetition``, ``cyclic``); Wang et al.,
    "Heterogeneity-aware gradient coding for straggler tolerance", ICDCS 2019 (``heter_aware``, ``group_based``;
    ``naive`` is their baseline). The algorithm is above. A late worker is not interrupted. With s = 0 nothing is coded:
    BSP, each worker with its own samples.

    Departures. A code is built for the current workers: when more than s have left for good, or a newcomer waits, a new
    code is built for those that remain, with the largest feasible s; a round that can no longer be decoded begins again
    with the same samples. Throughputs that are not given are measured (the paper samples them beforehand), each worker
    with a fixed cost per iteration; then n_i is the division with which the last worker ends earliest.

    Attributes:
        scheme: ``naive``, ``fractional_repetition``, ``cyclic``, ``heter_aware`` or ``group_based``.
        s: stragglers that are tolerated.
        k: parts of a round (``heter_aware``, ``group_based``); None: the least with whole shares, else 4 per worker.
        throughputs: of each worker, in any unit; None: equal at first, then measured.
        estimate_iters: iterations of each worker that a measurement takes; 0: never measured.
        rebuild_frac: a new code is built when, by the measured speeds, it shortens a round by more than this part.
        draws: random matrices of which the one with the least amplification of rounding errors is taken.
        max_amplification: a code that amplifies more is refused.
        prune: which groups are kept, ``packing`` or ``paper`` (``group_based``).
        eager: update as soon as the arrived rows can be decoded, even with fewer than all but s workers.
        code_seed: of the random matrices.
    """

    needs = frozenset[type[Command]]({Compute, Partition, Apply, Drop})

    scheme: Annotated[str, OneOf(*SCHEMES)] = "heter_aware"
    s: NonNegativeInt = 1
    k: PositiveInt | None = None
    throughputs: list[float] | None = None
    estimate_iters: NonNegativeInt = 30
    rebuild_frac: PositiveFloat = 0.1
    draws: Annotated[int, Whole(1, MAX_DRAWS)] = 50
    max_amplification: Annotated[float, Number(1.0)] = 500.0
    prune: Annotated[str, OneOf("packing", "paper")] = "packing"
    eager: Bool = False
    code_seed: NonNegativeInt = 0

    def __post_init__(self) -> None:
        check_settings(self)
        self._check_throughputs()
        by_throughput = self.throughputs is not None and self.scheme not in ONE_PART_EACH
        load = ThroughputLoad(throughputs=tuple(self.throughputs or ())) if by_throughput else EvenLoad()
        self._uncoded = Composed(gate=AllGate(), load=load)

    def validate(self, num_workers: int) -> None:
        """Check s and ``throughputs`` against the workers; the code, whose parts the batch bounds, is built later."""
        if self.throughputs is not None and len(self.throughputs) != num_workers:
            raise ValueError(
                f"throughputs={self.throughputs}: must be one number for each of the {num_workers} workers, or null"
            )
        check_tolerance(self.s, num_workers)
        check_size(num_workers, self.s)
        if self.scheme in ONE_PART_EACH:
            if self.k not in (None, num_workers):
                raise ValueError(
                    f"k={self.k}: {self.scheme} has one part per worker, {num_workers}; leave k out or take heter_aware"
                )
            self._build(num_workers, [1.0] * num_workers)

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        """Build the code, with no empty part in a whole round; a default k is lowered to that end."""
        least = num_workers if self.scheme in ONE_PART_EACH else self.k or 1
        if least > global_batch_samples:
            name, value = ("scheme", self.scheme) if self.scheme in ONE_PART_EACH else ("k", self.k)
            raise ValueError(f"{name}={value}: makes {least} parts of a global batch of {global_batch_samples} samples")
        self._build(global_batch_samples, self.throughputs or [1.0] * num_workers)

    def _build(self, batch_samples: int, throughputs: Sequence[float]) -> None:
        """Raise ``ValueError`` if no such code exists; with s = 0 nothing is coded."""
        if self.s:
            self._recipe(batch_samples).rate(throughputs, self.s)

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Decide on rounds of coded rows; without stragglers to tolerate, BSP decides."""
        if self.s == 0:
            return self._uncoded.handle(event)
        match event:
            case Started(workers=workers):
                measured_iters = 0 if self.throughputs or self.scheme in ONE_PART_EACH else self.estimate_iters
                batch_samples = sum(event.batch_samples)
                self._rounds = Rounds(
                    self._recipe(batch_samples),
                    batch_samples,
                    Speeds(workers, self.throughputs, measured_iters),
                    rebuild_frac=self.rebuild_frac,
                    eager=self.eager,
                )
                return self._rounds.begin(workers)
            case Restored(workers=workers):
                return self._rounds.begin(workers)
            case Arrived():
                return self._rounds.arrived(event)
            case Failed(retryable=False):
                return [Stop(reason=f"worker {event.worker}: {event.reason}", ok=False)]
            case Failed():
                return self._rounds.next(event.worker)
            case Lost():
                return self._rounds.lost(event)
            case Joined():
                return self._rounds.joined(event.worker)
            case _:
                return ()

    def log_state(self) -> dict[str, float | int | str]:
        return self._uncoded.log_state() if self.s == 0 else self._rounds.log_state()

    def _recipe(self, batch_samples: int) -> Recipe:
        limits = self.draws, self.max_amplification, self.prune, self.code_seed, batch_samples
        return Recipe(self.scheme, self.s, self.k, *limits)

    def _check_throughputs(self) -> None:
        if self.throughputs is None:
            return
        known = isinstance(self.throughputs, Sequence) and not isinstance(self.throughputs, str)
        if not known or not all(map(is_speed, self.throughputs)):
            raise ValueError(
                f"throughputs={self.throughputs}: must be a list of positive numbers, one per worker, or null"
            )
