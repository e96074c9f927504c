"""Assertions about arrays, under the names of `tf.test.TestCase`. Their arguments are values: a test awaits tensors first."""

from __future__ import annotations

import re
import unittest
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

from aioexec.compat.text import as_str_any
from aioexec.errors import GraphTypeError, OpError
from aioexec.graph.device_spec import canonical_name
from aioexec.graph.node import Tensor
from aioexec.shapes import TensorShape

Array = np.ndarray[Any, Any]


def _array(value: Any) -> Array:
    """Return a value as an array.

    Raises:
        GraphTypeError: a tensor, which has a value in a session only.
    """
    if isinstance(value, Tensor):
        raise GraphTypeError(f"expected a value, got {value!r}: use `await self.evaluate(tensor)`")
    return np.asarray(value)


class ArrayAssertions(unittest.TestCase):
    """The assertions of `TestCase`; each fails with AssertionError."""

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Check that two arrays have the same shape and elements; NaNs are equal."""
        one, other = _array(a), _array(b)
        self.assertEqual(
            one.shape, other.shape, f"Shape mismatch: expected {one.shape}, got {other.shape}. {msg or ''}"
        )
        np.testing.assert_array_equal(one, other, err_msg=msg or "")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Check that two arrays differ."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        self.fail(f"The two values are equal at all elements. {msg or ''}")

    def assertAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Check that |a - b| <= atol + rtol |b| for two arrays, or for the leaves of two nested structures."""
        if isinstance(a, Mapping):
            self.assertIsInstance(b, Mapping, msg)
            self.assertCountEqual(a, b, msg)
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, f"{msg or ''} at {key!r}")
        elif isinstance(a, list | tuple) and _is_ragged(a):
            self.assertEqual(len(a), len(b), msg)
            for place, (one, other) in enumerate(zip(a, b, strict=True)):
                self.assertAllClose(one, other, rtol, atol, f"{msg or ''} at {place}")
        else:
            one, other = _array(a), _array(b)
            self.assertEqual(
                one.shape,
                other.shape,
                f"Shape mismatch: expected {one.shape}, got {other.shape}. {msg or ''}",
            )
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol, err_msg=msg or "")

    def assertNotAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Check that two values are not close everywhere; see `assertAllClose`."""
        try:
            self.assertAllClose(a, b, rtol, atol)
        except AssertionError:
            return
        self.fail(f"The two values are close at all elements. {msg or ''}")

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """Check that two arrays are close, by the tolerances of the less precise dtype of the two."""
        kinds = {_array(a).dtype, _array(b).dtype}
        for held, kind_rtol, kind_atol in (
            ((np.float32, np.complex64), float_rtol, float_atol),
            ((np.float16,), half_rtol, half_atol),
            ((ml_dtypes.bfloat16,), bfloat16_rtol, bfloat16_atol),
        ):
            if kinds & {np.dtype(each) for each in held}:
                rtol, atol = max(rtol, kind_rtol), max(atol, kind_atol)
        self.assertAllClose(_wide(a), _wide(b), rtol, atol, msg)

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Check that every element is greater than a number."""
        self._assert_all(_array(a) > comparison_target, a, f"> {comparison_target}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Check that every element is less than a number."""
        self._assert_all(_array(a) < comparison_target, a, f"< {comparison_target}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """Check that no element is less than a number."""
        self._assert_all(_array(a) >= comparison_target, a, f">= {comparison_target}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """Check that no element is greater than a number."""
        self._assert_all(_array(a) <= comparison_target, a, f"<= {comparison_target}")

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Check that every element is between two numbers; `open_…`: and is not the number itself."""
        values = _array(target)
        above = values > lower_bound if open_lower_bound else values >= lower_bound
        below = values < upper_bound if open_upper_bound else values <= upper_bound
        self._assert_all(above & below, target, f"between {lower_bound} and {upper_bound}")

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        """Check that every element is one of a set."""
        self.assertEqual(set(_array(target).ravel().tolist()) - set(expected_set), set())

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """Check that two numbers differ by at most `err`."""
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err, f"{f1} != {f2} +/- {err} {msg or ''}")

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:
        """Check that the elements of two sequences differ by at most `err`."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for one, other in zip(farray1, farray2, strict=True):
            self.assertNear(float(one), float(other), err, msg)

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None) -> None:
        """Check that the distance (2-norm) of two arrays of one shape is less than `err`."""
        one, other = _array(ndarray1), _array(ndarray2)
        self.assertTrue(one.shape == other.shape and np.linalg.norm(one - other) < err, msg)

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """Check that an array and a tensor, or two of one kind, have the same shape."""
        one, other = (TensorShape(each.shape).as_list() for each in (input_a, input_b))
        self.assertEqual(one, other, msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """Check the dtype of an array or tensor."""
        held = target.dtype.as_numpy_dtype if isinstance(target, Tensor) else _array(target).dtype
        self.assertEqual(np.dtype(held), np.dtype(getattr(expected_dtype, "as_numpy_dtype", expected_dtype)))

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: str | None = None) -> None:
        """Check that two names of devices mean the same."""
        self.assertEqual(canonical_name(device1), canonical_name(device2), msg)

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        """Check how a string begins."""
        self.assertTrue(
            actual.startswith(expected_start),
            f"{actual!r} does not start with {expected_start!r} {msg or ''}",
        )

    def assertProtoEquals(
        self, expected_message_maybe_ascii: Any, message: Any, msg: str | None = None
    ) -> None:
        """Check that a message equals another one, or the one that a text describes."""
        expected = expected_message_maybe_ascii
        if isinstance(expected, str | bytes):
            from google.protobuf import text_format

            expected = text_format.Parse(as_str_any(expected), type(message)())
        self.assertEqual(expected, message, msg)

    @contextmanager
    def assertRaisesWithPredicateMatch(
        self,
        exception_type: type[BaseException],
        expected_err_re_or_predicate: str | Callable[[BaseException], Any],
    ) -> Iterator[None]:
        """Check that the block raises an exception whose text matches a regular expression, or for which a function is true."""
        try:
            yield
        except exception_type as error:
            wanted = expected_err_re_or_predicate
            matches = wanted(error) if callable(wanted) else re.search(wanted, str(error))
            self.assertTrue(matches, f"{error!r} does not match {wanted!r}")
        else:
            self.fail(f"{exception_type.__name__} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """Check that the block raises an OpError; see `assertRaisesWithPredicateMatch`."""
        return self.assertRaisesWithPredicateMatch(OpError, expected_err_re_or_predicate)

    def assertItemsEqual(self, first: Any, second: Any, msg: Any = None) -> None:
        """Check that two collections have the same elements in any order: `assertCountEqual`'s old name."""
        self.assertCountEqual(first, second, msg)

    def _assert_all(self, holds: Array, value: Any, words: str) -> None:
        self.assertTrue(bool(np.all(holds)), f"expected every element {words}, got {value}")


def _is_ragged(value: Any) -> bool:
    """Whether a list has parts of different shapes or dicts, so that it is no array."""
    return any(isinstance(each, Mapping) for each in value) or len({np.shape(each) for each in value}) > 1


def _wide(value: Any) -> Array:
    """Return a value as an array; bfloat16 as float32, which NumPy compares."""
    array = _array(value)
    return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array
