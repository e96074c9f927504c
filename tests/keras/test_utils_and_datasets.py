"""`ax.keras.utils` and `ax.keras.datasets`."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import NotFoundError

utils, datasets = ax.keras.utils, ax.keras.datasets


def test_classes_become_rows():
    np.testing.assert_array_equal(utils.to_categorical([0, 2]), [[1, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(utils.to_categorical([[1], [0]], 2, "int8"), [[0, 1], [1, 0]])
    assert utils.to_categorical(np.zeros((2, 3)), 4).shape == (2, 3, 4)


def test_rows_have_norm_one():
    np.testing.assert_allclose(utils.normalize(np.array([[3.0, 4.0], [0.0, 0.0]])), [[0.6, 0.8], [0.0, 0.0]])


def test_digits_are_read_from_the_folder_of_keras(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    with pytest.raises(NotFoundError, match="get it from https"):
        datasets.mnist.load_data()
    (tmp_path / "datasets").mkdir()
    x, y = np.ones((3, 28, 28), np.uint8), np.arange(3, dtype=np.uint8)
    path = tmp_path / "datasets" / "mnist.npz"
    np.savez(path, x_train=x, y_train=y, x_test=x[:1], y_test=y[:1])

    (images, digits), (of_test, _) = datasets.mnist.load_data()

    assert (images.shape, digits.tolist(), of_test.shape) == ((3, 28, 28), [0, 1, 2], (1, 28, 28))


def test_photographs_are_read_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    folder = tmp_path / "datasets" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    rows = np.arange(3072, dtype=np.uint8).reshape(1, 3072)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (folder / name).write_bytes(pickle.dumps({b"data": rows, b"labels": [7]}, protocol=2))

    (images, labels), (of_test, _) = datasets.cifar10.load_data()

    assert (images.shape, labels.shape, of_test.shape) == ((5, 32, 32, 3), (5, 1), (1, 32, 32, 3))
    np.testing.assert_array_equal(images[0, 0, :2, 0], rows[0, :2])
    np.testing.assert_array_equal(images[0, 0, 0], rows[0, [0, 1024, 2048]])

    (folder / "test_batch").write_bytes(pickle.dumps({b"data": print}))
    with pytest.raises(pickle.UnpicklingError, match=r"has no builtins\.print"):
        datasets.cifar10.load_data()
