"""Variables as protos: the VariableDef of each kind, and variables made from existing nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec
from aioexec.formats.protos import SaveSliceInfoDef, VariableDef
from aioexec.graph.scope_names import is_in_scope, prepend_name_scope, strip_name_scope
from tests.tiers import graph


def described(variable: Any, **expected: Any) -> None:
    """A variable has this message, and the variable of the message has it too."""
    message = variable.to_proto()

    assert message == VariableDef(**expected)
    again = aioexec.Variable.from_proto(message)
    assert type(again) is type(variable)
    assert again.to_proto() == message
    assert (again.name, again.dtype, again.shape) == (variable.name, variable.dtype, variable.shape)


def test_a_variable_by_reference_is_named_by_its_nodes():
    with graph():
        described(
            aioexec.Variable(1.0, name="v"),
            variable_name="v:0",
            initial_value_name="v/initial_value:0",
            initializer_name="v/Assign",
            snapshot_name="v/read:0",
            trainable=True,
        )


def test_a_resource_is_named_by_its_handle():
    with graph():
        described(
            aioexec.Variable(1.0, name="v", use_resource=True, trainable=False),
            variable_name="v:0",
            initial_value_name="v/Initializer/initial_value:0",
            initializer_name="v/Assign",
            snapshot_name="v/Read/ReadVariableOp:0",
            is_resource=True,
        )


def test_a_cached_resource_is_named_by_the_copy():
    with graph():
        cached = aioexec.Variable(1.0, name="v", use_resource=True, caching_device="/cpu:0")
        again = aioexec.Variable.from_proto(cached.to_proto())

    assert cached.to_proto().snapshot_name == "v/Identity:0"
    assert again.value() is cached.value()


def test_a_part_says_what_it_is_a_part_of():
    with graph():
        partitioner = aioexec.fixed_size_partitioner(2)
        _, part = aioexec.get_variable("w", shape=[4, 3], partitioner=partitioner)
        message = part.to_proto()
        again = aioexec.Variable.from_proto(message)

    assert message.save_slice_info_def == SaveSliceInfoDef(
        full_name="w", full_shape=[4, 3], var_offset=[2, 0], var_shape=[2, 3]
    )
    assert again._get_save_slice_info() == part._get_save_slice_info()


@pytest.mark.parametrize("use_resource", [False, True])
def test_how_copies_are_kept_alike_is_kept(use_resource: bool):
    with graph():
        variable = aioexec.get_variable(
            "v",
            initializer=1.0,
            use_resource=use_resource,
            synchronization=aioexec.VariableSynchronization.ON_READ,
            aggregation=aioexec.VariableAggregation.MEAN,
        )
        message = variable.to_proto()
        again = aioexec.Variable.from_proto(message)

    assert (message.synchronization, message.aggregation, message.trainable) == (3, 2, False)
    assert again.synchronization is aioexec.VariableSynchronization.ON_READ
    assert again.aggregation is aioexec.VariableAggregation.MEAN
    with graph(), pytest.raises(ValueError, match="Invalid variable aggregation mode: 9 for variable: v"):
        aioexec.Variable(1.0, name="v", aggregation=9)


def test_scopes_come_off_names_and_go_before_them():
    with graph() as g, aioexec.name_scope("a"):
        variable = aioexec.Variable(1.0, name="v")
        message = variable.to_proto("a")

        assert variable.to_proto("b") is None
        assert message == VariableDef(
            variable_name="v:0",
            initial_value_name="v/initial_value:0",
            initializer_name="v/Assign",
            snapshot_name="v/read:0",
            trainable=True,
        )
        assert aioexec.Variable.from_proto(message, import_scope="a").op is variable.op
        assert g.get_collection("variables") == [variable]


async def test_a_variable_without_initial_value_or_read_is_still_one():
    with graph() as g:
        made = aioexec.Variable([1.0, 2.0], name="v", use_resource=True)
        message = VariableDef(variable_name="v:0", initializer_name="v/Assign", is_resource=True)
        again = aioexec.Variable.from_proto(message)
        async with aioexec.Session(graph=g) as session:
            await session.run(again.initializer)
            found = await session.run([made, again, again.is_initialized()])

    assert again.initial_value is None
    np.testing.assert_array_equal(found[0], found[1])
    with pytest.raises(ValueError, match="without its initial value"):
        again.initialized_value()


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"variable_name": "nothing:0"}, KeyError),
        ({"variable_name": "v:0", "is_resource": True}, ValueError),
        ({"variable_name": "r:0"}, ValueError),
        ({"variable_name": "v:0", "initializer_name": "nothing"}, KeyError),
        ({"variable_name": "v:0", "initializer_name": "v/Assign", "aggregation": 7}, ValueError),
    ],
)
def test_a_message_that_fits_no_variable_is_refused(fields: dict[str, Any], error: type[Exception]):
    with graph():
        aioexec.Variable(1.0, name="v")
        aioexec.Variable(1.0, name="r", use_resource=True)

        with pytest.raises(error):
            aioexec.Variable.from_proto(VariableDef(**fields))


@pytest.mark.parametrize(
    ("name", "scope", "stripped", "is_in"),
    [
        ("a/b", "a", "b", True),
        ("a/b:0", "a/", "b:0", True),
        ("^a/b/c", "a/b", "^c", True),
        ("loc:@a/b", "a", "loc:@b", True),
        ("a//b", "a", "b", True),
        ("a_1/b", "a", "a_1/b", False),
        ("b/a", "a", "b/a", False),
        ("a", "a", "a", True),
        ("a/b", None, "a/b", True),
    ],
)
def test_a_scope_is_taken_off_what_is_in_it(name: str, scope: str | None, stripped: str, is_in: bool):
    assert strip_name_scope(name, scope) == stripped
    assert is_in_scope(name, scope) is is_in


def test_a_scope_is_put_before_names():
    assert prepend_name_scope("b:0", "a") == "a/b:0"
    assert prepend_name_scope("^b", "a/") == "^a/b"
    assert prepend_name_scope("loc:@b", "a") == "loc:@a/b"
    assert prepend_name_scope(b"b", "a") == "a/b"
    assert prepend_name_scope(b"\xff", "a") == b"\xff"
    assert prepend_name_scope(3, "a") == 3
    assert prepend_name_scope("b", None) == "b"
