"""The networks of sequences in torch, with its fused attention and LSTM.

Its GRU is not used: it scales by the reset gate after the product, TensorFlow's before.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bench.network_graphs import decoders, recurrent, sound, transformers
from bench.network_graphs.torch_layers import Layer, Weights, chain, dense, layer_norm


def _heads(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _encoder_layer(weights: Weights, heads: int) -> Layer:
    projections = [dense(weights) for _ in range(3)]
    after, first_norm, widen, narrow, second_norm = (
        dense(weights), layer_norm(weights), dense(weights), dense(weights), layer_norm(weights)
    )  # fmt: skip

    def layer(x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (_heads(projection(x), heads) for projection in projections)
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = first_norm(after(context.transpose(1, 2).flatten(2)) + x)
        return second_norm(narrow(functional.gelu(widen(x), approximate="tanh")) + x)

    return layer


def bert(weights: Weights, size: transformers.Size = transformers.BERT_BASE) -> Layer:
    words, segment_table, positions = weights.next(), weights.next(), weights.next()
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


def gpt2(
    weights: Weights, size: transformers.Size = decoders.GPT2_SMALL
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    words, positions = weights.next(), weights.next()
    layers = [_cached_layer(weights, size.heads) for _ in range(size.layers)]
    last_norm = _scaled_norm(weights)

    def network(token: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        x, presents = functional.embedding(token, words) + positions[past.shape[4]], []
        for layer, before in zip(layers, past.unbind(1), strict=True):
            x, present = layer(x, before)
            presents.append(present)
        return functional.linear(last_norm(x[:, 0]), words), torch.stack(presents, 1)

    return network


def _scaled_norm(weights: Weights) -> Layer:
    scale, offset = weights.next(), weights.next()
    return lambda x: functional.layer_norm(x, scale.shape, scale, offset, 1e-5)


def _cached_layer(weights: Weights, heads: int) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    first_norm, projection, after = _scaled_norm(weights), dense(weights), dense(weights)
    second_norm, widen, narrow = _scaled_norm(weights), dense(weights), dense(weights)

    def layer(x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        query, key, value = (_heads(part, heads) for part in projection(first_norm(x)).chunk(3, -1))
        keys, values = (torch.cat(pair, 2) for pair in zip(past.unbind(1), (key, value), strict=True))
        context = functional.scaled_dot_product_attention(query, keys, values)
        x = x + after(context.transpose(1, 2).flatten(2))
        x = x + narrow(functional.gelu(widen(second_norm(x)), approximate="tanh"))
        return x, torch.stack([key, value], 1)

    return layer


def translator(weights: Weights, size: transformers.Size = decoders.TRANSLATOR) -> Layer:
    words = weights.next()
    encoder = [(_attended(weights, size.heads), _widened(weights)) for _ in range(size.layers)]
    decoder = [
        (_attended(weights, size.heads, is_causal=True), _attended(weights, size.heads), _widened(weights))
        for _ in range(size.layers)
    ]
    half = size.width // 2
    places = np.arange(decoders.SENTENCE)[:, None] / 10000.0 ** (np.arange(half) / half)
    timing = torch.from_numpy(np.concatenate([np.sin(places), np.cos(places)], 1).astype(np.float32))

    def network(source: Tensor, target: Tensor) -> Tensor:
        memory, x = (functional.embedding(ids, words) * size.width**0.5 + timing for ids in (source, target))
        for attended, widened in encoder:
            memory = widened(attended(memory, memory))
        for to_itself, to_memory, widened in decoder:
            x = widened(to_memory(to_itself(x, x), memory))
        return functional.linear(x[:, -1], words)

    return network


def _attended(weights: Weights, heads: int, is_causal: bool = False) -> Layer:
    projections = [dense(weights) for _ in range(3)]
    after, norm = dense(weights), layer_norm(weights)

    def layer(x: Tensor, memory: Tensor) -> Tensor:
        query, key, value = (
            _heads(projection(rows), heads)
            for projection, rows in zip(projections, (x, memory, memory), strict=True)
        )
        context = functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
        return norm(x + after(context.transpose(1, 2).flatten(2)))

    return layer


def _widened(weights: Weights) -> Layer:
    widen, narrow, norm = dense(weights), dense(weights), layer_norm(weights)
    return lambda x: norm(x + narrow(functional.relu(widen(x))))


def lstm(weights: Weights) -> Layer:
    """torch's own layer, with the gates in its order; of its two biases one stays zero."""
    features = recurrent.FEATURES
    kernel, bias = weights.raw().T, weights.raw()
    at, new, forget, out = kernel.chunk(4)
    gates = torch.cat([at, forget, new, out])
    at, new, forget, out = bias.chunk(4)
    layer = torch.nn.LSTM(features, len(bias) // 4, batch_first=True)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(gates[:, :features])
        layer.weight_hh_l0.copy_(gates[:, features:])
        layer.bias_ih_l0.copy_(torch.cat([at, forget + 1.0, new, out]))
        layer.bias_hh_l0.zero_().requires_grad_(False)
    weights.trained += [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0]
    return lambda x: layer(x)[0]


def gru(weights: Weights) -> Layer:
    """A loop over the steps; the products with their features are one."""
    gates, gates_bias = weights.next(lambda value: value.T), weights.next()
    new, new_bias = weights.next(lambda value: value.T), weights.next()
    features = recurrent.FEATURES
    from_features = torch.cat([gates[:, :features], new[:, :features]]).contiguous()
    biases = torch.cat([gates_bias, new_bias])
    gates, new = gates[:, features:].contiguous(), new[:, features:].contiguous()

    def network(x: Tensor) -> Tensor:
        state, states = x.new_zeros(len(x), len(new)), []
        for row in functional.linear(x, from_features, biases).unbind(1):
            of_gates, of_new = row.split([len(gates), len(new)], 1)
            reset, update = torch.sigmoid(of_gates + functional.linear(state, gates)).chunk(2, 1)
            candidate = torch.tanh(of_new + functional.linear(reset * state, new))
            state = candidate + update * (state - candidate)
            states.append(state)
        return torch.stack(states, 1)

    return network


def wavenet(weights: Weights) -> Layer:
    first = _causal(weights, 1)
    layers = [
        (_causal(weights, dilation), _causal(weights, dilation), _causal(weights), _causal(weights))
        for dilation in sound.DILATIONS
    ]
    after = chain(functional.relu, _causal(weights), functional.relu, _causal(weights))

    def network(samples: Tensor) -> Tensor:
        x = first(functional.one_hot(samples.long(), sound.LEVELS).float().transpose(1, 2))
        skips = torch.zeros(())
        for number, (value, gate, skip, residual) in enumerate(layers):
            y = torch.tanh(value(x)) * torch.sigmoid(gate(x))
            skips = skips + skip(y)
            if number + 1 < len(layers):
                x = x + residual(y)
        return after(skips * 0.5).transpose(1, 2)

    return network


def _causal(weights: Weights, dilation: int = 1) -> Layer:
    """A causal convolution: what follows a sample has no part in its result."""
    filters, bias = weights.next(lambda value: value.permute(2, 1, 0).contiguous()), weights.next()
    before = (filters.shape[-1] - 1) * dilation
    return lambda x: functional.conv1d(
        functional.pad(x, (before, 0)) if before else x, filters, bias, dilation=dilation
    )
