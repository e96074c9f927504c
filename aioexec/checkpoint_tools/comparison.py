"""Compares two checkpoints: which tensors are in one only, and which differ in dtype, shape or values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aioexec.checkpoint_tools.stored_tensors import StoredTensors
from aioexec.data_classes import dataclass
from aioexec.dtypes import string


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """How the values of a tensor differ: the number of elements that do, and the largest difference, if they are numbers."""

    name: str
    elements: int
    different: int
    largest: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences of two checkpoints; `changed` has names with dtype and shape of both, as text."""

    only_first: list[str]
    only_second: list[str]
    changed: dict[str, tuple[str, str]]
    different: list[ValueDifference]
    equal: int

    @property
    def is_equal(self) -> bool:
        """True if there is no difference."""
        return not (self.only_first or self.only_second or self.changed or self.different)


def compare(
    first: StoredTensors, second: StoredTensors, advance: Callable[[float], None] = lambda done: None
) -> Comparison:
    """Compare two checkpoints, a pair of tensors at a time; `advance` is called with the bytes done. NaN equals NaN.

    Raises:
        DataLossError: a tensor is damaged.
    """
    changed, different, equal, done = dict[str, tuple[str, str]](), list[ValueDifference](), 0, 0
    for name, one in first.tensors.items():
        other = second.tensors.get(name)
        if other is None:
            continue
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            changed[name] = (
                f"{one.dtype.name} {list(one.shape)}",
                f"{other.dtype.name} {list(other.shape)}",
            )
            continue
        found = _difference(name, first.read(name), second.read(name), is_text=one.dtype is string)
        if found is None:
            equal += 1
        else:
            different.append(found)
        done += one.size
        advance(done)
    return Comparison(
        [name for name in first.tensors if name not in second.tensors],
        [name for name in second.tensors if name not in first.tensors],
        changed,
        different,
        equal,
    )


def _difference(name: str, one: Any, other: Any, *, is_text: bool) -> ValueDifference | None:
    if is_text:
        unequal = np.asarray(one != other)
        count = int(np.count_nonzero(unequal))
        return ValueDifference(name, unequal.size, count, None) if count else None
    with np.errstate(invalid="ignore"):
        unequal = np.asarray((one != other) & ~((one != one) & (other != other)))
        count = int(np.count_nonzero(unequal))
        if not count:
            return None
        largest = None
        if one.dtype.kind != "b":
            wide = np.complex128 if one.dtype.kind == "c" else np.float64
            gaps = np.abs(one[unequal].astype(wide) - other[unequal].astype(wide))
            largest = float(np.max(gaps))
    return ValueDifference(name, unequal.size, count, largest)
