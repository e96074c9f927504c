"""Partitioned variables: partitioning, names, reuse, reads and writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.ops.state import initializers
from aioexec.ops.state.partitioned_variables import (
    PartitionedVariable,
    PartitionInfo,
    fixed_size_partitioner,
    min_max_variable_partitioner,
    variable_axis_size_partitioner,
)
from aioexec.ops.state.variable_scope import create_partitioned_variables, get_variable, variable_scope
from aioexec.train.optimizers.slots import create_zeros_slot

WHOLE = np.arange(10, dtype=np.float32).reshape(5, 2)


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def in_three(**more: Any) -> Any:
    return get_variable("v", [5, 2], partitioner=fixed_size_partitioner(3), **more)


def test_the_first_parts_are_larger_where_it_does_not_come_out_even():
    whole = in_three()

    assert isinstance(whole, PartitionedVariable)
    assert [part.name for part in whole] == ["v/part_0:0", "v/part_1:0", "v/part_2:0"]
    assert [part.shape.as_list() for part in whole] == [[2, 2], [2, 2], [1, 2]]
    assert [part.slice_info and part.slice_info.spec for part in whole] == [
        "5 2 0,2:0,2",
        "5 2 2,2:0,2",
        "5 2 4,1:0,2",
    ]
    assert whole.shape.as_list() == [5, 2]
    assert ax.global_variables() == list(whole)


async def test_it_is_read_as_one_tensor_and_written_part_by_part():
    whole = get_variable("v", initializer=WHOLE, partitioner=fixed_size_partitioner(3))
    tensor = ax.convert_to_tensor(whole)
    assigned = whole.assign(2 * WHOLE, read_value=False)
    added = whole.assign_add(whole)

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        await session.run(assigned)
        doubled = await session.run(tensor)
        await session.run(added)

        np.testing.assert_array_equal(doubled, 2 * WHOLE)
        np.testing.assert_array_equal(await session.run(tensor), 4 * WHOLE)
    assert tensor.name == "v:0"


@pytest.mark.parametrize("use_resource", [False, True])
async def test_an_initial_value_is_divided_like_the_variable(use_resource):
    with variable_scope("s", use_resource=use_resource):
        whole = get_variable("v", initializer=WHOLE, partitioner=fixed_size_partitioner(2, axis=1))

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        parts = await session.run(list(whole))

    np.testing.assert_array_equal(parts, [WHOLE[:, :1], WHOLE[:, 1:]])
    assert whole.name == "s/v"


async def test_gradients_reach_the_parts():
    whole = in_three(use_resource=True)
    gradients = ax.gradients(ax.reduce_sum(whole * WHOLE), list(whole))

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        found = await session.run(gradients)

    np.testing.assert_array_equal(np.concatenate(found), WHOLE)


def test_the_partitioner_of_a_scope_is_inherited_but_not_by_scalars():
    with variable_scope("s", partitioner=fixed_size_partitioner(2)) as scope, variable_scope("inner"):
        divided, scalar = get_variable("v", [4]), get_variable("step", [])

    assert [part.op.name for part in divided] == ["s/inner/v/part_0", "s/inner/v/part_1"]
    assert scalar.op.name == "s/inner/step"
    assert scope.partitioner is not None


def test_it_is_found_again_with_or_without_its_partitioner():
    whole = in_three()

    with variable_scope("", reuse=True):
        assert in_three() is whole
        assert get_variable("v", [5, 2]) is whole
        with pytest.raises(GraphValueError, match="specified partitions"):
            get_variable("v", [5, 2], partitioner=fixed_size_partitioner(2))
        with pytest.raises(GraphValueError, match="specified shape"):
            get_variable("v", [6, 2])
        with pytest.raises(GraphValueError, match="does not exist"):
            get_variable("w", [6, 2], partitioner=fixed_size_partitioner(2))
    with pytest.raises(GraphValueError, match="already exists"):
        in_three()


def test_whole_and_divided_variables_do_not_share_a_name():
    in_three()
    get_variable("w", [4])

    with pytest.raises(GraphValueError, match="No partitioner was provided"):
        get_variable("v", [5, 2])
    with pytest.raises(GraphValueError, match="unpartitioned version"):
        get_variable("w", [4], partitioner=fixed_size_partitioner(2))


@pytest.mark.parametrize("partitions", [[1], [0, 1], [2, 2], "11"])
def test_partitions_must_make_sense(partitions):
    with pytest.raises(GraphValueError, match=r"Partitioner must return|one dimension"):
        get_variable("v", [4, 4], partitioner=lambda **ignored: partitions)


def test_sizes_decide_how_many_parts():
    shape = ax.TensorShape([10, 4])

    by_size = variable_axis_size_partitioner(64)
    limited = variable_axis_size_partitioner(64, max_shards=2)
    at_least = min_max_variable_partitioner(max_partitions=5, min_slice_size=50)

    assert by_size(shape=shape, dtype=ax.float32) == [3, 1]
    assert limited(shape=shape, dtype=ax.float32) == [2, 1]
    assert by_size(shape=shape, dtype=ax.string) == [10, 1]
    assert at_least(shape=shape, dtype=ax.float32) == [4, 1]
    assert at_least(shape=shape, dtype=ax.float64) == [5, 1]
    with pytest.raises(GraphValueError, match="must be positive"):
        variable_axis_size_partitioner(0)
    with pytest.raises(GraphValueError, match="along axis 2"):
        min_max_variable_partitioner(axis=2)(shape=shape, dtype=ax.float32)


def test_the_old_way_gives_the_parts():
    parts = create_partitioned_variables([4, 6], [1, 3], initializers.Zeros(), name="p")

    assert [part.name for part in parts] == ["p/part_0:0", "p/part_1:0", "p/part_2:0"]
    with pytest.raises(GraphValueError, match="same length"):
        create_partitioned_variables([4, 6], [1], initializers.Zeros())


def test_initializers_are_told_which_part_they_make():
    seen = []

    def initializer(shape: Any, dtype: Any, partition_info: Any) -> Any:
        seen.append(partition_info)
        return ax.zeros(shape, dtype)

    in_three(initializer=initializer)

    assert seen == [PartitionInfo([5, 2], [offset, 0]) for offset in (0, 2, 4)]
    assert [
        info.single_offset(shape) for info, shape in zip(seen, ([2, 2], [2, 2], [1, 2]), strict=True)
    ] == [0, 2, 4]
    with pytest.raises(GraphValueError, match="one sliced dimension"):
        seen[0].single_slice_dim([1, 1])


def test_a_slot_of_a_part_is_a_part_of_a_slot():
    part = in_three()._get_variable_list()[1]

    slot = create_zeros_slot(part, "Momentum")

    assert slot.op.name == "v/part_1/Momentum"
    assert slot.slice_info.full_name == "v/Momentum"
    assert slot.slice_info.spec == part.slice_info.spec


def test_it_has_no_node_of_its_own():
    whole = in_three()

    with pytest.raises(GraphTypeError, match="its parts have"):
        _ = whole.op
    with pytest.raises(GraphValueError, match="3 parts, got 1"):
        whole.assign([WHOLE])
    assert len(whole) == 3
