"""Static shapes where inputs are partly known, as TensorFlow infers them."""

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_list_op, apply_op

IMAGE = (1, 4, 5, 2)


@pytest.mark.parametrize("op_type", ["ResizeBilinearGrad", "ResizeBicubicGrad"])
@pytest.mark.parametrize(
    ("gradient", "image", "expected"),
    [
        ((1, 5, 3, 2), IMAGE, IMAGE),
        (None, IMAGE, IMAGE),
        ((1, 5, 3, 2), None, None),
        (None, None, None),
        ((None, 5, 3, 2), (None, 4, 5, 2), (None, 4, 5, 2)),
    ],
)
def test_the_gradient_of_a_resized_image_has_the_shape_of_the_image(
    op_type: str, gradient: Any, image: Any, expected: Any
):
    with ax.Graph().as_default():
        y = apply_op(op_type, ax.placeholder(ax.float32, gradient), ax.placeholder(ax.float32, image))

    assert y.dims == expected


@pytest.mark.parametrize(
    ("tensor", "mask", "expected"),
    [
        (None, (2,), (None, None)),
        (None, (0,), ()),
        (None, None, None),
        ((3, 4), (2,), (3, 4)),
        ((None, 4), None, (None, 4)),
        ((), (0,), ()),
    ],
)
def test_a_mask_gives_the_rank_of_what_it_reverses(tensor: Any, mask: Any, expected: Any):
    with ax.Graph().as_default():
        y = apply_op("Reverse", ax.placeholder(ax.float32, tensor), ax.placeholder(ax.bool, mask))

    assert y.dims == expected


def test_a_mask_of_more_than_eight_dimensions_is_refused():
    with ax.Graph().as_default(), pytest.raises(ValueError, match="more than 8 dimensions, got 9"):
        apply_op("Reverse", ax.placeholder(ax.float32), ax.placeholder(ax.bool, (9,)))


@pytest.mark.parametrize("axis", [[1], [[1]], [0, 1], []])
def test_the_dimension_to_split_is_a_scalar(axis: Any):
    axis = np.array(axis, np.int32)
    with ax.Graph().as_default():
        x = ax.placeholder(ax.float32, (2, 3))
        with pytest.raises(ValueError, match=f"Input must be scalar but has rank {axis.ndim}"):
            apply_list_op("Split", ax.constant(axis), x, num_split=3)
        with pytest.raises(ValueError, match=f"Input must be scalar but has rank {axis.ndim}"):
            apply_list_op("SplitV", x, ax.constant([1, 2]), ax.constant(axis), num_split=2)


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_a_dimension_of_unknown_shape_is_checked_in_the_step(jit: str):
    config = ax.ConfigProto()
    config.aioexec.jit = jit
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, (2, 3))
        axis = ax.placeholder(ax.int32)
        parts = apply_list_op("Split", axis, x, num_split=3)
        varied = apply_list_op("SplitV", x, ax.constant([1, 2]), axis, num_split=2)
    value = np.arange(6, dtype=np.float32).reshape(2, 3)

    async with ax.Session(graph=graph, config=config) as session:
        assert [each.tolist() for each in await session.run(list(parts), {x: value, axis: 1})] == [
            [[0], [3]],
            [[1], [4]],
            [[2], [5]],
        ]
        with pytest.raises(InvalidArgumentError, match="split_dim must be a scalar but has rank 1"):
            await session.run(list(parts), {x: value, axis: [1]})
        taken = await session.run(
            list(varied), {x: value, axis: [1]}
        )  # TensorFlow takes a vector of one here

    assert [each.tolist() for each in taken] == [[[0], [3]], [[1, 2], [4, 5]]]
