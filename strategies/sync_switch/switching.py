"""Gate ``switching``: synchronous or asynchronous, with a switch at any time (Sync-Switch)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar, final

import msgspec

from strategies.parts.gates.base import Verdict
from strategies.parts.gates.groups import GroupsGate
from strategies.protocol import Grad


@final
@dataclass(kw_only=True)
class SwitchingGate:
    """``AllGate`` while ``together``, else ``EachGate``; a worker that joins computes at once and is a member.

    While ``together``, the workers in ``slow``, a set that a detector keeps, are left ``out`` after their next
    gradient, which still counts; never all workers. A worker that is out may be *probed*: its gradient is dropped, and
    it is readmitted if it is no longer slow. Probes run one at a time, because several could take the last samples of
    an epoch from each other forever. All are readmitted when the mode becomes asynchronous, when no other worker is
    left, and when some worker finds less data than ordered: the rest of the epoch may be theirs.

    Attributes:
        together: whether the job begins synchronously.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = True

    together: bool = True

    def __post_init__(self) -> None:
        """Begin with an empty set of slow workers; a schedule replaces it."""
        self.slow: AbstractSet[int] = frozenset()
        self.groups = GroupsGate()

    @property
    def computing(self) -> set[int]:
        """Workers that have an order to compute, or have lost one."""
        return self.groups.at.computing | self.probing

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        """All workers that are not left out compute."""
        self.out = self._find_unwanted(workers)
        self.probing: set[int] = set()
        self.to_probe: list[int] = []
        members = set(workers) - self.out
        first = self.groups.begin(members, version)
        self.groups.regroup(self._groups(members))  # completes no round: they are about to compute
        return first

    def arrived(self, grad: Grad) -> Verdict:
        """A slow worker's gradient counts, and the worker is left out afterwards."""
        short = grad.samples < grad.assigned_samples
        if grad.worker in self.out and not short:
            self.probing.discard(grad.worker)
            go = self._let_in({grad.worker} - self.slow)
            return Verdict(drop=(grad,), go=go + self._next_probe())
        go = self._let_in(self.out if short else ())
        verdict = self.groups.arrived(grad)
        verdict = msgspec.structs.replace(verdict, go=verdict.go + go) if go else verdict
        if short or grad.worker not in self.slow or grad.worker not in self._find_unwanted(self.groups.members):
            return verdict
        self.out.add(grad.worker)
        self.groups.lost(grad.worker, restarting=False)  # completes no round: the others compute
        return msgspec.structs.replace(verdict, go=tuple(worker for worker in verdict.go if worker != grad.worker))

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """If all remaining workers are slow, they are readmitted."""
        was_probed = self._forget(worker)
        verdict = self.groups.lost(worker, restarting)
        if was_probed:
            return Verdict(go=self._next_probe())
        if self.groups.members or not self.out:
            return verdict
        return Verdict(apply=verdict.apply, go=self._let_in(self.out), opens=not verdict.apply)

    def joined(self, worker: int) -> Verdict:
        """A returning worker repeats the work that it lost, if any; a new one computes at once."""
        verdict = self.groups.joined(worker)
        if self.together:
            self.groups.regroup(self._groups(self.groups.members))  # completes no round: it computes
        return verdict

    def switch(self) -> list[Verdict]:
        """Change to the other mode; return the verdicts that this completes, in order."""
        self.together = not self.together
        go = self._let_in(self.out)
        verdicts = self.groups.regroup(self._groups(self.groups.members))
        return [Verdict(go=go), *verdicts] if go else verdicts

    def probe(self) -> tuple[int, ...]:
        """Begin a series of probes of all left-out workers, unless one runs; return the workers that compute first."""
        if self.probing:
            return ()
        self.to_probe = sorted(self.out)
        return self._next_probe()

    def _next_probe(self) -> tuple[int, ...]:
        self.to_probe = [worker for worker in self.to_probe if worker in self.out]
        self.probing = set(self.to_probe[:1])
        del self.to_probe[:1]
        return tuple(self.probing)

    def _let_in(self, workers: Iterable[int]) -> tuple[int, ...]:
        """Readmit these workers; return those that need an order (a probed one has one, which counts now)."""
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

    def _find_unwanted(self, workers: Collection[int]) -> set[int]:
        slow = set(workers).intersection(self.slow) if self.together else set[int]()
        return slow if slow < set(workers) else set()

    def _groups(self, workers: Iterable[int]) -> list[list[int]]:
        return [sorted(workers)] if self.together else [[worker] for worker in sorted(workers)]

    def log_state(self) -> dict[str, float | int | str]:
        mode = "bsp" if self.together else "asp"
        return {"mode": mode, "left_out": len(self.out), "arrived": len(self.groups.at.buffer)}
