"""Assertions about tensors: evaluated at graph construction if values or shapes are static, else by Assert nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.common.elementwise import named
from aioexec.ops.control_flow.dependencies import no_op
from aioexec.ops.control_flow.printing import Assert

Array = np.ndarray[Any, Any]


def _named(name: str | None, default: str) -> Any:
    return get_default_graph().name_scope(name or default)


def _all(condition: Tensor) -> Tensor:
    """Return whether a boolean tensor is true everywhere."""
    dims = condition.dims
    axes = (
        apply_op("Range", 0, apply_op("Rank", condition), 1)
        if dims is None
        else np.arange(len(dims), dtype=np.int32)
    )
    return apply_op("All", condition, axes)


def _with_message(message: str | None, data: Sequence[Any]) -> list[Any]:
    return list(data) if message is None else [message, *data]


def _assert(static: Any, condition: Tensor, data: Sequence[Any], summarize: int | None) -> Operation:
    """Raise at once if the condition is statically false."""
    if static is not None and not static:
        values = [constant_value(item) if isinstance(item, Tensor) else item for item in data]
        raise InvalidArgumentError("\n".join(str(value) for value in values))
    return Assert(condition, data, summarize=summarize)


# Comparisons

Compare = Callable[[Array, Array], Any]


def _compare(
    symbol: str,
    op: str,
    compare: Compare,
    x: Any,
    y: Any,
    data: Any,
    summarize: int | None,
    message: str | None,
) -> Operation:
    x = convert_to_tensor(x, name="x")
    y = convert_to_tensor(y, x.dtype.base_dtype, name="y")
    if data is None:
        data = [
            f"Condition x {symbol} y did not hold element-wise:",
            f"x ({x.name}) = ",
            x,
            f"y ({y.name}) = ",
            y,
        ]
    one, other = constant_value(x), constant_value(y)
    static = None if one is None or other is None else bool(np.all(compare(one, other)))
    return _assert(static, _all(apply_op(op, x, y)), _with_message(message, data), summarize)


def _comparison_check(
    name_of_function: str, symbol: str, op: str, compare: Compare
) -> Callable[..., Operation]:
    def check(
        x: Any,
        y: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        with _named(name, name_of_function):
            return _compare(symbol, op, compare, x, y, data, summarize, message)

    return named(check, name_of_function, f"Return an operation that fails unless x {symbol} y everywhere.")


assert_equal = _comparison_check("assert_equal", "==", "Equal", np.equal)
assert_none_equal = _comparison_check("assert_none_equal", "!=", "NotEqual", np.not_equal)
assert_less = _comparison_check("assert_less", "<", "Less", np.less)
assert_less_equal = _comparison_check("assert_less_equal", "<=", "LessEqual", np.less_equal)
assert_greater = _comparison_check("assert_greater", ">", "Greater", np.greater)
assert_greater_equal = _comparison_check("assert_greater_equal", ">=", "GreaterEqual", np.greater_equal)


def _sign_check(name_of_function: str, symbol: str, op: str, compare: Compare) -> Callable[..., Operation]:
    def check(
        x: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        with _named(name, name_of_function):
            x = convert_to_tensor(x, name="x")
            if data is None:
                data = [f"Condition x {symbol} 0 did not hold element-wise:", f"x ({x.name}) = ", x]
            return _compare(symbol, op, compare, x, 0, data, summarize, message)

    return named(check, name_of_function, f"Return an operation that fails unless x {symbol} 0 everywhere.")


assert_positive = _sign_check("assert_positive", ">", "Greater", np.greater)
assert_negative = _sign_check("assert_negative", "<", "Less", np.less)
assert_non_positive = _sign_check("assert_non_positive", "<=", "LessEqual", np.less_equal)
assert_non_negative = _sign_check("assert_non_negative", ">=", "GreaterEqual", np.greater_equal)


def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Return an operation that fails unless |x - y| < atol + rtol |y| everywhere; both default to 10 machine epsilons."""
    with _named(name, "assert_near"):
        x = convert_to_tensor(x, name="x")
        dtype = x.dtype.base_dtype
        y = convert_to_tensor(y, dtype, "y")
        precision = 10 * (
            np.finfo(dtype.numpy).eps if dtype in (dtypes.float32, dtypes.float64) else 2.0**-10
        )
        rtol = convert_to_tensor(precision if rtol is None else rtol, dtype, "rtol")
        atol = convert_to_tensor(precision if atol is None else atol, dtype, "atol")
        if data is None:
            data = [
                "x and y not equal to tolerance rtol, atol: ",
                *(f"x ({x.name}) = ", x, f"y ({y.name}) = ", y, "rtol, atol = ", rtol, atol),
            ]
        allowed = apply_op("AddV2", atol, apply_op("Mul", rtol, apply_op("Abs", y)))
        near = apply_op("Less", apply_op("Abs", apply_op("Sub", x, y)), allowed)
        return Assert(_all(near), _with_message(message, data), summarize=summarize)


# Ranks

_DECIDED = "static_checks_determined_all_ok"


def _ranks(ranks: Sequence[Any]) -> list[Tensor]:
    """Return ranks as scalar tensors of int32; raises GraphValueError, GraphTypeError."""
    tensors = [convert_to_tensor(rank, name="rank") for rank in ranks]
    for tensor in tensors:
        if tensor.dtype.base_dtype is not dtypes.int32:
            raise GraphTypeError(f"{tensor.name} must be of type int32, got {tensor.dtype.name}")
        if tensor.dims not in (None, ()):
            raise GraphValueError(f"{tensor.name} must be a scalar, got shape {tensor.shape}")
    return tensors


def _check_rank(
    x: Any,
    ranks: Sequence[Any],
    words: str,
    op: str,
    compare: Compare,
    data: Any,
    summarize: int | None,
    message: str | None,
) -> Operation:
    x = convert_to_tensor(x, name="x")
    tensors = _ranks(ranks)
    known = [constant_value(tensor) for tensor in tensors]
    if x.dims is not None and all(rank is not None for rank in known):
        wanted = [int(rank) for rank in known if rank is not None]
        if not any(compare(np.array(len(x.dims)), np.array(rank)) for rank in wanted):
            shown = wanted[0] if len(wanted) == 1 else tuple(wanted)
            start = "" if message is None else f"{message}.  "
            raise GraphValueError(
                f"{start}Tensor {x.name} must have rank {words}{shown}, received rank {len(x.dims)}, shape {x.shape}"
            )
        return no_op(_DECIDED)
    if data is None:
        data = [f"Tensor {x.name} must have rank {words}", *tensors, "Received shape: ", apply_op("Shape", x)]
    rank = apply_op("Rank", x)
    condition = apply_op(op, rank, tensors[0])
    for tensor in tensors[1:]:
        condition = apply_op("LogicalOr", condition, apply_op(op, rank, tensor))
    return Assert(condition, _with_message(message, data), summarize=summarize)


def _rank_check(
    name_of_function: str, words: str, op: str, compare: Compare, summary: str
) -> Callable[..., Operation]:
    def check(
        x: Any,
        rank: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        with _named(name, name_of_function):
            return _check_rank(x, [rank], words, op, compare, data, summarize, message)

    doc = f"Return an operation that fails unless `x` has {summary}; raises GraphValueError if it is statically wrong."
    return named(check, name_of_function, doc)


assert_rank = _rank_check("assert_rank", "", "Equal", np.equal, "this rank")
assert_rank_at_least = _rank_check(
    "assert_rank_at_least", "at least ", "GreaterEqual", np.greater_equal, "at least this rank"
)


def assert_rank_in(
    x: Any,
    ranks: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Return an operation that fails unless `x` has one of these ranks; raises GraphValueError if it is statically wrong."""
    with _named(name, "assert_rank_in"):
        return _check_rank(x, list(ranks), "in ", "Equal", np.equal, data, summarize, message)


# Types and static shapes


def assert_type(tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None) -> Operation:
    """Raise GraphTypeError for a tensor of another dtype."""
    wanted = dtypes.as_dtype(tf_type)
    with _named(name, "assert_type"):
        tensor = convert_to_tensor(tensor, name="tensor")
        if tensor.dtype.base_dtype != wanted.base_dtype:
            start = "" if message is None else f"{message}.  "
            raise GraphTypeError(
                f"{start}{tensor.name} must be of type {wanted.name}, got {tensor.dtype.name}"
            )
        return no_op("statically_determined_correct_type")


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    """Raise GraphTypeError for a tensor that is not of an integer dtype."""
    with _named(name, "assert_integer"):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.base_dtype.is_integer:
            start = "" if message is None else f"{message}.  "
            raise GraphTypeError(
                f"{start}Expected 'x' to be of an integer type, got {x.name} of dtype {x.dtype.name}"
            )
        return no_op("statically_determined_was_integer")


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Tensor:
    """Return the tensor, or raise GraphValueError if it is statically not a scalar."""
    with _named(name, "assert_scalar") as scope:
        scalar = convert_to_tensor(tensor, name=scope)
        if scalar.dims not in (None, ()):
            start = "" if message is None else f"{message}.  "
            raise GraphValueError(f"{start}Expected scalar shape for {scalar.name}, got {scalar.shape}")
        return scalar


def assert_same_float_dtype(tensors: Iterable[Any] | None = None, dtype: Any = None) -> DType:
    """Return the floating dtype that all `tensors` have (float32 if none is given), or raise GraphValueError."""
    found: DType | None = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    for tensor in tensors or ():
        own: DType = convert_to_tensor(tensor).dtype.base_dtype
        if found is not None and own != found:
            raise GraphValueError(
                f"Expected tensors of dtype {found.name}, got {tensor!r} of dtype {own.name}"
            )
        found = own
    if found is not None and not found.is_floating:
        raise GraphValueError(f"Expected a floating dtype, got {found.name}")
    return found or dtypes.float32


def assert_proper_iterable(values: Any) -> None:
    """Raise GraphTypeError for tensors, arrays and strings (iterable, but not collections) and for non-iterables."""
    if isinstance(values, Tensor | np.ndarray | str | bytes) or not hasattr(values, "__iter__"):
        raise GraphTypeError(f"Expected argument 'values' to be a proper iterable, got {type(values)}")


def is_numeric_tensor(tensor: Any) -> bool:
    """Return whether an object is a tensor of a numeric dtype."""
    if not isinstance(tensor, Tensor):
        return False
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_integer or dtype.is_complex


def _steps(x: Any, op: str) -> Tensor:
    """Return whether `compare` holds between each element of the flattened `x` and the next one."""
    flat = apply_op("Reshape", convert_to_tensor(x, name="x"), [-1])
    before = apply_op("StridedSlice", flat, [0], [-1], [1], begin_mask=1)
    after = apply_op("StridedSlice", flat, [1], [0], [1], end_mask=1)
    return _all(apply_op(op, before, after))


def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Return whether no element of the flattened `x` is greater than the next one; true for fewer than two."""
    with _named(name, "is_non_decreasing"):
        return _steps(x, "LessEqual")


def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Return whether each element of the flattened `x` is less than the next one; true for fewer than two."""
    with _named(name, "is_strictly_increasing"):
        return _steps(x, "Less")
