"""MNIST's files as arrays and batches, under the names of `tensorflow.examples.tutorials.mnist.input_data`.

The files have the IDX format, described on the page of the data set, yann.lecun.com/exdb/mnist: big-endian numbers of 32 bits
(a magic number and the sizes of the axes), then a byte for each element.
"""

from __future__ import annotations

import gzip
import os
import shutil
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from aioexec.dtypes import as_dtype, float32, uint8
from aioexec.ops.random.random_ops import get_seed

DEFAULT_SOURCE_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"

_IMAGES_MAGIC, _LABELS_MAGIC = 2051, 2049
_PIXELS, _CLASSES = 784, 10
_FAKE_EXAMPLES = 10000


class DataSet:
    """Images with labels, in batches: each epoch has every example once, in an order of its own.

    Args:
        images: uint8, of shape (examples, rows, columns, 1).
        labels: of shape (examples,) or (examples, classes).
        fake_data: stands for 10,000 white images of the class 0.
        one_hot: whether the labels of fake data are vectors.
        dtype: uint8 to keep the bytes, or float32 to scale them to 0..1.
        reshape: makes each image a row, of shape (examples, rows * columns).
        seed: of the shuffling; it seeds NumPy's global generator, as in TensorFlow.

    Raises:
        TypeError: if `dtype` is neither uint8 nor float32.
        ValueError: if there are not as many labels as images, or images have more than one channel that is to be reshaped.
    """

    def __init__(
        self,
        images: npt.NDArray[Any],
        labels: npt.NDArray[Any],
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        first, second = get_seed(seed)
        np.random.seed(first if seed is None else second)  # the generator that such programs seed
        dtype = as_dtype(dtype).base_dtype
        if dtype not in (uint8, float32):
            raise TypeError(f"dtype: expected uint8 or float32, got {dtype.name}")
        self.one_hot = one_hot
        self._is_fake = fake_data
        self._num_examples = _FAKE_EXAMPLES if fake_data else len(images)
        if not fake_data:
            images = _checked(images, labels, dtype, reshape)
        self._images, self._labels = images, labels
        self._epochs_completed = 0
        self._next = 0

    @property
    def images(self) -> npt.NDArray[Any]:
        """All images, in the order of the present epoch."""
        return self._images

    @property
    def labels(self) -> npt.NDArray[Any]:
        """All labels, in the order of the images."""
        return self._labels

    @property
    def num_examples(self) -> int:
        return self._num_examples

    @property
    def epochs_completed(self) -> int:
        return self._epochs_completed

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        """The next examples; those that an epoch is short of come from the one after it.

        Returns:
            images and labels of `batch_size` examples.
        """
        if fake_data or self._is_fake:
            label: Any = [1] + [0] * (_CLASSES - 1) if self.one_hot else 0
            return [[1] * _PIXELS] * batch_size, [label] * batch_size
        if self._next == 0 and self._epochs_completed == 0 and shuffle:
            self._shuffle()
        start, self._next = self._next, self._next + batch_size
        if self._next <= self._num_examples:
            return self._images[start : self._next], self._labels[start : self._next]
        rest = self._images[start:], self._labels[start:]
        self._epochs_completed += 1
        self._next = batch_size - len(rest[0])
        if shuffle:
            self._shuffle()
        return tuple(
            np.concatenate([old, new[: self._next]])
            for old, new in zip(rest, (self._images, self._labels), strict=True)
        )  # type: ignore[return-value]

    def _shuffle(self) -> None:
        order = np.arange(self._num_examples)
        np.random.shuffle(order)
        self._images, self._labels = self._images[order], self._labels[order]


class Datasets(NamedTuple):
    """The three parts of the data."""

    train: DataSet
    validation: DataSet
    test: DataSet


def read_data_sets(
    train_dir: str | os.PathLike[str],
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = DEFAULT_SOURCE_URL,
) -> Datasets:
    """Read MNIST's four files from a folder; those that are missing are fetched from `source_url` first.

    Args:
        train_dir: the folder of the files, made if it is not there.
        fake_data: reads nothing: all batches are white images of the class 0.
        one_hot: labels as vectors of 10 numbers, of which one is 1, instead of numbers from 0 to 9.
        dtype: uint8 to keep the bytes, or float32 to scale them to 0..1.
        reshape: images as rows of 784 numbers instead of (28, 28, 1).
        validation_size: the number of training examples that are kept to validate with, the first ones.

    Raises:
        ValueError: if a file is not one of MNIST's, or `validation_size` is not within the number of training examples.
        URLError: if a file can't be fetched.
    """
    if fake_data:
        nothing = np.zeros((0,), np.uint8)
        return Datasets(
            *(
                DataSet(nothing, nothing, fake_data=True, one_hot=one_hot, dtype=dtype, seed=seed)
                for _ in range(3)
            )
        )
    parts = []
    for part in ("train", "t10k"):
        with _file(train_dir, f"{part}-images-idx3-ubyte.gz", source_url).open("rb") as file:
            images = extract_images(file)
        with _file(train_dir, f"{part}-labels-idx1-ubyte.gz", source_url).open("rb") as file:
            parts.append((images, extract_labels(file, one_hot=one_hot)))
    (images, labels), test = parts
    if not 0 <= validation_size <= len(images):
        raise ValueError(f"validation_size: expected 0 to {len(images)}, got {validation_size}")
    split = (
        (images[validation_size:], labels[validation_size:]),
        (images[:validation_size], labels[:validation_size]),
    )
    return Datasets(*(DataSet(*each, dtype=dtype, reshape=reshape, seed=seed) for each in (*split, test)))


def extract_images(f: Any) -> npt.NDArray[np.uint8]:
    """The images of a compressed IDX file, uint8 of shape (images, rows, columns, 1); ValueError if it is another file."""
    return _idx_array(f, _IMAGES_MAGIC, axes=3)[..., np.newaxis]


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = _CLASSES) -> npt.NDArray[Any]:
    """The labels of a compressed IDX file, uint8 of shape (labels,); with `one_hot` float64 of shape (labels, num_classes)."""
    labels = _idx_array(f, _LABELS_MAGIC, axes=1)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense: npt.NDArray[Any], num_classes: int) -> npt.NDArray[np.float64]:
    """Labels of shape (labels,) as vectors, float64 of shape (labels, num_classes)."""
    return cast("npt.NDArray[np.float64]", np.eye(num_classes)[labels_dense.ravel()])


def _checked(
    images: npt.NDArray[Any], labels: npt.NDArray[Any], dtype: Any, reshape: bool
) -> npt.NDArray[Any]:
    """The images in the dtype and shape that were asked for."""
    if len(images) != len(labels):
        raise ValueError(f"images and labels: expected as many, got shapes {images.shape} and {labels.shape}")
    if reshape:
        if images.shape[3] != 1:
            raise ValueError(f"images to be reshaped: expected 1 channel, got {images.shape[3]}")
        images = images.reshape(len(images), images.shape[1] * images.shape[2])
    return images.astype(np.float32) * np.float32(1 / 255) if dtype == float32 else images


def _idx_array(file: Any, magic: int, axes: int) -> npt.NDArray[np.uint8]:
    """The bytes of an IDX file with so many axes."""
    name = getattr(file, "name", "a file")
    with gzip.GzipFile(fileobj=file) as stream:
        header = np.frombuffer(stream.read(4 * (1 + axes)), ">u4")
        if len(header) < 1 + axes or header[0] != magic:
            raise ValueError(
                f"{name}: expected an IDX file with magic number {magic}, got {[*map(int, header[:1])]}"
            )
        values = np.frombuffer(stream.read(), np.uint8)
    shape = tuple(map(int, header[1:]))
    if len(values) != np.prod(shape):
        raise ValueError(f"{name}: expected {np.prod(shape)} elements for shape {shape}, got {len(values)}")
    return cast("npt.NDArray[np.uint8]", values.reshape(shape))


def _file(folder: str | os.PathLike[str], name: str, source_url: str) -> Path:
    """The path of a file, fetched first if it is not there."""
    path = Path(folder) / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{name}.part")
        with urllib.request.urlopen(source_url + name) as answer, partial.open("wb") as file:
            shutil.copyfileobj(answer, file)
        partial.replace(path)
    return path
