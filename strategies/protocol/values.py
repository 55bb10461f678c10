"""What events and commands are made of: gradients, durations, parts of a round, what a task used."""

from __future__ import annotations

import msgspec


class ProtocolError(RuntimeError):
    """A strategy gave a command that the laws forbid; the message ends with the worker's last events."""


class Grad(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Handle of one pushed gradient: a sum over ``samples`` samples, computed on parameters of ``version``."""

    id: int
    """Unique within the run; grows with every Compute."""
    worker: int
    incarnation: int
    """0 for the first process of this worker, one more after every restart."""
    iteration: int
    """How many Computes this worker had finished before (over all its incarnations)."""
    version: int
    """Updates that were applied to the parameters it was computed on."""
    samples: int
    """Samples really summed; 0 when the data queue was empty, fewer than assigned at an epoch's end."""
    assigned_samples: int
    round: int | None = None
    """Of a weighted sum over parts: the number of the round (see :class:`Partition`) that the parts are of."""
    round_samples: int | None = None
    """Of all parts of that round; ``samples`` are those of the worker's own parts."""


class NodeUse(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a task (``worker:1``, ``server:0``) or host (``host:2``: its tasks together) used; None: not known."""

    node: str
    cpu_cores: float | None = None
    """Of the machine that the job runs on."""
    memory_bytes: int | None = None
    out_bytes_per_s: float | None = None
    in_bytes_per_s: float | None = None
    """On the wire of a host's link."""
    busy_frac: float | None = None
    """Of a server: part of the time that went into updates, as far as it has told."""


class Part(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Part ``index`` of the round, and the ``coefficient`` of its gradient sum in what the worker sends."""

    index: int
    coefficient: float
