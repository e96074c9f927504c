"""The protocols of datasets and passes.

A dataset is a value, over which any number of *passes* iterate. A pass is a state machine: `next` returns an element, None at
the end, or a `Request` for what must be there first; then the caller waits for that and calls `next` again. Arrays of elements
that are not writeable have another owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.resources.datasets.work import Element, Request, Work
from aioexec.shapes import Dims, compatible, shown

Memory = dict[Any, Any]
"""What datasets remember between the passes of one iteration, by dataset: the seeds of shuffles, the elements of caches."""


class Pass(Protocol):
    """One iteration over a dataset."""

    def next(self, work: Work) -> Element | Request | None:
        """Return the next element, a request to wait for, or None at the end.

        Raises:
            OpError: the next element failed; later ones may succeed.
        """
        ...


class Dataset(Protocol):
    """A sequence of elements with components of these dtypes and shapes."""

    @property
    def dtypes(self) -> tuple[DType, ...]: ...
    @property
    def dims(self) -> tuple[Dims, ...]: ...
    def begin(self, memory: Memory) -> Pass: ...


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """A dataset whose elements are like those of `source`."""

    source: Dataset

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return self.source.dtypes

    @property
    def dims(self) -> tuple[Dims, ...]:
        return self.source.dims


def check_components(
    expected: Sequence[DType], dims: Sequence[Dims], got: Sequence[DType], got_dims: Sequence[Dims]
) -> None:
    """Check that elements of dtypes and shapes `got` are compatible with those expected.

    Raises:
        InvalidArgumentError: they are incompatible.
    """
    if len(expected) != len(got):
        raise InvalidArgumentError(
            f"Number of components does not match: expected {len(expected)} got {len(got)}"
        )
    for k, (wanted, found) in enumerate(zip(expected, got, strict=True)):
        if wanted != found:
            raise InvalidArgumentError(
                f"Data type mismatch at component {k}: expected {wanted.name} but got {found.name}"
            )
    for k, (wanted_dims, found_dims) in enumerate(zip(dims, got_dims, strict=True)):
        if not compatible(wanted_dims, found_dims):
            raise InvalidArgumentError(
                f"Incompatible shapes at component {k}: expected {shown(wanted_dims)} but got {shown(found_dims)}"
            )
