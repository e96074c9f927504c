"""Small photographs of ten classes under the names of `tf.keras.datasets.cifar10`."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np

from aioexec.keras.datasets.cache import cached

Pair = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


class _ArraysOnly(pickle.Unpickler):
    """Reads arrays, and refuses what could run code."""

    def find_class(self, module: str, name: str) -> Any:
        is_array = module.split(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype")
        if not is_array and (module, name) != ("_codecs", "encode"):
            raise pickle.UnpicklingError(f"a batch of CIFAR-10 has no {module}.{name}")
        return super().find_class(module, name)


def load_data() -> tuple[Pair, Pair]:
    """Return images uint8 [images, 32, 32, 3] and their classes uint8 [images, 1], of training and of test. Blocks.

    Raises:
        NotFoundError: the folder `cifar-10-batches-py` is not there.
    """
    folder = cached(
        "cifar-10-batches-py", "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz, unpacked"
    )
    parts = [_batch(os.path.join(folder, f"data_batch_{number}")) for number in range(1, 6)]
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return (images, labels), _batch(os.path.join(folder, "test_batch"))


def _batch(path: str) -> Pair:
    with open(path, "rb") as file:
        content = _ArraysOnly(file, encoding="bytes").load()
    images = np.asarray(content[b"data"], np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return images, np.asarray(content[b"labels"], np.uint8).reshape(-1, 1)
