"""Diagonals of matrices: extraction, replacement, construction of matrices, and bands.

The diagonals from k[0] to k[1] (0 is the main one, positive ones are above it) are stored as rows of a matrix, highest first,
padded to the longest one; a single diagonal is a vector. `align` names the side of the content: its first word for the
diagonals above and including the main one, its second for those below. V1 of the ops has the main diagonal only; V2 pads on
the right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.array.arrays import run_time
from aioexec.ops.common.elementwise import Array, op_scope, shown
from aioexec.shapes import Dims

_ALIGN = "align:string{LEFT_RIGHT|RIGHT_LEFT|LEFT_LEFT|RIGHT_RIGHT}='RIGHT_LEFT'"


@dataclass(frozen=True, slots=True)
class Band:
    """The diagonals from `lower` to `upper` of matrices of `rows` × `columns`."""

    lower: int
    upper: int
    rows: int
    columns: int

    @property
    def count(self) -> int:
        return self.upper - self.lower + 1

    @property
    def longest(self) -> int:
        return min(self.rows + min(self.upper, 0), self.columns - max(self.lower, 0))

    def places(self, align: str) -> Iterator[tuple[int, slice, Array, Array]]:
        """Yield for each diagonal: its row and slice in the stored form, and the row and column indices in the matrix."""
        above, below = align.split("_")
        for index, k in enumerate(range(self.upper, self.lower - 1, -1)):
            length = min(self.rows + min(k, 0), self.columns - max(k, 0))
            offset = self.longest - length if (above if k >= 0 else below) == "RIGHT" else 0
            steps = np.arange(max(length, 0))
            yield index, slice(offset, offset + max(length, 0)), steps - min(k, 0), steps + max(k, 0)


def limits(k: Array) -> tuple[int, int]:
    """Return the lowest and highest diagonal of an argument `k`: a scalar, or one or two numbers.

    Raises:
        GraphValueError: the shape is different, or the first number is greater.
    """
    flat = k.reshape(-1).tolist()
    if k.ndim > 1 or not 1 <= len(flat) <= 2:
        raise GraphValueError(
            f"diag_index must be a scalar or a vector of one or two numbers, got shape {shown(k.shape)}"
        )
    lower, upper = flat[0], flat[-1]
    if lower > upper:
        raise GraphValueError(
            f"lower_diag_index must not be greater than upper_diag_index: {lower} > {upper}"
        )
    return lower, upper


def band_of(lower: int, upper: int, rows: int, columns: int) -> Band:
    """Return the band, checked against the matrix: each limit must be one of its diagonals, or 0.

    Raises:
        GraphValueError: a limit is out of range.
    """
    for what, k in (("lower", lower), ("upper", upper)):
        if not (-rows < k < columns or k == 0):
            raise GraphValueError(
                f"{what}_diag_index is out of bound: {k}. It must be between {-rows} and {columns}"
            )
    return Band(lower, upper, rows, columns)


# Diagonals of matrices, with a band


def _k(context: ShapeContext, position: int) -> tuple[int, int] | None:
    shapes.with_rank_at_most(context.inputs[position], 1)
    value = context.value(position)
    return None if value is None else limits(value)


def _part_shape(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: the diagonals of matrices."""
    dims = shapes.with_rank_at_least(context.inputs[0], 2)
    if len(context.inputs) > 2:
        shapes.with_rank(context.inputs[2], 0)
    if len(context.inputs) > 1 and _k(context, 1) is None:
        return [None]
    lower, upper = _k(context, 1) or (0, 0) if len(context.inputs) > 1 else (0, 0)
    if dims is None:
        return [None]
    *batch, rows, columns = dims
    if rows is None or columns is None:
        return (
            [(*batch, *([None] if lower != upper else ()), None)]
            if lower == upper
            else [(*batch, upper - lower + 1, None)]
        )
    band = band_of(lower, upper, rows, columns)
    return [(*batch, *([band.count] if lower != upper else []), band.longest)]


def _parts(x: Array, band: Band, padding: Any, align: str) -> Array:
    result = np.full((*x.shape[:-2], band.count, band.longest), padding, x.dtype)
    for row, place, rows, columns in band.places(align):
        result[..., row, place] = x[..., rows, columns]
    return result[..., 0, :] if band.lower == band.upper else result


def _part_kernel(context: KernelContext) -> Compute:
    align = context.attrs.get("align", "LEFT_LEFT")

    @run_time
    def compute(x: Array, k: Array | None = None, padding: Array | None = None) -> Array:
        _check_matrices(x)
        lower, upper = (0, 0) if k is None else limits(k)
        return _parts(x, band_of(lower, upper, *x.shape[-2:]), _scalar(padding), align)

    return compute


def _scalar(padding: Array | None) -> Any:
    if padding is None:
        return 0
    if padding.size != 1:
        raise GraphValueError(f"padding_value must be a scalar, got shape {shown(padding.shape)}")
    return padding.reshape(())


def _check_matrices(x: Array) -> None:
    if x.ndim < 2:
        raise InvalidArgumentError(f"input must be at least 2-dim, received shape: {shown(x.shape)}")


def _set_shape(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: matrices with replaced diagonals."""
    dims = shapes.with_rank_at_least(context.inputs[0], 2)
    diagonal = shapes.with_rank_at_least(context.inputs[1], 1)
    k = _k(context, 2) if len(context.inputs) > 2 else (0, 0)
    single = k is None or k[0] == k[1]
    if dims is not None and k is not None and diagonal is not None:
        shapes.with_rank(diagonal, len(dims) - single)
    rows, columns = (None, None) if dims is None else dims[-2:]
    if dims is not None and k is not None and rows is not None and columns is not None:
        band = band_of(*k, rows, columns)
        shapes.merge((*dims[:-2], *([] if single else [band.count]), band.longest), diagonal)
    if diagonal is None or (dims is not None and k is None):
        return [dims]
    return [shapes.merge(dims, (*diagonal[: -1 if single else -2], None, None))]


def _set_kernel(context: KernelContext) -> Compute:
    align = context.attrs.get("align", "LEFT_LEFT")

    @run_time
    def compute(x: Array, diagonal: Array, k: Array | None = None) -> Array:
        _check_matrices(x)
        lower, upper = (0, 0) if k is None else limits(k)
        band = band_of(lower, upper, *x.shape[-2:])
        wanted = (*x.shape[:-2], *([band.count] if lower != upper else []), band.longest)
        if diagonal.shape != wanted:
            raise InvalidArgumentError(
                f"expected diagonals of shape {shown(wanted)} for an input of {shown(x.shape)}, got {shown(diagonal.shape)}"
            )
        result, rows_of = x.copy(), diagonal.reshape(*x.shape[:-2], band.count, band.longest)
        for row, place, rows, columns in band.places(align):
            result[..., rows, columns] = rows_of[..., row, place]
        return result

    return compute


def _number(value: Array | None) -> int:
    if value is None:
        return -1
    if value.ndim:
        raise GraphValueError(f"num_rows and num_cols must be scalars, got shape {shown(value.shape)}")
    return int(value)


def _matrix_size(length: int, k: tuple[int, int], rows: int, columns: int) -> tuple[int, int]:
    """Return the size of matrices with these diagonals: the given one, else the minimum.

    Raises:
        GraphValueError: the given size does not fit the diagonals.
    """
    least_rows, least_columns = length - min(k[1], 0), length + max(k[0], 0)
    if rows == -1 and columns == -1:
        return (max(least_rows, least_columns),) * 2
    for what, given, least in (("num_rows", rows, least_rows), ("num_cols", columns, least_columns)):
        if given != -1 and given < least:
            raise GraphValueError(f"{what} {given} is too small for the diagonals: expected at least {least}")
    found = least_rows if rows == -1 else rows, least_columns if columns == -1 else columns
    if least_rows != found[0] and least_columns != found[1]:
        raise GraphValueError(
            "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal"
        )
    return found


def _diag_shape(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: matrices built from diagonals."""
    dims = shapes.with_rank_at_least(context.inputs[0], 1)
    if len(context.inputs) == 1:
        return [None if dims is None else (*dims, dims[-1])]
    k = _k(context, 1)
    for given in context.inputs[2:]:
        shapes.with_rank(given, 0)
    numbers = [context.value(position) for position in (2, 3)]
    if dims is None or k is None:
        return [None]
    if k[0] != k[1]:
        shapes.with_rank_at_least(dims, 2)
        if dims[-2] not in (None, k[1] - k[0] + 1):
            raise GraphValueError(f"expected {k[1] - k[0] + 1} diagonals, got {dims[-2]}")
    batch = dims[: -1 if k[0] == k[1] else -2]
    if dims[-1] is None or any(number is None for number in numbers):
        return [(*batch, None, None)]
    return [(*batch, *_matrix_size(dims[-1], k, *map(_number, numbers)))]


def _diag_kernel(context: KernelContext) -> Compute:
    align = context.attrs.get("align", "LEFT_LEFT")

    @run_time
    def compute(
        diagonal: Array,
        k: Array | None = None,
        rows: Array | None = None,
        columns: Array | None = None,
        padding: Array | None = None,
    ) -> Array:
        lower, upper = (0, 0) if k is None else limits(k)
        if diagonal.ndim < 1 + (lower != upper):
            raise InvalidArgumentError(
                f"diagonal must be at least {1 + (lower != upper)}-dim, received shape: {shown(diagonal.shape)}"
            )
        if lower == upper:
            diagonal = diagonal[..., np.newaxis, :]
        if diagonal.shape[-2] != upper - lower + 1:
            raise InvalidArgumentError(f"expected {upper - lower + 1} diagonals, got {diagonal.shape[-2]}")
        if padding is not None and padding.ndim:
            raise InvalidArgumentError(f"padding_value must be a scalar, got shape {shown(padding.shape)}")
        size = _matrix_size(diagonal.shape[-1], (lower, upper), _number(rows), _number(columns))
        band = Band(lower, upper, *size)  # diagonals outside of the matrix are dropped
        result = np.full((*diagonal.shape[:-2], *size), _scalar(padding), diagonal.dtype)
        for row, place, where_rows, where_columns in band.places(align):
            result[..., where_rows, where_columns] = diagonal[..., row, place]
        return result

    return compute


def _zero(like: Tensor) -> Tensor:
    return convert_to_tensor(0, like.dtype.base_dtype)


def _part(op: Operation, dy: Tensor, k: Sequence[Tensor]) -> Tensor:
    """Return the gradient of the diagonals that the op inserts."""
    version = op.type[-2:] if op.type[-2:] in ("V2", "V3") else ""
    if not version:
        return apply_op("MatrixDiagPart", dy)
    return apply_op(f"MatrixDiagPart{version}", dy, *k, _zero(dy), **_alignment(op))


def _alignment(op: Operation) -> dict[str, Any]:
    return {"align": op.attrs["align"]} if "align" in op.attrs else {}


def _diag_gradient(op: Operation, dy: Tensor) -> list[Any]:
    return [_part(op, dy, op.inputs[1:2]), *[None] * (len(op.inputs) - 1)]


def _part_gradient(op: Operation, dy: Tensor) -> list[Any]:
    """Return zeros except for the diagonals: a new matrix if its size is static, else zeros with replaced diagonals."""
    x, rest = op.inputs[0], [None] * (len(op.inputs) - 1)
    if not rest:
        return [apply_op("MatrixSetDiag", apply_op("ZerosLike", x), dy)]
    version = op.type[-2:]
    if x.dims is not None and None not in x.dims[-2:]:
        size = [convert_to_tensor(dim, dtypes.int32) for dim in x.dims[-2:]]
        made = apply_op(f"MatrixDiag{version}", dy, op.inputs[1], *size, _zero(dy), **_alignment(op))
        return [made, *rest]
    return [
        apply_op(f"MatrixSetDiag{version}", apply_op("ZerosLike", x), dy, op.inputs[1], **_alignment(op)),
        *rest,
    ]


def _set_gradient(op: Operation, dy: Tensor) -> list[Any]:
    diagonal, k = op.inputs[1], op.inputs[2:]
    inside = apply_op(op.type, dy, apply_op("ZerosLike", diagonal), *k, **_alignment(op))
    return [inside, _part(op, dy, k), *[None] * len(k)]


for _version, _more, _attrs in (("", False, ""), ("V2", True, ""), ("V3", True, f"; {_ALIGN}")):
    register(
        f"MatrixDiag{_version}(diagonal:T"
        + (", k:int32, num_rows:int32, num_cols:int32, padding_value:T" if _more else "")
        + f") -> (output:T) [T:type{_attrs}]",
        shape=_diag_shape,
        kernel=_diag_kernel,
        gradient=_diag_gradient,
        shape_operands=(1, 2, 3) if _more else (),
    )
    register(
        f"MatrixDiagPart{_version}(input:T"
        + (", k:int32, padding_value:T" if _more else "")
        + f") -> (diagonal:T) [T:type{_attrs}]",
        shape=_part_shape,
        kernel=_part_kernel,
        gradient=_part_gradient,
        shape_operands=(1,) if _more else (),
    )
    register(
        f"MatrixSetDiag{_version}(input:T, diagonal:T"
        + (", k:int32" if _more else "")
        + f") -> (output:T) [T:type{_attrs}]",
        shape=_set_shape,
        kernel=_set_kernel,
        gradient=_set_gradient,
        shape_operands=(2,) if _more else (),
    )

# Bands


def _band_shape(context: ShapeContext) -> Sequence[Dims]:
    for dims in context.inputs[1:]:
        shapes.with_rank(dims, 0)
    dims = shapes.with_rank_at_least(context.inputs[0], 2)
    if dims is not None:
        for position, size, what in ((1, dims[-2], "num_lower"), (2, dims[-1], "num_upper")):
            value = context.value(position)
            if value is not None and size is not None and value > size:
                raise GraphValueError(f"{what} must be negative or at most {size}, got {int(value)}")
    return [dims]


def _band_part(x: Array, lower: Array, upper: Array) -> Array:
    _check_matrices(x)
    rows, columns = x.shape[-2:]
    for what, count, size in (("num_lower", lower, rows), ("num_upper", upper, columns)):
        if count.ndim or count > size:
            raise InvalidArgumentError(
                f"{what} must be negative or less or equal to {size}, got: {count.tolist()}"
            )
    below = np.arange(rows)[:, np.newaxis] - np.arange(columns)
    kept = ((lower < 0) | (below <= lower)) & ((upper < 0) | (-below <= upper))
    return np.where(kept, x, b"" if x.dtype == object else np.zeros((), x.dtype))


register(
    "MatrixBandPart(input:T, num_lower:Tindex, num_upper:Tindex) -> (band:T) [T:type; Tindex:type{int32|int64}=int64]",
    shape=_band_shape,
    kernel=plain(_band_part),
    gradient=lambda op, dy: [apply_op("MatrixBandPart", dy, *op.inputs[1:]), None, None],
)

# Diagonals of tensors


def _tensor_diag(diagonal: Array) -> Array:
    if not diagonal.ndim:
        raise InvalidArgumentError("Input must be at least rank 1, got 0")
    result = np.zeros((diagonal.size, diagonal.size), diagonal.dtype)
    np.fill_diagonal(result, diagonal.reshape(-1))
    return result.reshape(diagonal.shape * 2)


def _half_of_dims(dims: Dims) -> Dims:
    """Return the first half of a shape that consists of two equal halves."""
    if dims is None:
        return None
    if not dims or len(dims) % 2:
        raise GraphValueError(f"Input must have even and non-zero rank, input rank is {len(dims)}")
    middle = len(dims) // 2
    return shapes.merge(dims[:middle], dims[middle:])


@run_time
def _tensor_diag_part(x: Array) -> Array:
    _half_of_dims(x.shape)
    shape = x.shape[: x.ndim // 2]
    size = prod(shape)
    return np.diagonal(x.reshape(size, size)).reshape(shape).copy()


def _doubled_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = shapes.with_rank_at_least(context.inputs[0], 1)
    return [None if dims is None else dims * 2]


register(
    "Diag(diagonal:T) -> (output:T) [T:type@14]",
    shape=_doubled_shape,
    kernel=plain(_tensor_diag),
    gradient=lambda op, dy: [apply_op("DiagPart", dy)],
)
register(
    "DiagPart(input:T) -> (diagonal:T) [T:type@14]",
    shape=lambda context: [_half_of_dims(context.inputs[0])],
    kernel=plain(_tensor_diag_part),
    gradient=lambda op, dy: [apply_op("Diag", dy)],
)

# Functions


def matrix_diag(
    diagonal: Any,
    name: str = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Build matrices with these diagonals (see the module) and `padding_value` elsewhere."""
    tensor = convert_to_tensor(diagonal)
    padding = convert_to_tensor(padding_value, tensor.dtype.base_dtype)
    return apply_op("MatrixDiagV3", tensor, k, num_rows, num_cols, padding, align=align, name=name)


def matrix_diag_part(
    input: Any, name: str = "diag_part", k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Return the diagonals of matrices (see the module)."""
    tensor = convert_to_tensor(input)
    padding = convert_to_tensor(padding_value, tensor.dtype.base_dtype)
    return apply_op("MatrixDiagPartV3", tensor, k, padding, align=align, name=name)


def matrix_set_diag(
    input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Replace the diagonals of matrices (see the module)."""
    return apply_op("MatrixSetDiagV3", input, diagonal, k, align=align, name=name)


def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """Set matrices to 0 but for `num_lower` diagonals below and `num_upper` above the main one (negative: all), and itself."""
    return apply_op("MatrixBandPart", input, num_lower, num_upper, name=name)


def diag(diagonal: Any, name: str | None = None) -> Tensor:
    """Build a tensor of twice the rank with this diagonal, 0 elsewhere."""
    return apply_op("Diag", diagonal, name=name)


def diag_part(input: Any, name: str | None = None) -> Tensor:
    """Return the diagonal of a tensor whose shape consists of two equal halves."""
    return apply_op("DiagPart", input, name=name)


def trace(x: Any, name: str | None = None) -> Tensor:
    """Return the sums of the main diagonals of matrices."""
    diagonal = apply_op("MatrixDiagPart", convert_to_tensor(x))
    return apply_op("Sum", diagonal, convert_to_tensor([-1], dtypes.int32), name=name)


def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Create identity matrices, one per batch element; `num_columns` defaults to `num_rows`."""
    columns = num_rows if num_columns is None else num_columns
    with op_scope(name, "eye", num_rows, columns, batch_shape) as scope:
        rows, columns = (convert_to_tensor(size, dtypes.int32) for size in (num_rows, columns))
        length = apply_op("Reshape", apply_op("Minimum", rows, columns), [1])
        batch = [] if batch_shape is None else [convert_to_tensor(batch_shape, dtypes.int32)]
        one, zero = (convert_to_tensor(value, dtypes.as_dtype(dtype)) for value in (1, 0))
        diagonal = apply_op("Fill", apply_op("ConcatV2", [*batch, length], 0) if batch else length, one)
        return apply_op("MatrixDiagV3", diagonal, 0, rows, columns, zero, name=scope)
