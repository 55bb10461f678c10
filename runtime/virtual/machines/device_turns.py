"""Computing on devices of which a plan takes a part: work that needs a processor and turns on its device at once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, final

from runtime.virtual.machines.interface import Then

if TYPE_CHECKING:
    from runtime.virtual.compiled._hosts import Sharing


@final
class DeviceTurns:
    """The turns of each task on its device, as a resource: hogs take a part of the time, at any moment the same.

    So computing takes 1 / L as long while the part L is left, as with time slices that are short against an iteration
    (``injectors/actuators/gpu_duty.py``). ``awake(task, then)`` is the machines' method.
    """

    def __init__(self, processors: Sharing, awake: Callable[[str, Then], None]) -> None:
        self._processors, self._awake = processors, awake
        self._tasks: set[str] = set()

    def leave(self, task: str, cores: float) -> None:
        """Set the rate at which a task can use its device from now on, in core-seconds per second."""
        self._processors.set_capacity(self._resource(task, cores), cores)

    def compute(
        self,
        task: str,
        seconds: float,
        cores: float,
        others: tuple[str, ...],
        then: Then,
        *,
        weight: float | None = 1.0,
    ) -> None:
        """Work on the device and on other resources at once; one thing at a time.

        ``cores``: core-seconds per second of the task at full speed, when all of the device is left. ``weight``: of all
        that the task does together on its processor; None: this does not use it, and is no work of the task there.
        """
        if not seconds:
            self._awake(task, then)
            return
        resources = (*others, self._resource(task, cores))
        accounts = () if weight is None else (task,)

        def ended() -> None:
            self._awake(task, then)
            if weight is not None:
                self._processors.divide(task, weight)

        self._processors.start(("device", task), seconds * cores, resources, ended, accounts)
        if weight is not None:
            self._processors.divide(task, weight)

    def forget(self, task: str) -> None:
        """The work of a task whose process is gone."""
        if task in self._tasks:
            self._processors.stop(("device", task))

    def dismiss(self, tasks: Collection[str]) -> None:
        """Tasks that will never do anything again."""
        gone = self._tasks & set(tasks)
        self._processors.remove([f"turns of {task}" for task in sorted(gone)])
        self._tasks -= gone

    def _resource(self, task: str, cores: float) -> str:
        if task not in self._tasks:
            self._tasks.add(task)
            self._processors.add({f"turns of {task}": cores})
        return f"turns of {task}"
