"""Transformers that write text: GPT-2 with a cache of keys and values, and a step of an encoder with a decoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.network_graphs.parameters import Network, Parameters
from bench.network_graphs.transformers import MASKED, Size, dense, layer_norm

GPT2_SMALL = Size(12, 768, 12, 50257, 1024)
TRANSLATOR = Size(6, 512, 8, 32000, 256)
PAST, SENTENCE = 128, 64


def gpt2(parameters: Parameters, batch: int, size: Size = GPT2_SMALL) -> Network:
    """The next token's logits from one token and the keys and values of those before; and its own keys and values."""
    tf, generator = parameters.tf, np.random.default_rng(6)
    token = tf.placeholder(tf.int32, [None, 1], name="token")
    past = tf.placeholder(tf.float32, [None, size.layers, 2, size.heads, None, size.head_width], name="past")
    feeds = {
        token: generator.integers(0, size.vocabulary, (batch, 1), np.int32),
        past: generator.standard_normal(
            (batch, size.layers, 2, size.heads, PAST, size.head_width), np.float32
        ),
    }
    with tf.name_scope("model"):
        words = parameters.weight(
            "wte", generator.standard_normal((size.vocabulary, size.width), np.float32) * np.float32(0.1)
        )
        positions = parameters.table("wpe", size.positions, size.width, batch)
        x = tf.gather(words, token) + tf.gather(positions, tf.reshape(tf.shape(past)[4], [1]))
        x = tf.reshape(x, [-1, size.width])
        presents = []
        for number, before in enumerate(tf.unstack(past, num=size.layers, axis=1)):
            with tf.name_scope(f"h{number}"):
                x, present = _cached_layer(parameters, x, before, size)
            presents.append(present)
        with tf.name_scope("ln_f"):
            x = _norm(parameters, x)
        logits = tf.matmul(x, words, transpose_b=True, name="logits")
    return Network([logits, tf.stack(presents, axis=1)], feeds)


def _cached_layer(parameters: Parameters, x: Any, past: Any, size: Size) -> tuple[Any, Any]:
    tf = parameters.tf
    with tf.name_scope("attn"):
        joined = dense(parameters, _norm(parameters, x), 3 * size.width)
        query, key, value = (
            tf.reshape(part, [-1, size.heads, 1, size.head_width]) for part in tf.split(joined, 3, axis=1)
        )
        keys, values = tf.unstack(past, num=2, axis=1)
        keys, values = tf.concat([keys, key], axis=2), tf.concat([values, value], axis=2)
        scores = tf.matmul(query, keys, transpose_b=True) * np.float32(1 / np.sqrt(size.head_width))
        context = tf.matmul(_softmax(parameters, scores), values)
        x = x + dense(parameters, tf.reshape(context, [-1, size.width]), size.width, gain=0.3)
    with tf.name_scope("mlp"):
        inner = dense(parameters, _norm(parameters, x), 4 * size.width)
        cubed = inner + 0.044715 * tf.pow(inner, 3.0)
        inner = 0.5 * inner * (1 + tf.tanh(np.float32(np.sqrt(2 / np.pi)) * cubed))
        return x + dense(parameters, inner, size.width, gain=0.3), tf.stack([key, value], axis=1)


def _norm(parameters: Parameters, x: Any) -> Any:
    tf = parameters.tf
    width = int(x.shape[-1])
    with tf.name_scope("norm"):
        scale, offset = parameters.uniform("g", [width], 0.8, 1.2), parameters.normal("b", [width], 0.1)
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(x - mean), axis=-1, keepdims=True)
        return (x - mean) * tf.rsqrt(variance + 1e-5) * scale + offset


def _softmax(parameters: Parameters, x: Any) -> Any:
    """By elementary operations."""
    tf = parameters.tf
    powers = tf.exp(x - tf.reduce_max(x, axis=-1, keepdims=True))
    return powers / tf.reduce_sum(powers, axis=-1, keepdims=True)


def translator(parameters: Parameters, batch: int, size: Size = TRANSLATOR) -> Network:
    """The logits of the next word, from a sentence of 64 tokens and as many of its translation."""
    tf, generator = parameters.tf, np.random.default_rng(8)
    source, target = (tf.placeholder(tf.int32, [None, SENTENCE], name=name) for name in ("source", "target"))
    feeds = {
        ids: generator.integers(0, size.vocabulary, (batch, SENTENCE), np.int32) for ids in (source, target)
    }
    words = parameters.normal("embedding", [size.vocabulary, size.width], 1 / np.sqrt(size.width))
    causal = (np.triu(np.ones((SENTENCE, SENTENCE)), 1) * MASKED).astype(np.float32)
    memory = _embedded(parameters, words, source, size)
    for number in range(size.layers):
        with tf.name_scope(f"encoder/layer_{number}"):
            memory = _attended(parameters, "self", memory, memory, size, None)
            memory = _widened(parameters, memory, size)
    x = _embedded(parameters, words, target, size)
    for number in range(size.layers):
        with tf.name_scope(f"decoder/layer_{number}"):
            x = _attended(parameters, "self", x, x, size, tf.constant(causal))
            x = _attended(parameters, "encdec", x, memory, size, None)
            x = _widened(parameters, x, size)
    last = tf.reshape(x, [-1, SENTENCE, size.width])[:, -1, :]
    return Network([tf.matmul(last, words, transpose_b=True, name="logits")], feeds)


def _embedded(parameters: Parameters, words: Any, ids: Any, size: Size) -> Any:
    tf = parameters.tf
    places = np.arange(SENTENCE)[:, None] / 10000.0 ** (np.arange(size.width // 2) / (size.width // 2))
    timing = np.concatenate([np.sin(places), np.cos(places)], 1).astype(np.float32)
    x = tf.gather(words, ids) * np.float32(np.sqrt(size.width)) + timing
    return tf.reshape(x, [-1, size.width])


def _attended(parameters: Parameters, name: str, x: Any, memory: Any, size: Size, adder: Any) -> Any:
    """Attention of the rows of `x` to those of `memory`, added to `x`, then normalised."""
    tf = parameters.tf

    def heads(part: str, rows: Any) -> Any:
        with tf.name_scope(part):
            split = tf.reshape(
                dense(parameters, rows, size.width), [-1, SENTENCE, size.heads, size.head_width]
            )
            return tf.transpose(split, [0, 2, 1, 3])

    with tf.name_scope(name):
        query, key, value = heads("q", x), heads("k", memory), heads("v", memory)
        scores = tf.matmul(query * np.float32(1 / np.sqrt(size.head_width)), key, transpose_b=True)
        shares = tf.nn.softmax(scores if adder is None else scores + adder)
        context = tf.reshape(tf.transpose(tf.matmul(shares, value), [0, 2, 1, 3]), [-1, size.width])
        return layer_norm(parameters, x + dense(parameters, context, size.width))


def _widened(parameters: Parameters, x: Any, size: Size) -> Any:
    with parameters.tf.name_scope("ffn"):
        inner = parameters.tf.nn.relu(dense(parameters, x, 4 * size.width))
        return layer_norm(parameters, x + dense(parameters, inner, size.width))
