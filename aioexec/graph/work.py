"""How long reference kernels take, as the rows of the registry state it (`Row.work`).

A row that states nothing takes at most about a nanosecond for each byte of its inputs and outputs, and strings somewhat more
(see `planning.workload`). A statement is a function of the attributes and the inputs. An input is an array, or a `Spec` where
only its shape is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from aioexec.graph.kernel import Attrs, Spec

Work = Callable[[Attrs, Sequence[Any]], float]
"""Attributes and inputs to nanoseconds, at most; infinite if they have no bound."""

UNBOUNDED = math.inf


def unbounded(attrs: Attrs, inputs: Sequence[Any]) -> float:
    """The work of a kernel that takes as long as its data makes it."""
    return UNBOUNDED


def per_element(nanoseconds: float, *positions: int) -> Work:
    """So much for each element of some inputs, or of all."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        chosen = [inputs[k] for k in positions] if positions else inputs
        return nanoseconds * sum(int(each.size) for each in chosen if hasattr(each, "size"))

    return work


def per_matrix(nanoseconds: float, position: int = 0) -> Work:
    """So much for each step of an elimination of a batch of matrices: m n min(m, n) of each."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        dims: tuple[int, ...] = (1, 1, *inputs[position].shape)
        return nanoseconds * math.prod(dims) * min(dims[-2:])

    return work


def drawn(nanoseconds: float, position: int = 0) -> Work:
    """So much for each element of the shape that an input gives."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        content = value_of(inputs[position])
        return UNBOUNDED if content is None else nanoseconds * math.prod(abs(int(d)) for d in content.flat)

    return work


def value_of(given: Any) -> Any:
    """The content of an input; None if only its shape is known."""
    return given.value if isinstance(given, Spec) else given
