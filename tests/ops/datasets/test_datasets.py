"""Datasets and iterators in sessions: elements by step, functions of elements, cancellation, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, OutOfRangeError
from aioexec.graph.apply import apply_any_op, apply_list_op, apply_no_output_op, apply_op
from aioexec.graph.func_graph import FuncGraph
from aioexec.graph.graph import get_default_graph
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.ops.functions.defun import Defun
from tests.tiers import Tier, tier as tier


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


class Dataset:
    """A dataset under construction, of elements with one component."""

    def __init__(self, variant: ax.Tensor, dtype: ax.DType, shape: Any) -> None:
        self.variant = variant
        self.says = {"output_types": [dtype], "output_shapes": [shape]}

    def then(self, op_type: str, *inputs: Any, shape: Any = None, **attrs: Any) -> Dataset:
        dtype = self.says["output_types"][0]
        says = {"output_types": [dtype], "output_shapes": [shape]}
        return Dataset(apply_any_op(op_type, self.variant, *inputs, **says, **attrs), dtype, shape)

    def batch(self, size: Any) -> Dataset:
        return self.then("BatchDataset", np.int64(size))

    def repeat(self, count: int) -> Dataset:
        return self.then("RepeatDataset", np.int64(count))

    def map(self, function: Callable[[ax.Tensor], ax.Tensor], name: str = "f") -> Dataset:
        body = body_of(name, function, self.says["output_types"])
        captured = list(body.captures)
        return self.then(
            "MapDataset", captured, f=NameAttrList(name, {}), Targuments=[each.dtype for each in captured]
        )

    def iterator(self) -> tuple[ax.Operation, ax.Tensor]:
        """The initializer of an iterator, and the next element."""
        handle = apply_op("IteratorV2", shared_name="", container="", **self.says)
        return apply_no_output_op("MakeIterator", self.variant, handle), self.next(handle)

    def next(self, handle: ax.Tensor) -> ax.Tensor:
        return apply_list_op("IteratorGetNext", handle, **self.says)[0]


def body_of(name: str, function: Callable[..., Any], types: Sequence[ax.DType]) -> FuncGraph:
    outer = get_default_graph()
    body = FuncGraph(name, outer)
    with body.as_default():
        inputs = [body.add_input(dtype, name="element") for dtype in types]
        body.outputs = [body.capture(function(*inputs))]
    outer.add_function(body.as_function())
    return body


def slices(values: Any) -> Dataset:
    tensor = ax.convert_to_tensor(values)
    shape = tensor.shape[1:]
    variant = apply_op("TensorSliceDataset", [tensor], output_shapes=[shape])
    return Dataset(variant, tensor.dtype, shape)


async def rest(session: ax.Session, element: ax.Tensor) -> list[Any]:
    found = []
    with pytest.raises(OutOfRangeError, match="End of sequence"):
        while True:
            found.append((await session.run(element)).tolist())
    return found


async def test_elements_are_mapped_batched_and_repeated(tier: Tier, graph):
    more = ax.placeholder(ax.int32, [])
    dataset = slices(np.arange(3, dtype=np.int32)).map(lambda x: x * 2 + more).batch(2).repeat(2)
    initializer, element = dataset.iterator()

    async with tier.session(graph) as session:
        for value in (1, 10):
            await session.run(initializer, {more: value})
            once = [[value, 2 + value], [4 + value]]
            assert await rest(session, element) == once * 2


async def test_there_is_nothing_before_an_iterator_is_initialized_and_after_its_end():
    initializer, element = slices([1.0, 2.0]).iterator()

    async with ax.Session() as session:
        with pytest.raises(FailedPreconditionError, match="has not been initialized"):
            await session.run(element)
        await session.run(initializer)
        assert await rest(session, element) == [1.0, 2.0]
        assert await rest(session, element) == []
        await session.run(initializer)
        assert await rest(session, element) == [1.0, 2.0]


async def test_what_was_fed_may_change_and_what_was_got_may_too():
    fed = ax.placeholder(ax.float32, [2, 2])
    initializer, element = slices(fed).repeat(2).iterator()
    value = np.ones((2, 2), np.float32)

    async with ax.Session() as session:
        await session.run(initializer, {fed: value})
        value[:] = 7
        got = await session.run(element)
        got[:] = 9

        assert await rest(session, element) == [[1.0, 1.0]] * 3


async def test_functions_use_variables_and_are_random_anew_for_each_element():
    scale = ax.get_variable("scale", initializer=3.0, use_resource=True)
    initializer, scaled = slices([1.0, 2.0]).map(lambda x: x * scale.read_value(), "scaled").iterator()
    begin, chosen = slices(np.zeros(8, np.float32)).map(lambda x: x + ax.random_uniform([]), "r").iterator()

    async with ax.Session() as session:
        await session.run(scale.initializer)
        await session.run([initializer, begin])
        assert await rest(session, scaled) == [3.0, 6.0]
        assert len(set(await rest(session, chosen))) == 8


async def test_two_nodes_and_two_steps_share_the_elements():
    dataset = slices(np.arange(12, dtype=np.int32)).map(lambda x: x + 0)
    handle = apply_op("IteratorV2", shared_name="", container="", **dataset.says)
    initializer = apply_no_output_op("MakeIterator", dataset.variant, handle)
    pair = [dataset.next(handle), dataset.next(handle)]

    async with ax.Session() as session:
        await session.run(initializer)
        steps = await asyncio.gather(*(session.run(pair) for _ in range(6)))

        assert sorted(int(value) for step in steps for value in step) == list(range(12))


async def test_an_element_is_not_lost_with_the_step_that_waited_for_it():
    began, gate, calls = asyncio.Event(), asyncio.Event(), 0

    async def function(value: Any) -> Any:
        nonlocal calls
        calls += 1
        began.set()
        await gate.wait()
        return value

    def mapped(x: ax.Tensor) -> ax.Tensor:
        found = ax.py_func(function, [x], ax.int32)
        found.set_shape([])
        return found

    initializer, element = slices(np.arange(3, dtype=np.int32)).map(mapped).batch(2).iterator()

    async with ax.Session() as session:
        await session.run(initializer)
        step = asyncio.create_task(session.run(element))
        await began.wait()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        gate.set()

        assert await rest(session, element) == [[0, 1], [2]]
        assert calls == 3, "the first call went on"


async def test_an_element_whose_function_fails_fails_its_step_alone():
    def inverse(x: ax.Tensor) -> ax.Tensor:
        return 6 // x

    initializer, element = slices(np.array([0, 2, 3], np.int32)).map(inverse).iterator()

    async with ax.Session() as session:
        await session.run(initializer)
        with pytest.raises(InvalidArgumentError, match="division by zero"):
            await session.run(element)
        assert await rest(session, element) == [3, 2]


async def test_an_iterator_of_one_shot_makes_its_dataset_once(graph):
    says = {"output_types": [ax.int32], "output_shapes": [[]]}
    body = FuncGraph("factory", graph)
    with body.as_default():
        body.outputs = [slices(np.arange(4, dtype=np.int32)).map(lambda x: x * x, "squared").variant]
    graph.add_function(body.as_function())
    handle = apply_op("OneShotIterator", dataset_factory=NameAttrList("factory", {}), **says)
    element = apply_list_op("IteratorGetNext", handle, **says)[0]

    async with ax.Session() as session:
        assert await rest(session, element) == [0, 1, 4, 9]
        assert await rest(session, element) == []
    async with ax.Session() as session:
        assert await session.run(element) == 0


async def test_an_iterator_is_found_by_its_string_handle():
    dataset = slices([1.0, 2.0])
    handle = apply_op("IteratorV2", shared_name="it", container="c", **dataset.says)
    initializer = apply_no_output_op("MakeIterator", dataset.variant, handle)
    name = apply_op("IteratorToStringHandle", handle)
    given = ax.placeholder(ax.string, [])
    found = dataset.next(apply_op("IteratorFromStringHandle", given, **dataset.says))
    other = apply_op("IteratorFromStringHandle", given, output_types=[ax.int32], output_shapes=[[]])

    async with ax.Session() as session:
        await session.run(initializer)
        text = await session.run(name)
        assert await session.run(found, {given: text}) == 1.0
        with pytest.raises(InvalidArgumentError, match="Data type mismatch"):
            await session.run(other.op, {given: text})
        with pytest.raises(NotFoundError):
            await session.run(found, {given: "c;nobody"})
        with pytest.raises(InvalidArgumentError, match="Could not parse string_handle"):
            await session.run(found, {given: "?"})


async def test_what_makes_no_sense_is_refused():
    size = ax.placeholder(ax.int64, [])
    numbers = slices([1.0, 2.0])
    batches, _ = numbers.then("BatchDataset", size).iterator()
    not_a_dataset = apply_op("OptionalNone")
    mistaken, _ = Dataset(not_a_dataset, ax.float32, []).iterator()
    narrow = Dataset(numbers.variant, ax.float32, [3]).iterator()[0]
    wrong = Dataset(slices([1]).variant, ax.float32, []).iterator()[0]

    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match="Batch size must be greater than zero"):
            await session.run(batches, {size: 0})
        with pytest.raises(InvalidArgumentError, match="holding a dataset"):
            await session.run(mistaken)
        with pytest.raises(InvalidArgumentError, match="Incompatible shapes at component 0"):
            await session.run(narrow)
        with pytest.raises(InvalidArgumentError, match="Data type mismatch at component 0"):
            await session.run(wrong)
    with pytest.raises(ValueError, match="same length"):
        handle = apply_op("IteratorV2", shared_name="", container="", **numbers.says)
        apply_list_op("IteratorGetNext", handle, output_types=[ax.float32], output_shapes=[[], []])


async def test_a_pipeline_in_a_function_that_is_called(graph):
    @Defun(ax.int32)
    def first(n: ax.Tensor) -> ax.Tensor:
        dataset = slices(np.arange(6, dtype=np.int32)).map(lambda x: x + n).batch(4)
        handle = apply_op("IteratorV2", shared_name="", container="", **dataset.says)
        with ax.control_dependencies([apply_no_output_op("MakeIterator", dataset.variant, handle)]):
            return ax.identity(dataset.next(handle))

    element = first(ax.constant(5))

    async with ax.Session() as session:
        assert (await session.run(element)).tolist() == [5, 6, 7, 8]


async def test_a_dataset_that_needs_its_own_elements_is_refused(graph):
    says = {"output_types": [ax.int32], "output_shapes": [[None]]}
    itself = NameAttrList("factory", {})
    body = FuncGraph("factory", graph)
    with body.as_default():
        handle = apply_op("OneShotIterator", dataset_factory=itself, **says)
        body.outputs = [slices(apply_list_op("IteratorGetNext", handle, **says)[0]).variant]
    graph.add_function(body.as_function())
    outside = apply_op("OneShotIterator", dataset_factory=itself, **says)

    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match="'factory' calls itself"):
            await session.run(outside.op)
