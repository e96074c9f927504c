"""Reflections, rotations by right angles and transposition of images, given or at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import transpose as permute
from aioexec.ops.array.reverse import reverse
from aioexec.ops.array.shapes_of import rank, shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.case import case
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.image.shape_checks import checked, wrong_rank
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import equal, less
from aioexec.ops.random.random_ops import random_uniform

ROWS, COLUMNS = 0, 1
"""The axes of one image."""


def _of_either_rank(image: Tensor, of_image: Callable[[], Tensor], of_batch: Callable[[], Tensor]) -> Tensor:
    """Return the result for one image or for a batch; chosen when the graph runs if the rank is unknown.

    Raises:
        GraphValueError: the rank is neither 3 nor 4.
    """
    if image.dims is None:
        chosen: Tensor = cond(equal(rank(image), 3), of_image, of_batch)
        return chosen
    if len(image.dims) not in (3, 4):
        raise wrong_rank(image)
    return of_image() if len(image.dims) == 3 else of_batch()


def _shaped_as(image: Tensor, result: Tensor) -> Tensor:
    result.set_shape([None] * 3 if image.dims is None else image.dims)
    return result


def _flipped(image: Any, axis: int, name: str) -> Tensor:
    with op_scope(None, name, image):
        given = checked(convert_to_tensor(image, name="image"))
        return _of_either_rank(
            given, lambda: _shaped_as(given, reverse(given, [axis])), lambda: reverse(given, [axis + 1])
        )


def flip_left_right(image: Any) -> Tensor:
    """Mirror an image, or a batch of images, horizontally.

    Raises:
        GraphValueError: the rank is neither 3 nor 4.
    """
    return _flipped(image, COLUMNS, "flip_left_right")


def flip_up_down(image: Any) -> Tensor:
    """Mirror an image, or a batch of images, vertically.

    Raises:
        GraphValueError: the rank is neither 3 nor 4.
    """
    return _flipped(image, ROWS, "flip_up_down")


def _randomly_flipped(image: Any, axis: int, seed: int | None, name: str) -> Tensor:
    with op_scope(None, name, image) as scope:
        given = checked(convert_to_tensor(image, name="image"))

        def of_image() -> Tensor:
            is_flipped = less(random_uniform([], 0, 1.0, seed=seed), 0.5)
            return _shaped_as(
                given, cond(is_flipped, lambda: reverse(given, [axis]), lambda: given, name=scope)
            )

        def of_batch() -> Tensor:
            count = shape(given)[0]
            drawn = random_uniform([count], 0, 1.0, seed=seed)
            rounded = apply_op("Round", apply_op("Reshape", drawn, [count, 1, 1, 1]))
            flips = cast(rounded, given.dtype.base_dtype)
            mixed: Tensor = flips * reverse(given, [axis + 1]) + (1 - flips) * given
            return mixed

        return _of_either_rank(given, of_image, of_batch)


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """Mirror each image of a batch, or one image, horizontally with probability 1/2.

    Raises:
        GraphValueError: the rank is neither 3 nor 4.
    """
    return _randomly_flipped(image, COLUMNS, seed, "random_flip_left_right")


def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """Mirror each image of a batch, or one image, vertically with probability 1/2.

    Raises:
        GraphValueError: the rank is neither 3 nor 4.
    """
    return _randomly_flipped(image, ROWS, seed, "random_flip_up_down")


def rot90(image: Any, k: Any = 1, name: str | None = None) -> Tensor:
    """Rotate an image, or a batch of images, counter-clockwise by `k` right angles.

    Raises:
        GraphValueError: the rank is neither 3 nor 4.
    """
    with op_scope(name, "rot90", image, k) as scope:
        given = checked(convert_to_tensor(image, name="image"))
        turns = apply_op("FloorMod", convert_to_tensor(k, "int32", name="k"), 4)
        return _of_either_rank(
            given, lambda: _rotated(given, turns, 0, scope), lambda: _rotated(given, turns, 1, scope)
        )


def _rotated(image: Tensor, turns: Tensor, rows: int, name: str) -> Tensor:
    """Rotate; `rows` is the axis of rows, 1 in a batch."""
    columns = rows + 1
    swapped = [0, 2, 1, 3] if rows else [1, 0, 2]
    rotations = (
        lambda: permute(reverse(image, [columns]), swapped),
        lambda: reverse(image, [rows, columns]),
        lambda: reverse(permute(image, swapped), [columns]),
    )
    pairs = [(equal(turns, count + 1), rotation) for count, rotation in enumerate(rotations)]
    result: Tensor = case(pairs, default=lambda: image, exclusive=True, name=name)
    dims = image.dims or (None,) * (rows + 3)
    result.set_shape([*dims[:rows], None, None, dims[-1]])
    return result


def transpose(image: Any, name: str | None = None) -> Tensor:
    """Exchange the rows and columns of an image or of a batch of images.

    Raises:
        GraphValueError: the rank is neither 3 nor 4.
    """
    with op_scope(name, "transpose", image):
        given = checked(convert_to_tensor(image, name="image"))
        return _of_either_rank(
            given,
            lambda: permute(given, [1, 0, 2], name=name or "transpose"),
            lambda: permute(given, [0, 2, 1, 3], name=name or "transpose"),
        )
