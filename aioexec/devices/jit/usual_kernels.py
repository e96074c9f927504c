"""The kernels that are compiled when the package is built: `usual_kernels.jsonl`, a description of a kernel in each line.

`python -m bench.usual_kernels` writes the file. A loop kernel is described by the name of its body, its pointers, and the
numbers of its integer and real arguments; an elementwise kernel by its body, inputs, outputs and pattern.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterable

from aioexec.graph.kernels.kernel import ElementwiseKernel, Kernel, LoopKernel

PATH = os.path.join(os.path.dirname(__file__), "usual_kernels.jsonl")


def describe(kernel: Kernel) -> str:
    """The line that describes a kernel."""
    if isinstance(kernel, LoopKernel):
        body = f"{kernel.body.__module__}:{kernel.body.__qualname__}"
        return json.dumps(["loop", body, kernel.pointers, kernel.ints, kernel.reals])
    return json.dumps(["elementwise", kernel.body, kernel.inputs, kernel.outputs, kernel.pattern])


def parse(line: str) -> Kernel:
    """The kernel that a line describes.

    Raises:
        LookupError, ImportError, ValueError: it describes none.
    """
    kind, body, *rest = json.loads(line)
    if kind == "loop":
        module, _, name = body.partition(":")
        function = vars(importlib.import_module(module))[name]
        pointers, ints, reals = rest
        return LoopKernel(function, tuple(pointers), ints, reals)
    if kind != "elementwise":
        raise ValueError(f"expected a loop or an elementwise kernel, got {kind!r}")
    inputs, outputs, pattern = rest
    return ElementwiseKernel(body, _operands(inputs), _operands(outputs), pattern)


def _operands(pairs: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, dtype) for name, dtype in pairs)


def write(kernels: Iterable[Kernel], path: str = PATH) -> None:
    """Write the descriptions of kernels, each once, in ascending order."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in sorted(set(map(describe, kernels))))


def read(path: str = PATH) -> list[Kernel]:
    """The kernels of the file; errors as `parse`."""
    with open(path, encoding="utf-8") as file:
        return [parse(line) for line in file]
