"""Complex numbers: construction, real and imaginary part, conjugate, absolute value, angle.

Gradients follow TensorFlow: the gradient of a complex tensor is the conjugate of the derivative, the direction of ascent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphTypeError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import register
from aioexec.ops.common.elementwise import (
    Array,
    Gradient,
    broadcast_shape,
    convert_pair,
    fitting,
    op_scope,
    reduced,
    same_shape,
)

_PARTS = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}
_WHOLE = {part: whole for whole, part in _PARTS.items()}


def _in_output_dtype(compute: Compute) -> Any:
    """Return a kernel whose result is converted to the output dtype, which is an attribute of the op."""

    def bind(context: KernelContext) -> Compute:
        wanted = context.output_dtypes[0].numpy
        return lambda *inputs: np.asarray(compute(*inputs)).astype(wanted, copy=False)

    return bind


def _combined(real: Any, imaginary: Any) -> Tensor:
    """Combine two real arrays to a complex array of the corresponding dtype."""
    return apply_op("Complex", real, imaginary, Tout=_WHOLE[real.dtype.base_dtype])


def _zero(x: Tensor) -> Tensor:
    return convert_to_tensor(0, x.dtype.base_dtype)


def _absolute_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    (x,), (y,) = op.inputs, op.outputs
    return [
        apply_op(
            "DivNoNan", _combined(dy, apply_op("ZerosLike", dy)) * x, _combined(y, apply_op("ZerosLike", y))
        )
    ]


def _angle_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    x = op.inputs[0]
    slope = apply_op("Reciprocal", _combined(_part("Imag", x), _part("Real", x)))
    return [-_combined(dy, apply_op("ZerosLike", dy)) * slope]


def _part(op_type: str, x: Tensor) -> Tensor:
    return apply_op(op_type, x, Tout=_PARTS[x.dtype.base_dtype])


def _absolute(context: KernelContext) -> Compute:
    (given,), (wanted,) = context.input_dtypes, context.output_dtypes
    if _PARTS[given] != wanted:
        raise InvalidArgumentError(
            f"absolute values of {given.name} are {_PARTS[given].name}, not {wanted.name}"
        )
    return plain(np.abs)(context)


_FROM_COMPLEX: tuple[tuple[str, str, Any, Gradient], ...] = (
    ("Real(input", "output", _in_output_dtype(np.real), lambda op, dy: [_combined(dy, _zero(dy))]),
    ("Imag(input", "output", _in_output_dtype(np.imag), lambda op, dy: [_combined(_zero(dy), dy)]),
    ("Angle(input", "output", _in_output_dtype(np.angle), _angle_gradient),
    ("ComplexAbs(x", "y", _absolute, _absolute_gradient),
)

for _head, _output, _kernel, _gradient in _FROM_COMPLEX:
    register(
        f"{_head}:T) -> ({_output}:Tout) [T:type{{complex64|complex128}}=complex64; Tout:type{{float|double}}=float]",
        shape=same_shape,
        kernel=_kernel,
        gradient=_gradient,
    )

register(
    "Conj(input:T) -> (output:T) [T:type{complex64|complex128|variant}=complex64]",
    shape=same_shape,
    kernel=plain(np.conj),
    gradient=lambda op, dy: [apply_op("Conj", dy)],
)


def _complex_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    return reduced(op, _part("Real", dz), _part("Imag", dz))


def _joined(real: Array, imaginary: Array) -> Array:
    result = np.empty(
        np.broadcast_shapes(real.shape, imaginary.shape), np.result_type(real.dtype, np.complex64)
    )
    result.real, result.imag = real, imaginary
    return result


register(
    "Complex(real:T, imag:T) -> (out:Tout) [T:type{float|double}=float; Tout:type{complex64|complex128}=complex64]",
    shape=broadcast_shape,
    kernel=lambda context: fitting(_in_output_dtype(_joined)(context))(context),
    gradient=_complex_gradient,
)

# Functions


def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """Return real + i imag element-wise.

    Raises:
        GraphTypeError: the parts are not both float32 or both float64.
    """
    with op_scope(name, "Complex", real, imag) as scope:
        real, imag = convert_pair(real, imag)
        whole = _WHOLE.get(real.dtype.base_dtype)
        if whole is None:
            raise GraphTypeError(f"complex: expected parts of float32 or float64, got {real.dtype.name}")
        return apply_op("Complex", real, imag, Tout=whole, name=scope)


def real(input: Any, name: str | None = None) -> Tensor:
    """Return the real part; a real tensor unchanged."""
    with op_scope(name, "Real", input) as scope:
        tensor = convert_to_tensor(input, name="input")
        if not tensor.dtype.is_complex:
            return tensor
        return apply_op("Real", tensor, Tout=_PARTS[tensor.dtype.base_dtype], name=scope)


def imag(input: Any, name: str | None = None) -> Tensor:
    """Return the imaginary part; zeros for a real tensor."""
    with op_scope(name, "Imag", input) as scope:
        tensor = convert_to_tensor(input, name="input")
        if not tensor.dtype.is_complex:
            return apply_op("ZerosLike", tensor)
        return apply_op("Imag", tensor, Tout=_PARTS[tensor.dtype.base_dtype], name=scope)


def angle(input: Any, name: str | None = None) -> Tensor:
    """Return the angle in radians, in [-pi, pi]; 0 or pi for a real tensor."""
    with op_scope(name, "Angle", input) as scope:
        tensor = convert_to_tensor(input, name="input")
        if tensor.dtype.is_complex:
            return apply_op("Angle", tensor, Tout=_PARTS[tensor.dtype.base_dtype], name=scope)
        pi = convert_to_tensor(np.pi, tensor.dtype.base_dtype) * apply_op("OnesLike", tensor)
        return apply_op("Select", apply_op("Less", tensor, _zero(tensor)), pi, apply_op("ZerosLike", tensor))


def conj(x: Any, name: str | None = None) -> Tensor:
    """Return the complex conjugate; a real tensor unchanged.

    Raises:
        GraphTypeError: the tensor is not numeric.
    """
    tensor = convert_to_tensor(x, name="x")
    if tensor.dtype.is_complex or tensor.dtype.base_dtype is dtypes.variant:
        return apply_op("Conj", tensor, name=name)
    if tensor.dtype.is_floating or tensor.dtype.is_integer:
        return tensor
    raise GraphTypeError(f"conj: expected a numeric or variant tensor, got {tensor.dtype.name}")
