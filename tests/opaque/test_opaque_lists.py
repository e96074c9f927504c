"""Stacks, TensorArrays and TensorLists on an opaque device: their elements stay in its memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.testing.opaque_device import OpaqueDeviceFactory
from tests.opaque.test_opaque_loops import Counts, X, on_processor
from tests.tiers import graph, op, session_on


@pytest.fixture(autouse=True)
def programs(opaque: OpaqueDeviceFactory) -> OpaqueDeviceFactory:
    """Devices with programs."""
    opaque.has_programs = True
    return opaque


def gradient(x: Any) -> Any:
    """The gradient of a loop, which keeps a value of each iteration."""
    y = ax.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, ax.tanh(y) * x), [0, x])[1]
    return ax.gradients(y, x)[0]


def scanned(x: Any) -> Any:
    return ax.scan(lambda total, each: total * 0.5 + ax.sin(each), -x, initializer=ax.constant(1.0))


def mapped(x: Any) -> Any:
    """A gradient through a TensorArray."""
    return ax.gradients(ax.map_fn(lambda each: ax.sin(each) * each, -x), x)[0]


def read_often(x: Any) -> Any:
    """The gradient of an element that is read in each iteration is a sum."""
    array = ax.TensorArray(ax.float32, 3, clear_after_read=False).unstack(-x)
    y = ax.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 0.5 + ax.sin(array.read(1) + y)), [0, 0.5])
    return ax.gradients(y[1], x)[0]


def sparse(x: Any) -> Any:
    """An array of which one element was not written."""
    array = ax.TensorArray(ax.float32, 3, element_shape=[3])
    return array.write(2, ax.sin(x)).write(0, x).stack()


def pushed(x: Any) -> Any:
    """A stack of TensorFlow's graphs, popped in the reverse order."""
    stack = op("StackV2", 10, elem_type=ax.float32)
    with x.graph.control_dependencies([op("StackPushV2", stack, ax.sin(x))]):
        second = op("StackPushV2", stack, ax.negative(x))
    with x.graph.control_dependencies([second]):
        third = op("StackPopV2", stack, elem_type=ax.float32)
    with x.graph.control_dependencies([third]):
        return op("Sub", third, op("StackPopV2", stack, elem_type=ax.float32))


def listed(x: Any) -> Any:
    made = op("TensorListFromTensor", ax.sin(ax.stack([x, x * 2.0])), [3], element_dtype=ax.float32)
    longer = op("TensorListSetItem", made, 0, op("TensorListGetItem", made, 1, [3], element_dtype=ax.float32))
    return op("TensorListStack", op("TensorListPushBack", longer, x), [3], element_dtype=ax.float32)


def concatenated(x: Any) -> Any:
    """An op on the list that the device has no kernel for: the whole list is on the processor."""
    array = ax.TensorArray(ax.float32, 2, infer_shape=False).write(0, ax.negative(x)).write(1, x[:2])
    return array.concat()


CASES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "gradient": (gradient, 12),
    "scanned": (scanned, 6),
    "mapped": (mapped, 16),
    "read often": (read_often, 20),
    "sparse": (sparse, 2),
    "pushed": (pushed, 3),
    "listed": (listed, 5),
}
"""Functions of a vector, and at most how many pieces of work are in a step."""


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("seed", range(3))
async def test_elements_stay_on_the_device(
    programs: OpaqueDeviceFactory, kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
):
    programs.seed = seed
    function, most = CASES[kind]
    with graph() as g:
        x = ax.placeholder(ax.float32, [3])
        y = function(x)
    wanted = await on_processor(g, y, x)

    async with session_on(g, "eager") as session:
        await session.run(y, {x: X})
        (device,) = programs.made
        before = device.used
        counts = Counts(device, monkeypatch)
        found = await session.run(y, {x: X})
        assert device.used == before

    np.testing.assert_array_equal(found, wanted)
    assert counts.copies_out == 1  # the fetch
    assert counts.launches <= most


async def test_a_list_with_an_op_that_the_device_lacks_is_on_the_processor(programs: OpaqueDeviceFactory):
    with graph() as g:
        x = ax.placeholder(ax.float32, [3])
        y = concatenated(x)
    wanted = await on_processor(g, y, x)
    async with session_on(g, "eager") as session:
        np.testing.assert_array_equal(await session.run(y, {x: X}), wanted)


async def test_a_list_that_is_fetched_is_copied_to_the_host(programs: OpaqueDeviceFactory):
    with graph() as g:
        x = ax.placeholder(ax.float32, [3])
        made = op("EmptyTensorList", [3], 5, element_dtype=ax.float32)
        pushed = op("TensorListPushBack", op("TensorListPushBack", made, ax.negative(x)), x)
        empty = op("TensorListReserve", [3], 2, element_dtype=ax.float32)
    async with session_on(g, "eager") as session:
        for _ in range(2):
            found, unset = await session.run([pushed, empty], {x: X})
            np.testing.assert_array_equal(found.stacked([3]), [-X, X])
            assert unset.length == 2
        (device,) = programs.made
        before = device.used
        device.fails_at = device.launches + 1
        with pytest.raises(ax.errors.InternalError, match=r"Neg.*aborted"):
            await session.run(pushed, {x: X})
        assert device.used == before


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda array, x: array.write(3, x), "Tried to write to index 3"),
        (lambda array, x: array.write(0, x).write(0, x), "already been written to"),
        (lambda array, x: array.write(0, x[:2]), "incompatible"),
    ],
)
async def test_misuse_fails_as_on_the_processor(
    programs: OpaqueDeviceFactory, write: Callable[[Any, Any], Any], message: str
):
    with graph() as g:
        x = ax.placeholder(ax.float32, [None])
        array = ax.TensorArray(ax.float32, 2, element_shape=[3], infer_shape=False)
        y = write(array, ax.negative(x)).stack()
    async with session_on(g, "eager") as session:
        with pytest.raises(InvalidArgumentError, match=rf"TensorArrayWriteV3.*OPAQUE:0.*{message}"):
            await session.run(y, {x: X})
