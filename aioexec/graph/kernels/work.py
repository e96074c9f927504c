"""Estimates of the time of reference kernels (`Row.work`).

An estimate is a function of the attributes and the inputs, each an array, or a `Spec` if only its shape is known. A row without
one takes at most about a nanosecond per byte of inputs and outputs, somewhat more for strings (see `planning.workload`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aioexec.graph.kernels.kernel import Attrs, Spec

Work = Callable[[Attrs, Sequence[Any]], float]
"""(attributes, inputs) to an upper bound in nanoseconds; infinite if there is no bound."""

UNBOUNDED = math.inf


def evaluate_estimate(work: Work, attrs: Attrs, inputs: Sequence[Any]) -> float:
    """Evaluate an estimate; infinite if it raises, as it may for inputs that the kernel refuses."""
    try:
        return work(attrs, inputs)
    except Exception:
        return UNBOUNDED


def unbounded(attrs: Attrs, inputs: Sequence[Any]) -> float:
    """The estimate of a kernel whose time depends on the data without a bound."""
    return UNBOUNDED


def per_element(nanoseconds: float, *positions: int) -> Work:
    """An estimate proportional to the number of elements of some inputs, or of all."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        chosen = [inputs[k] for k in positions] if positions else inputs
        return nanoseconds * sum(int(each.size) for each in chosen if hasattr(each, "size"))

    return work


def drawn(nanoseconds: float, position: int = 0) -> Work:
    """An estimate proportional to the number of elements of the shape given by an input."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        content = value_of(inputs[position])
        return UNBOUNDED if content is None else nanoseconds * product(content.flat)

    return work


def product(sizes: Iterable[Any]) -> float:
    """The product of the absolute values of some integers, as a float, since it may exceed 64 bits."""
    return math.prod(abs(float(size)) for size in sizes)


def value_of(given: Any) -> Any:
    """The content of an input; None if only its shape is known."""
    return given.value if isinstance(given, Spec) else given
