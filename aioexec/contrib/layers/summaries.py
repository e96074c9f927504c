"""Summaries of tensors by their rank and name: scalars and histograms of variables, losses and activations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from aioexec import dtypes
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.io.summary_functions import histogram, scalar
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import greater, less
from aioexec.ops.reduction.reductions import reduce_mean

_MOSTLY_ZERO = ("Relu", "Softplus", "Relu6")
"""Ops whose outputs are 0, or nearly, for negative inputs; the fraction of these has a summary."""


def summarize_tensor(tensor: Any, tag: str | None = None) -> Any:
    """Add a scalar summary of a scalar, else a histogram; return it. The tag is by default made of the name of the node."""
    made = scalar if tensor.shape.ndims == 0 else histogram
    return made(tag or f"{tensor.op.name}_summary", tensor)


def summarize_activation(op: Any) -> Any:
    """Add a histogram of a tensor, and the fractions of inputs outside of the range of a rectifier; return the histogram."""
    node = op.op
    if node.type in _MOSTLY_ZERO:
        scalar(f"{node.name}/zeros", _fraction(less(node.inputs[0], 0)))
    if node.type == "Relu6":
        scalar(f"{node.name}/sixes", _fraction(greater(node.inputs[0], 6)))
    return histogram(f"{node.name}/activation", op)


def _fraction(holds: Any) -> Any:
    return reduce_mean(cast(holds, dtypes.float32))


def summarize_tensors(
    tensor_list: Iterable[Any], summarizer: Callable[[Any], Any] = summarize_tensor
) -> list[Any]:
    """Add a summary of each tensor."""
    return [summarizer(tensor) for tensor in tensor_list]


def summarize_collection(
    collection: str, name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor
) -> list[Any]:
    """Add a summary of each tensor of a collection whose name begins with a match of `name_filter`."""
    return summarize_tensors(get_default_graph().get_collection(collection, name_filter), summarizer)


def summarize_variables(
    name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor
) -> list[Any]:
    """Add a summary of each global variable."""
    return summarize_collection(GraphKeys.GLOBAL_VARIABLES, name_filter, summarizer)


def summarize_weights(
    name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor
) -> list[Any]:
    """Add a summary of each variable in WEIGHTS."""
    return summarize_collection(GraphKeys.WEIGHTS, name_filter, summarizer)


def summarize_biases(
    name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor
) -> list[Any]:
    """Add a summary of each variable in BIASES."""
    return summarize_collection(GraphKeys.BIASES, name_filter, summarizer)


def summarize_activations(
    name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_activation
) -> list[Any]:
    """Add a summary of each tensor in ACTIVATIONS."""
    return summarize_collection(GraphKeys.ACTIVATIONS, name_filter, summarizer)
