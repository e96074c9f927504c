"""SerializeTensor and ParseTensor: convert tensors to and from strings that hold a TensorProto."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes as dt, shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import Array
from aioexec.ops.strings.elements import array_of, scalar_bytes
from aioexec.shapes import Dims


def _serialize_kernel(context: KernelContext) -> Compute:
    """Return the kernel: strings are listed, other dtypes are raw content of any size."""
    dtype = context.input_dtypes[0]
    if dtype in (dt.resource, dt.variant):
        raise InvalidArgumentError(f"SerializeTensor: a tensor of {dtype.name} has no bytes")

    def compute(value: Array) -> Array:
        from aioexec.formats.protos import TensorProto
        from aioexec.formats.tensor_codec import encode_tensor, shape_to_proto

        if dtype is dt.string:
            proto = encode_tensor(value, dtype)
        else:
            proto = TensorProto(
                dtype=dtype.as_datatype_enum,
                tensor_shape=shape_to_proto(value.shape),
                tensor_content=value.tobytes(),
            )
        return array_of([proto.SerializeToString(deterministic=True)], ())

    return compute


def _parse_kernel(context: KernelContext) -> Compute:
    wanted = context.output_dtypes[0]

    def compute(value: Array) -> Array:
        from google.protobuf.message import DecodeError

        from aioexec.formats.protos import TensorProto
        from aioexec.formats.tensor_codec import decode_tensor

        text = scalar_bytes(value, "serialized")
        try:
            proto = TensorProto.FromString(text)
        except DecodeError as error:
            raise InvalidArgumentError(
                f"Could not parse `serialized` as TensorProto: {text[:100]!r}"
            ) from error
        if proto.dtype != wanted.as_datatype_enum:
            raise InvalidArgumentError(
                f"Type mismatch between parsed tensor ({proto.dtype}) and dtype ({wanted.name})"
            )
        return np.asarray(decode_tensor(proto))

    return compute


def _no_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[0], 0)
    return [None]


register(
    "SerializeTensor(tensor:T) -> (serialized:string) [T:type]",
    shape=lambda context: [()],
    kernel=_serialize_kernel,
    gradient=NOT_DIFFERENTIABLE,
)
register(
    "ParseTensor(serialized:string) -> (output:out_type) [out_type:type]",
    shape=_no_shape,
    kernel=_parse_kernel,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)


def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """Serialise a tensor to a TensorProto."""
    return apply_op("SerializeTensor", tensor, name=name)


def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """Parse a TensorProto into a tensor of `out_type`."""
    return apply_op("ParseTensor", serialized, out_type=dt.as_dtype(out_type), name=name)
