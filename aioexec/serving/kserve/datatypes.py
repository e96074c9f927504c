"""Datatypes of the Open Inference Protocol by name, and their dtypes."""

from __future__ import annotations

import reprlib
from typing import Final

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, UnimplementedError

DTYPES: Final[dict[str, DType]] = {
    "BOOL": dt.bool_,
    "UINT8": dt.uint8,
    "UINT16": dt.uint16,
    "UINT32": dt.uint32,
    "UINT64": dt.uint64,
    "INT8": dt.int8,
    "INT16": dt.int16,
    "INT32": dt.int32,
    "INT64": dt.int64,
    "FP16": dt.float16,
    "FP32": dt.float32,
    "FP64": dt.float64,
    "BF16": dt.bfloat16,
    "BYTES": dt.string,
}
"""The dtype of each datatype."""

_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}


def dtype_of(datatype: object, who: str) -> DType:
    """Return the dtype of a datatype; `who` names the tensor in the error.

    Raises:
        InvalidArgumentError: unknown.
    """
    found = DTYPES.get(datatype) if isinstance(datatype, str) else None
    if found is None:
        raise InvalidArgumentError(
            f"{who}: expected a datatype of {sorted(DTYPES)}, got {reprlib.repr(datatype)}"
        )
    return found


def datatype_of(dtype: DType, who: str) -> str:
    """Return the datatype of a dtype; `who` names the tensor in the error.

    Raises:
        UnimplementedError: the protocol has none, as for complex numbers.
    """
    found = _NAMES.get(dtype.base_dtype)
    if found is None:
        raise UnimplementedError(f"{who}: the Open Inference Protocol has no datatype for {dtype.name}")
    return found


def datatype_or_name(dtype: DType) -> str:
    """Return the datatype of a dtype for a description; the dtype's name where the protocol has none."""
    return _NAMES.get(dtype.base_dtype, dtype.name)
