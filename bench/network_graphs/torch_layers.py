"""Layers in torch, with weights in TensorFlow's layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.nn import functional

from bench.network_graphs import convolutional

Layer = Callable[..., Tensor]


class Weights:
    """Gives out the weights in the order in which the TensorFlow network makes them; so layers are made in that order.

    Attributes:
        trains: the network is trained: batch normalisation takes the statistics of the batch.
        trained: the tensors that were given out, for an optimiser.
    """

    def __init__(self, values: Iterable[Tensor], trains: bool = False) -> None:
        self._values = iter(values)
        self.trains = trains
        self.trained: list[Tensor] = []

    def raw(self) -> Tensor:
        """The next weight, for a layer that arranges it and adds its own to `trained`."""
        return next(self._values)

    def next(self, arranged: Callable[[Tensor], Tensor] = lambda value: value) -> Tensor:
        """The next weight, arranged as torch wants it."""
        value = arranged(self.raw())
        if self.trains:
            value = value.clone().requires_grad_()
            self.trained.append(value)
        return value


def chain(*layers: Layer) -> Layer:
    """One layer after the other."""

    def layer(x: Tensor) -> Tensor:
        for each in layers:
            x = each(x)
        return x

    return layer


def convolution(
    weights: Weights, stride: int = 1, padding: str = "SAME", depthwise: bool = False, biased: bool = False
) -> Layer:
    """A convolution with TensorFlow's padding "SAME" or "VALID", or by its size ("FIXED")."""
    axes = (2, 3, 0, 1) if depthwise else (3, 2, 0, 1)
    filters = weights.next(lambda value: value.permute(axes).contiguous(memory_format=torch.channels_last))
    bias = weights.next() if biased else None
    groups, sizes = len(filters) if depthwise else 1, filters.shape[2:]

    def layer(x: Tensor) -> Tensor:
        rows, columns = (
            _padding(length, size, stride, padding) for length, size in zip(x.shape[2:], sizes, strict=True)
        )
        if rows[0] == rows[1] and columns[0] == columns[1]:
            return functional.conv2d(x, filters, bias, stride, (rows[0], columns[0]), groups=groups)
        return functional.conv2d(functional.pad(x, (*columns, *rows)), filters, bias, stride, groups=groups)

    return layer


def _padding(length: int, size: int, stride: int, padding: str) -> tuple[int, int]:
    total = {
        "SAME": max((-(-length // stride) - 1) * stride + size - length, 0),
        "VALID": 0,
        "FIXED": size - 1,
    }[padding]
    return total // 2, total - total // 2


def normalized(weights: Weights) -> Layer:
    """Batch normalisation, with constant statistics if the network is not trained."""
    scale, offset = weights.next(), weights.next()
    mean, variance = (None, None) if weights.trains else (weights.next(), weights.next())
    trains, epsilon = weights.trains, convolutional.EPSILON
    return lambda x: functional.batch_norm(x, mean, variance, scale, offset, trains, eps=epsilon)


def dense(weights: Weights) -> Layer:
    """A product with a matrix, and a bias."""
    matrix, bias = weights.next(lambda value: value.T.contiguous()), weights.next()
    return lambda x: functional.linear(x, matrix, bias)


def layer_norm(weights: Weights, epsilon: float = 1e-12) -> Layer:
    """Normalisation over the last axis; the offset is made before the scale."""
    offset, scale = weights.next(), weights.next()
    return lambda x: functional.layer_norm(x, scale.shape, scale, offset, epsilon)
