"""Tables of `ax.contrib.lookup`, and names of other small modules of contrib."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError

lookup = ax.contrib.lookup


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


async def test_strings_have_indices_and_indices_strings(tmp_path: Path):
    (tmp_path / "words").write_text("a\nb\n", "utf-8")
    made = [
        lookup.index_table_from_tensor(["a", "b"]).lookup(ax.constant(["b", "c"])),
        lookup.string_to_index_table_from_tensor(["a", "b"], default_value=9).lookup(ax.constant(["c"])),
        lookup.string_to_index_table_from_file(str(tmp_path / "words")).lookup(ax.constant(["b"])),
        lookup.string_to_index(ax.constant(["a"]), ["b", "a"]),
        lookup.index_to_string_table_from_tensor(["a", "b"]).lookup(ax.constant([1, 5], ax.int64)),
        lookup.index_to_string(ax.constant([0], ax.int64), ["x"], "none"),
    ]

    async with ax.Session() as session:
        await session.run(ax.tables_initializer())
        found = [value.tolist() for value in await session.run(made)]
    assert found == [[1, -1], [9], [1], [1], [b"b", b"UNK"], [b"x"]]
    for make in (lookup.index_table_from_tensor, lookup.index_to_string_table_from_tensor):
        with pytest.raises(GraphValueError, match="mapping must be"):
            make(None)
    with pytest.raises(GraphValueError, match="requires string"):
        lookup.string_to_index_table_from_tensor([1])


def test_values_become_protos_and_back():
    util: Any = ax.contrib.util
    proto = util.make_tensor_proto([[1.0, 2.0]])

    np.testing.assert_array_equal(util.make_ndarray(proto), [[1, 2]])
    assert util.constant_value(ax.constant(3)) == 3


def test_names_stand_where_programs_import_them():
    layers, framework = ax.contrib.layers, ax.contrib.framework

    assert layers.python.layers.batch_norm is layers.batch_norm
    assert layers.python.layers.initializers.xavier_initializer is layers.xavier_initializer
    assert importlib.import_module("aioexec.contrib.framework.python.ops").arg_scope is framework.arg_scope
    assert framework.python.ops.variables.model_variable is framework.model_variable
    assert framework.nest.map_structure is ax.nest.map_structure
    assert framework.nest.is_sequence([1])
    assert ax.contrib.slim.utils is layers.utils
    assert ax.contrib.staging.StagingArea.__name__ == "StagingArea"
