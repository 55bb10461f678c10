"""Sizes of the language models that STAR trains on WikiText-2: what every framework builds from.

The defaults are those of STAR's published code: embedding and hidden width 200, 2 layers, 8 heads, no dropout, output
weights of their own. With the 28,782 words of its tokenizer that is 46 MiB in float32 for both.
"""

from __future__ import annotations

from dataclasses import dataclass

INIT_RANGE = 0.1
"""Embeddings and output weights start uniform between minus and plus this; the output's bias at zero."""


@dataclass(frozen=True, kw_only=True)
class LSTMSize:
    """Embedding, stacked LSTM (Hochreiter and Schmidhuber, 1997; two biases per gate, as cuDNN has), linear output."""

    embedding: int = 200
    hidden: int = 200
    layers: int = 2
    dropout: float = 0.0

    def count(self, words: int) -> int:
        """Parameters for a vocabulary of so many words."""
        inputs = [self.embedding] + [self.hidden] * (self.layers - 1)
        gates = sum(4 * self.hidden * (size + self.hidden + 2) for size in inputs)
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
        """Check the fields."""
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width={self.width}: must be even and a multiple of heads ({self.heads})")

    def count(self, words: int) -> int:
        """Parameters for a vocabulary of so many words."""
        attention = 4 * self.width * (self.width + 1)
        feedforward = 2 * self.width * self.feedforward + self.width + self.feedforward
        block = attention + feedforward + 2 * 2 * self.width
        return words * self.width + self.layers * block + (self.width + 1) * words
