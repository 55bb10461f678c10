"""The models of a job's tasks, and of their parameters."""

from __future__ import annotations

from typing import NamedTuple

from runtime.virtual.tasks.followers import Followers
from runtime.virtual.tasks.iteration import WorkerModel
from runtime.virtual.tasks.model_state import ModelState
from runtime.virtual.tasks.servers import ServerGroup


class TaskModels(NamedTuple):
    """The models of tasks: the holders of parameters, the computing ones, the parameters, and the followers."""

    servers: ServerGroup
    workers: WorkerModel
    model_state: ModelState
    followers: Followers | None = None
    """Replicas of the server; None: there are none."""
