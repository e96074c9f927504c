"""Transformations of `tf.contrib.data` that methods of `Dataset` have replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.data.dataset import Dataset
from aioexec.data.experimental.transformations import Transformation, parallel_interleave
from aioexec.data.structure import flatten, flatten_up_to
from aioexec.errors import GraphValueError
from aioexec.shapes import TensorShape


def batch_and_drop_remainder(batch_size: Any) -> Transformation:
    """Return batches of `batch_size` elements, without a smaller last one."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: Any, padded_shapes: Any, padding_values: Any = None
) -> Transformation:
    """Return padded batches of `batch_size` elements, without a smaller last one."""
    return lambda dataset: dataset.padded_batch(
        batch_size, padded_shapes, padding_values, drop_remainder=True
    )


def assert_element_shape(expected_shapes: Any) -> Transformation:
    """Return the same elements, whose static shapes are merged with these.

    Raises:
        GraphValueError: a shape is incompatible.
    """

    def transformed(dataset: Dataset) -> Dataset:
        expected = [TensorShape(shape) for shape in flatten_up_to(dataset.element_spec, expected_shapes)]
        for component, shape in zip(flatten(dataset.element_spec), expected, strict=True):
            if not component.shape.is_compatible_with(shape):
                raise GraphValueError(f"Shape {component.shape} is incompatible with the expected {shape}")

        def narrowed(*parts: Any) -> Any:
            element = _element(dataset, parts)
            for leaf, shape in zip(flatten(element), expected, strict=True):
                leaf.set_shape(shape)
            return element

        return dataset.map(narrowed)

    return transformed


def sloppy_interleave(
    map_func: Callable[..., Any], cycle_length: Any, block_length: Any = 1
) -> Transformation:
    """Return `parallel_interleave(..., sloppy=True)`."""
    return parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


def sliding_window_batch(
    window_size: Any, stride: Any = None, window_shift: Any = None, window_stride: Any = 1
) -> Transformation:
    """Return batches of `window_size` elements, `window_stride` apart; each begins `window_shift` after the one before.

    Args:
        stride: the older name of `window_shift`; 1 by default.

    Raises:
        GraphValueError: both are given.
    """
    if stride is not None and window_shift is not None:
        raise GraphValueError("Cannot specify both `stride` and `window_shift`")
    shift = next((each for each in (window_shift, stride) if each is not None), 1)

    def transformed(dataset: Dataset) -> Dataset:
        windows = dataset.window(window_size, shift, window_stride, drop_remainder=True)
        return windows.flat_map(lambda *parts: _batched(_element(dataset, parts), window_size))

    return transformed


def _element(dataset: Dataset, parts: tuple[Any, ...]) -> Any:
    """Return the element whose components are the arguments of a function."""
    return parts if type(dataset.element_spec) is tuple else parts[0]


def _batched(windows: Any, size: Any) -> Dataset:
    dataset = windows if isinstance(windows, Dataset) else Dataset.zip(windows)
    return dataset.batch(size)
