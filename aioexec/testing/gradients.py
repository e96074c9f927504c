"""`assert_gradients`: compares the gradients of a tensor with finite differences."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError
from aioexec.graph.defaults import get_default_session
from aioexec.graph.node import Tensor
from aioexec.test.gradient_checker import compute_gradient


async def assert_gradients(
    y: Tensor, at: Mapping[Tensor, Any], *, delta: float = 1e-3, rtol: float = 1e-2, atol: float = 1e-3
) -> None:
    """Compare the gradient of `y` with respect to each tensor of `at` with finite differences, in the default session.

        await assert_gradients(loss, {weights: [[1.0, 2.0]]})

    The defaults suit float32 and values near 1; float64 allows a `delta` of 1e-6 and tolerances of 1e-6.

    Args:
        at: the point: floating-point tensors of the graph, with their values.
        delta: half the difference in x.
        rtol, atol: as those of `numpy.isclose`.

    Raises:
        AssertionError: a gradient differs; names the tensor and the largest difference.
        GraphValueError: y depends on none of a tensor, or there is no default session.
    """
    feeds = {x: np.asarray(value, x.dtype.base_dtype.numpy) for x, value in at.items()}
    session = get_default_session()
    if session is None:
        raise GraphValueError("assert_gradients: there is no default session")
    shape = np.shape(await session.run(y, feeds))
    for x, value in feeds.items():
        others = {other: each for other, each in feeds.items() if other is not x}
        found, expected = await compute_gradient(
            x, value.shape, y, shape, value, delta, extra_feed_dict=others
        )
        wrong = ~np.isclose(found, expected, rtol=rtol, atol=atol)
        if wrong.any():
            row, column = np.unravel_index(np.argmax(np.abs(found - expected) * wrong), found.shape)
            raise AssertionError(
                f"the gradient of {y.name} with respect to {x.name} differs from finite differences in {wrong.sum()} of "
                f"{wrong.size} numbers: d {y.name}[{column}] / d {x.name}[{row}], counted flat, is {found[row, column]}, "
                f"expected {expected[row, column]}"
            )
