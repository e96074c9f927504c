"""Summaries of tensors and variables, named after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.control_flow.printing import Print
from aioexec.ops.io.summary_functions import histogram, image, scalar
from aioexec.ops.reduction.statistics import zero_fraction


def _name(tensor: Any, name: str | None, prefix: str | None, postfix: str | None = None) -> str:
    return "/".join(part for part in (prefix, name or tensor.op.name, postfix) if part)


def _printed(made: Callable[..., Any], name: str, tensor: Any, print_summary: bool) -> Any:
    """A summary; if it is to be printed, the printing node is in SUMMARIES in its place."""
    if not print_summary:
        return made(name, tensor)
    printed = Print(made(name, tensor, collections=[]), [tensor], name)
    get_default_graph().add_to_collection(GraphKeys.SUMMARIES, printed)
    return printed


def add_histogram_summary(tensor: Any, name: str | None = None, prefix: str | None = None) -> Any:
    """Add a histogram of a tensor; `name` is by default that of its node."""
    return histogram(_name(tensor, name, prefix), tensor)


def add_image_summary(
    tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False
) -> Any:
    """Add images [batch, height, width, channels]; print them when they are written, if asked to."""
    return _printed(image, _name(tensor, name, prefix), tensor, print_summary)


def add_scalar_summary(
    tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False
) -> Any:
    """Add a scalar; print it when it is written, if asked to."""
    return _printed(scalar, _name(tensor, name, prefix), tensor, print_summary)


def add_zero_fraction_summary(
    tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False
) -> Any:
    """Add the fraction of zeros of a tensor."""
    called = _name(tensor, name, prefix, "Fraction_of_Zero_Values")
    return add_scalar_summary(zero_fraction(tensor), called, print_summary=print_summary)


def add_histogram_summaries(tensors: Iterable[Any], prefix: str | None = None) -> list[Any]:
    """Add a histogram of each tensor."""
    return [add_histogram_summary(tensor, prefix=prefix) for tensor in tensors]


def add_image_summaries(tensors: Iterable[Any], prefix: str | None = None) -> list[Any]:
    """Add the images of each tensor."""
    return [add_image_summary(tensor, prefix=prefix) for tensor in tensors]


def add_scalar_summaries(
    tensors: Iterable[Any], prefix: str | None = None, print_summary: bool = False
) -> list[Any]:
    """Add each scalar."""
    return [add_scalar_summary(tensor, prefix=prefix, print_summary=print_summary) for tensor in tensors]


def add_zero_fraction_summaries(tensors: Iterable[Any], prefix: str | None = None) -> list[Any]:
    """Add the fraction of zeros of each tensor."""
    return [add_zero_fraction_summary(tensor, prefix=prefix) for tensor in tensors]
