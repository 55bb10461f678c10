"""Arrays on disk, converted once and memory-mapped by every process, so that workers share their pages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray


class Split(msgspec.Struct, frozen=True):
    """(inputs, targets) for training and for held-out evaluation; the first axis of each counts samples."""

    train: tuple[NDArray[Any], NDArray[Any]]
    test: tuple[NDArray[Any], NDArray[Any]]


_NAMES = ("train_inputs", "train_targets", "test_inputs", "test_targets")


def is_stored(directory: Path) -> bool:
    """All four arrays are there (they appear together, by one rename)."""
    return all((directory / f"{name}.npy").is_file() for name in _NAMES)


def store(directory: Path, split: Split) -> None:
    """Write the arrays; the directory appears under its name only when it is complete."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = directory.with_name(f".{directory.name}.{os.getpid()}")
    partial.mkdir(exist_ok=True)
    for name, array in zip(_NAMES, (*split.train, *split.test), strict=True):
        np.save(partial / f"{name}.npy", array)
    try:
        partial.rename(directory)
    except OSError:
        for name in _NAMES:
            (partial / f"{name}.npy").unlink()
        partial.rmdir()
        if not is_stored(directory):
            raise


def load(directory: Path) -> Split:
    """Memory-map the arrays; raises ``FileNotFoundError`` when they are not there."""
    arrays = [np.load(directory / f"{name}.npy", mmap_mode="c") for name in _NAMES]
    return Split(train=(arrays[0], arrays[1]), test=(arrays[2], arrays[3]))
