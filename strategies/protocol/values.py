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
    """Samples of all parts of that round; ``samples`` belong to the worker's own parts."""
    members: tuple[int, ...] = ()
    """The gradients in a sum that an aggregator has sent (``Send.via``); their workers are all idle.

    The handle is of all of them together: their samples, the oldest version, the worker of the first.
    """
    cut_samples: int = 0
    """Samples that were handed out with ``samples`` and not computed, since time was up (``Compute.within_s``)."""
    ends_s: tuple[float, ...] = ()
    """Seconds of computing after which each micro-batch had been computed, of a Compute with ``within_s``."""


class Timings(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Durations of one iteration in seconds, by the worker's own stopwatch.

    ``wait_s`` + ``data_s`` + ``pull_s`` + ``compute_s`` + ``send_s`` is the whole iteration, in this order. If the
    worker held its gradient (``Ready``), that time lies between ``compute_s`` and ``send_s`` and is in none of them.
    """

    wait_s: float = 0.0
    """From the end of the previous push until the next Compute reached the worker (time at barriers is here)."""
    data_s: float = 0.0
    """From that Compute until the batch was loaded."""
    pull_s: float = 0.0
    """From then until all parameters were delivered (including an update that they had to wait for)."""
    compute_s: float = 0.0
    """Forward and backward pass, with device pacing and injected delay."""
    send_s: float = 0.0
    """Push to all servers until the last acknowledged."""
    injected_s: float = 0.0
    """The part of ``compute_s`` that a straggler injection added (measured, not planned)."""
    overrun_s: float = 0.0
    """Seconds by which the real computation exceeded the device profile; 0 when pacing held."""
    recv_s: float = 0.0
    """The part of ``pull_s`` spent on this worker's link, as opposed to the servers' work."""
    stage_s: float = 0.0
    """The part of ``compute_s`` in which parameters were copied to the worker's device, and the gradient back."""
    loader_s: float = 0.0
    """The part of ``injected_s`` in which the worker waited for a batch of its loader."""

    cpu_s: float | None = None
    """Processor seconds of loading, computing and sending, all threads together; None: not known."""

    @property
    def iter_s(self) -> float:
        """Time of the iteration without waiting and without the pull."""
        return self.data_s + self.compute_s + self.send_s

    @property
    def own_s(self) -> float:
        """The worker's own time of the iteration with its link both ways; detectors of slow workers use it."""
        return self.data_s + self.recv_s + self.compute_s + self.send_s

    @property
    def bpt_s(self) -> float:
        """Batch processing time (AntDT's worker BPT)."""
        return self.data_s + self.compute_s


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
    """The task's own limit if it has one; otherwise, and for a host, the limit of all the host's tasks together."""
    limit_bytes_per_s: float | None = None
    """Limit of its host's link, each way, on the wire."""
    memory_limit_bytes: int | None = None
    """Likewise."""
    busy_frac: float | None = None
    """For a server: part of the time that went into its work, as far as reported: updates, and live what it receives
    and sends, too, so that a server with a throttled processor is busy, whichever part is delayed."""
    gpu_frac: float | None = None
    """For a worker on a GPU: part of the time in which that device was busy, with any process."""
    gpu_memory_bytes: int | None = None
    """Memory in use on that device, by all processes."""


class Part(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Part ``index`` of the round, and the ``coefficient`` of its gradient sum in what the worker sends."""

    index: int
    coefficient: float


def split_evenly(total: int, parts: int) -> list[int]:
    """``total`` as ``parts`` integers that differ by at most one, larger ones first.

    It divides the global batch among workers, a round (``Partition``) into parts, a batch into micro-batches.
    """
    share, rest = divmod(total, parts)
    return [share + (part < rest) for part in range(parts)]
