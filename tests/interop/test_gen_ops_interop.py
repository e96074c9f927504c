"""The functions of `aioexec.gen_ops` have the arguments of TensorFlow's generated ones."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

from aioexec import gen_ops
from tests.names_table import words

pytestmark = pytest.mark.interop

FAMILIES = words("""
array control_flow data_flow image io linalg logging math nn parsing random sparse state string training
""")
OF_FIRST_VERSIONS = {"tensor_array", "sample_distorted_bounding_box"}
"""Ops whose definitions have their attributes in another order."""


def parameters(function: Any) -> list[tuple[str, bool]]:
    """Their names, and whether they must be given."""
    return [
        (each.name, each.default is inspect.Parameter.empty)
        for each in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_arguments_are_those_of_tensorflow(family):
    module = importlib.import_module(f"tensorflow.python.ops.gen_{family}_ops")
    theirs = {
        name: parameters(function)
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and name.islower()
        and not name.startswith("_")
        and hasattr(gen_ops, name)
    }

    different = {name for name in theirs if parameters(getattr(gen_ops, name)) != theirs[name]}

    assert theirs
    assert different - OF_FIRST_VERSIONS == set()
