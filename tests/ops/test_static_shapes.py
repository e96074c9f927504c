"""Static shapes where inputs are partly known, as TensorFlow infers them."""

from typing import Any

import pytest

import aioexec as ax
from aioexec.graph.apply import apply_op

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
