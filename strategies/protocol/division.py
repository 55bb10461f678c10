"""Division of a number of samples: one rule for strategies and for the data service."""

from __future__ import annotations


def split_evenly(total: int, parts: int) -> list[int]:
    """``total`` as ``parts`` integers that differ by at most one, larger ones first.

    It divides the global batch among workers, a round (:class:`Partition`) into parts, a batch into micro-batches.
    """
    share, rest = divmod(total, parts)
    return [share + (part < rest) for part in range(parts)]
