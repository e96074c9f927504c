"""The recommenders in torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from bench.network_graphs import recommenders
from bench.network_graphs.torch_layers import Layer, Weights, chain, dense


def _layers(weights: Weights, number: int) -> Layer:
    return chain(*[layer for _ in range(number) for layer in (dense(weights), functional.relu)])


def _looked_up(tables: list[Tensor], categories: Tensor) -> list[Tensor]:
    return [functional.embedding(categories[:, number], table) for number, table in enumerate(tables)]


def dlrm(weights: Weights) -> Layer:
    bottom = _layers(weights, 3)
    tables = [weights.next() for _ in range(recommenders.TABLES)]
    top, last = _layers(weights, 2), dense(weights)
    rows = recommenders.TABLES + 1
    left, right = torch.tril_indices(rows, rows, -1)
    pairs = left * rows + right

    def network(numbers: Tensor, categories: Tensor) -> Tensor:
        x = bottom(numbers)
        features = torch.stack([x, *_looked_up(tables, categories)], 1)
        products = torch.bmm(features, features.transpose(1, 2)) * (1 / recommenders.WIDTH)
        joined = torch.cat([x, products.flatten(1)[:, pairs]], 1)
        return torch.sigmoid(last(top(joined)))

    return network


def wide_and_deep(weights: Weights) -> Layer:
    wide = weights.next()
    tables = [weights.next() for _ in range(recommenders.DEEP_TABLES)]
    deep, last = _layers(weights, 3), dense(weights)

    def network(numbers: Tensor, categories: Tensor, crossed: Tensor) -> Tensor:
        x = deep(torch.cat([numbers, *_looked_up(tables, categories)], 1))
        return torch.sigmoid(last(x) + functional.embedding(crossed, wide).sum(1) * 0.1)

    return network
