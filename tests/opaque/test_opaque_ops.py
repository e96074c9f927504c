"""The op tables, run on an opaque device: the same outputs and the same variables as with the kernels of the processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec import dtypes as dt
from aioexec.errors import OpError
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel_registry import find_kernel
from aioexec.graph.node import Tensor
from aioexec.resources.variable import Variable
from aioexec.testing.opaque_device import DEVICE_TYPE, OpaqueDeviceFactory
from tests.ops.harness import (
    Case,
    Ref,
    Setting,
    attrs_of,
    compare,
    dtypes_of,
    run_reference,
    setting,
    tables,
    tensor_dtype,
)
from tests.tiers import session_on


def op_types() -> list[str]:
    return sorted({case.op_type for case in tables()})


def node_of(graph: Graph, case: Case, found: Setting) -> tuple[Any, list[Any], dict[Any, Any], list[Any]]:
    """The case as a node on the device: the node, the initialisers of its variables, its feeds, and reads of the variables."""
    tensors, initialisers, feeds, reads = [], [], {}, []
    for k, value in enumerate(found.values):
        array = value.value if isinstance(value, Ref) else value
        dtype = tensor_dtype(array)
        fed = graph.create_op("Placeholder", (), attrs={"dtype": dtype, "shape": array.shape}).outputs[0]
        feeds[fed] = array
        if not isinstance(value, Ref):
            tensors.append(fed)
            continue
        is_reference = found.op.inputs[k].dtype.is_ref
        kind = "VariableV2" if is_reference else "VarHandleOp"
        variable = graph.create_op(kind, (), attrs={"dtype": dtype, "shape": array.shape}).outputs[0]
        assign = "Assign" if is_reference else "AssignVariableOp"
        initialisers.append(graph.create_op(assign, [variable, fed]))
        read = graph.create_op(
            "Identity" if is_reference else "ReadVariableOp",
            [variable],
            attrs={} if is_reference else {"dtype": dtype},
        )
        reads.append(read.outputs[0])
        tensors.append(variable)
    with graph.device(f"/device:{DEVICE_TYPE}:0"):
        node = graph.create_op(case.op_type, tensors, name="node", attrs=attrs_of(case))
    return node, initialisers, feeds, reads


@pytest.mark.slow
@pytest.mark.parametrize("op_type", op_types())
async def test_ops_of_the_tables(opaque: OpaqueDeviceFactory, op_type: str):
    """Every case in the first of its dtypes."""
    await check_all(op_type, 1)


@pytest.mark.sweep
@pytest.mark.parametrize("op_type", op_types())
async def test_ops_of_the_tables_in_all_dtypes(opaque: OpaqueDeviceFactory, op_type: str):
    await check_all(op_type, None)


async def check_all(op_type: str, dtypes: int | None) -> None:
    for case in tables():
        if case.op_type == op_type:
            for name in dtypes_of(case)[:dtypes]:
                found = setting(case, name)
                if has_kernel(found):
                    await check(case, found)


def has_kernel(found: Setting) -> bool:
    try:
        find_kernel(found.case.op_type, DEVICE_TYPE, found.op.attrs, runs_cpu_kernels=False)
    except OpError:
        return False
    return True


def test_most_ops_run_on_the_device(opaque: OpaqueDeviceFactory):
    found = {case.op_type for case in tables() if has_kernel(setting(case, dtypes_of(case)[0]))}
    assert len(found) > 0.8 * len(op_types())


async def check(case: Case, found: Setting) -> None:
    values = found.fresh_values()
    try:
        outputs = run_reference(found, values)
    except Exception:
        with pytest.raises(OpError):
            await run(case, found)
        return
    wanted = [value for value, tensor in zip(outputs, found.op.outputs, strict=True) if is_value(tensor)]
    wanted += [value.buffer for value in values if isinstance(value, Variable)]
    for one, other in zip(await run(case, found), wanted, strict=True):
        if other is not None:
            assert_same(one, np.asarray(other), found)


async def run(case: Case, found: Setting) -> list[Any]:
    """The outputs, and what the variables hold afterwards."""
    with Graph().as_default() as graph:
        node, initialisers, feeds, reads = node_of(graph, case, found)
    async with session_on(graph, "off") as session:
        await session.run(initialisers, feeds)
        outputs, _ = await session.run([[tensor for tensor in node.outputs if is_value(tensor)], node], feeds)
        if case.op_type in ("DestroyResourceOp", "VarHandleOp", "VariableV2", "Variable"):
            return [*outputs, *(None for _ in reads)]
        return [*outputs, *await session.run(reads)]


def is_value(tensor: Tensor) -> bool:
    return not tensor.dtype.is_ref and tensor.dtype is not dt.resource


BY_BLAS = frozenset({"MatMul", "_Attention"})
"""Ops whose rounding depends on how their operands are aligned in memory."""


def assert_same(one: Any, other: Any, found: Setting) -> None:
    """The same bits, since the same kernel computed them."""
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    if found.case.op_type in BY_BLAS:
        compare(one, other, found.tolerance(one.dtype))
    else:
        assert np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()
