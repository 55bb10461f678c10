"""How a number of samples is divided: the same by who asks for parts and by who makes them."""

from __future__ import annotations


def split_evenly(total: int, parts: int) -> list[int]:
    """``total`` as ``parts`` integers that differ by at most one, larger ones first.

    So the global batch is divided among workers, a round (:class:`Partition`) into parts, a batch into micro-batches.
    """
    share, rest = divmod(total, parts)
    return [share + (part < rest) for part in range(parts)]
