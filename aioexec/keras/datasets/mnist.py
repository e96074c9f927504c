"""Handwritten digits under the names of `tf.keras.datasets.mnist`."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.keras.datasets.cache import cached

Pair = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def load_data(path: str = "mnist.npz") -> tuple[Pair, Pair]:
    """Return images uint8 [images, 28, 28] and their digits uint8 [images], of training and of test. Blocks.

    Raises:
        NotFoundError: the file is not there.
    """
    source = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
    with np.load(cached(path, source), allow_pickle=False) as arrays:
        return (arrays["x_train"], arrays["y_train"]), (arrays["x_test"], arrays["y_test"])
