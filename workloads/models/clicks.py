"""Sizes of the click models, from which every framework builds.

An input row holds ``num_dense`` numbers followed by one id per categorical field; ids of field k range from 0 to
``cardinalities[k]`` - 1 (hashed if there are more values). Both models treat fields alike: a number is a feature with
that value, an id a feature with value 1. So one table serves all fields: first one row per number, then the rows of
each categorical field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from workloads.checks import check_dropout, check_whole
from workloads.models.initial import Initializer, constant, linear, normal

CROSS_FACTOR = 1_000_003
"""Hash of a pair of ids: (first * this + second) mod ``cross_buckets``."""
INIT_STD = 0.01
"""Standard deviation of initial embeddings (normal); the papers do not give one."""


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The numbers and categorical fields of an input row."""

    num_dense: int
    cardinalities: tuple[int, ...]

    @property
    def num_categorical(self) -> int:
        """Number of ids in a row."""
        return len(self.cardinalities)

    @property
    def offsets(self) -> list[int]:
        """First row of each categorical field, relative to the first of all."""
        return list(accumulate(self.cardinalities, initial=0))[:-1]

    @property
    def count(self) -> int:
        """Number of fields of both kinds."""
        return self.num_dense + self.num_categorical

    @property
    def features(self) -> int:
        """Number of rows of a table over all features."""
        return self.num_dense + sum(self.cardinalities)


def mlp_count(inputs: int, units: Sequence[int]) -> int:
    """Number of weights and biases of consecutive linear layers."""
    return sum(out * (into + 1) for into, out in zip([inputs, *units], units, strict=False))


@dataclass(frozen=True, kw_only=True)
class WideDeepSize:
    """Cheng et al., "Wide & deep learning for recommender systems", 2016.

    Wide: a weight per feature, and per hashed pair of the categorical fields in ``crosses`` (indices 0 .. fields - 1).
    Deep: concatenated embeddings of 32 and the raw numbers, then ReLU layers of 1024, 512 and 256 (figure 4).
    """

    embedding: int = 32
    hidden: tuple[int, ...] = (1024, 512, 256)
    crosses: tuple[tuple[int, int], ...] = ()
    cross_buckets: int = 1000

    def __post_init__(self) -> None:
        for name in ("embedding", "cross_buckets"):
            check_whole(name, getattr(self, name), least=1)
        for units in self.hidden:
            check_whole("hidden", units, least=1)

    def deep_inputs(self, fields: Fields) -> int:
        """Width of the first layer's input."""
        return fields.num_dense + fields.num_categorical * self.embedding

    def count(self, fields: Fields) -> int:
        """Number of parameters for rows of these fields."""
        wide = fields.features + len(self.crosses) * self.cross_buckets + 1
        table = sum(fields.cardinalities) * self.embedding
        return wide + table + mlp_count(self.deep_inputs(fields), [*self.hidden, 1]) - 1  # the two parts share one bias


@dataclass(frozen=True, kw_only=True)
class XDeepFMSize:
    """Lian et al., "xDeepFM", KDD 2018: a linear part, a compressed interaction network, a deep network.

    The defaults are theirs for Criteo: embeddings of 10, three CIN layers of 200, two deep layers of 400. The CIN's
    feature maps are linear (identity worked best there); each is summed over the embedding and has an output weight.
    """

    embedding: int = 10
    cin: tuple[int, ...] = (200, 200, 200)
    hidden: tuple[int, ...] = (400, 400)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_whole("embedding", self.embedding, least=1)
        for name in ("cin", "hidden"):
            for units in getattr(self, name):
                check_whole(name, units, least=1)
        if not self.cin:
            raise ValueError("cin=[]: must have at least one layer")
        check_dropout(self.dropout)

    def cin_count(self, fields: Fields) -> int:
        """Sum over layers of H_k (1 + H_(k-1) m), the 1 for its output weight (their space analysis)."""
        below = [fields.count, *self.cin]
        return sum(maps * (1 + inputs * fields.count) for inputs, maps in zip(below, self.cin, strict=False))

    def count(self, fields: Fields) -> int:
        """Number of parameters; the single output bias belongs to the linear part."""
        deep = mlp_count(fields.count * self.embedding, [*self.hidden, 1]) - 1
        return fields.features * (1 + self.embedding) + 1 + self.cin_count(fields) + deep


def click_initializers(size: WideDeepSize | XDeepFMSize, fields: Fields) -> list[Initializer]:
    """Initial values in the order of the flat vector; embeddings and the linear part's weights alike."""
    if isinstance(size, WideDeepSize):
        wide, table = fields.features + len(size.crosses) * size.cross_buckets, sum(fields.cardinalities)
        between, inputs = [], size.deep_inputs(fields)
    else:
        wide = table = fields.features
        below = [fields.count, *size.cin]
        layers = [(into * fields.count, out) for into, out in zip(below, size.cin, strict=False)]
        between = [linear(into, out, bias=False) for into, out in [*layers, (sum(size.cin), 1)]]
        inputs = fields.count * size.embedding
    widths = [inputs, *size.hidden]
    deep = [linear(into, out) for into, out in pairwise(widths)]
    tables = [normal(wide, INIT_STD), normal(table * size.embedding, INIT_STD)]
    return [constant(1, 0.0), *tables, *chain(*between, *deep, linear(widths[-1], 1, bias=False))]
