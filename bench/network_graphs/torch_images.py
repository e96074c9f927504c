"""The networks of images in torch, with channels last."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from bench.network_graphs import convolutional, image_networks
from bench.network_graphs.torch_layers import Layer, Weights, chain, convolution, dense, normalized


def _means(x: Tensor) -> Tensor:
    return x.mean((2, 3))


def _channels_first(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def _probabilities(logits: Tensor) -> Tensor:
    return functional.softmax(logits, 1)


def _added(condition: bool, layer: Layer) -> Layer:
    """A layer whose input is added to its result, if the condition holds."""
    return (lambda x: x + layer(x)) if condition else layer


def resnet50_logits(weights: Weights) -> Layer:
    layers: list[Layer] = [
        _channels_first,
        convolution(weights, 2, "FIXED"),
        normalized(weights),
        functional.relu,
    ]
    layers.append(lambda x: functional.max_pool2d(functional.pad(x, (0, 1, 0, 1), value=float("-inf")), 3, 2))
    for stage, blocks in enumerate((3, 4, 6, 3)):
        layers += [
            _bottleneck(weights, 2 if stage > 0 and block == 0 else 1, is_first=block == 0)
            for block in range(blocks)
        ]
    return chain(*layers, _means, dense(weights))


def resnet50(weights: Weights) -> Layer:
    return chain(resnet50_logits(weights), _probabilities)


def _bottleneck(weights: Weights, stride: int, is_first: bool) -> Layer:
    def normalized_convolution(stride: int = 1) -> list[Layer]:
        return [convolution(weights, stride, "FIXED"), normalized(weights)]

    shortcut = chain(*normalized_convolution(stride)) if is_first else lambda x: x
    inner = [*normalized_convolution(), functional.relu, *normalized_convolution(stride), functional.relu]
    residual = chain(*inner, *normalized_convolution())
    return lambda x: functional.relu(shortcut(x) + residual(x))


def mobilenet_v1(weights: Weights) -> Layer:
    layers: list[Layer] = [_channels_first, convolution(weights, 2), normalized(weights), functional.relu6]
    for _, stride in convolutional.MOBILENET_BLOCKS:
        layers += [convolution(weights, stride, depthwise=True), normalized(weights), functional.relu6]
        layers += [convolution(weights), normalized(weights), functional.relu6]
    layers += [lambda x: x.mean((2, 3), keepdim=True), convolution(weights, biased=True)]
    return chain(*layers, lambda x: x.flatten(1), _probabilities)


def mobilenet_v2(weights: Weights) -> Layer:
    layers: list[Layer] = [_channels_first, convolution(weights, 2), normalized(weights), functional.relu6]
    channels = 32
    for factor, filters, repetitions, first_stride in convolutional.INVERTED_BLOCKS:
        for repetition in range(repetitions):
            stride = first_stride if repetition == 0 else 1
            inner: list[Layer] = []
            if factor > 1:
                inner += [convolution(weights), normalized(weights), functional.relu6]
            inner += [convolution(weights, stride, depthwise=True), normalized(weights), functional.relu6]
            inner += [convolution(weights), normalized(weights)]
            layers.append(_added(stride == 1 and channels == filters, chain(*inner)))
            channels = filters
    layers += [convolution(weights), normalized(weights), functional.relu6, _means]
    return chain(*layers, dense(weights), _probabilities)


def efficientnet_b0(weights: Weights) -> Layer:
    layers: list[Layer] = [_channels_first, convolution(weights, 2), normalized(weights), functional.silu]
    channels = 32
    for factor, filters, repetitions, first_stride, _ in image_networks.EFFICIENT_BLOCKS:
        for repetition in range(repetitions):
            stride = first_stride if repetition == 0 else 1
            inner: list[Layer] = []
            if factor > 1:
                inner += [convolution(weights), normalized(weights), functional.silu]
            inner += [convolution(weights, stride, depthwise=True), normalized(weights), functional.silu]
            inner += [_scaled(weights), convolution(weights), normalized(weights)]
            layers.append(_added(stride == 1 and channels == filters, chain(*inner)))
            channels = filters
    layers += [convolution(weights), normalized(weights), functional.silu, _means]
    return chain(*layers, dense(weights), _probabilities)


def _scaled(weights: Weights) -> Layer:
    """Channels scaled by what their means say."""
    reduce, widen = convolution(weights, biased=True), convolution(weights, biased=True)
    return lambda x: x * torch.sigmoid(widen(functional.silu(reduce(x.mean((2, 3), keepdim=True)))))


def unet(weights: Weights, levels: int = 4) -> Layer:
    down = [_twice(weights) for _ in range(levels)]
    bottom = _twice(weights)
    up = [(_enlarged(weights), _twice(weights)) for _ in range(levels)]
    last = convolution(weights, biased=True)

    def network(x: Tensor) -> Tensor:
        x, kept = _channels_first(x), []
        for layers in down:
            x = layers(x)
            kept.append(x)
            x = functional.max_pool2d(x, 2)
        x = bottom(x)
        for enlarged, layers in up:
            x = layers(torch.cat([kept.pop(), enlarged(x)], 1))
        return torch.sigmoid(last(x)).permute(0, 2, 3, 1)

    return network


def _twice(weights: Weights) -> Layer:
    first, second = convolution(weights, biased=True), convolution(weights, biased=True)
    return chain(first, functional.relu, second, functional.relu)


def _enlarged(weights: Weights) -> Layer:
    filters = weights.next(
        lambda value: value.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    )
    bias = weights.next()
    return lambda x: functional.conv_transpose2d(x, filters, bias, stride=2)


def inception_v3(weights: Weights) -> Layer:
    layers = [
        _channels_first,
        _unit(weights, 2, "VALID"),
        _unit(weights, 1, "VALID"),
        _unit(weights),
        _largest,
    ]
    layers += [_unit(weights, 1, "VALID"), _unit(weights, 1, "VALID"), _largest]
    layers += [_mixed(weights, [1, 2, 3]) for _ in range(3)]
    layers.append(_mixed(weights, [1, 3], is_strided=True))
    layers += [_mixed(weights, [1, 3, 5]) for _ in range(4)]
    layers.append(_mixed(weights, [2, 4], is_strided=True))
    layers += [_mixed_last(weights) for _ in range(2)]
    return chain(*layers, _means, dense(weights), _probabilities)


def _unit(weights: Weights, stride: int = 1, padding: str = "SAME") -> Layer:
    return chain(convolution(weights, stride, padding), normalized(weights), functional.relu)


def _largest(x: Tensor) -> Tensor:
    return functional.max_pool2d(x, 3, 2)


def _pooled(weights: Weights) -> Layer:
    unit = _unit(weights)
    return lambda x: unit(functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False))


def _joined(branches: list[Layer]) -> Layer:
    return lambda x: torch.cat([branch(x) for branch in branches], 1)


def _mixed(weights: Weights, depths: list[int], is_strided: bool = False) -> Layer:
    """Branches of so many convolutions, and one that pools; if strided, the last of each branch is, and that pool."""
    branches = []
    for depth in depths:
        units = [_unit(weights) for _ in range(depth - is_strided)]
        branches.append(chain(*units, _unit(weights, 2, "VALID")) if is_strided else chain(*units))
    return _joined([*branches, _largest if is_strided else _pooled(weights)])


def _mixed_last(weights: Weights) -> Layer:
    """The block whose branches split once more."""
    first, second = _unit(weights), _unit(weights)
    third = chain(_unit(weights), _unit(weights))
    halves = [_joined([_unit(weights), _unit(weights)]) for _ in range(2)]
    return _joined([first, chain(second, halves[0]), chain(third, halves[1]), _pooled(weights)])
