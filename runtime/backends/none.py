"""No gradients at all: time passes on the virtual clock, and a progress model estimates what would be learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, final

from runtime.errors import ConfigError
from runtime.training.progress import Progress, load_progress


@final
@dataclass(frozen=True, kw_only=True)
class NoBackend:
    """For the virtual clock only: large clusters and long jobs where only time matters, not gradients.

    ``num_parameters`` sets the size of messages; None: the number that the task declares, else zero, so that messages
    are empty. ``progress`` names a model (:mod:`runtime.training.progress`); None: the job is never evaluated.
    """

    computes: ClassVar[bool] = False
    framework: ClassVar[str] = ""
    fork_safe: ClassVar[bool] = True

    num_parameters: int | None = None
    progress: str | None = None

    def __post_init__(self) -> None:
        if self.num_parameters is not None and self.num_parameters < 1:
            raise ValueError(f"num_parameters={self.num_parameters}: must be at least 1, or null for the task's own")

    def preload(self) -> list[str]:
        return []

    def prepare(self, task: Any, seed: int, *, only_scores: bool = False) -> NoReturn:
        """Raise :class:`ConfigError`, as there is no model to build."""
        raise ConfigError("backend=none: computes no gradients; choose runtime=virtual, or a backend that trains")

    def initial_parameters(self, task: Any, seed: int) -> NoReturn:
        """Raise :class:`ConfigError`, as there are no parameters."""
        self.prepare(task, seed)

    def parameters_of(self, task: Any) -> int:
        """Number of parameters in messages, 4 bytes each. The task's model is not built to count them."""
        return self.num_parameters if self.num_parameters is not None else int(getattr(task, "num_parameters", 0))

    def load_progress(self) -> Progress | None:
        """A job's initial progress, or None without a model; raises :class:`ConfigError` for an invalid file."""
        return Progress(load_progress(self.progress)) if self.progress is not None else None
