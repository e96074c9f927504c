"""Nodes are made by the op's signature, or an error is raised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_any_op, apply_op
from tests.tiers import constant, feed, resource


@pytest.mark.behaviour(126)
@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("Add", [1.0], {}),
        ("Add", [1.0, 2.0, 3.0], {}),
        ("Neg", [], {}),
        ("NoOp", [1.0], {}),
        ("IdentityN", [1.0], {}),
        ("Add", ["float32", "int32"], {}),
        ("Add", ["float32", "float64"], {}),
        ("MatMul", ["bool", "bool"], {}),
        ("LogicalAnd", ["float32", "float32"], {}),
        ("AddN", [["float32", "int32"]], {}),
        ("Assign", ["float32", "float32"], {}),
        ("AssignVariableOp", ["float32", "float32"], {}),
    ],
)
def test_wrong_inputs_are_refused_where_the_node_is_made(graph: Any, op: str, inputs: Any, attrs: Any):
    def made(each: Any) -> Any:
        if isinstance(each, list):
            return [made(one) for one in each]
        return feed([], each) if isinstance(each, str) else each

    given = [made(each) for each in inputs]
    before = graph.version

    with pytest.raises(InvalidArgumentError) as raised:
        apply_any_op(op, *given, **attrs)

    assert op in str(raised.value)
    assert graph.version == before


@pytest.mark.behaviour(126)
def test_a_handle_is_no_value_and_a_value_no_handle(graph: Any):
    handle, value = resource([]), constant(1.0)

    with pytest.raises(InvalidArgumentError, match="Neg"):
        apply_op("Neg", handle)
    with pytest.raises(InvalidArgumentError, match="ReadVariableOp"):
        apply_op("ReadVariableOp", value, dtype=np.float32)


@pytest.mark.parametrize("shape", [(2**31, 2**31, 2), (2**62, 2, 0), (None, 2**62, 2)])
def test_a_shape_of_more_entries_than_can_be_counted_is_refused(graph: Any, shape: Any):
    for op, attrs in (
        ("VarHandleOp", {"shape": shape, "dtype": np.float32}),
        ("PaddingFIFOQueueV2", {"shapes": [shape], "component_types": [np.float32]}),
    ):
        with pytest.raises(InvalidArgumentError, match="2\\*\\*63 - 1 entries"):
            apply_op(op, **attrs)
