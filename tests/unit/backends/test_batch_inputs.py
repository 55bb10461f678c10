"""Pre-processing in the data time: deterministic by seed, epoch and sample, and the same in whichever batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.backends.base import AugmentationKey
from runtime.backends.torch import TorchModel
from runtime.core.data.sampling import sample_epochs, sample_indices
from runtime.core.data.shards import Cut, Range
from workloads.data import Split
from workloads.datasets.cifar10 import COLOURS, Cifar10
from workloads.datasets.images import Colours, crop_and_flip, draw, normalise
from workloads.digits import Digits

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(1, 256, (50, 3, 32, 32), dtype=np.uint8)
SAMPLES = np.arange(50, dtype=np.int64)


def drawn(seed: int = 0, epoch: int = 0, samples: NDArray[np.int64] = SAMPLES) -> AugmentationKey:
    return seed, np.full(len(samples), epoch, dtype=np.int64), samples


def test_normalising_gives_zero_mean_and_unit_deviation() -> None:
    own = IMAGES / 255
    colours = Colours(tuple(own.mean(axis=(0, 2, 3))), tuple(own.std(axis=(0, 2, 3))))
    seen = normalise(IMAGES, colours)
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen.mean(axis=(0, 2, 3)), 0, atol=1e-4)
    np.testing.assert_allclose(seen.std(axis=(0, 2, 3)), 1, rtol=1e-4)
    white = normalise(np.full((1, 3, 1, 1), 255, dtype=np.uint8), COLOURS)
    np.testing.assert_allclose(white[0, 0, 0, 0], (1 - 0.4914) / 0.2470, rtol=1e-5)


def test_every_crop_is_a_window_of_the_padded_image() -> None:
    """Found again in the padded image or its mirror image, at a place within four pixels."""
    seen = crop_and_flip(IMAGES, drawn())
    places = set()
    for image, crop in zip(IMAGES, seen, strict=True):
        padded = np.pad(image, ((0, 0), (4, 4), (4, 4)))
        found = [
            (top, left, flip)
            for top in range(9)
            for left in range(9)
            for flip in (False, True)
            if np.array_equal(crop, padded[:, top : top + 32, left : left + 32][:, :, :: -1 if flip else 1])
        ]
        assert len(found) == 1
        places.add(found[0])
    assert len(places) > 30
    assert {flip for _, _, flip in places} == {False, True}


def test_a_sample_is_the_same_in_every_batch_and_order_and_seed_epoch_and_sample_all_count() -> None:
    whole, order = crop_and_flip(IMAGES, drawn()), RNG.permutation(50)
    np.testing.assert_array_equal(crop_and_flip(IMAGES[order], drawn(samples=SAMPLES[order])), whole[order])
    np.testing.assert_array_equal(crop_and_flip(IMAGES[7:9], drawn(samples=SAMPLES[7:9])), whole[7:9])
    for other in (drawn(seed=1), drawn(epoch=1), drawn(samples=SAMPLES + 50)):
        pairs = zip(whole, crop_and_flip(IMAGES, other), strict=True)
        assert sum(np.array_equal(*pair) for pair in pairs) < 5


def test_draws_are_even() -> None:
    """81 places and two sides over 20,000 samples: chi-squared of both within four deviations of its mean."""
    bits = draw(*drawn(samples=np.arange(20_000, dtype=np.int64)))
    for values, kinds in ((bits & np.uint64(1), 2), ((bits >> np.uint64(40)) % np.uint64(9), 9)):
        counts = np.bincount(values.astype(np.int64), minlength=kinds)
        chi = ((counts - 20_000 / kinds) ** 2 / (20_000 / kinds)).sum()
        assert chi < kinds - 1 + 4 * np.sqrt(2 * (kinds - 1))


def test_only_training_images_are_augmented() -> None:
    plain, random = Cifar10(), Cifar10(augment=True)
    np.testing.assert_array_equal(plain.batch_inputs(IMAGES, drawn()), normalise(IMAGES, COLOURS))
    np.testing.assert_array_equal(random.batch_inputs(IMAGES, None), normalise(IMAGES, COLOURS))
    expected = normalise(crop_and_flip(IMAGES, drawn()), COLOURS)
    np.testing.assert_array_equal(random.batch_inputs(IMAGES, drawn()), expected)


class Watched:
    """Digits whose pre-processing is written down, and adds one to every pixel."""

    def __init__(self, data_dir: str) -> None:
        self.inner = Digits(data_dir=data_dir)
        self.inner.prepare()
        self.seen: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def load(self) -> Split:
        return self.inner.load()

    def batch_inputs(self, inputs: NDArray[Any], drawn: AugmentationKey | None) -> NDArray[Any]:
        self.seen.append(drawn)
        return inputs + np.float32(1)


def test_the_backend_hands_over_seed_epochs_and_samples(tmp_path: Path) -> None:
    task = Watched(str(tmp_path))
    model = TorchModel(task, seed=5, num_threads=1)
    cut = Cut(1438, 10, 150)
    ranges = (Range(3, 0, 10, 12), Range(4, 2, 0, 3))
    indices, epochs = sample_indices(ranges, cut, 5), sample_epochs(ranges)
    assert list(epochs) == [3, 3, 4, 4, 4]
    inputs, _ = model.batch(indices, epochs)
    np.testing.assert_array_equal(inputs.numpy(), task.load().train[0][indices] + 1)
    seed, seen_epochs, samples = task.seen.pop()
    assert (seed, list(seen_epochs), list(samples)) == (5, list(epochs), list(indices))
    model.batch(indices)
    assert list(task.seen.pop()[1]) == [0] * 5


def test_held_out_samples_are_not_drawn(tmp_path: Path) -> None:
    """They are pre-processed as well, or accuracy would be that of other images; without it samples are as they are."""
    task = Watched(str(tmp_path))
    one = TorchModel(task, seed=5, num_threads=1).evaluate()
    assert task.seen
    assert all(drawn is None for drawn in task.seen)
    plain = TorchModel(task.inner, seed=5, num_threads=1)
    assert one != plain.evaluate()
    inputs, _ = plain.batch(np.array([3, 1]))
    np.testing.assert_array_equal(inputs.numpy(), task.load().train[0][[3, 1]])
