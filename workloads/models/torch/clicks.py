"""Click models in PyTorch: rows [batch, fields] to scores [batch] (the logit of a click).

See :mod:`workloads.models.clicks`, which also defines initial values: a module by itself starts with PyTorch's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from workloads.models.clicks import CROSS_FACTOR, Fields, WideDeepSize, XDeepFMSize


class WideDeep(nn.Module):
    """Wide and deep part, trained together."""

    def __init__(self, size: WideDeepSize, fields: Fields) -> None:
        super().__init__()
        self.size, self.fields = size, fields
        pairs = [tuple(pair) for pair in size.crosses]
        self.first, self.second = [one for one, _ in pairs], [other for _, other in pairs]
        self.wide = nn.Embedding(fields.features + len(pairs) * size.cross_buckets, 1)
        self.bias = nn.Parameter(torch.zeros(1))
        self.table = nn.Embedding(sum(fields.cardinalities), size.embedding)
        self.deep = mlp(size.deep_inputs(fields), size.hidden)

    def forward(self, rows: Tensor) -> Tensor:
        ids, values = split(rows, self.fields)
        dense = values[:, : self.fields.num_dense]
        places = ids[:, self.fields.num_dense :] - self.fields.num_dense
        wide = linear_part(self.wide, ids, values) + self._cross(rows)
        deep = self.deep(torch.cat([dense, self.table(places).flatten(1)], dim=1)).squeeze(1)
        total: Tensor = wide + deep + self.bias
        return total

    def _cross(self, rows: Tensor) -> Tensor | float:
        if not self.first:
            return 0.0
        plain = rows[:, self.fields.num_dense :].long()
        hashed = (plain[:, self.first] * CROSS_FACTOR + plain[:, self.second]) % self.size.cross_buckets
        start = self.fields.features + torch.arange(len(self.first), device=rows.device) * self.size.cross_buckets
        crossed: Tensor = self.wide(hashed + start).squeeze(2).sum(1)
        return crossed


class XDeepFM(nn.Module):
    """Sum of a linear part, a compressed interaction network (CIN) and a deep network."""

    def __init__(self, size: XDeepFMSize, fields: Fields) -> None:
        super().__init__()
        self.fields = fields
        self.linear = nn.Embedding(fields.features, 1)
        self.bias = nn.Parameter(torch.zeros(1))
        self.table = nn.Embedding(fields.features, size.embedding)
        below = [fields.count, *size.cin]
        self.cin = nn.ModuleList(
            nn.Linear(inputs * fields.count, maps, bias=False) for inputs, maps in zip(below, size.cin, strict=False)
        )
        self.interactions = nn.Linear(sum(size.cin), 1, bias=False)
        self.deep = mlp(fields.count * size.embedding, size.hidden, size.dropout)

    def forward(self, rows: Tensor) -> Tensor:
        ids, values = split(rows, self.fields)
        embedded = self.table(ids) * values[:, :, None]
        linear = linear_part(self.linear, ids, values)
        explicit = self.interactions(self._interact(embedded)).squeeze(1)
        total: Tensor = linear + explicit + self.deep(embedded.flatten(1)).squeeze(1) + self.bias
        return total

    def _interact(self, embedded: Tensor) -> Tensor:
        """[batch, fields, embedding] to the sums of all feature maps [batch, maps of all layers] (equations 6, 7)."""
        maps, sums = embedded, []
        for layer in self.cin:
            pairs = maps[:, :, None, :] * embedded[:, None, :, :]
            maps = layer(pairs.flatten(1, 2).transpose(1, 2)).transpose(1, 2)
            sums.append(maps.sum(2))
        return torch.cat(sums, dim=1)


def split(rows: Tensor, fields: Fields) -> tuple[Tensor, Tensor]:
    """Indices into the table of all features, int64, and the features' values, float32; [batch, fields] each."""
    dense, hashed = rows[:, : fields.num_dense], rows[:, fields.num_dense :]
    starts = torch.tensor(fields.offsets, dtype=torch.int64, device=rows.device) + fields.num_dense
    numbers = torch.arange(fields.num_dense, device=rows.device).expand(len(rows), -1)
    ids = torch.cat([numbers, hashed.long() + starts], dim=1)
    return ids, torch.cat([dense.float(), torch.ones(hashed.shape, device=rows.device)], dim=1)


def linear_part(table: nn.Embedding, ids: Tensor, values: Tensor) -> Tensor:
    """The linear part of a click model: [batch]."""
    total: Tensor = (table(ids).squeeze(2) * values).sum(1)
    return total


def mlp(inputs: int, hidden: Sequence[int], dropout: float = 0.0) -> nn.Sequential:
    """ReLU layers and one output without bias, since the sum of the parts has one."""
    modules: list[nn.Module] = []
    for into, out in zip([inputs, *hidden], hidden, strict=False):
        modules += [nn.Linear(into, out), nn.ReLU()]
        modules += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*modules, nn.Linear([inputs, *hidden][-1], 1, bias=False))


def click_module(size: WideDeepSize | XDeepFMSize, fields: Fields) -> nn.Module:
    """The model for this type of size."""
    return WideDeep(size, fields) if isinstance(size, WideDeepSize) else XDeepFM(size, fields)
