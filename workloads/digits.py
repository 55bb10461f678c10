"""Handwritten digits: 1,797 real images of 8 x 8 pixels that come with scikit-learn (UCI, CC BY 4.0): no download."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from workloads import data
from workloads.classification import CrossEntropy
from workloads.torch_random import default_layers

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SPLIT_SEED = 1797
"""Fixed, so that the held-out fifth is the same in every run, whatever its seed."""
NUM_IMAGES = 1797
NUM_TEST = NUM_IMAGES // 5
NUM_PIXELS = 64
MODELS = ("mlp", "cnn")


@final
@dataclass(frozen=True, kw_only=True)
class Digits(CrossEntropy):
    """Ten classes; ``model`` is ``mlp`` (64-hidden-10) or ``cnn`` (two 3x3 convolutions and a linear layer).

    ``hidden_units`` is the width of the MLP and of the CNN's second convolution. ``data_dir`` holds the converted
    arrays.
    """

    model: str = "mlp"
    hidden_units: int = 128
    data_dir: str = "data"

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ValueError(f"model={self.model}: must be one of {', '.join(MODELS)}")
        if not isinstance(self.hidden_units, int) or self.hidden_units < 1:
            raise ValueError(f"hidden_units={self.hidden_units}: must be at least 1")

    independent_samples: ClassVar[bool] = True

    @property
    def directory(self) -> Path:
        """Directory of the converted arrays."""
        return Path(self.data_dir) / "digits"

    @property
    def num_samples(self) -> int:
        """Number of training samples, known without the data."""
        return NUM_IMAGES - NUM_TEST

    @property
    def num_weights(self) -> int:
        """Number of parameters. Under the name ``num_parameters`` it would set message sizes of ``backend=none``."""
        hidden = self.hidden_units
        if self.model == "mlp":
            return hidden * 65 + 10 * (hidden + 1)
        return 16 * 10 + hidden * 145 + 10 * (hidden * 16 + 1)

    def prepare(self) -> int:
        """Convert the images once; returns the number of training samples. Called before any process starts."""
        left = self.directory.is_dir() and any(self.directory.iterdir())
        try:
            if not data.is_stored(self.directory):
                if left:
                    raise data.DataError(f"{self.directory}: has not all arrays")
                data.store(self.directory, _convert())
            split = self.load()
            data.check_split(self.directory, split, (NUM_PIXELS,))
            if (len(split.train[0]), len(split.test[0])) != (self.num_samples, NUM_TEST):
                raise data.DataError(f"{self.directory}: has not the {NUM_IMAGES} digits of scikit-learn")
        except data.DataError as error:
            raise data.DataError(f"{error}; remove {self.directory}, it is made again") from None
        return self.num_samples

    def preload(self) -> list[str]:
        """Import nothing beyond the framework."""
        return []

    def load(self) -> data.Split:
        """Inputs float32 [N, 64] in [0, 1], targets int64 [N]."""
        return data.load(self.directory)

    def torch_module(self) -> torch.nn.Module:
        """Build the MLP or CNN in PyTorch."""
        from torch import nn

        hidden = self.hidden_units
        if self.model == "mlp":
            return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
        return nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, hidden, 3, padding=1, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(hidden * 16, 10),
        )

    def torch_metrics(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Accuracy and mean loss of held-out samples."""
        from torch.nn.functional import cross_entropy

        scores = module(inputs)
        hits = (scores.argmax(dim=1) == targets).float().mean()
        return {"accuracy": float(hits), "loss": float(cross_entropy(scores, targets))}

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        """Draw as ``torch_module`` does after ``torch.manual_seed(seed)``, bit for bit, without needing PyTorch."""
        hidden = self.hidden_units
        mlp, cnn = (
            [(64 * hidden, 64), (hidden * 10, hidden)],
            [(16 * 9, 9), (hidden * 144, 144), (hidden * 160, hidden * 16)],
        )
        return default_layers(seed, mlp if self.model == "mlp" else cnn)

    def tensorflow_module(self) -> Any:
        """Build the MLP or CNN in Keras."""
        from workloads.digits_tensorflow import network

        return network(self.model, self.hidden_units)

    def tensorflow_loss(self, module: Any, inputs: Any, targets: Any) -> Any:
        """Cross-entropy summed over the batch."""
        import tensorflow as tf

        return tf.reduce_sum(self.tensorflow_losses(module, inputs, targets))

    def tensorflow_losses(self, module: Any, inputs: Any, targets: Any) -> Any:
        """Cross-entropy of each sample."""
        from workloads.digits_tensorflow import cross_entropy

        return cross_entropy(module(inputs, training=True), targets)

    def tensorflow_metrics(self, module: Any, inputs: Any, targets: Any) -> dict[str, Any]:
        """Accuracy and mean loss of held-out samples."""
        from workloads.digits_tensorflow import classification_metrics

        return classification_metrics(module(inputs, training=False), targets)


def _convert() -> data.Split:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    inputs = (images[order] / 16.0).astype(np.float32)
    targets = labels[order].astype(np.int64)
    train, test = slice(NUM_TEST, None), slice(NUM_TEST)
    return data.Split(train=(inputs[train], targets[train]), test=(inputs[test], targets[test]))
