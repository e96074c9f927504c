"""The networks in torch, as its users write them: fused normalisation, attention and recurrent layers where torch has them.

Weights come as an iterator, in the order in which the TensorFlow network makes them; so layers here are made in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from bench.network_graphs import convolutional, recurrent, transformers

Weights = Iterator[Tensor]
Layer = Callable[..., Tensor]


def convolution(
    weights: Weights, stride: int = 1, fixed_padding: bool = False, depthwise: bool = False
) -> Layer:
    """A convolution with TensorFlow's padding "SAME", or a fixed one."""
    filters = next(weights)
    filters = filters.permute(2, 3, 0, 1) if depthwise else filters.permute(3, 2, 0, 1)
    filters = filters.contiguous(memory_format=torch.channels_last)
    groups, size = len(filters) if depthwise else 1, filters.shape[-1]

    def layer(x: Tensor) -> Tensor:
        before, after = _padding(x.shape[-1], size, stride, fixed_padding)
        if before != after:
            x = functional.pad(x, (before, after, before, after))
            before = 0
        return functional.conv2d(x, filters, stride=stride, padding=before, groups=groups)

    return layer


def _padding(length: int, size: int, stride: int, is_fixed: bool) -> tuple[int, int]:
    total = size - 1 if is_fixed else max((-(-length // stride) - 1) * stride + size - length, 0)
    return total // 2, total - total // 2


def normalized(weights: Weights) -> Layer:
    """Batch normalisation with constant statistics."""
    scale, offset, mean, variance = (next(weights) for _ in range(4))
    return lambda x: functional.batch_norm(x, mean, variance, scale, offset, eps=convolutional.EPSILON)


def dense(weights: Weights) -> Layer:
    """A product with a matrix, and a bias."""
    matrix, bias = next(weights).T.contiguous(), next(weights)
    return lambda x: functional.linear(x, matrix, bias)


def chain(*layers: Layer) -> Layer:
    """One layer after the other."""

    def layer(x: Tensor) -> Tensor:
        for each in layers:
            x = each(x)
        return x

    return layer


def resnet50(weights: Weights) -> Layer:
    layers: list[Layer] = [convolution(weights, 2, fixed_padding=True), normalized(weights), functional.relu]
    layers.append(lambda x: functional.max_pool2d(functional.pad(x, (0, 1, 0, 1), value=float("-inf")), 3, 2))
    for stage, blocks in enumerate((3, 4, 6, 3)):
        layers += [
            _bottleneck(weights, 2 if stage > 0 and block == 0 else 1, is_first=block == 0)
            for block in range(blocks)
        ]
    layers += [lambda x: x.mean((2, 3)), dense(weights)]
    return _classifier(layers)


def _bottleneck(weights: Weights, stride: int, is_first: bool) -> Layer:
    def normalized_convolution(stride: int = 1) -> list[Layer]:
        return [convolution(weights, stride, fixed_padding=True), normalized(weights)]

    shortcut = chain(*normalized_convolution(stride)) if is_first else lambda x: x
    inner = [*normalized_convolution(), functional.relu, *normalized_convolution(stride), functional.relu]
    residual = chain(*inner, *normalized_convolution())
    return lambda x: functional.relu(shortcut(x) + residual(x))


def _classifier(layers: list[Layer]) -> Layer:
    logits = chain(*layers)
    return lambda x: functional.softmax(logits(x.permute(0, 3, 1, 2)), 1)


def mobilenet_v1(weights: Weights) -> Layer:
    layers: list[Layer] = [convolution(weights, 2), normalized(weights), functional.relu6]
    for _, stride in convolutional.MOBILENET_BLOCKS:
        layers += [convolution(weights, stride, depthwise=True), normalized(weights), functional.relu6]
        layers += [convolution(weights), normalized(weights), functional.relu6]
    layers.append(lambda x: x.mean((2, 3), keepdim=True))
    last = convolution(weights)
    bias = next(weights)
    layers.append(lambda x: last(x).flatten(1) + bias)
    return _classifier(layers)


def layer_norm(weights: Weights, epsilon: float = 1e-12) -> Layer:
    offset, scale = next(weights), next(weights)
    return lambda x: functional.layer_norm(x, scale.shape, scale, offset, epsilon)


def _encoder_layer(weights: Weights, heads: int) -> Layer:
    projections = [dense(weights) for _ in range(3)]
    after, first_norm, widen, narrow, second_norm = (
        dense(weights), layer_norm(weights), dense(weights), dense(weights), layer_norm(weights)
    )  # fmt: skip

    def layer(x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (p(x).unflatten(-1, (heads, -1)).transpose(1, 2) for p in projections)
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = first_norm(after(context.transpose(1, 2).flatten(2)) + x)
        return second_norm(narrow(functional.gelu(widen(x), approximate="tanh")) + x)

    return layer


def bert(weights: Weights, size: transformers.Size = transformers.BERT_BASE) -> Layer:
    words, segment_table, positions = (next(weights) for _ in range(3))
    first_norm = layer_norm(weights)
    layers = [_encoder_layer(weights, size.heads) for _ in range(size.layers)]
    pooler = dense(weights)

    def network(ids: Tensor, mask: Tensor, segments: Tensor) -> Tensor:
        x = functional.embedding(ids, words) + functional.embedding(segments, segment_table)
        x = first_norm(x + positions[: ids.shape[1]])
        adder = (1.0 - mask[:, None, None, :].float()) * transformers.MASKED
        for layer in layers:
            x = layer(x, adder)
        return torch.tanh(pooler(x[:, 0]))

    return network


def lstm(weights: Weights, features: int = recurrent.FEATURES) -> Layer:
    """torch's own layer, with the gates in its order."""
    kernel, bias = next(weights), next(weights)
    at, new, forget, out = kernel.T.chunk(4)
    gates = torch.cat([at, forget, new, out])
    at, new, forget, out = bias.chunk(4)
    layer = torch.nn.LSTM(features, len(bias) // 4, batch_first=True)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(gates[:, :features])
        layer.weight_hh_l0.copy_(gates[:, features:])
        layer.bias_ih_l0.copy_(torch.cat([at, forget + 1.0, new, out]))
        layer.bias_hh_l0.zero_()
    return lambda x: layer(x)[0]


TORCH_NETWORKS: dict[str, Callable[[Weights], Layer]] = {
    "resnet50": resnet50,
    "mobilenet_v1": mobilenet_v1,
    "bert_base": bert,
    "bert_large": partial(bert, size=transformers.BERT_LARGE),
    "lstm_256": lstm,
    "lstm_1024": lstm,
}
"""Each makes a function of the feeds, in the order of their placeholders."""
