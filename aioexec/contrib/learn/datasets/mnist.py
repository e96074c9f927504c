"""Handwritten digits from the files of MNIST, under the names of `tf.contrib.learn.datasets.mnist`."""

from __future__ import annotations

import gzip
import math
import os
from typing import Any, Final

import numpy as np

from aioexec import dtypes
from aioexec.contrib.learn.datasets.base import Datasets
from aioexec.errors import GraphTypeError, GraphValueError, NotFoundError

DEFAULT_SOURCE_URL: Final = "https://storage.googleapis.com/cvdf-datasets/mnist/"

_IMAGES: Final = 2051
_LABELS: Final = 2049

Array = np.ndarray[Any, Any]


def extract_images(f: Any) -> Array:
    """The images of a file, compressed by gzip: uint8 [images, rows, columns, 1].

    Raises:
        GraphValueError: it is no file of images.
    """
    with gzip.GzipFile(fileobj=f) as stream:
        content = stream.read()
    magic, count, rows, columns = np.frombuffer(content, ">u4", 4).tolist()
    if magic != _IMAGES:
        raise GraphValueError(f"Invalid magic number {magic} in MNIST image file: {f.name}")
    return np.frombuffer(content, np.uint8, offset=16).reshape(count, rows, columns, 1)


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = 10) -> Array:
    """The labels of a file, compressed by gzip: uint8 [labels], or [labels, num_classes].

    Raises:
        GraphValueError: it is no file of labels.
    """
    with gzip.GzipFile(fileobj=f) as stream:
        content = stream.read()
    magic, _ = np.frombuffer(content, ">u4", 2).tolist()
    if magic != _LABELS:
        raise GraphValueError(f"Invalid magic number {magic} in MNIST label file: {f.name}")
    labels = np.frombuffer(content, np.uint8, offset=8)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense: Array, num_classes: int) -> Array:
    """Labels [n] as rows [n, num_classes] with a 1 at the class."""
    return np.eye(num_classes)[labels_dense]


class DataSet:
    """Images and labels, in batches.

    Args:
        images: [images, rows, columns, 1].
        labels: [images, ...].
        fake_data: batches of one constant image instead, for tests of programs.
        one_hot: whether the labels of these are rows of classes.
        dtype: uint8, or float32 for values from 0 to 1.
        reshape: images as rows [images, rows * columns].
        seed: of the order of images.

    Raises:
        GraphTypeError: another dtype.
        GraphValueError: there are not as many labels as images.

    State: `_next` is the first image of the next batch.
    """

    def __init__(
        self,
        images: Any,
        labels: Any,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = dtypes.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        self._random = np.random.RandomState(seed)
        self.one_hot = one_hot
        kind = dtypes.as_dtype(dtype).base_dtype
        if kind not in (dtypes.uint8, dtypes.float32):
            raise GraphTypeError(f"Invalid image dtype {dtype!r}, expected uint8 or float32")
        self._epochs_completed = 0
        self._next = 0
        if fake_data:
            self._num_examples = 10000
            return
        if len(images) != len(labels):
            raise GraphValueError(f"images.shape: {images.shape} labels.shape: {labels.shape}")
        self._num_examples = len(images)
        if reshape:
            images = images.reshape(len(images), math.prod(images.shape[1:]))
        if kind == dtypes.float32:
            images = images.astype(np.float32) * np.float32(1.0 / 255.0)
        self._images, self._labels = images, labels

    @property
    def images(self) -> Any:
        return self._images

    @property
    def labels(self) -> Any:
        return self._labels

    @property
    def num_examples(self) -> int:
        return self._num_examples

    @property
    def epochs_completed(self) -> int:
        """How often all images were in batches."""
        return self._epochs_completed

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        """The next images and their labels; a batch that reaches the end continues with the start of the next epoch.

        Args:
            shuffle: whether each epoch has an order of its own.
        """
        if fake_data:
            label = [1, *[0] * 9] if self.one_hot else 0
            return [[1] * 784 for _ in range(batch_size)], [label] * batch_size
        start = self._next
        if self._epochs_completed == 0 and start == 0 and shuffle:
            self._shuffle()
        end = start + batch_size
        if end <= self._num_examples:
            self._next = end
            return self._images[start:end], self._labels[start:end]
        self._epochs_completed += 1
        rest = self._images[start:], self._labels[start:]
        if shuffle:
            self._shuffle()
        self._next = end - self._num_examples
        more = self._images[: self._next], self._labels[: self._next]
        return np.concatenate([rest[0], more[0]]), np.concatenate([rest[1], more[1]])

    def _shuffle(self) -> None:
        order = np.arange(self._num_examples)
        self._random.shuffle(order)
        self._images, self._labels = self._images[order], self._labels[order]


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = dtypes.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = DEFAULT_SOURCE_URL,
) -> Datasets:
    """Read the four files of MNIST from a folder. Blocks.

    Args:
        validation_size: the first images of those for training are for validation.
        source_url: where the files come from; they are not downloaded.

    The others are those of DataSet.

    Raises:
        NotFoundError: a file is missing.
        GraphValueError: `validation_size` is out of range.
    """
    if fake_data:
        fake = [DataSet([], [], True, one_hot, dtype, seed=seed) for _ in range(3)]
        return Datasets(*fake)
    train_images, train_labels = _read(train_dir, "train", one_hot, source_url)
    test_images, test_labels = _read(train_dir, "t10k", one_hot, source_url)
    size = validation_size
    if not 0 <= size <= len(train_images):
        raise GraphValueError(
            f"Validation size should be between 0 and {len(train_images)}. Received: {size}."
        )
    parts = (
        (train_images[size:], train_labels[size:]),
        (train_images[:size], train_labels[:size]),
        (test_images, test_labels),
    )
    return Datasets(
        *(DataSet(images, labels, False, one_hot, dtype, reshape, seed) for images, labels in parts)
    )


def load_mnist(train_dir: str = "MNIST-data") -> Datasets:
    """Read MNIST from this folder. Blocks."""
    return read_data_sets(train_dir)


def _read(folder: str, prefix: str, one_hot: bool, source_url: str) -> tuple[Array, Array]:
    """The images and labels of the files that begin with this prefix."""
    images, labels = (
        os.path.join(folder, f"{prefix}-{name}-ubyte.gz") for name in ("images-idx3", "labels-idx1")
    )
    for path in (images, labels):
        if not os.path.exists(path):
            raise NotFoundError(
                f"MNIST: {path} does not exist, and is not downloaded: fetch {source_url}{os.path.basename(path)}"
            )
    with open(images, "rb") as of_images, open(labels, "rb") as of_labels:
        return extract_images(of_images), extract_labels(of_labels, one_hot)
