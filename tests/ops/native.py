"""Runs the native form of one operation without the engine: compiles its launches and calls them on separate arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.devices.jit.library import library
from aioexec.graph.kernels.kernel import Alias, Launch, Launches, Operand, Spec
from aioexec.graph.node import Operation
from aioexec.graph.registry import ShapeContext
from aioexec.resources.variable import Variable
from aioexec.shapes import is_fully_defined

HEADER = 8
"""Words of a frame before its slots."""

GARBAGE = 0xA5
"""The content of memory that was not written."""

Array = np.ndarray[Any, Any]
Kernel = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


class NativeStatusError(Exception):
    """A kernel returned a status other than 0; `error_class` is its meaning in the op's row."""

    def __init__(self, op: Operation, status: int) -> None:
        assert op.row.native is not None
        self.error_class, message = op.row.native.statuses[status - 1]
        super().__init__(f"{op.type}: status {status}: {message}")


class Memory:
    """The arrays of one run: what each operand means, and the frame that says where it lies."""

    def __init__(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Spec],
        scratch: Sequence[int],
        states: dict[int, Array],
    ) -> None:
        self.inputs = [aligned(array) for array in inputs]
        self.outputs = [garbage(spec) for spec in outputs]
        self.scratch = [garbage(Spec(np.dtype(np.uint8), (nbytes,))) for nbytes in scratch]
        self.states = {k: aligned(array) for k, array in states.items()}

    def share(self, k: int) -> None:
        """Let output 0 take over the memory of input k."""
        flat = self.inputs[k].reshape(-1).view(np.uint8)
        self.outputs[0] = flat.view(self.outputs[0].dtype).reshape(self.outputs[0].shape)

    def run(self, launch: Launch) -> int:
        arrays = [self._find(operand) for operand in launch.operands]
        frame = np.array([0] * HEADER + [array.ctypes.data for array in arrays], np.int64)
        places = [word for k, operand in enumerate(launch.operands) for word in (HEADER + k, operand.offset)]
        reals = np.array(launch.reals, np.float64).view(np.int64).tolist()
        block = np.array([*places, *launch.words, *reals], np.int64)
        address = library().address(launch.kernel)
        assert address, f"{launch.kernel}: {library().failed(launch.kernel)}"
        return int(Kernel(address)(block.ctypes.data, frame.ctypes.data))

    def _find(self, operand: Operand) -> Array:
        match operand.kind:
            case "input":
                return (
                    self.states[operand.index] if operand.index in self.states else self.inputs[operand.index]
                )
            case "output":
                return self.outputs[operand.index]
            case "scratch":
                return self.scratch[operand.index]
            case "state":
                return self.states[operand.index]
            case "packed":
                raise AssertionError("an input is packed although its spec does not allow that")


def aligned(array: Array) -> Array:
    """A C-ordered copy that begins on a cache line, with spare room after it."""
    copy = garbage(Spec(array.dtype, array.shape))
    copy[...] = array
    return copy


def garbage(spec: Spec) -> Array:
    raw = np.full(spec.nbytes + 128, GARBAGE, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + spec.nbytes].view(spec.dtype).reshape(spec.shape)


def output_specs(op: Operation, inputs: Sequence[Array]) -> list[Spec]:
    """The output of the shape rule when input shapes and the content of the shape operands are known."""
    operands = {k % len(inputs) for k in op.row.shape_operands} if inputs else set()

    def value(k: int) -> Array | None:
        return inputs[k] if k in operands else None

    def partial(k: int) -> Any:
        return (
            tuple(None if dim < 0 else int(dim) for dim in inputs[k].reshape(-1)) if k in operands else None
        )

    shapes_given = [array.shape for array in inputs]
    found = op.row.shape(ShapeContext(op.attrs, shapes_given, value, partial, lambda k: inputs[k].shape))
    specs = []
    for tensor, dims in zip(op.outputs, found, strict=True):
        assert is_fully_defined(dims), f"{op.type}: shape rule gave {dims} for known inputs"
        specs.append(Spec(tensor.dtype.base_dtype.numpy, tuple(int(dim or 0) for dim in dims or ())))
    return specs


def run_native(
    op: Operation, values: Sequence[Any], share: int | None = None
) -> tuple[list[Array], list[Array]] | None:
    """Outputs, and contents of the variables among the inputs in order; None if the op has no native form for them.

    Args:
        values: an array or Variable for each input; the content of variables is not changed.
        share: the input whose memory output 0 takes over.

    Raises:
        NativeStatusError: a kernel said that something is wrong.
    """
    assert op.row.native is not None
    inputs = [value.require() if isinstance(value, Variable) else value for value in values]
    is_update = bool(op.row.writes)
    outputs = output_specs(op, inputs)
    bound = bind(op, inputs, outputs)
    states = {k: inputs[k] for k, value in enumerate(values) if isinstance(value, Variable)}
    if bound is None:
        return None
    if isinstance(bound, Alias):
        return [
            alias(inputs[k], offset, spec)
            for k, offset, spec in zip(bound.inputs, bound.offsets, outputs, strict=True)
        ], []
    if any(row is None for row in bound.rows):
        raise AssertionError(f"{op.type}: a row is None")
    library().request(row.kernel for row in bound.rows).result()
    memory = Memory(inputs, outputs, bound.scratch, states)
    if share is not None:
        memory.share(share)
    for row in bound.rows:
        status = memory.run(row)
        if status:
            raise NativeStatusError(op, status)
    return [] if is_update else memory.outputs, list(memory.states.values())


def bind(op: Operation, inputs: Sequence[Array], outputs: Sequence[Spec]) -> Launches | Alias | None:
    assert op.row.native is not None
    operands = {k % len(inputs) for k in op.row.shape_operands} if inputs else set()
    specs = [
        Spec(array.dtype, array.shape, array if k in operands else None) for k, array in enumerate(inputs)
    ]
    return op.row.native.bind(op.attrs, specs, outputs)


def alias(source: Array, offset: int, spec: Spec) -> Array:
    """A part of the elements of an array, from a number of bytes on."""
    begin, end = (each // source.itemsize for each in (offset, offset + spec.nbytes))
    return np.ascontiguousarray(source).reshape(-1)[begin:end].view(spec.dtype).reshape(spec.shape)
