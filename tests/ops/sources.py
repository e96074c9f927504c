"""Placeholders for tests of op families."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor


def placeholder(dtype: Any, dims: Any = None) -> Tensor:
    """A tensor of the default graph that has to be fed; dims None means any shape."""
    attrs = {"dtype": dtypes.as_dtype(dtype), "shape": dims}
    return get_default_graph().create_op("Placeholder", (), attrs=attrs).outputs[0]
