"""Variables of `ax.contrib.framework`: their collections, their selection, and assignment from values and checkpoints."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.keys import GraphKeys

framework = ax.contrib.framework


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def names(variables: Any) -> list[str]:
    return [variable.op.name for variable in variables]


def test_variables_are_in_their_collections():
    with ax.variable_scope("a"):
        framework.variable("plain", [2])
        framework.model_variable("weights", [3], collections=["mine"], trainable=False)
    framework.local_variable(0, name="local")
    framework.global_variable(1, name="global")

    assert names(ax.global_variables()) == ["a/plain", "a/weights", "global"]
    assert names(framework.get_model_variables()) == names(ax.get_collection("mine")) == ["a/weights"]
    assert names(framework.get_trainable_variables()) == ["a/plain"]
    assert names(framework.get_local_variables()) == ["local"]


def test_a_scope_of_arguments_places_variables():
    with framework.arg_scope([framework.variable], device="/cpu:1"):
        assert framework.variable("placed", [1]).device == "/device:CPU:1"
    with framework.arg_scope([framework.model_variable], device="/cpu:0"):
        assert framework.model_variable("model", [1]).device == "/device:CPU:0"


def test_a_custom_getter_creates_the_variable():
    def doubled(getter: Any, name: str, **options: Any) -> Any:
        return getter(name, **options) * 2.0

    assert framework.variable("x", [2], custom_getter=doubled_of(doubled)).op.type == "Mul"


def doubled_of(function: Any) -> Any:
    return lambda name, **options: function(ax.get_variable, name, **without_reuse(options))


def without_reuse(options: Any) -> Any:
    return {key: value for key, value in options.items() if key != "reuse"}


def test_a_variable_of_the_model_is_added_once():
    variable = ax.get_variable("x", [1])
    framework.add_model_variable(variable)
    framework.add_model_variable(variable)

    assert ax.get_collection(GraphKeys.MODEL_VARIABLES) == [variable]


def test_variables_are_chosen_by_scope_suffix_and_name():
    for scope in ("a", "b"):
        with ax.variable_scope(scope) as opened:
            ax.get_variable("weights", [1])
            ax.get_variable("biases", [1])

    assert names(framework.get_variables("a")) == ["a/weights", "a/biases"]
    assert names(framework.get_variables(opened)) == ["b/weights", "b/biases"]
    assert names(framework.get_variables_by_suffix("biases")) == ["a/biases", "b/biases"]
    assert names(framework.get_variables_by_suffix("biases", "b")) == ["b/biases"]
    assert names(framework.get_variables_by_name("weights")) == ["a/weights", "b/weights"]
    assert names(framework.get_variables_to_restore(exclude=["a/w"])) == ["a/biases", "b/weights", "b/biases"]
    assert names(framework.get_variables_to_restore(include=["b"], exclude=["b/w"])) == ["b/biases"]
    assert framework.get_unique_variable("a/biases").op.name == "a/biases"
    assert framework.get_variable_full_name(framework.get_unique_variable("a/biases")) == "a/biases"
    with pytest.raises(GraphValueError, match="Couldn't find"):
        framework.get_unique_variable("c")
    with pytest.raises(GraphValueError, match="uniquely"):
        framework.get_unique_variable("a")
    with pytest.raises(GraphTypeError, match="lists or tuples"):
        framework.get_variables_to_restore(include="a")


def test_variables_are_filtered_by_patterns():
    variables = [ax.get_variable(name, [1]) for name in ("a1", "b1", "b2")]

    assert names(framework.filter_variables(variables, ["1"], ["a"])) == ["b1"]
    assert names(framework.filter_variables(variables, exclude_patterns=["a"])) == ["b1", "b2"]
    assert names(framework.filter_variables(variables, ["1"], reg_search=False)) == []


async def test_values_are_assigned():
    x, y = ax.get_variable("x", [2, 2]), ax.get_variable("y", [])
    values = {"x": np.arange(4.0).reshape(1, 4), "y": np.array(7.0)}
    operation, feeds = framework.assign_from_values(values)
    assign = framework.assign_from_values_fn({"y": np.array(8.0)})

    async with ax.Session() as session:
        await session.run(operation, feeds)
        found = await session.run([x, y])
        await assign(session)
        assert await session.run(y) == 8.0
    np.testing.assert_array_equal(found[0], [[0, 1], [2, 3]])
    assert found[1] == 7.0


async def off_loop(function: Any, *args: Any, **options: Any) -> Any:
    """Call a function that reads files."""
    return await asyncio.to_thread(function, *args, **options)


async def saved(folder: Path) -> Any:
    """The path of a checkpoint with `a` [4] and `b` []."""
    with ax.Graph().as_default():
        ax.get_variable("a", initializer=np.arange(4, dtype=np.float32))
        ax.get_variable("b", initializer=np.float32(5))
        async with ax.Session() as session:
            await session.run(ax.global_variables_initializer())
            return await ax.train.Saver().save(session, folder / "model")


async def test_values_of_a_checkpoint_are_assigned(tmp_path):
    path = await saved(tmp_path)
    a, other = ax.get_variable("a", [2, 2]), ax.get_variable("other", [])
    operation, feeds = await off_loop(framework.assign_from_checkpoint, path, {"a": a, "b": other})
    restore = await off_loop(framework.assign_from_checkpoint_fn, path, [a], reshape_variables=True)

    async with ax.Session() as session:
        await session.run(operation, feeds)
        found = await session.run([a, other])
        await session.run(a.assign(np.zeros((2, 2))))
        await restore(session)
        np.testing.assert_array_equal(await session.run(a), found[0])
    np.testing.assert_array_equal(found[0], [[0, 1], [2, 3]])
    assert found[1] == 5.0
    assert await off_loop(framework.list_variables, path) == [("a", [4]), ("b", [])]


async def test_what_a_checkpoint_lacks_is_refused_or_left_out(tmp_path):
    path = await saved(tmp_path)
    b, c, wide = ax.get_variable("b", []), ax.get_variable("c", []), ax.get_variable("a", [5])

    with pytest.raises(GraphValueError, match="missing variable"):
        await off_loop(framework.assign_from_checkpoint, path, [b, c])
    with pytest.raises(GraphValueError, match="Total size"):
        await off_loop(framework.assign_from_checkpoint, path, [wide])
    _, feeds = await off_loop(framework.assign_from_checkpoint, path, [b, c], ignore_missing_vars=True)
    assert len(feeds) == 1
    restore = await off_loop(framework.assign_from_checkpoint_fn, path, [b, c], ignore_missing_vars=True)
    async with ax.Session() as session:
        await restore(session)
        assert await session.run(b) == 5.0
    assert (await off_loop(framework.assign_from_checkpoint_fn, path, [c], ignore_missing_vars=True)) is None
    with pytest.raises(GraphValueError, match="empty"):
        await off_loop(framework.assign_from_checkpoint_fn, path, [])


async def test_partitions_get_their_parts_of_a_checkpoint(tmp_path):
    path = await saved(tmp_path)
    whole = ax.get_variable("a", [4], partitioner=ax.fixed_size_partitioner(2))
    operation, feeds = await off_loop(framework.assign_from_checkpoint, path, [whole])

    async with ax.Session() as session:
        await session.run(operation, feeds)
        assert (await session.run(whole.as_tensor())).tolist() == [0, 1, 2, 3]


async def test_shapes_are_checked_now_or_in_a_run():
    x = ax.placeholder(ax.float32)
    known = framework.with_shape([2], x)
    like = framework.with_same_shape(ax.placeholder(ax.float32, name="like"), x)

    assert known.shape.as_list() == [2]
    with pytest.raises(GraphValueError, match="Invalid shape"):
        framework.with_shape([3], ax.zeros([2]))
    async with ax.Session() as session:
        assert (await session.run(known, {x: [1, 2]})).tolist() == [1, 2]
        assert (await session.run(like, {x: [1, 2], "like:0": [0, 0]})).tolist() == [1, 2]
        with pytest.raises(InvalidArgumentError, match="Wrong shape"):
            await session.run(known, {x: [1, 2, 3]})


async def test_tensors_are_added_and_checked():
    total = framework.reduce_sum_n([ax.constant([1.0, 2.0]), ax.constant(3.0)])

    async with ax.Session() as session:
        assert await session.run(total) == 6.0
    assert framework.assert_scalar_int(ax.constant(1)).dtype == ax.int32
    with pytest.raises(GraphValueError, match="integer"):
        framework.assert_scalar_int(ax.constant(1.0))
    with pytest.raises(GraphValueError, match="scalar"):
        framework.assert_scalar(ax.constant([1.0]))
    with pytest.raises(GraphValueError, match="No tensors"):
        framework.reduce_sum_n([])
    assert framework.is_tensor(total)
    assert not framework.is_tensor(np.zeros(2))


def test_a_graph_tells_its_scope_and_placeholders(graph):
    x = ax.placeholder(ax.float32)
    with ax.name_scope("outer"):
        assert framework.get_name_scope() == "outer"

    assert framework.get_placeholders(graph) == [x]
    assert framework.get_graph_from_inputs([x]) is graph
    with pytest.raises(GraphTypeError):
        framework.get_placeholders("graph")  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="passed-in graph"):
        framework.get_graph_from_inputs([x], ax.Graph())


def test_the_global_step_is_found_or_checked():
    assert framework.assert_or_get_global_step() is None
    step = framework.get_or_create_global_step()

    assert framework.assert_or_get_global_step() is step
    assert framework.assert_or_get_global_step(global_step_tensor=step) is step
    with pytest.raises(GraphTypeError):
        framework.assert_or_get_global_step(global_step_tensor=ax.constant(1.0))
