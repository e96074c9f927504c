"""Decoders: DecodeCSV, DecodeRaw and DecodePaddedRaw."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes as dt, shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError, InvalidArgumentError, ResourceExhaustedError
from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.strings.elements import array_of, bytes_of, number_parser, parsed_array
from aioexec.shapes import Dims

# Comma-separated values


class _Line:
    """Splits a record into fields by RFC 4180: a quoted field ends with a quote and doubles quotes inside.

    Raises:
        InvalidArgumentError: the record is malformed.
    """

    def __init__(self, delimiter: str, uses_quotes: bool) -> None:
        self._delimiter = delimiter.encode()
        self._quote = b'"' if uses_quotes else b""

    def fields(self, record: bytes) -> list[bytes]:
        if b"\n" not in record and b"\r" not in record and (not self._quote or self._quote not in record):
            return record.split(self._delimiter) if record else []
        return self._with_quotes(record)

    def _with_quotes(self, record: bytes) -> list[bytes]:
        found, at = [], 0
        while at < len(record):
            if record[at : at + 1] in (b"\n", b"\r"):
                at += 1
                continue
            is_quoted = bool(self._quote) and record[at : at + 1] == self._quote
            field, at = self._quoted(record, at + 1) if is_quoted else self._plain(record, at)
            found.append(field)
        if record.endswith(self._delimiter):
            found.append(b"")
        return found

    def _plain(self, record: bytes, at: int) -> tuple[bytes, int]:
        end = record.find(self._delimiter, at)
        end = len(record) if end < 0 else end
        field = record[at:end]
        if b"\n" in field or b"\r" in field or (self._quote and self._quote in field):
            raise InvalidArgumentError("Unquoted fields cannot have quotes/CRLFs inside")
        return field, end + 1

    def _quoted(self, record: bytes, at: int) -> tuple[bytes, int]:
        parts, last = [], len(record) - 1
        while True:
            end = record.find(b'"', at)
            if end < 0:
                raise InvalidArgumentError("Quoted field has to end with quote followed by delim or end")
            parts.append(record[at:end])
            if end == last or record[end + 1 : end + 2] == self._delimiter:
                return b"".join(parts), end + 2
            if record[end + 1 : end + 2] != b'"':
                raise InvalidArgumentError("Quote inside a string has to be escaped by another quote")
            parts.append(b'"')
            at = end + 2


class _Column:
    """Converts one field of all records: its number, dtype, and the text that stands for no value."""

    def __init__(self, number: int, dtype: DType, missing: bytes) -> None:
        self._number = number
        self._dtype = dtype
        self._missing = missing
        self._parse: Callable[[bytes], Any] = bytes if dtype is dt.string else number_parser(dtype)

    def values(self, fields: Sequence[bytes], default: Array, shape: tuple[int, ...]) -> Array:
        """The values of the fields, in this shape."""
        if default.ndim > 1:
            raise InvalidArgumentError("Each record default should be at most rank 1")
        if default.size > 1:
            raise InvalidArgumentError(
                f"There should only be 1 default per field but field {self._number} has {default.size}"
            )
        found = [self._value(record, field, default) for record, field in enumerate(fields)]
        return array_of(found, shape) if self._dtype is dt.string else parsed_array(found, shape, self._dtype)

    def _value(self, record: int, field: bytes, default: Array) -> Any:
        if not field or field == self._missing:
            if not default.size:
                raise InvalidArgumentError(
                    f"Field {self._number} is required but missing in record {record}!"
                )
            return default.item()
        try:
            return self._parse(field)
        except ValueError:
            raise InvalidArgumentError(
                f"Field {self._number} in record {record} is not a valid {_NAMES.get(self._dtype, self._dtype.name)}: "
                f"{field.decode(errors='replace')}"
            ) from None


_NAMES = {dt.float32: "float", dt.float64: "double"}


def _csv_kernel(context: KernelContext) -> Compute:
    attrs, wanted = context.attrs, context.output_dtypes
    delimiter, selected = attrs["field_delim"], tuple(attrs["select_cols"])
    _check_csv(delimiter, selected, len(wanted))
    line = _Line(delimiter, attrs["use_quote_delim"])
    missing = bytes_of(attrs["na_value"])
    columns = [_Column(k, dtype, missing) for k, dtype in enumerate(wanted)]

    def compute(records: Array, *defaults: Array) -> Any:
        rows = [
            _chosen(number, line.fields(record), selected, len(columns))
            for number, record in enumerate(records.ravel())
        ]
        results = [
            column.values([row[k] for row in rows], np.asarray(default), records.shape)
            for k, (column, default) in enumerate(zip(columns, defaults, strict=True))
        ]
        return results[0] if len(results) == 1 else tuple(results)

    return compute


def _check_csv(delimiter: str, selected: Sequence[int], count: int) -> None:
    if len(delimiter.encode()) != 1:
        raise InvalidArgumentError("field_delim should be only 1 char")
    if selected and len(selected) != count:
        raise InvalidArgumentError("select_cols should match output size")
    if any(a >= b for a, b in itertools.pairwise(selected)):
        raise InvalidArgumentError("select_cols should be strictly increasing indices")
    if any(column < 0 for column in selected):
        raise InvalidArgumentError("select_cols should be non-negative indices")


def _chosen(number: int, fields: list[bytes], selected: Sequence[int], count: int) -> list[bytes]:
    if selected:
        fields = [fields[k] for k in selected if k < len(fields)]
    if len(fields) != count:
        raise InvalidArgumentError(f"Expect {count} fields but have {len(fields)} in record {number}")
    return fields


def _csv_shape(context: ShapeContext) -> Sequence[Dims]:
    for default in context.inputs[1:]:
        known = shapes.with_rank_at_most(default, 1)
        if known and known[0] is not None and known[0] > 1:
            raise GraphValueError("Shape of a default must be a length-0 or length-1 vector, or a scalar.")
    return [context.inputs[0]] * (len(context.inputs) - 1)


register(
    "DecodeCSV(records:string, record_defaults:OUT_TYPE) -> (output:OUT_TYPE) [OUT_TYPE:list(type)@39>=1; "
    "field_delim:string=','; use_quote_delim:bool=true; na_value:string=''; select_cols:list(int)=[]]",
    shape=_csv_shape,
    kernel=_csv_kernel,
    gradient=undefined_gradient,
)


# Bytes


_MOST_BYTES = 1 << 40


def _viewed(data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...], little_endian: bool) -> Array:
    """Return bytes as elements, in a new array."""
    if dtype == np.bool_:
        return np.frombuffer(data, np.uint8).astype(np.bool_).reshape(shape)
    array = np.frombuffer(data, dtype).reshape(shape)
    part = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    if little_endian or part == 1:
        return array.copy()
    unsigned = np.dtype(f"u{part}")
    return array.view(unsigned).byteswap().view(dtype).reshape(shape)


def _raw_kernel(context: KernelContext) -> Compute:
    dtype, little_endian = context.output_dtypes[0].numpy, context.attrs["little_endian"]

    def compute(value: Array) -> Array:
        if not value.size:
            return np.zeros((*value.shape, 0), dtype)
        length = len(value.item(0))
        for number, element in enumerate(value.ravel()):
            if len(element) != length:
                raise InvalidArgumentError(
                    f"DecodeRaw requires input strings to all be the same size, but element {number} has size "
                    f"{length} != {len(element)}"
                )
        if length % dtype.itemsize:
            raise InvalidArgumentError(
                f"Input to DecodeRaw has length {length} that is not a multiple of {dtype.itemsize}, "
                f"the size of {context.output_dtypes[0].name}"
            )
        return _viewed(
            b"".join(value.ravel()), dtype, (*value.shape, length // dtype.itemsize), little_endian
        )

    return compute


def _padded_kernel(context: KernelContext) -> Compute:
    dtype, little_endian = context.output_dtypes[0].numpy, context.attrs["little_endian"]

    def compute(value: Array, fixed_length: Array) -> Array:
        if np.ndim(fixed_length):
            raise InvalidArgumentError(
                f"fixed_length must be a scalar, got shape {shown(np.shape(fixed_length))}"
            )
        length = int(fixed_length)
        if length <= 0:
            raise InvalidArgumentError(f"Input to fixed_length ({length}) should be greater than 0")
        if length % dtype.itemsize:
            raise InvalidArgumentError(
                f"fixed_length ({length}) must be a multiple of the size of out_type ({dtype.itemsize})"
            )
        if length * value.size > _MOST_BYTES:
            raise ResourceExhaustedError(f"{value.size} strings of {length} bytes are too many")
        padded = np.zeros((value.size, length), np.uint8)
        for row, element in zip(padded, value.ravel(), strict=True):
            content = np.frombuffer(element[:length], np.uint8)
            row[: len(content)] = content
        return _viewed(padded.tobytes(), dtype, (*value.shape, length // dtype.itemsize), little_endian)

    return compute


def _one_dimension_more(context: ShapeContext) -> Sequence[Dims]:
    return [shapes.concatenate(context.inputs[0], (None,))]


def _padded_shape(context: ShapeContext) -> Sequence[Dims]:
    length, width = context.value(1), context.attrs["out_type"].numpy.itemsize
    if length is None or length.ndim:
        return _one_dimension_more(context)
    if length % width:
        raise GraphValueError(f"fixed_length ({length}) must be a multiple of the size of out_type ({width})")
    return [shapes.concatenate(context.inputs[0], (int(length) // width,))]


register(
    "DecodeRaw(bytes:string) -> (output:out_type) [out_type:type@13; little_endian:bool=true]",
    shape=_one_dimension_more,
    kernel=_raw_kernel,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)
register(
    "DecodePaddedRaw(input_bytes:string, fixed_length:int32) -> (output:out_type) [out_type:type{half|float|double|int32|"
    "uint16|uint8|int16|int8|int64|bfloat16}; little_endian:bool=true]",
    shape=_padded_shape,
    kernel=_padded_kernel,
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(1,),
)


# Python names


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Tensor]:
    """Split records into fields; return one tensor of the shape of `records` for each of `record_defaults`.

    Args:
        record_defaults: for each column the default as a list of one value; an empty array for a required field.
        na_value: an additional text that marks a missing field.
        select_cols: the columns to return, ascending; by default all.
    """
    defaults = [convert_to_tensor(default) for default in record_defaults]
    return apply_list_op(
        "DecodeCSV",
        records,
        defaults,
        name=name,
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=select_cols or [],
    )


def decode_raw(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: Any = None,
) -> Tensor:
    """Reinterpret the bytes of strings of equal length as elements of `out_type` along a new last dimension."""
    value = bytes if input_bytes is None else input_bytes
    dtype = dt.as_dtype(out_type)
    return apply_op("DecodeRaw", value, name=name, out_type=dtype, little_endian=little_endian)
