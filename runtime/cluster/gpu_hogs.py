"""Which devices a disturbance of kind ``gpu`` reaches, what it leaves of each, and how many hogs that needs (pure).

A hog takes turns on a device and slows all workers there. A target that is a worker or a host must therefore have its
device to itself; ``device:0`` stands for all workers that use device 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from injectors.actuators.gpu_duty import MOST_HOGS, hogs_for, least_left
from injectors.plan import RULES, Kind, target_name, target_of
from runtime.cluster.gpus import device_of
from runtime.errors import ConfigError

GPU: Kind = "gpu"


class DeviceUsers(NamedTuple):
    """The devices that workers take in turn, and the hosts of workers (None: none), by task."""

    in_turn: Sequence[int]
    num_workers: int
    host_of: Callable[[str], str | None] = lambda task: None

    def workers_on(self, device: int) -> list[int]:
        """The workers of the start that compute on a device."""
        return [worker for worker in range(self.num_workers) if device_of(self.in_turn, "worker", worker) == device]

    def workers_of(self, target: str) -> list[int]:
        """The workers that a target names: one worker, all workers of a host, or all workers on a device."""
        form, number = target_of(target).form, target_of(target).number
        if form == "device":
            return self.workers_on(number)
        if form == "worker":
            return [number]
        return [one for one in range(self.num_workers) if self.host_of(target_name("worker", one)) == target]

    def devices_of(self, target: str) -> list[int]:
        """The devices that a target reaches, each once, without unused ones."""
        found = {device_of(self.in_turn, "worker", worker) for worker in self.workers_of(target)}
        return sorted(device for device in found if device is not None)

    def left(self, device: int, level_of: Callable[[str, Kind], float], targets: Iterable[str]) -> float:
        """Return the share of a device that remains under the levels of all targets that reach it."""
        levels = [level_of(target, GPU) for target in targets if device in self.devices_of(target)]
        return min(levels, default=RULES[GPU].neutral)


def turns_alike(device: str, *, mps: bool) -> bool:
    """Whether one hog can take any part of a device.

    With MPS all that compute there have one turn together, and a hog, which does without it, has another; a fake device
    gives a hog what it asks for.
    """
    return mps or device != "cuda"


def hogs_of(asked: Iterable[tuple[str, float]], users: DeviceUsers, *, alike: bool) -> dict[int, int]:
    """How many hogs each disturbed device needs for the smallest part that is asked for: (target, part that is left).

    ``alike``: see :func:`turns_alike`.
    """
    found: dict[int, int] = {}
    for target, left_frac in asked:
        for device in users.devices_of(target) if left_frac < RULES[GPU].neutral else ():
            sharers = 1 if alike else len(users.workers_on(device))
            found[device] = max(found.get(device, 0), hogs_for(left_frac, sharers))
    return found


def refuse_hogs(asked: Iterable[tuple[str, float]], users: DeviceUsers, *, alike: bool) -> None:
    """Raise :class:`ConfigError` for a target that shares its device with others, and for too small a rest."""
    for target, left_frac in asked:
        own = set(users.workers_of(target))
        if not own:
            raise ConfigError(f"straggler: kind gpu of {target}: no worker computes there; name another target")
        for device in users.devices_of(target):
            name, there = target_name("device", device), users.workers_on(device)
            if others := [worker for worker in there if worker not in own]:
                raise ConfigError(
                    f"straggler: kind gpu of {target} would slow down {target_name('worker', others[0])}, too, which "
                    f"computes on the same device; name {name}, or give it a device of its own (cluster.gpus.devices)"
                )
            sharers = 1 if alike else len(there)
            if (needed := hogs_for(left_frac, sharers)) > MOST_HOGS:
                raise ConfigError(
                    f"straggler: to leave {left_frac:g} of {name} to {sharers} processes takes {needed} others, more "
                    f"than {MOST_HOGS}; leave {least_left(sharers):.2f} or more, or use fewer workers on it"
                )
