"""Gate ``switching``: all together or each by itself, and from one to the other at any time (Sync-Switch)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar, final

import msgspec

from strategies.gates.base import Verdict
from strategies.gates.groups import GroupsGate
from strategies.protocol import Grad


@final
@dataclass(kw_only=True)
class SwitchingGate:
    """``AllGate`` while ``together``, else ``EachGate``; who joins computes at once and is one of all.

    While all are together those in ``slow``, a set that somebody else keeps, are left ``out`` from their next gradient
    on, which still counts; never all of them. Whoever is out may be *probed*: its gradient is dropped, and it is let in
    if it is no longer slow. One at a time, or probes could take the last samples of an epoch from each other for ever.
    All are let in when they are not together any more, when nobody else is left, and when somebody finds less data than
    it was to compute: what is left of the epoch may be with them.

    Attributes:
        together: whether it begins with all together.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = True

    together: bool = True

    def __post_init__(self) -> None:
        """Nobody is slow unless a schedule says so."""
        self.slow: AbstractSet[int] = frozenset()
        self.groups = GroupsGate()

    @property
    def computing(self) -> set[int]:
        """Who has an order to compute, or has lost one."""
        return self.groups.computing | self.probing

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        """All who are not left out."""
        self.out = self._unwanted(workers)
        self.probing: set[int] = set()
        self.to_probe: list[int] = []
        members = set(workers) - self.out
        first = self.groups.begin(members, version)
        self.groups.regroup(self._divided(members))  # completes nothing: they are about to compute
        return first

    def arrived(self, grad: Grad) -> Verdict:
        """Who proves to be slow delivers, and is not waited for any more."""
        short = grad.samples < grad.assigned_samples
        if grad.worker in self.out and not short:
            return self._probed(grad)
        go = self._let_in(self.out if short else ())
        verdict = self.groups.arrived(grad)
        verdict = msgspec.structs.replace(verdict, go=verdict.go + go) if go else verdict
        if short or grad.worker not in self._unwanted(self.groups.members()):
            return verdict
        self.out.add(grad.worker)
        self.groups.lost(grad.worker, restarting=False)  # completes nothing: the others compute
        return msgspec.structs.replace(verdict, go=tuple(worker for worker in verdict.go if worker != grad.worker))

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """If all who are left are slow, they are not left out."""
        was_probed = self._forget(worker)
        verdict = self.groups.lost(worker, restarting)
        if was_probed:
            return Verdict(go=self._next_probe())
        if self.groups.members() or not self.out:
            return verdict
        return Verdict(apply=verdict.apply, go=self._let_in(self.out), opens=not verdict.apply)

    def joined(self, worker: int) -> Verdict:
        """A returning worker computes what it lost, if anything; a new one at once."""
        verdict = self.groups.joined(worker)
        if self.together:
            self.groups.regroup(self._divided(self.groups.members()))  # completes nothing: it computes
        return verdict

    def switch(self) -> list[Verdict]:
        """To the other mode; what has become complete by that, in order."""
        self.together = not self.together
        go = self._let_in(self.out)
        verdicts = self.groups.regroup(self._divided(self.groups.members()))
        return [Verdict(go=go), *verdicts] if go else verdicts

    def probe(self) -> tuple[int, ...]:
        """Everyone who is left out is to compute once, if they all have; who begins."""
        if self.probing:
            return ()
        self.to_probe = sorted(self.out)
        return self._next_probe()

    def _probed(self, grad: Grad) -> Verdict:
        self.probing.discard(grad.worker)
        go = self._let_in({grad.worker} - self.slow)
        return Verdict(drop=(grad,), go=go + self._next_probe())

    def _next_probe(self) -> tuple[int, ...]:
        self.to_probe = [worker for worker in self.to_probe if worker in self.out]
        self.probing = set(self.to_probe[:1])
        del self.to_probe[:1]
        return tuple(self.probing)

    def _let_in(self, workers: Iterable[int]) -> tuple[int, ...]:
        """Who of them needs an order; whoever is being probed has one, which counts now."""
        entering = sorted(workers)
        go = tuple(worker for worker in entering if worker not in self.probing)
        for worker in entering:
            self._forget(worker)
            self.joined(worker)
        return go

    def _forget(self, worker: int) -> bool:
        was_probed = worker in self.probing
        self.out.discard(worker)
        self.probing.discard(worker)
        return was_probed

    def _unwanted(self, workers: Collection[int]) -> set[int]:
        slow = set(workers).intersection(self.slow) if self.together else set[int]()
        return slow if slow < set(workers) else set()

    def _divided(self, workers: Iterable[int]) -> list[list[int]]:
        return [sorted(workers)] if self.together else [[worker] for worker in sorted(workers)]

    def log_state(self) -> dict[str, float | int | str]:
        """The mode, how many are left out, and how many gradients wait."""
        mode = "bsp" if self.together else "asp"
        return {"mode": mode, "left_out": len(self.out), "arrived": len(self.groups.buffer)}
