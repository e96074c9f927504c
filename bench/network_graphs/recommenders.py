"""Recommenders: many embedding tables, and products of few rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.network_graphs.convolutional import dense
from bench.network_graphs.parameters import Network, Parameters

TABLES, ROWS, WIDTH, NUMBERS = 26, 40_000, 32, 13
WIDE_FEATURES, WIDE_ROWS = 40, 200_000
DEEP_TABLES, DEEP_ROWS, DEEP_WIDTH = 8, 20_000, 16


def _inputs(parameters: Parameters, batch: int, ids: int, rows: int) -> tuple[Any, Any, dict[Any, Any]]:
    tf, generator = parameters.tf, np.random.default_rng(9)
    numbers = tf.placeholder(tf.float32, [None, NUMBERS], name="numbers")
    categories = tf.placeholder(tf.int32, [None, ids], name="categories")
    feeds = {
        numbers: generator.standard_normal((batch, NUMBERS), np.float32),
        categories: generator.integers(0, rows, (batch, ids), np.int32),
    }
    return numbers, categories, feeds


def _layers(parameters: Parameters, name: str, x: Any, units: Sequence[int]) -> Any:
    for number, width in enumerate(units):
        with parameters.tf.name_scope(f"{name}_{number}"):
            x = parameters.tf.nn.relu(dense(parameters, x, width))
    return x


def _looked_up(
    parameters: Parameters, categories: Any, tables: int, rows: int, width: int, batch: int
) -> list[Any]:
    """A row of each table; column k of `categories` has the rows of table k."""
    tf = parameters.tf
    found = []
    for number in range(tables):
        with tf.name_scope(f"embedding_{number}"):
            table = parameters.table("weights", rows, width, batch)
            found.append(tf.gather(table, categories[:, number]))
    return found


def dlrm(parameters: Parameters, batch: int) -> Network:
    """26 tables, the products of all pairs of their rows, and two multilayer perceptrons."""
    tf = parameters.tf
    numbers, categories, feeds = _inputs(parameters, batch, TABLES, ROWS)
    bottom = _layers(parameters, "bottom", numbers, (512, 256, WIDTH))
    rows = [bottom, *_looked_up(parameters, categories, TABLES, ROWS, WIDTH, batch)]
    features = tf.reshape(tf.concat(rows, 1), [-1, TABLES + 1, WIDTH])
    products = tf.matmul(features, features, transpose_b=True) * np.float32(1 / WIDTH)
    left, right = np.tril_indices(TABLES + 1, -1)
    pairs = tf.gather(
        tf.reshape(products, [-1, (TABLES + 1) ** 2]), (left * (TABLES + 1) + right).astype(np.int32), axis=1
    )
    y = _layers(parameters, "top", tf.concat([bottom, pairs], 1), (512, 256))
    with tf.name_scope("output"):
        return Network([tf.sigmoid(dense(parameters, y, 1))], feeds)


def wide_and_deep(parameters: Parameters, batch: int) -> Network:
    """A linear model of 40 crossed features beside a multilayer perceptron over embeddings."""
    tf = parameters.tf
    numbers, categories, feeds = _inputs(parameters, batch, DEEP_TABLES, DEEP_ROWS)
    crossed = tf.placeholder(tf.int32, [None, WIDE_FEATURES], name="crossed")
    feeds[crossed] = np.random.default_rng(10).integers(0, WIDE_ROWS, (batch, WIDE_FEATURES), np.int32)
    with tf.name_scope("wide"):
        weights = parameters.table("weights", WIDE_ROWS, 1, batch * WIDE_FEATURES)
        wide = tf.reduce_sum(tf.gather(weights, crossed), axis=1)
    rows = _looked_up(parameters, categories, DEEP_TABLES, DEEP_ROWS, DEEP_WIDTH, batch)
    deep = _layers(parameters, "deep", tf.concat([numbers, *rows], 1), (1024, 512, 256))
    with tf.name_scope("output"):
        return Network([tf.sigmoid(dense(parameters, deep, 1) + wide * np.float32(0.1))], feeds)
