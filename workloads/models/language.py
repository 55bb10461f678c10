"""Sizes of the language models that STAR trains on WikiText-2, from which every framework builds.

The defaults come from STAR's published code: embedding and hidden width 200, 2 layers, 8 heads, no dropout, untied
output weights. With the 28,782 words of its tokenizer that is 46 MiB in float32 for both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from workloads.checks import check_dropout, check_whole
from workloads.models.initial import Initializer, constant, linear, uniform

INIT_RANGE = 0.1
"""Bound of the uniform initial embeddings and output weights; the output bias starts at zero, all else as in
PyTorch."""


@dataclass(frozen=True, kw_only=True)
class LSTMSize:
    """Embedding, stacked LSTM (Hochreiter and Schmidhuber, 1997; two biases per gate, as in cuDNN), linear output."""

    embedding: int = 200
    hidden: int = 200
    layers: int = 2
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("embedding", "hidden", "layers"):
            check_whole(name, getattr(self, name), least=1)
        check_dropout(self.dropout)

    def count(self, words: int) -> int:
        """Number of parameters for a vocabulary of this size."""
        inputs = self.embedding + (self.layers - 1) * self.hidden  # of all layers together
        gates = 4 * self.hidden * (inputs + self.layers * (self.hidden + 2))
        return words * self.embedding + gates + (self.hidden + 1) * words


@dataclass(frozen=True, kw_only=True)
class TransformerSize:
    """Causal self-attention blocks (Vaswani et al., 2017: normalised after each residual), sinusoidal positions."""

    width: int = 200
    heads: int = 8
    feedforward: int = 200
    layers: int = 2
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("width", "heads", "feedforward", "layers"):
            check_whole(name, getattr(self, name), least=1)
        check_dropout(self.dropout)
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width={self.width}: must be even and a multiple of heads ({self.heads})")

    def count(self, words: int) -> int:
        """Number of parameters for a vocabulary of this size."""
        attention = 4 * self.width * (self.width + 1)
        feedforward = 2 * self.width * self.feedforward + self.width + self.feedforward
        block = attention + feedforward + 2 * 2 * self.width
        return words * self.width + self.layers * block + (self.width + 1) * words


def positions(length: int, width: int) -> NDArray[np.float32]:
    """Interleaved sines and cosines of wavelengths from 2 pi to 20000 pi: float32 [length, width]."""
    angles = np.arange(length)[:, None] * np.exp(np.arange(0, width, 2) * (-math.log(10_000.0) / width))
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(length, width).astype(np.float32)


def language_initializers(size: LSTMSize | TransformerSize, words: int) -> list[Initializer]:
    """Initial values in the order of the flat vector."""
    if isinstance(size, LSTMSize):
        return _between_words(words, size.embedding, lstm_initializers(size), size.hidden)
    return _between_words(words, size.width, chain(*(block_initializers(size) for _ in range(size.layers))), size.width)


def lstm_initializers(size: LSTMSize) -> list[Initializer]:
    """Per layer: input and state weights, with gates stacked as input, forget, cell, output; two biases."""
    gates, bound = 4 * size.hidden, 1 / math.sqrt(size.hidden)
    inputs = [size.embedding] + [size.hidden] * (size.layers - 1)
    return [uniform(gates * count, bound) for into in inputs for count in (into, size.hidden, 1, 1)]


def block_initializers(size: TransformerSize) -> list[Initializer]:
    """Attention (queries, keys and values as one matrix: Glorot and Bengio, 2010), two linear layers, two norms."""
    width = size.width
    packed = uniform(3 * width * width, math.sqrt(6 / (width + 3 * width)))
    joined = linear(width, width, bias=False)
    attention = [packed, constant(3 * width, 0.0), *joined, constant(width, 0.0)]
    norms = [constant(width, value) for value in (1.0, 0.0)] * 2
    return [*attention, *linear(width, size.feedforward), *linear(size.feedforward, width), *norms]


def _between_words(words: int, width: int, inner: Iterable[Initializer], last: int) -> list[Initializer]:
    return [uniform(words * width, INIT_RANGE), *inner, uniform(last * words, INIT_RANGE), constant(words, 0.0)]
