"""Kernels that iterate over the elements of a list, an array or a table run on workers if there are many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import aioexec  # noqa: F401  (states the work of kernels)
from aioexec import dtypes
from aioexec.graph.graph import Graph
from aioexec.planning.workload import takes_long
from aioexec.resources.dense_table import DenseHashTable
from aioexec.resources.tables import MutableHashTable
from aioexec.resources.tensor_array import TensorArray
from aioexec.resources.tensor_list import TensorList, boxed, list_of
from tests.ops.sources import placeholder

FLOW = np.float32(0)
MANY, FEW = 1000, 4


def numbers(count: int) -> Any:
    return np.arange(count, dtype=np.int64)


def places(count: int) -> Any:
    return np.arange(count, dtype=np.int32)


def a_list(count: int, bytes_each: int = 8) -> Any:
    rows = np.zeros((count, bytes_each), np.uint8)
    return boxed(list_of(dtypes.uint8, (bytes_each,), list(rows)))


def an_array(count: int) -> Any:
    array = TensorArray("a", dtypes.uint8, count)
    array.unpack(np.zeros(count, np.uint8))
    return boxed(array)


def a_table(count: int) -> Any:
    table = MutableHashTable("t", dtypes.int64, dtypes.uint8)
    table.insert(numbers(count), np.zeros(count, np.uint8))
    return boxed(table)


def a_dense_table(count: int, buckets: int = 8192) -> Any:
    table = DenseHashTable(
        "t", dtypes.int64, dtypes.uint8, empty_key=np.array(-1), deleted_key=np.array(-2), buckets=buckets
    )
    table.insert(numbers(count), np.zeros(count, np.uint8))
    return boxed(table)


def bytes_of(count: int) -> Any:
    return np.zeros(count, np.uint8)


ANY, EMPTY = np.int32(-1), np.zeros(0, np.int64)
OF = {"element_dtype": dtypes.uint8}
KEYS = {"Tkeys": dtypes.int64, "Tvalues": dtypes.uint8}
VALUE = {"dtype": dtypes.uint8}

CALLS: dict[str, Any] = {
    "TensorListStack": lambda n: ([a_list(n), ANY], OF),
    "TensorListGather": lambda n: ([a_list(10), places(n) % 10, ANY], OF),
    "TensorListConcatV2": lambda n: ([a_list(n), ANY, EMPTY], OF),
    "TensorListConcatLists": lambda n: ([a_list(1), a_list(n)], OF),
    "TensorListFromTensor": lambda n: ([bytes_of(n), ANY], {}),
    "TensorListScatterV2": lambda n: ([bytes_of(n), places(n), ANY, ANY], {}),
    "AddN": lambda n: ([a_list(n), a_list(n)], {"N": 2}),
    "ZerosLike": lambda n: ([a_list(n)], {}),
    "TensorArrayScatterV3": lambda n: ([an_array(0), places(n), bytes_of(n), FLOW], {}),
    "TensorArrayGatherV3": lambda n: ([an_array(n), places(n), FLOW], VALUE),
    "TensorArrayConcatV3": lambda n: ([an_array(n), FLOW], VALUE),
    "TensorArraySplitV3": lambda n: ([an_array(0), bytes_of(n), np.ones(n, np.int64), FLOW], {}),
    "LookupTableExportV2": lambda n: ([a_table(n)], KEYS),
    "LookupTableInsertV2": lambda n: ([a_table(0), numbers(n), bytes_of(n)], {}),
    "LookupTableRemoveV2": lambda n: ([a_dense_table(n), numbers(n)], {}),
    "AddManySparseToTensorsMap": lambda n: ([EMPTY.reshape(0, 2), EMPTY, np.array([n, 1])], {}),
    "TakeManySparseFromTensorsMap": lambda n: ([numbers(n)], VALUE),
}


def runs_on_a_worker(op_type: str, inputs: list[Any], attrs: dict[str, Any]) -> bool:
    with Graph().as_default() as graph:
        op = graph.create_op(op_type, [placeholder(_dtype(each)) for each in inputs], attrs=attrs)
    instruction: Any = SimpleNamespace(node=SimpleNamespace(op=op, row=op.row), sizes={}, structure=None)
    return takes_long(instruction, inputs)


def _dtype(value: Any) -> str:
    if value.dtype != object:
        return str(value.dtype.name)
    return "variant" if isinstance(value.item(), TensorList) else "resource"


@pytest.mark.parametrize("op_type", CALLS)
def test_what_goes_through_many_stored_elements_runs_on_a_worker(op_type: str):
    assert runs_on_a_worker(op_type, *CALLS[op_type](MANY))


@pytest.mark.parametrize("op_type", CALLS)
def test_what_goes_through_few_runs_on_the_loop(op_type: str):
    assert not runs_on_a_worker(op_type, *CALLS[op_type](FEW))


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs"),
    [
        ("TensorListGetItem", [a_list(MANY), np.int32(0), ANY], OF),
        ("TensorListSetItem", [a_list(MANY), np.int32(0), bytes_of(8)], {}),
        ("TensorListPushBack", [a_list(MANY), bytes_of(8)], {}),
        ("TensorArrayReadV3", [an_array(MANY), np.int32(0), FLOW], VALUE),
    ],
)
def test_what_takes_one_element_of_many_runs_on_the_loop(op_type: str, inputs: Any, attrs: Any):
    assert not runs_on_a_worker(op_type, inputs, attrs)


def test_few_large_elements_are_joined_on_a_worker():
    assert runs_on_a_worker("TensorListStack", [a_list(2, 1 << 17), ANY], OF)


def test_a_dense_table_is_exported_with_all_its_buckets():
    assert runs_on_a_worker("LookupTableExportV2", [a_dense_table(1)], KEYS)


def test_a_key_for_which_all_others_move_is_inserted_on_a_worker():
    table = a_dense_table(MANY, buckets=8)
    room = int(table.item().buckets * 0.8) - MANY

    assert not runs_on_a_worker("LookupTableInsertV2", [table, numbers(1), bytes_of(1)], {})
    table.item().insert(numbers(room) + MANY, bytes_of(room))
    assert runs_on_a_worker("LookupTableInsertV2", [table, numbers(1) - 5, bytes_of(1)], {})
