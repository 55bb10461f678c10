"""Language models in PyTorch: words int64 [batch, length] to scores [batch, length, vocabulary].

Initial values are defined in :mod:`workloads.models.language`: a module by itself starts with PyTorch's.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from workloads.models.language import LSTMSize, TransformerSize, positions


class LSTM(nn.Module):
    """Stacked LSTM; every sequence starts with a zero state."""

    def __init__(self, size: LSTMSize, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, size.embedding)
        between = size.dropout if size.layers > 1 else 0.0
        self.dropout = nn.Dropout(size.dropout)
        self.lstm = nn.LSTM(size.embedding, size.hidden, size.layers, batch_first=True, dropout=between)
        self.output = nn.Linear(size.hidden, words)

    def forward(self, words: Tensor) -> Tensor:
        states, _ = self.lstm(self.dropout(self.embedding(words)))
        scores: Tensor = self.output(self.dropout(states))
        return scores


class Transformer(nn.Module):
    """Self-attention over each word and those before it."""

    def __init__(self, size: TransformerSize, words: int) -> None:
        super().__init__()
        self.scale = math.sqrt(size.width)
        self.embedding = nn.Embedding(words, size.width)
        self.dropout = nn.Dropout(size.dropout)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(size.width, size.heads, size.feedforward, size.dropout, batch_first=True)
            for _ in range(size.layers)
        )
        self.output = nn.Linear(size.width, words)

    def forward(self, words: Tensor) -> Tensor:
        length, width = words.shape[1], self.embedding.embedding_dim
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=words.device)
        where = torch.from_numpy(positions(length, width)).to(words.device)
        states = self.dropout(self.embedding(words) * self.scale + where)
        for block in self.blocks:
            states = block(states, src_mask=mask, is_causal=True)
        scores: Tensor = self.output(states)
        return scores


def language_module(size: LSTMSize | TransformerSize, words: int) -> nn.Module:
    """The model for this type of size."""
    return LSTM(size, words) if isinstance(size, LSTMSize) else Transformer(size, words)
