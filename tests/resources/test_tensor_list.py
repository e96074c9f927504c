"""Lists of tensors: immutability, and unset elements as zeros of a known shape."""

from __future__ import annotations

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.resources.tensor_list import TensorList, boxed, list_in, list_of, reserved

ONE, TWO = np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)


def test_every_holder_of_a_list_sees_it_unchanged():
    base = list_of(dtypes.float32, (2,), [ONE])

    longer, other, shorter = base.pushed(TWO), base.replaced(0, TWO), base.popped(lambda: None)[0]

    np.testing.assert_array_equal(base.stacked(None), [ONE])
    np.testing.assert_array_equal(longer.stacked(None), [ONE, TWO])
    np.testing.assert_array_equal(other.stacked(None), [TWO])
    assert shorter.length == 0


def test_a_view_of_memory_that_is_used_again_is_copied():
    memory = np.zeros(4, np.float32)
    held = TensorList(dtypes.float32, None).pushed(memory[:2])

    memory[:] = 7

    np.testing.assert_array_equal(held.get(0, None), [0, 0])


def test_an_element_that_is_not_set_is_zeros_where_its_shape_follows_from_the_others():
    some = reserved(dtypes.float32, None, 2)

    with pytest.raises(InvalidArgumentError, match="not fully defined: <unknown> and no list element is set"):
        some.get(0, None)

    np.testing.assert_array_equal(some.replaced(1, ONE).get(0, None), [0, 0])
    np.testing.assert_array_equal(some.get(0, (1,)), [0])


def test_lists_add_up_element_by_element_and_missing_ones_count_as_zeros():
    one = reserved(dtypes.float32, (2,), 2).replaced(0, ONE)
    other = reserved(dtypes.float32, None, 2).replaced(0, TWO).replaced(1, TWO)

    total = one.plus(other)

    np.testing.assert_array_equal(total.stacked(None), [ONE + TWO, TWO])
    np.testing.assert_array_equal(total.zeros_like().stacked(None), np.zeros((2, 2)))


def test_lists_of_lists_add_up_as_well():
    inner = list_of(dtypes.float32, None, [ONE])
    outer = list_of(dtypes.variant, (), [boxed(inner)])

    total = outer.plus(outer)

    np.testing.assert_array_equal(list_in(total.get(0, None)).get(0, None), ONE * 2)
    np.testing.assert_array_equal(list_in(outer.zeros_like().get(0, None)).get(0, None), ONE * 0)


def test_absurd_sizes_are_refused_before_anything_is_allocated():
    with pytest.raises(ResourceExhaustedError, match="a list of 2147483647 tensors"):
        reserved(dtypes.float32, None, 2**31 - 1)
    with pytest.raises(ResourceExhaustedError, match=r"shape \[1000,2147483647,2147483647\]"):
        reserved(dtypes.float32, (2**31 - 1, 2**31 - 1), 1000).stacked(None)


def test_what_is_no_list_is_refused():
    with pytest.raises(InvalidArgumentError, match="Input handle is not a list"):
        list_in(boxed(3))
    with pytest.raises(InvalidArgumentError, match=r"Input list must be a scalar. Saw: \[2\]"):
        list_in(np.empty(2, object))
