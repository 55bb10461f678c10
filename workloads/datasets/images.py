"""Pre-processing of image batches before the model, in the data time of an iteration (pure)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from workloads.data import AugmentationKey

Images = NDArray[np.uint8]
"""[N, channels, height, width]."""


class Colours(NamedTuple):
    """Means and standard deviations of the channels over a training set, for pixels in [0, 1]."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


def normalise(images: Images, colours: Colours) -> NDArray[np.float32]:
    """Normalise to zero mean and unit deviation over the training set, float32 in the shape of ``images``."""
    deviation = np.array(colours.deviation, dtype=np.float32)[:, None, None]
    mean = np.array(colours.mean, dtype=np.float32)[:, None, None]
    scaled = np.multiply(images, 1 / (255 * deviation), dtype=np.float32)
    scaled -= mean / deviation
    return scaled


def crop_and_flip(images: Images, key: AugmentationKey, pad: int = 4) -> Images:
    """Random crops of the original size from images with ``pad`` black pixels on each side; every other one mirrored.

    He et al. (CVPR 2016, section 4.2) pad 4 pixels on each side of CIFAR-10's images and mirror. The crop depends only
    on seed, epoch and sample: it is the same on whichever worker, in whichever batch.
    """
    count, channels, height, width = images.shape
    bits = draw(*key)
    side = np.uint64(2 * pad + 1)
    top, left = (bits >> np.uint64(40)) % side, (bits >> np.uint64(16)) % side
    flip = (bits & np.uint64(1)).astype(bool)
    padded = np.zeros((count, channels, height + 2 * pad, width + 2 * pad), dtype=np.uint8)
    padded[:, :, pad : pad + height, pad : pad + width] = images
    windows = sliding_window_view(padded, (height, width), axis=(2, 3))  # copied below image by image, not by pixel
    cropped: Images = windows[np.arange(count), :, top.astype(np.int64), left.astype(np.int64)]
    cropped[flip] = cropped[flip, :, :, ::-1]
    return cropped


def draw(seed: int, epochs: NDArray[np.int64], samples: NDArray[np.int64]) -> NDArray[np.uint64]:
    """64 random bits per sample, uint64 [N], keyed by seed, epoch and sample: splitmix64 in three steps."""
    bits = _mix(np.full(len(samples), seed, dtype=np.uint64))
    bits = _mix(bits ^ epochs.astype(np.uint64))
    return _mix(bits ^ samples.astype(np.uint64))


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One step of splitmix64 (Steele, Lea and Flood, OOPSLA 2014); arithmetic is modulo 2**64."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
