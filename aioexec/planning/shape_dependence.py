"""What the shapes of an item's inputs determine: the shapes of values inside, the contents of some, and sizes of kernels.

A value is shaped if its shape follows from the shapes of the item's inputs, and fixed if its content does: it is a constant, or
computed from shapes and fixed contents alone. The reference tier computes what follows once for inputs of the same shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.graph.node import Tensor
from aioexec.planning.instruction import Instruction
from aioexec.planning.plan import Item
from aioexec.resources.variable import Variable
from aioexec.shapes import num_elements


def static_bytes(tensor: Tensor, held: Any = None) -> int | None:
    """Bytes of a value by its static shape, `held` if it is known; None if that does not determine them."""
    if isinstance(held, Variable):
        count, dtype = num_elements(held.dims), held.dtype
    elif not _is_plain(tensor):
        return None
    else:
        count, dtype = num_elements(tensor.dims), tensor.dtype
    return None if count is None else count * dtype.numpy.itemsize


def _is_plain(tensor: Tensor) -> bool:
    """Whether a value is always an array whose shape determines its size."""
    return not tensor.dtype.is_ref and tensor.dtype.numpy.kind != "O"


class ShapeDependence:
    """The analysis of one item.

    Attributes:
        sized: the positions of nodes for which `workload.takes_long` depends on the shapes of the item's inputs alone.
        fixed: the positions of nodes whose outputs do.
    """

    def __init__(self, item: Item, known: Sequence[Any]) -> None:
        """Analyse an item; `known` are the plan's values, of which constants and variables are known."""
        self.sized: set[int] = set()
        self.fixed: set[int] = set()
        self._known = known
        self._shaped = set(item.inputs)
        self._contents: set[int] = set()
        for position, instruction in enumerate(item.instructions):
            self._visit(position, instruction)

    def _visit(self, position: int, instruction: Instruction) -> None:
        node, row = instruction.node, instruction.node.row
        for value, tensor in zip(instruction.outputs, node.op.outputs, strict=True):
            if static_bytes(tensor) is not None:
                self._shaped.add(value)
        if instruction.structure is not None or row.dynamic_shape or not self._are_shaped(instruction):
            return
        contents = [self._has_content(value) for value in instruction.inputs]
        if not all(contents[k] for k in self._read_contents(instruction)):
            return
        self.sized.add(position)
        if not node.is_pure or (
            not row.shape_operands and any(tensor.dims is None for tensor in node.op.outputs)
        ):
            return  # its outputs may depend on something else
        self._shaped.update(instruction.outputs)
        if row.shape_only or all(contents):
            self._contents.update(instruction.outputs)
            self.fixed.add(position)

    def _are_shaped(self, instruction: Instruction) -> bool:
        """Whether the shapes of all inputs follow from those of the item's."""
        return all(
            static_bytes(tensor, self._known[value]) is not None
            or (_is_plain(tensor) and (value in self._shaped or self._has_content(value)))
            for tensor, value in zip(instruction.node.op.inputs, instruction.inputs, strict=True)
        )

    def _has_content(self, value: int) -> bool:
        return value in self._contents or isinstance(self._known[value], np.ndarray)

    def _read_contents(self, instruction: Instruction) -> set[int]:
        """The inputs on whose contents the shapes of the outputs or the estimated work may depend."""
        row, inputs = instruction.node.row, instruction.node.op.inputs
        found = {k % len(inputs) for k in row.shape_operands if -len(inputs) <= k < len(inputs)}
        if row.work is not None:
            found.update(k for k, tensor in enumerate(inputs) if tensor.dtype.numpy.kind in "iu")
        return found
