"""TensorLists in graphs: push and pop, also in loops, and gradients of first and second order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_no_output_op, apply_op, apply_tuple_op
from aioexec.graph.node import Tensor
from tests.ops.evaluate import evaluate
from tests.ops.harness import differences
from tests.tiers import Tier, tier as tier

X = np.array([[0.5, -1.0], [2.0, 0.25], [1.5, 3.0]])
OF: dict[str, Any] = {"element_dtype": ax.float64}


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


@pytest.fixture
def x() -> Tensor:
    return ax.placeholder(ax.float64, X.shape)


def empty() -> Tensor:
    return apply_op("EmptyTensorList", [2], -1, **OF)


def rows(x: Tensor) -> Tensor:
    return apply_op("TensorListFromTensor", x, [2])


def stacked(variant: Tensor) -> Tensor:
    return apply_op("TensorListStack", variant, -1, **OF)


def pushed_and_popped(x: Tensor) -> Tensor:
    variant = apply_op("TensorListPushBack", rows(x), x[0] * x[1], **OF)
    rest, last = apply_tuple_op("TensorListPopBack", variant, -1, **OF)
    return stacked(rest) * last


def popped_only(x: Tensor) -> Tensor:
    return apply_tuple_op("TensorListPopBack", rows(x), -1, **OF)[1] ** 3.0


def set_and_got(x: Tensor) -> Tensor:
    variant = apply_op("TensorListSetItem", rows(x), 1, x[0] * x[2])
    return apply_op("TensorListGetItem", variant, 1, -1, **OF) * apply_op(
        "TensorListGetItem", variant, 2, -1, **OF
    )


def set_beyond_the_end(x: Tensor) -> Tensor:
    variant = apply_op("TensorListSetItem", rows(x), 4, x[0] * x[2], resize_if_index_out_of_bounds=True)
    return stacked(variant) ** 3.0


def resized(x: Tensor) -> Tensor:
    return stacked(apply_op("TensorListResize", rows(x * x), 2)) ** 2.0


def gathered(x: Tensor) -> Tensor:
    return apply_op("TensorListGather", rows(x), [2, 0], -1, **OF) ** 3.0


def scattered(x: Tensor) -> Tensor:
    return stacked(apply_op("TensorListScatterV2", x * x, [3, 0, 1], [2], -1)) ** 2.0


def scattered_by_its_first_version(x: Tensor) -> Tensor:
    return stacked(apply_op("TensorListScatter", x * x, [3, 0, 1], [2])) ** 2.0


def scattered_into_a_list(x: Tensor) -> Tensor:
    return stacked(apply_op("TensorListScatterIntoExistingList", rows(x), x[:2] * x[2], [1, 3])) ** 2.0


def cut_and_joined(x: Tensor) -> Tensor:
    variant = apply_op("TensorListSplit", x * x, [-1, 2], np.array([1, 2]))
    return apply_tuple_op("TensorListConcatV2", variant, [-1, 2], np.zeros(0, np.int64), **OF)[0] ** 2.0


def joined_by_its_first_version(x: Tensor) -> Tensor:
    return apply_tuple_op("TensorListConcat", rows(x), **OF)[0] ** 3.0


def added_up(x: Tensor) -> Tensor:
    return stacked(apply_op("AddN", [rows(x), rows(x * x), apply_op("ZerosLike", rows(x))]))


def at_point(value: Tensor, x: Tensor, at: Any) -> float:
    return float(evaluate(value, {x: at}))


BUILDERS = [
    *(pushed_and_popped, popped_only, set_and_got, set_beyond_the_end, resized, gathered, scattered),
    *(
        scattered_by_its_first_version,
        scattered_into_a_list,
        cut_and_joined,
        joined_by_its_first_version,
        added_up,
    ),
]


@pytest.mark.parametrize("build", BUILDERS)
def test_gradients_through_lists_agree_with_differences_twice(build: Callable[[Tensor], Tensor], x: Tensor):
    y = ax.reduce_sum(build(x))
    (dx,) = ax.gradients(y, x)
    z = ax.reduce_sum(dx * dx)
    (dxx,) = ax.gradients(z, x)

    for value, gradient in ((y, dx), (z, dxx)):
        expected = differences(partial(at_point, value, x), X, 1e-6)
        np.testing.assert_allclose(evaluate(gradient, {x: X}), expected, rtol=1e-5, atol=1e-5)


async def test_a_loop_pushes_and_another_pops(tier: Tier, graph: ax.Graph):
    x = ax.placeholder(ax.float64, [2])
    _, variant = ax.while_loop(
        lambda i, variant: i < 5,
        lambda i, variant: (i + 1, apply_op("TensorListPushBack", variant, x * ax.cast(i, ax.float64), **OF)),
        [0, empty()],
    )

    def pop(variant: Tensor, total: Tensor) -> Any:
        rest, element = apply_tuple_op("TensorListPopBack", variant, [2], **OF)
        return rest, total * 0.5 + element

    _, total = ax.while_loop(
        lambda variant, total: apply_op("TensorListLength", variant) > 0,
        pop,
        [variant, ax.zeros([2], ax.float64)],
    )
    async with tier.session(graph) as session:
        results = [await session.run([stacked(variant), total], {x: [1.0, 2.0]}) for _ in range(3)]

    halved = 0.0
    for k in (4, 3, 2, 1, 0):
        halved = halved * 0.5 + k
    for whole, result in results:
        np.testing.assert_array_equal(whole, np.outer(np.arange(5.0), [1.0, 2.0]))
        np.testing.assert_array_equal(result, [halved, 2 * halved])


def test_the_shape_of_elements_is_followed_through_nodes_that_hand_lists_on(x: Tensor):
    variant = ax.cond(ax.constant(True), lambda: rows(x), lambda: empty())

    assert stacked(variant).shape.as_list() == [None, 2]
    assert apply_op("TensorListGetItem", variant, 0, -1, **OF).shape.as_list() == [2]
    assert apply_op("TensorListElementShape", variant, shape_type=ax.int32).shape.as_list() == [1]
    with pytest.raises(GraphValueError, match="not compatible"):
        apply_op("TensorListPushBack", variant, np.zeros(3))


async def test_errors_name_the_node(tier: Tier, graph: ax.Graph):
    last = apply_tuple_op("TensorListPopBack", empty(), -1, name="last", **OF)[1]
    async with tier.session(graph) as session:
        with pytest.raises(InvalidArgumentError, match=r"'last' .* Trying to pop from an empty list"):
            await session.run(last)


@pytest.mark.slow
async def test_ten_thousand_elements_are_set_one_by_one(tier: Tier, graph: ax.Graph):
    n = 10_000
    made = apply_op("TensorListReserve", np.zeros(0, np.int32), n, element_dtype=ax.int32)
    _, variant = ax.while_loop(
        lambda i, variant: i < n,
        lambda i, variant: (i + 1, apply_op("TensorListSetItem", variant, i, i * 2)),
        [0, made],
    )
    whole = apply_op("TensorListStack", variant, np.zeros(0, np.int32), element_dtype=ax.int32)
    async with tier.session(graph) as session:
        np.testing.assert_array_equal(await session.run(whole), np.arange(n) * 2)


REFUSED: dict[str, Callable[[Tensor], Tensor]] = {
    "expected a list with 2 elements": lambda x: apply_op(
        "TensorListStack", rows(x), -1, element_dtype=ax.float64, num_elements=2
    ),
    "op elements float32 but list elements float64": lambda x: apply_op(
        "TensorListGetItem", rows(x), 0, -1, element_dtype=ax.float32
    ),
    r"list shape: \[3\]": lambda x: stacked(
        apply_op(
            "TensorListSetItem",
            apply_op("TensorListReserve", [3], 2, **OF),
            0,
            ax.placeholder_with_default(np.zeros(2), None),
        )
    ),
    "TensorArray dtype is float64 but Op requested dtype float32": lambda x: apply_op(
        "TensorArrayReadV3", *_an_array(x), dtype=ax.float32
    ),
    "has already been closed": lambda x: _closed(*_an_array(x)),
}


def _an_array(x: Tensor) -> tuple[Tensor, int, Tensor]:
    made = ax.TensorArray(ax.float64, 3).unstack(x)
    return made.handle, 0, made.flow


def _closed(handle: Tensor, index: int, flow: Tensor) -> Tensor:
    with handle.graph.control_dependencies([apply_no_output_op("TensorArrayCloseV3", handle), flow]):
        return apply_op("TensorArraySizeV3", handle, flow)


@pytest.mark.parametrize("message", REFUSED)
async def test_what_lists_refuse_is_refused_on_every_tier(
    message: str, tier: Tier, graph: ax.Graph, x: Tensor
):
    y = REFUSED[message](x)
    async with tier.session(graph) as session:
        with pytest.raises(InvalidArgumentError, match=message):
            await session.run(y, {x: X})
