"""TensorArrays as state: written once, read once, and gradients that are added. Their use in graphs is tested in ops."""

from __future__ import annotations

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.resources.tensor_array import TensorArray

ONE = np.array([1.0, 2.0], np.float32)


def array(size: int = 3, **options: object) -> TensorArray:
    return TensorArray("a", dtypes.float32, size, **options)


def test_an_element_is_written_once_and_read_once():
    made = array()
    made.write(1, ONE)

    with pytest.raises(InvalidArgumentError, match="index 1 because it has already been written to"):
        made.write(1, ONE)
    np.testing.assert_array_equal(made.read(1), ONE)
    with pytest.raises(InvalidArgumentError, match="Could not read index 1 twice"):
        made.read(1)
    with pytest.raises(InvalidArgumentError, match="index 1 because it has already been read"):
        made.write(1, ONE)


def test_an_array_that_is_told_to_keeps_what_was_read():
    made = array(clears=False)
    made.write(0, ONE)

    np.testing.assert_array_equal(made.gather(np.array([0, 0], np.int32), None), [ONE, ONE])


def test_gradients_add_up_and_what_got_none_is_zeros():
    made = array()
    made.scatter([0, 1], np.stack([ONE, ONE]))

    first, again = made.gradient("gradients"), made.gradient("gradients")
    first.write(0, ONE)
    again.write(0, ONE)

    assert first is again is not made.gradient("others")
    np.testing.assert_array_equal(first.gather(np.array([0, 1], np.int32), None), [ONE * 2, ONE * 0])


def test_gradients_may_have_dimensions_before_those_of_their_elements():
    made = array()
    made.write(0, ONE)

    assert made.gradient("gradients", (5,)).read(0).shape == (5, 2)


def test_an_array_whose_gradients_are_made_grows_no_more():
    made = array(0, dynamic=True)
    made.write(4, ONE)
    assert made.size == 5

    made.gradient("gradients")

    with pytest.raises(InvalidArgumentError, match="not resizeable and size is: 5"):
        made.write(5, ONE)


def test_a_closed_array_is_of_no_use():
    made = array()
    made.close()

    for verb in (
        lambda: made.read(0),
        lambda: made.write(0, ONE),
        lambda: made.gradient("g"),
        made.check_open,
    ):
        with pytest.raises(InvalidArgumentError, match="TensorArray a has already been closed"):
            verb()


def test_absurd_sizes_are_refused_before_anything_is_allocated():
    with pytest.raises(ResourceExhaustedError, match="a TensorArray of 2147483647 tensors"):
        array(2**31 - 1)
    with pytest.raises(ResourceExhaustedError, match="a TensorArray of 2147483648 tensors"):
        array(dynamic=True).write(2**31 - 1, ONE)


def test_unwritten_elements_are_zeros_and_count_as_read():
    made = array(4, dims=(2,))
    made.write(2, ONE)

    np.testing.assert_array_equal(made.gather(np.arange(4), None), [ONE * 0, ONE * 0, ONE, ONE * 0])
    for index in (0, 2):
        with pytest.raises(InvalidArgumentError, match=f"Could not read index {index} twice"):
            made.read(index)
        with pytest.raises(InvalidArgumentError, match="it has already been read"):
            made.write(index, ONE)
    with pytest.raises(InvalidArgumentError, match="Could not read index 1 twice"):
        array(4, dims=(2,)).gather(np.array([0, 1, 1]), None)


def test_unwritten_parts_are_joined_as_zeros():
    made = array(3, dims=(None, 2), clears=False)
    made.write(1, np.ones((3, 2), np.float32))
    with pytest.raises(InvalidArgumentError, match="Could not read from TensorArray index 0"):
        made.concat(None)

    made.dims = (1, 2)
    whole, lengths = made.concat(None)
    np.testing.assert_array_equal(whole, [[0, 0], [1, 1], [1, 1], [1, 1], [0, 0]])
    np.testing.assert_array_equal(lengths, [1, 3, 1])
