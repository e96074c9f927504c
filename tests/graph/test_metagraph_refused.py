"""Collections of a MetaGraphDef with invalid items."""

from __future__ import annotations

import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError


def test_unbound_inputs_that_are_no_text_are_named_all_the_same(graph):
    source = ax.MetaGraphDef()
    source.collection_def["unbound_inputs"].bytes_list.value.append(b"\xff")

    with pytest.raises(GraphValueError, match=r"unbound inputs: \\xff"):
        ax.train.import_meta_graph(source)


def test_numbers_in_a_collection_of_variables_are_no_variables(graph):
    source = ax.MetaGraphDef()
    source.collection_def["variables"].int64_list.value.append(7)

    with pytest.raises(GraphTypeError, match="not a Variable: 7"):
        ax.train.import_meta_graph(source)
