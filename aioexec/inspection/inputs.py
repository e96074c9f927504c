"""Generated feeds for a step, of the required shapes and dtypes.

Floating-point values are uniform in [0, 1), from a fixed seed; integers are 0, which is valid as an index and as a label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType, as_dtype
from aioexec.errors import InvalidArgumentError
from aioexec.graph.node import Operation, Tensor
from aioexec.inspection.models import OpenModel

_SEED = 7
_FEED = re.compile(r"(?P<name>[^=]+)=(?P<shape>[\d,x]*)(:(?P<dtype>\w+))?")


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed of the command line. Without a dtype it has the tensor's."""

    name: str
    shape: tuple[int, ...]
    dtype: DType | None


def parse_feed(text: str) -> Feed:
    """Parse `x=32,784:float32`; `x=:int32` is a scalar, `x=32,784` has the dtype of the tensor.

    Raises:
        ValueError: malformed.
    """
    found = _FEED.fullmatch(text)
    if found is None:
        raise ValueError(f"expected NAME=SHAPE or NAME=SHAPE:DTYPE, such as x=32,784:float32, got {text!r}")
    shape = tuple(int(dim) for dim in re.split(r"[,x]", found["shape"]) if dim)
    try:
        return Feed(found["name"], shape, as_dtype(found["dtype"]) if found["dtype"] else None)
    except TypeError as error:
        raise ValueError(str(error)) from error


def made_feeds(
    model: OpenModel, fetches: Sequence[Tensor | Operation], asked: Iterable[Feed]
) -> dict[Tensor, Any]:
    """Values for the given feeds, and for the placeholders of known shape that a step needs.

    Raises:
        InvalidArgumentError: a name is not in the graph, or the shape of a placeholder is not known and not given.
    """
    random = np.random.default_rng(_SEED)
    feeds: dict[Tensor, Any] = {}
    for feed in asked:
        tensor = model.feed(feed.name)
        feeds[tensor] = _made(random, feed.shape, feed.dtype or tensor.dtype)
    for operation in _needed_operations(fetches, feeds):
        if operation.type == "Placeholder":
            (tensor,) = operation.outputs
            if not tensor.shape.is_fully_defined():
                raise InvalidArgumentError(
                    f"the step needs {tensor.name}, of shape {tensor.shape}: say which with "
                    f"--feed {operation.name}=SHAPE:{tensor.dtype.name}"
                )
            feeds[tensor] = _made(random, [int(dim) for dim in tensor.shape.dims or ()], tensor.dtype)
    return feeds


def _made(random: np.random.Generator, shape: Sequence[int], dtype: DType) -> Any:
    if dtype.is_floating or dtype.is_complex:
        return random.random(tuple(shape)).astype(dtype.as_numpy_dtype)
    return (
        np.full(tuple(shape), b"") if dtype.name == "string" else np.zeros(tuple(shape), dtype.as_numpy_dtype)
    )


def _needed_operations(fetches: Sequence[Tensor | Operation], feeds: dict[Tensor, Any]) -> list[Operation]:
    """The operations that a step needs."""
    wanted = [fetch for fetch in fetches if fetch not in feeds]
    pending = [each.op if isinstance(each, Tensor) else each for each in wanted]
    seen = set(pending)
    for operation in pending:
        before = [tensor.op for tensor in operation.inputs if tensor not in feeds]
        fresh = dict.fromkeys(each for each in (*before, *operation.control_inputs) if each not in seen)
        seen.update(fresh)
        pending.extend(fresh)
    return pending
