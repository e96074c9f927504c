"""Functions of higher layers that nodes, graphs and functions call; the package sets them when it is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

EVALUATORS: dict[str, Callable[..., Any]] = {}
"""By purpose: `tensor.eval()` and `op.run()` in the default session ("eval", "run"), the protos of graphs and nodes
("graph_def", "node_def"), the comparison of two functions ("equal_functions"), and the gradient of a call
("gradient_of_call")."""
