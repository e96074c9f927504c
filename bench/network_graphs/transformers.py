"""Transformers: BERT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.network_graphs.parameters import Network, Parameters

MASKED = -10000.0


@dataclass(frozen=True)
class Size:
    """The sizes of a stack of transformer layers."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    positions: int

    @property
    def head_width(self) -> int:
        return self.width // self.heads


BERT_BASE = Size(12, 768, 12, 30522, 512)
BERT_LARGE = Size(24, 1024, 16, 30522, 512)


def dense(parameters: Parameters, x: Any, units: int, gain: float = 1.0) -> Any:
    """A product of a matrix with weights, and a bias."""
    size = int(x.shape[-1])
    weight = parameters.normal("kernel", [size, units], gain / np.sqrt(size))
    return parameters.tf.nn.bias_add(parameters.tf.matmul(x, weight), parameters.normal("bias", [units], 0.1))


def layer_norm(parameters: Parameters, x: Any) -> Any:
    """Normalisation over the last axis, by elementary operations."""
    tf = parameters.tf
    width = int(x.shape[-1])
    with tf.name_scope("LayerNorm"):
        offset, scale = (
            parameters.normal("beta", [width], 0.1),
            parameters.uniform("gamma", [width], 0.8, 1.2),
        )
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-12)


def gelu(parameters: Parameters, x: Any) -> Any:
    """The Gaussian error linear unit, by its approximation with tanh."""
    tf = parameters.tf
    return x * (
        0.5 * (1.0 + tf.tanh(np.sqrt(2 / np.pi).astype(np.float32) * (x + 0.044715 * tf.pow(x, 3.0))))
    )


def attention(parameters: Parameters, x: Any, size: Size, adder: Any, length: int) -> Any:
    """Attention of each position to all, over rows of a matrix; `adder` is added to the scores."""
    tf = parameters.tf

    def heads(name: str) -> Any:
        with tf.name_scope(name):
            rows = dense(parameters, x, size.width)
            split = tf.reshape(rows, [-1, length, size.heads, size.head_width])
            return tf.transpose(split, [0, 2, 1, 3])

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = tf.matmul(query, key, transpose_b=True) * (1 / np.sqrt(size.head_width)).astype(np.float32)
    context = tf.matmul(tf.nn.softmax(scores + adder), value)
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, size.width])


def encoder_layer(parameters: Parameters, x: Any, size: Size, adder: Any, length: int) -> Any:
    """A layer of an encoder with normalisation after each part."""
    tf = parameters.tf
    with tf.name_scope("attention/self"):
        context = attention(parameters, x, size, adder, length)
    with tf.name_scope("attention/output"):
        x = layer_norm(parameters, dense(parameters, context, size.width) + x)
    with tf.name_scope("intermediate"):
        inner = gelu(parameters, dense(parameters, x, 4 * size.width))
    with tf.name_scope("output"):
        return layer_norm(parameters, dense(parameters, inner, size.width) + x)


def bert_inputs(
    parameters: Parameters, batch: int, length: int, size: Size
) -> tuple[list[Any], dict[Any, Any]]:
    """Placeholders of tokens, of what is no padding, and of segments; the last eighth of a sequence is padding."""
    tf, generator = parameters.tf, np.random.default_rng(4)
    names = ("input_ids", "input_mask", "segment_ids")
    placeholders = [tf.placeholder(tf.int32, [None, length], name=name) for name in names]
    tokens = generator.integers(0, size.vocabulary, (batch, length), np.int32)
    mask = np.tile((np.arange(length) < length - length // 8).astype(np.int32), (batch, 1))
    segments = np.tile((np.arange(length) >= length // 2).astype(np.int32), (batch, 1))
    return placeholders, dict(zip(placeholders, (tokens, mask, segments), strict=True))


def _embedded(parameters: Parameters, ids: Any, segments: Any, length: int, size: Size, lookups: int) -> Any:
    tf = parameters.tf
    with tf.name_scope("embeddings"):
        words = tf.gather(parameters.table("word_embeddings", size.vocabulary, size.width, lookups), ids)
        table = parameters.normal("token_type_embeddings", [2, size.width], 0.6)
        chosen = tf.matmul(tf.one_hot(tf.reshape(segments, [-1]), 2), table)
        positions = parameters.normal("position_embeddings", [size.positions, size.width], 0.6)
        x = words + tf.reshape(chosen, [-1, length, size.width])
        x = x + tf.reshape(tf.slice(positions, [0, 0], [length, -1]), [1, length, size.width])
        return tf.reshape(layer_norm(parameters, x), [-1, size.width])


def bert(parameters: Parameters, batch: int, size: Size = BERT_BASE, length: int = 128) -> Network:
    """BERT with the output of its pooler."""
    tf = parameters.tf
    (ids, mask, segments), feeds = bert_inputs(parameters, batch, length, size)
    with tf.name_scope("bert"):
        x = _embedded(parameters, ids, segments, length, size, batch * length)
        wide_mask = tf.ones([length, 1]) * tf.cast(tf.reshape(mask, [-1, 1, length]), tf.float32)
        adder = (1.0 - tf.expand_dims(wide_mask, [1])) * MASKED
        for number in range(size.layers):
            with tf.name_scope(f"encoder/layer_{number}"):
                x = encoder_layer(parameters, x, size, adder, length)
        with tf.name_scope("pooler"):
            first = tf.squeeze(tf.reshape(x, [-1, length, size.width])[:, 0:1, :], axis=1)
            pooled = tf.tanh(dense(parameters, first, size.width))
    return Network([pooled], feeds)
