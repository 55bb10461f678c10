"""ImageNet (ILSVRC 2012): folders of photographs, one per class, converted once to a common size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from workloads.data import AugmentationKey, DataError, appearing, new_array
from workloads.datasets.base import About, Dataset, Facts, check_count, labels
from workloads.datasets.files import HEAD_BYTES, check_head
from workloads.datasets.images import Colours, normalise

CLASSES, TRAIN_IMAGES, VAL_IMAGES = 1_000, 1_281_167, 50_000
"""Russakovsky et al., IJCV 2015, table 2."""
COLOURS = Colours((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Per-channel statistics of the training set, as all PyTorch recipes use them."""
SUFFIXES = (".jpeg", ".jpg", ".png")
PARTS = {"train": "train", "val": "test"}
"""Folder -> part of the arrays."""


@final
@dataclass(frozen=True, kw_only=True)
class ImageNet(Dataset):
    """Inputs uint8 [N, 3, image_size, image_size] on disk, normalised float32 in a batch; targets int64 [N].

    The shorter side of every image is resized to ``image_size``, and the centre is cropped. Classes are the folders
    sorted by name. With ``verify=false`` any such folders are accepted, with ``num_classes`` of them.
    """

    name = "imagenet"
    about = About(
        what="1,281,167 photographs in 1,000 classes and 50,000 to validate",
        licence="for research, by agreement with image-net.org",
        source="https://image-net.org/challenges/LSVRC/2012 (unpack ILSVRC2012_img_train, and _val sorted by class)",
        files="a folder with train/CLASS/*.JPEG and val/CLASS/*.JPEG",
    )

    image_size: int = 224
    num_classes: int = CLASSES

    def __post_init__(self) -> None:
        if not 8 <= self.image_size <= 1024:
            raise ValueError(f"image_size={self.image_size}: must be from 8 to 1024 pixels")
        if self.num_classes < 2:
            raise ValueError(f"num_classes={self.num_classes}: must be at least 2")
        if self.verify and self.num_classes != CLASSES:
            raise ValueError(
                f"num_classes={self.num_classes}: ImageNet has {CLASSES}; set verify=false for other images"
            )

    @property
    def num_samples(self) -> int | None:
        return TRAIN_IMAGES if self.verify else None

    @property
    def facts(self) -> Facts:
        return Facts(input_shape=(3, self.image_size, self.image_size), num_classes=self.num_classes)

    def variant(self) -> str:
        """The image size, which changes the pixels."""
        return f"_{self.image_size}" + ("" if self.verify else f"_classes{self.num_classes}")

    def convert(self, raw: Path, directory: Path) -> None:
        """Check the header of every file, then decode the files one by one."""
        found = {part: self._images(raw / folder) for folder, part in PARTS.items()}
        classes = {name: at for at, name in enumerate(sorted({path.parent.name for path in found["train"]}))}
        if len(classes) != self.num_classes:
            raise DataError(f"{raw / 'train'}: {len(classes)} classes instead of {self.num_classes}; {self.cure}")
        strange = sorted({path.parent.name for path in found["test"]} - set(classes))
        if strange:
            raise DataError(f"{raw / 'val' / strange[0]}: there is no such class in train; {self.cure}")
        if self.verify:
            check_count(f"{raw / 'train'}: images", len(found["train"]), TRAIN_IMAGES, self.cure)
            check_count(f"{raw / 'val'}: images", len(found["test"]), VAL_IMAGES, self.cure)
        with appearing(directory) as partial:
            for part, paths in found.items():
                self._write(partial / f"{part}_inputs.npy", paths)
                numbers = [classes[path.parent.name] for path in paths]
                np.save(partial / f"{part}_targets.npy", labels(numbers))

    def batch_inputs(self, inputs: NDArray[Any], key: AugmentationKey | None) -> NDArray[Any]:
        return normalise(inputs, COLOURS)

    def _images(self, folder: Path) -> list[Path]:
        if not folder.is_dir():
            raise DataError(f"{folder}: does not exist; {self.cure}")
        paths = []
        for own in sorted(path for path in folder.iterdir() if path.is_dir()):
            images = sorted(path for path in own.iterdir() if path.suffix.lower() in SUFFIXES)
            if not images:
                raise DataError(f"{own}: holds no images ({', '.join(SUFFIXES)}); {self.cure}")
            paths += images
        if not paths:
            raise DataError(f"{folder}: holds no folders of classes; {self.cure}")
        for path in paths:
            with path.open("rb") as file:
                check_head(file.read(HEAD_BYTES), str(path), self.cure)
        return paths

    def _write(self, file: Path, paths: Sequence[Path]) -> None:
        shape = (len(paths), 3, self.image_size, self.image_size)
        array = new_array(file, np.uint8, shape)
        for at, path in enumerate(paths):
            try:
                array[at] = decode(path, self.image_size)
            except (OSError, SyntaxError, ValueError) as error:
                raise DataError(f"{path}: is not a readable image ({error}); {self.cure}") from error
        array.flush()


def decode(path: Path, size: int) -> NDArray[np.uint8]:
    """The centre of an image whose shorter side is resized to ``size`` pixels, RGB, uint8 [3, size, size]."""
    from PIL import Image, ImageOps

    with Image.open(path) as image:
        square = ImageOps.fit(image.convert("RGB"), (size, size), Image.Resampling.BILINEAR)
    return np.asarray(square).transpose(2, 0, 1)
