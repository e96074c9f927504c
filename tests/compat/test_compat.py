"""`ax.compat`: bytes and text, and the names by version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aioexec as ax
import aioexec.compat.v1 as v1
from aioexec import compat


def test_bytes_and_text_are_converted():
    assert (compat.as_bytes("é"), compat.as_bytes(b"a"), compat.as_bytes(bytearray(b"a"))) == (
        b"\xc3\xa9",
        b"a",
        b"a",
    )
    assert (compat.as_text(b"\xc3\xa9"), compat.as_str("a"), compat.as_text(b"\xe9", "latin-1")) == (
        "é",
        "a",
        "é",
    )
    assert (compat.as_str_any(b"a"), compat.as_str_any(3)) == ("a", "3")
    assert (compat.path_to_str(Path("a/b")), compat.path_to_str(b"a")) == ("a/b", b"a")


@pytest.mark.parametrize("convert", [compat.as_bytes, compat.as_text])
def test_what_is_neither_bytes_nor_text_is_an_error(convert):
    with pytest.raises(TypeError, match="Expected binary or unicode string, got 3"):
        convert(3)


def test_types_of_numbers():
    assert isinstance(np.int8(1), compat.integral_types)
    assert isinstance(np.float32(1), compat.real_types)
    assert not isinstance(1j, compat.real_types)
    assert isinstance(np.complex64(1), compat.complex_types)
    assert isinstance("a", compat.bytes_or_text_types)


def test_dimensions_have_values():
    shape = ax.TensorShape([2, None])

    assert [compat.dimension_value(dim) for dim in (*shape, 3, None)] == [2, None, 3, None]
    assert ax.dimension_at_index(shape, 0).value == 2
    assert ax.dimension_at_index(ax.TensorShape(None), 5).value is None


def test_v1_is_the_package_itself():
    assert v1 is ax
    assert compat.v1 is ax


@pytest.mark.parametrize(
    "name",
    [
        "enable_eager_execution",
        "enable_v2_behavior",
        "enable_v2_tensorshape",
        "enable_control_flow_v2",
        "enable_tensor_equality",
    ],
)
def test_another_mode_than_graphs_is_an_error(name):
    with pytest.raises(ax.errors.UnimplementedError, match=name):
        getattr(ax, name)()


def test_the_mode_is_that_of_graphs():
    ax.disable_v2_behavior()
    ax.disable_eager_execution()
    ax.disable_v2_tensorshape()
    ax.disable_control_flow_v2()
    ax.disable_tensor_equality()

    assert not ax.executing_eagerly()
    assert not ax.executing_eagerly_outside_functions()
    assert not ax.control_flow_v2_enabled()


def test_the_version_is_that_of_the_names():
    assert ax.VERSION == ax.version.VERSION == "1.15.5"
    assert ax.Graph().as_graph_def().versions.producer == ax.GRAPH_DEF_VERSION
