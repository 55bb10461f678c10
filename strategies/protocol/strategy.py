"""The interface of a plug-in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from strategies.protocol.commands import AnyCommand, Apply, Command, Compute
from strategies.protocol.events import AnyEvent

DATA_POLICIES = ("dynamic", "shared", "even")
"""Allocation policies of the data service; see :class:`Strategy`."""

AggregatorsAt = Literal["free", "workers"]
"""On which hosts aggregators are: hosts without tasks first, or workers' hosts."""

CoresAs = Literal["limit", "request"]
"""Meaning of a node's cores: the most that it may use, or the least that it can have (as in Kubernetes)."""


@runtime_checkable
class Strategy(Protocol):
    """The interface of a plug-in: hyper-parameters as dataclass fields, decisions in :meth:`handle`.

    A strategy inherits from this class explicitly. Attributes and methods that it does not define have the defaults
    given here; none of them is a behaviour to override.

    ``data`` names the allocation policy of the sharding service that the system assumes: ``dynamic`` (workers draw
    shards), ``shared`` (and share what they have drawn when the queue is empty) or ``even`` (a static part of every
    epoch for each worker).
    """

    needs: frozenset[type[Command]] = frozenset({Compute, Apply})
    """Commands that the runtime must be able to carry out; checked before the run starts.

    With ``Send`` among them workers hold their gradients: it receives ``Ready`` and schedules all transfers.
    """

    topologies: frozenset[str] = frozenset({"ps"})
    """Topologies on which it works: ``ps``; ``allreduce`` if every update is one of all current workers, or of all but
    children (``attaches``), or if replicas sum while others compute (``sums_meanwhile``)."""

    watches_servers: bool = False
    """Whether it receives ``Updated``; for other strategies these reports are only recorded."""

    watches_use: bool = False
    """Whether it needs ``Observed``; a runtime that samples on demand then does."""

    measures: bool = False
    """Whether it may command ``Apply.measure``; refused before the run where the result would mean nothing."""

    attaches: bool = False
    """Whether it may command ``Apply.children``; refused before the run where no worker can leave the ring."""

    sums_meanwhile: bool = False
    """Whether it may command ``Apply``, ``Average`` or ``PushHalf`` while workers compute, where there are no servers:
    they take part at the same time then. Refused before the run where replicas cannot."""

    cuts: bool = False
    """Whether it may command ``Compute.within_s``; refused before the run where no iteration can end early."""

    outer: Mapping[str, Any] = {"lr": 1.0}
    """The outer optimizer, SGD, of a strategy that needs ``StepAlone``: ``lr``, perhaps ``momentum`` and ``nesterov``.

    With the default it averages parameters. With ``every`` momentum is applied with every so many updates alone
    (``runtime.training.delayed_nesterov``). One that needs ``SumFragment`` also says how many ``fragments`` there are:
    consecutive parts of the vector, as servers would hold them."""

    fitted: tuple[str, ...] = ()
    """Files by which it predicts, fitted before the job: the name and the start of the SHA-256 of each, for records."""

    rescales: bool = False
    """Whether its weights can give anything but the mean over the samples."""

    data: str = "dynamic"

    aggregators: int = 0
    """Tasks that it needs to sum gradients on their way (``Send.via``); refused before the run where there are none."""

    aggregators_at: AggregatorsAt = "free"
    """Where these are."""

    replicas: int = 0
    """Servers that follow the others (``Replicate``); refused before the run where there are none."""

    validation_samples: int = 0
    """Training samples that are held out for the reference gradient of ``Score``, and never trained on."""

    start_cores: Mapping[str, float] = {}
    """Cores that it allocates to every ``worker`` and every ``server`` at the start; those not named get no limit."""

    cores_as: CoresAs = "limit"
    """Meaning of the cores in its commands; a ``request`` is refused before the run if nothing could enforce it."""

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Return the commands that answer ``event``."""
        raise NotImplementedError

    def validate(self, num_workers: int) -> None:
        """Raise ``ValueError`` naming the field when the hyper-parameters do not fit ``num_workers`` workers."""
        return None

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        """Raise ``ValueError`` likewise when they leave no way to split the global batch among the workers."""
        return None

    def validate_length(self, epochs: int | None) -> None:
        """Raise ``ValueError`` likewise when they do not fit a job of ``epochs`` epochs (None: it ends by time)."""
        return None

    def waiting_groups(self) -> Sequence[Sequence[int]]:
        """Workers whose gradients make an update together now, so that the faster ones of a group wait for the slowest.

        A worker in no group waits for no other. A cluster takes resources that waiting workers do not need.
        """
        return ()

    def log_state(self) -> dict[str, float | int | str]:
        """The state of the decision to plot, recorded with every event that changed it.

        A final ``warning`` is shown in the run's summary.
        """
        return {}
