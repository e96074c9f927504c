"""Sizes of the variables and of the outputs of a graph, returned and printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aioexec.graph.graph import Graph


def tensor_description(var: Any) -> str:
    """Return dtype and dimensions, as `(float32_ref 1x8x8x1024)` for a variable."""
    return f"({var.dtype.name} {'x'.join(map(str, var.shape.as_list()))})"


def analyze_ops(graph: Graph, print_info: bool = False) -> int:
    """Return the number of elements of all outputs whose shapes are known; print those of each node if asked to."""
    total, lines = 0, ["---------", "Operations: name -> (type shapes) [size]", "---------"]
    for node in graph.get_operations():
        known = [output for output in node.outputs if output.shape.ndims is not None]
        size = sum(output.shape.num_elements() or 0 for output in known)
        lines.append(f"{node.name} \t-> {', '.join(map(tensor_description, known))} [{size}]")
        total += size
    _print(lines, print_info)
    return total


def analyze_vars(variables: Iterable[Any], print_info: bool = False) -> tuple[int, int]:
    """Return the number of elements of variables, and of bytes; print those of each if asked to."""
    total_size = total_bytes = 0
    lines = ["---------", "Variables: name (type shape) [size]", "---------"]
    for variable in variables:
        size = variable.shape.num_elements() or 0
        in_bytes = size * variable.dtype.size
        total_size, total_bytes = total_size + size, total_bytes + in_bytes
        lines.append(f"{variable.name} {tensor_description(variable)} [{size}, bytes: {in_bytes}]")
    lines += [f"Total size of variables: {total_size}", f"Total bytes of variables: {total_bytes}"]
    _print(lines, print_info)
    return total_size, total_bytes


def _print(lines: list[str], is_wanted: bool) -> None:
    if is_wanted:
        print("\n".join(lines))  # noqa: T201  (what these functions are for)
