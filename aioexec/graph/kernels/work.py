"""Estimates of the time of reference kernels, as the rows of the registry state it (`Row.work`).

A row that states nothing takes at most about a nanosecond for each byte of its inputs and outputs, and strings somewhat more
(see `planning.workload`). A statement is a function of the attributes and the inputs. An input is an array, or a `Spec` where
only its shape is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aioexec.graph.kernels.kernel import Attrs, Spec

Work = Callable[[Attrs, Sequence[Any]], float]
"""Attributes and inputs to nanoseconds, at most; infinite if they have no bound."""

UNBOUNDED = math.inf


def stated(work: Work, attrs: Attrs, inputs: Sequence[Any]) -> float:
    """The value of a statement; infinite if it fails, as it may for inputs that the kernel refuses."""
    try:
        return work(attrs, inputs)
    except Exception:
        return UNBOUNDED


def unbounded(attrs: Attrs, inputs: Sequence[Any]) -> float:
    """The work of a kernel that takes as long as its data makes it."""
    return UNBOUNDED


def per_element(nanoseconds: float, *positions: int) -> Work:
    """A time for each element of some inputs, or of all."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        chosen = [inputs[k] for k in positions] if positions else inputs
        return nanoseconds * sum(int(each.size) for each in chosen if hasattr(each, "size"))

    return work


def drawn(nanoseconds: float, position: int = 0) -> Work:
    """A time for each element of the shape that an input gives."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        content = value_of(inputs[position])
        return UNBOUNDED if content is None else nanoseconds * product(content.flat)

    return work


def product(sizes: Iterable[Any]) -> float:
    """The product of the absolute values of some integers: as a float, for it may have any number of digits."""
    return math.prod(abs(float(size)) for size in sizes)


def value_of(given: Any) -> Any:
    """The content of an input; None if only its shape is known."""
    return given.value if isinstance(given, Spec) else given
