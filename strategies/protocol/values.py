"""Values in events and commands: gradients, durations, parts of a round, resource use."""

from __future__ import annotations

from typing import Literal

import msgspec


class ProtocolError(RuntimeError):
    """The strategy gave a command that the laws forbid; the message ends with the worker's last events."""


LossCause = Literal["killed", "crashed", "oom", "evicted", "retired", "silent", "restarted"]
"""Why a node is gone: by a signal, by an error of its own, because it used more memory than it may, taken away by the
cluster, ended by the strategy or an operator, because it did not answer, or to be started again elsewhere."""


class Grad(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Handle of one pushed gradient: a sum over ``samples`` samples, computed on parameters of ``version``."""

    id: int
    """Unique within the run; grows with every Compute."""
    worker: int
    incarnation: int
    """0 for the first process of this worker, one more after every restart."""
    iteration: int
    """Number of Computes that this worker had finished before (over all incarnations)."""
    version: int
    """Number of updates applied to the parameters on which it was computed."""
    samples: int
    """Samples actually summed; 0 when the data queue was empty, fewer than assigned at an epoch's end."""
    assigned_samples: int
    round: int | None = None
    """For a weighted sum over parts: the number of their round (see :class:`Partition`)."""
    round_samples: int | None = None
    """Samples of all parts of that round; ``samples`` are those of the worker's own parts."""
    members: tuple[int, ...] = ()
    """Of a sum that an aggregator has sent (``Send.via``): the gradients in it, whose workers are all idle.

    The handle is of all of them together: their samples, the oldest version, the worker of the first.
    """


class NodeUse(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Resource use of a task (``worker:1``, ``server:0``) or host (``host:2``, all its tasks); None: not known."""

    node: str
    cpu_cores: float | None = None
    """Cores in use, of the machine on which the job runs."""
    memory_bytes: int | None = None
    out_bytes_per_s: float | None = None
    in_bytes_per_s: float | None = None
    """Both rates are of a host's link."""
    limit_cores: float | None = None
    """Of a task its own, if it has one; else, and of a host: more than this the host's tasks do not get together."""
    limit_bytes_per_s: float | None = None
    """Of its host's link, each way, on the wire."""
    memory_limit_bytes: int | None = None
    """Likewise."""
    busy_frac: float | None = None
    """For a server: part of the time that went into its work, as far as reported: updates, and live what it receives
    and sends, too, so that one whose processor is throttled is busy whichever of these that delays."""
    gpu_frac: float | None = None
    """For a worker on a GPU: part of the time in which that device was busy, with whoever uses it."""
    gpu_memory_bytes: int | None = None
    """Memory in use on that device, by whoever."""


class Part(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Part ``index`` of the round, and the ``coefficient`` of its gradient sum in what the worker sends."""

    index: int
    coefficient: float
