"""Operations, what each waits for, and when all of them end (pure)."""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]


class Graph:
    """Operations 0 to n - 1; each begins when all operations that it waits for have ended.

    Attributes:
        waits_for: the operations that each one waits for.
        order: all operations, each after those that it waits for.

    Raises:
        ValueError: operations wait for each other; names one of them.
    """

    def __init__(self, waits_for: Sequence[Iterable[int]], joint: Iterable[int] = ()) -> None:
        """``joint``: operations that begin in all replicas together, when the last replica is ready for them."""
        self.waits_for = tuple(tuple(sorted(set(before))) for before in waits_for)
        self.joint = frozenset(joint)
        try:
            self.order = tuple(graphlib.TopologicalSorter(dict(enumerate(self.waits_for))).static_order())
        except graphlib.CycleError as error:
            raise ValueError(f"operations wait for each other for ever, such as {error.args[1][0]}") from None

    def __len__(self) -> int:
        return len(self.waits_for)

    def ends(self, seconds: Floats) -> Floats:
        """When each operation ends.

        Args:
            seconds: [operations, ...]: durations. Further axes are independent cases, such as steps of other lengths;
                if operations are joint, the first of them is the replicas.

        Returns:
            [operations, ...]: seconds from the start; an operation that waits for nothing begins at 0.
        """
        ends = np.array(seconds, dtype=np.float64)
        for one in self.order:
            before = self.waits_for[one]
            if not before:
                continue
            begin = ends[before[0]]
            for other in before[1:]:
                begin = np.maximum(begin, ends[other])
            if one in self.joint:
                begin = begin.max(axis=0, keepdims=True)
            ends[one] += begin
        return ends

    def alone(self, seconds: Sequence[Floats]) -> Floats:
        """When the last operation ends if no replica waits for another; like :meth:`ends`, in little memory.

        Args:
            seconds: for each operation the durations in every case, or one duration for all cases.

        Returns:
            [cases]: seconds from the start. Ends are kept as long as an operation waits for them.
        """
        ends: dict[int, Floats] = {}
        last = np.zeros(1)
        for one in self.order:
            before = self.waits_for[one]
            if not before:
                ends[one] = seconds[one]
            elif len(before) == 1:
                ends[one] = ends[before[0]] + seconds[one]
            else:
                begin = np.maximum(ends[before[0]], ends[before[1]])
                for other in before[2:]:
                    begin = np.maximum(begin, ends[other])
                ends[one] = begin + seconds[one]
            for done in self._read_last_by[one]:
                del ends[done]
        for end in ends.values():
            last = np.maximum(last, end)
        return last

    @cached_property
    def _read_last_by(self) -> tuple[tuple[int, ...], ...]:
        """The operations whose end no later operation waits for, by the last one that does."""
        reader = {before: one for one in self.order for before in self.waits_for[one]}
        last: list[list[int]] = [[] for _ in self.waits_for]
        for before, one in reader.items():
            last[one].append(before)
        return tuple(map(tuple, last))
