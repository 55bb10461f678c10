"""LGC: live gradient compensation, synchronous training whose late gradients still count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, final

from strategies.checks import check_whole
from strategies.gated import GatedStrategy
from strategies.gates import BlocksGate, DelayedGate, Gate
from strategies.protocol import AnyCommand, AnyEvent, Apply, Command, Compute, Drop, Started
from strategies.weights import check_lr_rule, split_evenly

LATE_BEGINS = ("in_time", "next_update")


@final
@dataclass(kw_only=True)
class LGC(GatedStrategy):
    """An update waits for the ``k_fastest`` fresh gradients and takes along those that come one update late.

    Source: Xu et al., "Live gradient compensation for evading stragglers in distributed learning", INFOCOM 2021, by its
    abstract and STAR's description (section V-A). Decided at ``Arrived``: the K-th gradient on the current parameters
    makes the update, w <- w - lr / B (sum of the fresh G_i + sum of the late G_j). Divided by the whole global batch
    B: so with ``batch_linear`` the step is smaller when fewer contribute.

    Where the sources are silent: a late worker that has delivered begins anew at once if its next gradient can be
    expected to be late by ``max_delay_versions`` at most, and otherwise waits for the next update (``late_begin``); a
    gradient that is later still is dropped and its samples go back to the queue; when fewer than K workers can still be
    fresh, those suffice. With ``blocks`` every batch is computed in so many parts, and the update
    takes along what the others have finished of theirs; only workers with all parts on the current parameters count
    towards K. A part begins when the last one has arrived, on the newest parameters, which is less stale than the
    paper's parts of one gradient.

    STAR's own code differs and is not followed: it adds the first K without dividing, leaves the next K arrivals for
    the following step whatever their age, and sets K to N - 2.

    Attributes:
        k_fastest: K, fresh gradients that an update waits for; from 1 to the number of workers (BSP); None: three
            quarters of the workers, rounded up.
        max_delay_versions: updates by which a gradient may be late and still count; 1 is the paper's.
        blocks: parts of a batch; 1: whole gradients only.
        late_begin: when a late worker begins anew (without blocks): ``in_time`` or ``next_update``.
        requeue: False loses the samples of dropped gradients.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.weights`.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Compute, Apply, Drop})

    k_fastest: int | None = None
    max_delay_versions: int = 1
    blocks: int = 1
    late_begin: str = "in_time"
    requeue: bool = True
    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.k_fastest is not None:
            check_whole("k_fastest", self.k_fastest, 1)
        check_whole("max_delay_versions", self.max_delay_versions)
        check_whole("blocks", self.blocks, 1)
        if self.late_begin not in LATE_BEGINS:
            raise ValueError(f"late_begin={self.late_begin}: must be one of {', '.join(LATE_BEGINS)}")
        check_lr_rule(self.lr_rule)

    def validate(self, num_workers: int) -> None:
        """So many must be able to be fresh."""
        if self.k_fastest is not None and self.k_fastest > num_workers:
            raise ValueError(f"k_fastest={self.k_fastest}: must be at most the number of workers ({num_workers})")

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        """Every part must hold a sample."""
        if self.blocks > (smallest := global_batch_samples // num_workers):
            raise ValueError(f"blocks={self.blocks}: must be at most the samples of the smallest batch ({smallest})")

    def shares(self, started: Started) -> list[int]:
        """Batches as they are."""
        self._needed = self.k_fastest or ceil(0.75 * len(started.workers))
        return super().shares(started)

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """As every gated strategy; the gate goes by the clock."""
        self._now_s = event.t
        if not isinstance(event, Started) and isinstance(self._gate, DelayedGate):
            self._gate.now_s = event.t
        return super().handle(event)

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """K fresh ones, and the slightly late."""
        if self.blocks > 1:
            self._gate = BlocksGate(workers, self._needed, self.max_delay_versions, self.blocks, version)
            return self._gate
        waits = self.late_begin == "next_update"
        return DelayedGate(workers, self._needed, self.max_delay_versions, version, now_s=self._now_s, waits=waits)

    def _compute(self, worker: int) -> Compute:
        """The next part of its batch."""
        if self.blocks == 1:
            return super()._compute(worker)
        assert isinstance(self._gate, BlocksGate)
        part = split_evenly(self._batch[worker], self.blocks)[self._gate.done[worker]]
        return Compute(worker=worker, num_samples=part)
