"""The reader of MNIST's files."""

import gzip

import numpy as np
import pytest

import aioexec as ax
from aioexec.examples.tutorials.mnist import input_data

IMAGES = np.arange(6 * 2 * 3, dtype=np.uint8).reshape(6, 2, 3)
LABELS = np.array([3, 1, 4, 1, 5, 9], np.uint8)


@pytest.fixture
def folder(tmp_path):
    for part, count in (("train", 6), ("t10k", 2)):
        write(tmp_path / f"{part}-images-idx3-ubyte.gz", 2051, IMAGES[:count])
        write(tmp_path / f"{part}-labels-idx1-ubyte.gz", 2049, LABELS[:count])
    return tmp_path


def write(path, magic, array):
    header = np.array([magic, *array.shape], ">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.tobytes()))


def test_the_three_parts(folder):
    data = input_data.read_data_sets(folder, validation_size=2)

    assert [part.num_examples for part in data] == [4, 2, 2]
    np.testing.assert_allclose(data.train.images, IMAGES[2:].reshape(4, 6) / 255, rtol=1e-6)
    assert data.train.images.dtype == np.float32
    np.testing.assert_array_equal(data.validation.labels, [3, 1])
    np.testing.assert_array_equal(data.test.labels, [3, 1])


def test_bytes_in_their_shape_with_labels_as_vectors(folder):
    data = input_data.read_data_sets(folder, one_hot=True, dtype=ax.uint8, reshape=False, validation_size=0)

    np.testing.assert_array_equal(data.train.images, IMAGES[..., None])
    np.testing.assert_array_equal(data.train.labels, np.eye(10)[LABELS])


def test_batches_in_order_go_on_in_the_next_epoch(folder):
    train = input_data.read_data_sets(folder, dtype=ax.uint8, validation_size=0).train

    found = [train.next_batch(4, shuffle=False) for _ in range(3)]

    np.testing.assert_array_equal(np.concatenate([labels for _, labels in found]), [*LABELS, *LABELS])
    np.testing.assert_array_equal(found[1][0], IMAGES[[4, 5, 0, 1]].reshape(4, 6))
    assert train.epochs_completed == 1


def test_a_shuffled_epoch_has_every_example_once(folder):
    train = input_data.read_data_sets(folder, dtype=ax.uint8, validation_size=0, seed=5).train

    for _ in range(4):
        images, labels = train.next_batch(6)
        order = images[:, 0] // 6
        assert sorted(order) == [*range(6)]
        np.testing.assert_array_equal(labels, LABELS[order])


def test_equal_seeds_give_equal_orders(folder):
    def batches():
        train = input_data.read_data_sets(folder, validation_size=0, seed=7).train
        return np.concatenate([train.next_batch(4)[1] for _ in range(6)])

    np.testing.assert_array_equal(batches(), batches())


def test_fake_data():
    data = input_data.read_data_sets("nowhere", fake_data=True, one_hot=True)

    images, labels = data.train.next_batch(2)

    assert images == [[1] * 784] * 2
    assert labels == [[1, *[0] * 9]] * 2
    assert data.test.num_examples == 10000


def test_missing_files_are_fetched(folder, tmp_path_factory):
    copy = tmp_path_factory.mktemp("data") / "new"

    data = input_data.read_data_sets(copy, validation_size=0, source_url=f"{folder.as_uri()}/")

    assert data.train.num_examples == 6
    assert sorted(path.name for path in copy.iterdir()) == sorted(path.name for path in folder.iterdir())


def test_other_files_are_refused(folder):
    write(folder / "t10k-images-idx3-ubyte.gz", 2049, IMAGES)
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte.gz: expected .* number 2051, got \[2049\]"):
        input_data.read_data_sets(folder, validation_size=0)


def test_a_file_that_ends_early_is_refused(folder):
    path = folder / "train-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-1]))
    with pytest.raises(ValueError, match=r"expected 6 elements for shape \(6,\), got 5"):
        input_data.read_data_sets(folder, validation_size=0)


def test_arguments_are_checked(folder):
    with pytest.raises(ValueError, match="validation_size: expected 0 to 6, got 7"):
        input_data.read_data_sets(folder, validation_size=7)
    with pytest.raises(TypeError, match="dtype: expected uint8 or float32, got int32"):
        input_data.DataSet(IMAGES[..., None], LABELS, dtype=ax.int32)
    with pytest.raises(ValueError, match=r"got shapes \(6, 2, 3, 1\) and \(5,\)"):
        input_data.DataSet(IMAGES[..., None], LABELS[:5])
