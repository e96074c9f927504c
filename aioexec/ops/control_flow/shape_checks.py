"""`assert_shapes`: sizes of the dimensions of several tensors, by numbers and by symbols that stand for one size each.

What the static shapes decide is checked when the graph is built; the rest by Assert nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.checks import assert_rank, assert_rank_at_least
from aioexec.ops.control_flow.dependencies import group, no_op
from aioexec.ops.control_flow.printing import Assert
from aioexec.shapes import Dims

_OUTER: Final = (Ellipsis, "*")
_ANY: Final = (None, ".")


@dataclass(frozen=True)
class _Wanted:
    """A tensor and the sizes wanted of its dimensions, of its last ones if it `has_outer` dimensions more."""

    tensor: Any
    sizes: tuple[Any, ...]
    has_outer: bool

    @property
    def name(self) -> str:
        return str(self.tensor.values.name if isinstance(self.tensor, SparseTensor) else self.tensor.name)

    @property
    def dims(self) -> Dims:
        """The static shape; a scalar counts as a vector with one element."""
        dims = self.tensor.shape.dims
        known = None if dims is None else tuple(dim.value for dim in dims)
        return (1,) if known == () else known

    def static_size(self, position: int) -> int | None:
        dims = self.dims
        place = position - len(self.sizes) if self.has_outer else position
        return None if dims is None or not -len(dims) <= place < len(dims) else dims[place]

    def size(self, position: int) -> Tensor:
        """Return a dimension as a scalar of int32."""
        if isinstance(self.tensor, SparseTensor):
            whole = apply_op("Cast", self.tensor.dense_shape, DstT="int32")
        else:
            whole = apply_op("Shape", self.tensor)
        return whole[position - len(self.sizes)] if self.has_outer else whole[position]


@dataclass(frozen=True)
class _Expected:
    """A size that a symbol stands for: its number, if it is static, or its tensor; and the tensor it was taken from."""

    static: int | None
    size: Any
    source: str


def assert_shapes(
    shapes: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Return an operation that fails unless the dimensions of tensors have the wanted sizes.

    A size is an integer, None or "." for any, or any other object, a symbol: wherever it stands, the size must be the same.
    A first element `...` or "*" stands for any outer dimensions. A scalar counts as a vector with one element.

    Args:
        shapes: pairs of a tensor and its wanted shape; None for any shape.
        data: what the message of the error shows; by default what differs.
        summarize: how many elements of each the message shows.

    Raises:
        GraphValueError: a static shape differs, or a wanted shape is no sequence, or has `...` elsewhere than in front.
    """
    pairs = shapes.items() if isinstance(shapes, Mapping) else shapes
    start = "" if message is None else f"{message}.  "
    with op_scope(name, "assert_shapes"):
        wanted = [_wanted(tensor, shape, start) for tensor, shape in pairs if shape is not None]
        checks = [
            check for each in wanted if (check := _rank_check(each, data, summarize, message)) is not None
        ]
        expected: dict[Any, _Expected] = {}
        for each in wanted:
            checks += _size_checks(each, expected, start, data, summarize)
        return group(*checks) if checks else no_op("static_checks_determined_all_ok")


def _wanted(tensor: Any, shape: Any, start: str) -> _Wanted:
    own: Any = tensor if isinstance(tensor, SparseTensor) else convert_to_tensor(tensor)
    if not hasattr(shape, "__iter__"):
        raise GraphValueError(
            f"{start}Tensor {own}.  Specified shape must be an iterable.  Received specified shape: {shape}"
        )
    sizes = tuple(getattr(size, "value", size) for size in shape)
    has_outer = bool(sizes) and sizes[0] in _OUTER
    inner = sizes[1:] if has_outer else sizes or (1,)
    found = _Wanted(own, tuple(_number_or_symbol(size) for size in inner), has_outer)
    for position, size in enumerate(inner):
        if size in _OUTER:
            raise GraphValueError(
                f"{start}Tensor {found.name} specified shape index {position + has_outer}.  Symbol `...` or `*` for a variable "
                "number of unspecified dimensions is only allowed as the first entry"
            )
    return found


def _number_or_symbol(size: Any) -> Any:
    try:
        return size if size in _OUTER or size in _ANY else int(size)
    except (TypeError, ValueError):
        return size


def _rank_check(wanted: _Wanted, data: Any, summarize: int | None, message: str | None) -> Operation | None:
    """Check the rank, which does not matter for scalars and vectors: both count as vectors."""
    if len(wanted.sizes) < 2:
        if wanted.dims is not None and not wanted.has_outer and len(wanted.dims) > 1:
            assert_rank(wanted.tensor, 1, message=message)  # raises
        return None
    tensor = wanted.tensor
    if isinstance(tensor, SparseTensor):
        tensor = tensor.dense_shape
        raise_unless = tensor.dims is None or tensor.dims[0] in (None, len(wanted.sizes)) or wanted.has_outer
        if not raise_unless:
            raise GraphValueError(f"Tensor {wanted.name} must have rank {len(wanted.sizes)}")
        return None
    check = assert_rank_at_least if wanted.has_outer else assert_rank
    made = check(tensor, len(wanted.sizes), data, summarize, message)
    return None if made.type == "NoOp" else made


def _size_checks(
    wanted: _Wanted, expected: dict[Any, _Expected], start: str, data: Any, summarize: int | None
) -> list[Operation]:
    checks = []
    for position, size in enumerate(wanted.sizes):
        if size in _ANY:
            continue
        static = wanted.static_size(position)
        if isinstance(size, int):
            known = _Expected(size, size, "")
        elif size not in expected:
            expected[size] = _Expected(
                static, static if static is not None else wanted.size(position), wanted.name
            )
            continue
        else:
            known = expected[size]
        if static is not None and known.static is not None:
            if static != known.static:
                raise GraphValueError(_difference(wanted, position, size, known, start, static))
            continue
        shown = (
            data
            if data is not None
            else [_difference(wanted, position, size, known, start, None), wanted.tensor]
        )
        if data is None and isinstance(wanted.tensor, SparseTensor):
            shown = shown[:1]
        checks.append(
            Assert(apply_op("Equal", wanted.size(position), known.size), shown, summarize=summarize)
        )
    return checks


def _difference(
    wanted: _Wanted, position: int, size: Any, known: _Expected, start: str, static: int | None
) -> str:
    place = position - len(wanted.sizes) if wanted.has_outer else position
    received = "" if static is None else f", received size {static}"
    source = f" (of {known.source})" if known.source else ""
    expected = size if known.static is None else known.static
    return f"{start}Tensor {wanted.name} dimension {place} must have size {expected}{source}{received}"
