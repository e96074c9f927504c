"""The cost model of reference kernels: estimates from the inputs whether a kernel takes too long for the event loop.

Each byte of the inputs and outputs counts as one nanosecond; a string counts additional bytes for the handling of an object.
The sizes of outputs follow from their static shapes, or else from the row's shape function and the inputs. A row whose kernel
takes longer declares it (`Row.work`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from aioexec.graph.kernels.kernel import Spec
from aioexec.graph.kernels.work import evaluate_estimate, product
from aioexec.graph.registry import ShapeContext
from aioexec.planning.instruction import Instruction
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims, num_elements

HEAVY_BYTES = 128 * 1024
"""Bytes of inputs and outputs above which a kernel runs on a worker."""
STRING_BYTES = 200
"""The cost of handling a string, in bytes."""
_LIST_ELEMENT_BYTES = 3000  # the cost of handling an element of a list, in bytes
_MOST_SIZES = 64  # cached output sizes of an instruction
_MOST_CONTENT = 512  # bytes of a shape operand that may be part of a key
_UNKNOWN = -1
_OBJECT = np.dtype(object)


def takes_long(instruction: Instruction, inputs: Sequence[Any]) -> bool:
    """Whether a kernel with these inputs takes too long for the event loop."""
    total = 0
    for held in inputs:
        if type(held) is np.ndarray:
            total += held.nbytes
            if held.dtype is _OBJECT:
                total += _object_bytes(instruction, held)
        elif isinstance(held, Variable) and held.buffer is not None:
            total += held.buffer.nbytes
    sizes = instruction.sizes
    static = sizes.get(None)
    if static is None:
        static = sizes[None] = _static_bytes(instruction)
    if total + static > HEAVY_BYTES:
        return True
    if static >= 0:
        return False
    return _is_heavy(instruction, inputs, total)


def _is_heavy(instruction: Instruction, inputs: Sequence[Any], total: int) -> bool:
    """The decision of `takes_long` if static shapes do not suffice; `total`: the bytes of the inputs."""
    row = instruction.node.row
    if row.work is not None and evaluate_estimate(row.work, instruction.node.op.attrs, inputs) > HEAVY_BYTES:
        return True
    return total + _output_bytes(instruction, inputs) > HEAVY_BYTES


def _object_bytes(instruction: Instruction, held: np.ndarray[Any, Any]) -> int:
    """The cost of strings, and of lists if the op iterates over their elements."""
    lists = instruction.node.row.lists
    return _string_bytes(held) + (_list_bytes(held) if lists is not None and lists.also_tensors else 0)


def _string_bytes(held: np.ndarray[Any, Any]) -> int:
    total = held.size * STRING_BYTES
    if total <= HEAVY_BYTES:
        for each in held.ravel():
            if type(each) is bytes:
                total += len(each)
    return total


def _list_bytes(held: np.ndarray[Any, Any]) -> int:
    """The cost of the elements of lists."""
    lists = [each for each in held.ravel() if hasattr(each, "stored")]
    return sum(each.stored * (_LIST_ELEMENT_BYTES + each.element_bytes) for each in lists)


def _static_bytes(instruction: Instruction) -> int:
    """Bytes of the outputs; -1 if not all static shapes are known, or the row states its work."""
    if instruction.structure is not None:
        return 0
    if instruction.node.row.work is not None:
        return _UNKNOWN
    total = 0
    for tensor in instruction.node.op.outputs:
        elements = num_elements(tensor.dims)
        if elements is None:
            return _UNKNOWN
        total += elements * tensor.dtype.numpy.itemsize
    return total


def _output_bytes(instruction: Instruction, inputs: Sequence[Any]) -> float:
    """Bytes of the outputs by the row's shape function; unknown shapes count as 0."""
    key = _key(instruction, inputs)
    sizes = instruction.sizes
    if key is not None and key in sizes:
        return sizes[key]
    size = _bytes_by_rule(instruction, inputs)
    if key is not None:
        if len(sizes) >= _MOST_SIZES:
            sizes.clear()
        sizes[key] = size
    return size


def _key(instruction: Instruction, inputs: Sequence[Any]) -> Hashable:
    """A key that determines the shapes of the outputs; None if it would be too long."""
    operands = instruction.node.row.shape_operands
    if len(inputs) == 1 and not operands:
        return getattr(inputs[0], "shape", ())
    parts: list[Hashable] = [getattr(held, "shape", None) for held in inputs]
    for k in operands:
        held = inputs[k] if -len(inputs) <= k < len(inputs) else None
        if isinstance(held, np.ndarray) and held.dtype != object:
            if held.nbytes > _MOST_CONTENT:
                return None
            parts.append(held.tobytes())
    return tuple(parts)


def _bytes_by_rule(instruction: Instruction, inputs: Sequence[Any]) -> float:
    op, row = instruction.node.op, instruction.node.row

    def value(k: int) -> Any:
        return inputs[k] if isinstance(inputs[k], np.ndarray) else None

    def partial(k: int) -> Dims:
        content = value(k)
        return None if content is None else tuple(None if d < 0 else int(d) for d in content.reshape(-1))

    def variable(k: int) -> Dims:
        held = inputs[k]
        if not isinstance(held, Variable):
            return None
        return held.dims if held.buffer is None else held.buffer.shape

    given = [
        variable(k) if tensor.dtype.is_ref else getattr(inputs[k], "shape", ())
        for k, tensor in enumerate(op.inputs)
    ]
    try:
        found = row.shape(ShapeContext(op.attrs, given, value, partial, variable))
        pairs = list(zip(op.outputs, found, strict=True))
    except Exception:
        return 0  # the kernel reports the error in its inputs
    return sum(
        product(dim or 0 for dim in dims) * tensor.dtype.numpy.itemsize
        for tensor, dims in pairs
        if dims is not None and None not in dims
    )


def work_beyond_inputs(instruction: Instruction, inputs: Sequence[Any], outputs: int) -> float:
    """Estimated nanoseconds beyond one per byte of the inputs (arrays or specs); `outputs` are the bytes of the outputs."""
    row = instruction.node.row
    if row.work is None:
        return outputs
    taken = sum(each.nbytes for each in inputs if isinstance(each, Spec | np.ndarray))
    return max(outputs, evaluate_estimate(row.work, instruction.node.op.attrs, inputs) - taken)
