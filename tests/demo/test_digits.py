"""The data of the demo is complete, split without overlap, and divided into batches."""

import numpy as np
import pytest

from aioexec.demo import digits


def rows(examples):
    return {image.tobytes() for image in examples.images}


def test_every_image_is_in_one_part_and_scaled_to_one():
    data = digits.load(seed=3)

    assert (len(data.train), len(data.test)) == (1438, 359)
    assert not rows(data.train) & rows(data.test)
    for examples in (data.train, data.test):
        assert examples.images.dtype == np.float32
        assert examples.images.shape == (len(examples), 64)
        assert (examples.images.min(), examples.images.max()) == (0, 1)
        assert set(examples.labels.tolist()) == set(range(10))


def test_the_first_image_of_the_file_is_the_known_zero():
    """The first row of the original, typed from its text form."""
    data = digits.load()
    known = np.array([0, 0, 5, 13, 9, 1, 0, 0, 0, 0, 13, 15, 10, 15, 5, 0], np.float32) / 16

    found = [
        label
        for examples in (data.train, data.test)
        for image, label in zip(examples.images, examples.labels, strict=True)
        if (image[:16] == known).all()
    ]

    assert found == [0]


def test_a_seed_is_a_split():
    first, same, other = digits.load(seed=1), digits.load(seed=1), digits.load(seed=2)

    np.testing.assert_array_equal(first.test.images, same.test.images)
    assert (first.test.images != other.test.images).any()


def test_an_epoch_has_each_image_at_most_once_moved_by_at_most_a_pixel():
    images = np.zeros((70, 8, 8), np.float32)
    images[:, 3, 3] = np.arange(1, 71)
    examples = digits.Examples(images.reshape(-1, 64), np.arange(70, dtype=np.int32))

    batches = list(examples.batches(32, np.random.default_rng(0)))

    labels = np.concatenate([batch.labels for batch in batches])
    seen = np.concatenate([batch.images for batch in batches]).reshape(-1, 8, 8)
    assert [len(batch) for batch in batches] == [32, 32]
    assert len(set(labels.tolist())) == 64
    assert seen.max(axis=(1, 2)).tolist() == (labels + 1).tolist()
    assert seen[:, 2:5, 2:5].sum(axis=(1, 2)).tolist() == (labels + 1).tolist()
    still = (seen[:, 3, 3] > 0).mean()
    assert still == pytest.approx(0.5 + 0.5 / 9, abs=0.2)
