"""The choice of collective: our own ones, or ``torch.distributed``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from runtime.backends.base import Model
from runtime.core.collectives.known import SCHEDULES
from runtime.core.vectors import FloatVector
from runtime.live.joining.shared_folder import MEETING_PLACE
from runtime.live.tasks.collectives.bounded import Bounded
from runtime.live.tasks.collectives.ring import Ring
from runtime.live.tasks.collectives.scheduled import Scheduled
from runtime.live.tasks.collectives.torch_groups import TorchGroup
from runtime.live.transport.acceptor import Acceptor
from runtime.live.transport.auth import Identity
from runtime.live.transport.messages import Peer
from runtime.live.transport.task_spec import TaskSpec


class Collective(Protocol):
    """One replica's end of a collective."""

    def form(self, generation: int, peers: Sequence[Peer]) -> None:
        """Set the members from now on."""

    def all_reduce(self, vector: FloatVector) -> None:
        """Sum the members' vectors in place, on every member; raises ``OSError`` when one is gone."""

    def close(self) -> None: ...


def make_collective(
    spec: TaskSpec, me: Identity, acceptor: Acceptor, look: Callable[[], None], model: Model
) -> Collective:
    """The collective that the run configures, for replicas of ``model``."""
    folder = spec.checkpoints or spec.run_dir  # shared by all machines, where there are several
    where = folder, me, spec.place(me.role, me.id).address, look
    if spec.collective == "gloo":
        return TorchGroup(*where)
    if spec.collective == "nccl":
        from runtime.backends.torch import TorchModel
        from runtime.live.tasks.collectives.device_group import DeviceGroup

        assert isinstance(model, TorchModel)
        assert model.staging is not None, "refused before: NCCL sums vectors of devices"
        return DeviceGroup(*where, model.staging)
    if spec.collective == "ddp":
        from runtime.live.tasks.collectives.native_ddp import NativeGroup

        return NativeGroup(*where)
    if spec.bound_s is not None:
        return Bounded(spec.bound_s, me, spec.secret, acceptor, look)
    if spec.collective != "ring":
        return Scheduled(spec.collective, me, spec.secret, acceptor, look)
    return Ring(me, spec.secret, acceptor, look)


def with_collective(model: Model, collective: Collective) -> Model:
    """The model; wrapped where the backward pass sums gradients."""
    if isinstance(collective, Ring):
        return model
    from runtime.backends.torch import TorchModel
    from runtime.live.tasks.collectives.native_ddp import NativeGroup, NativeModel

    if not isinstance(collective, NativeGroup):
        return model
    assert isinstance(model, TorchModel)
    return NativeModel(model, collective)


def preload(collective: str, run_dir: str) -> list[str]:
    """Import what a collective needs (without running operations); returns the names of the imports."""
    if collective in ("", *SCHEDULES):
        return []
    import_module("torch.distributed")
    if collective == "ddp":
        # the second would otherwise be imported by the first one's constructor, for seconds, in every replica; and it
        # makes a folder at once
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(run_dir) / MEETING_PLACE / "inductor"))
        for name in ("torch.nn.parallel", "torch._dynamo"):
            import_module(name)
    return ["torch"]
