"""Assert and Print: ops that format tensor values."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]


def summarize(value: Any, limit: int) -> str:
    """Format the first `limit` elements of an array (all if negative) as TensorFlow does: `1 2 3...`, `[1 2][3...]...`."""
    array = np.asarray(value)
    shown = array.size if limit < 0 else min(limit, array.size)
    if array.ndim == 0:
        return _element(array[()]) if shown else "..."
    text, _ = _lines(array, shown, outermost=True)
    return text + "..." if shown < array.size else text


def _lines(array: Array, shown: int, *, outermost: bool = False) -> tuple[str, int]:
    """Format up to `shown` elements; return the text and their number."""
    if array.ndim == 1:
        count = min(shown, len(array))
        text = " ".join(_element(item) for item in array[:count])
        return (text if outermost or count == len(array) else text + "..."), count
    parts, used = [], 0
    for part in array:
        if used >= shown:
            break
        text, count = _lines(part, shown - used)
        parts.append(f"[{text}]")
        used += count
    return "".join(parts), used


def _element(item: Any) -> str:
    if isinstance(item, bytes):
        return item.decode("utf-8", "backslashreplace").translate(_ESCAPES)
    if isinstance(item, bool | np.bool_):
        return str(int(item))
    if (
        isinstance(item, int | np.integer)
        or not np.isscalar(item)
        or isinstance(item, complex | np.complexfloating)
    ):
        return str(item)
    return _number(item)


_ESCAPES = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"})


def _number(item: Any) -> str:
    """Format a float in the fewer of 6 or 9 digits (15 or 17 for float64) that round-trips."""
    number = float(item)
    is_double = isinstance(item, float)
    short, long = (f"{number:.15g}", f"{number:.17g}") if is_double else (f"{number:.6g}", f"{number:.9g}")
    back = float(short) if is_double else float(np.float32(short))
    return short if back == number or number != number else long


# Assert


def _assert_kernel(context: KernelContext) -> Compute:
    limit: int = context.attrs["summarize"]

    def compute(condition: Array, *data: Any) -> None:
        if condition.ndim != 0:
            raise InvalidArgumentError(f"condition should be a scalar, got shape {condition.shape}")
        if not condition:
            raise InvalidArgumentError(
                "assertion failed: " + " ".join(f"[{summarize(item, limit)}]" for item in data)
            )

    return compute


register(
    "Assert(condition:bool, data:T) -> () [T:list(type)>=1; summarize:int=3] {stateful}",
    shape=lambda context: (),
    kernel=_assert_kernel,
    gradient=NOT_DIFFERENTIABLE,
)


def Assert(
    condition: Any, data: Sequence[Any], summarize: int | None = None, name: str | None = None
) -> Operation:
    """Return an operation that fails unless `condition` holds; its error shows `summarize` (3) elements of each of `data`.

    Only nodes that depend on it wait for it: use it in `control_dependencies`.

    Raises:
        InvalidArgumentError: (in a run) the condition does not hold.
    """
    with get_default_graph().name_scope(name or "Assert"):
        return apply_no_output_op("Assert", condition, list(data), summarize=summarize)


# Print


def _first_shape(context: ShapeContext) -> Sequence[Dims]:
    return [context.inputs[0]]


def _print_kernel(context: KernelContext) -> Compute:
    """Return a kernel that counts its calls for `first_n`, per session and from any thread."""
    message, first, limit = (context.attrs[name] for name in ("message", "first_n", "summarize"))
    lock = threading.Lock()
    printed = 0

    def compute(value: Any, *data: Any) -> Any:
        nonlocal printed
        with lock:
            if 0 <= first <= printed:
                return value
            printed += 1
        sys.stderr.write(f"{message}{''.join(f'[{summarize(item, limit)}]' for item in data)}\n")
        return value

    return compute


def _print_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | None]:
    return (dy, *(None for _ in op.inputs[1:]))


register(
    "Print(input:T, data:U) -> (output:T) [T:type; U:list(type)>=0; message:string=''; first_n:int=-1; summarize:int=3] "
    "{stateful}",
    shape=_first_shape,
    kernel=_print_kernel,
    gradient=_print_gradient,
)


def Print(
    input_: Any,
    data: Sequence[Any],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return `input_`; its computation prints `message` and `data` to the standard error stream.

    Args:
        first_n: maximum number of times to print per session.
        summarize: number of elements to print of each of `data` (3); all if negative.
    """
    return apply_op(
        "Print", input_, list(data), message=message, first_n=first_n, summarize=summarize, name=name
    )
