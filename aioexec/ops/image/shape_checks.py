"""Sizes of images and checks of them: at graph construction where they are static, else by Assert nodes."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import stands_for_tensor
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.array.joining import unstack
from aioexec.ops.array.shapes_of import rank, shape
from aioexec.ops.control_flow.checks import assert_equal, assert_greater_equal, assert_positive
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.control_flow.printing import Assert
from aioexec.shapes import with_rank


def sizes_of(image: Tensor, count: int) -> list[Any]:
    """Return the `count` sizes of an image: an int where it is static, else a scalar tensor.

    Raises:
        GraphValueError: the image has another rank.
    """
    static = with_rank(image.dims, count) or (None,) * count
    if None not in static:
        return list(static)
    dynamic = unstack(shape(image), count)
    return [found if size is None else size for size, found in zip(static, dynamic, strict=True)]


def require(condition: Any, message: str) -> list[Operation]:
    """Return an assertion of a condition that is a tensor.

    Raises:
        GraphValueError: the condition is a Python value that is false.
    """
    if stands_for_tensor(condition):
        return [Assert(condition, [message])]
    if not condition:
        raise GraphValueError(message)
    return []


def at_least_3d(image: Tensor) -> list[Operation]:
    """Return assertions that an image has three dimensions or more, the last three of them not 0.

    Raises:
        GraphValueError: it is statically wrong.
    """
    dims = image.dims or (None,) * 3
    if len(dims) < 3:
        raise GraphValueError(f"'image' (shape {image.shape}) must be at least three-dimensional")
    if 0 in dims[-3:]:
        raise GraphValueError(f"inner 3 dims of 'image.shape' must be > 0: {image.shape}")
    if None not in dims[-3:]:
        return []
    return [
        assert_positive(shape(image)[-3:], ["inner 3 dims of 'image.shape' must be > 0."]),
        assert_greater_equal(rank(image), 3, message="'image' must be at least three-dimensional."),
    ]


def checked(image: Tensor) -> Tensor:
    """Return the image after the checks of `at_least_3d`."""
    found: Tensor = with_dependencies(at_least_3d(image), image)
    return found


def checked_grayscale(image: Tensor) -> Tensor:
    """Return the image after checks that it has two dimensions or more, the last of size 1.

    Raises:
        GraphValueError: it is statically wrong.
    """
    dims = image.dims or (None, None)
    if len(dims) < 2:
        raise GraphValueError(f"A grayscale image (shape {image.shape}) must be at least two-dimensional.")
    message = "Last dimension of a grayscale image should be size 1."
    if dims[-1] not in (None, 1):
        raise GraphValueError(message)
    checks = []
    if None in dims:
        few = "A grayscale image must be at least two-dimensional."
        checks = [
            assert_equal(shape(image)[-1], 1, message=message),
            assert_greater_equal(rank(image), 2, message=few),
        ]
    found: Tensor = with_dependencies(checks, image)
    return found


def wrong_rank(image: Tensor) -> GraphValueError:
    """Return the error for an image that has neither three nor four dimensions."""
    return GraphValueError(f"'image' (shape {image.shape}) must have either 3 or 4 dimensions.")


def as_batch(image: Tensor) -> tuple[Tensor, bool]:
    """Return images with a dimension for the batch, and whether it was added; unknown rank counts as one image.

    Raises:
        GraphValueError: the rank is neither 3 nor 4.
    """
    if image.dims is not None and len(image.dims) == 4:
        return image, False
    if image.dims is not None and len(image.dims) != 3:
        raise wrong_rank(image)
    batch = apply_op("ExpandDims", image, 0)
    if image.dims is None:
        batch.set_shape([None] * 4)
    return batch, True


def without_batch(images: Tensor, was_added: bool) -> Tensor:
    """Undo `as_batch`."""
    return apply_op("Squeeze", images, squeeze_dims=[0]) if was_added else images
