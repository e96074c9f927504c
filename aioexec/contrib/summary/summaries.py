"""Summaries as operations: each writes to the writer that was the default when it was made, if the step is to be recorded."""

from __future__ import annotations

from typing import Any, Final

from aioexec import dtypes
from aioexec.contrib.summary.recording import should_record_summaries
from aioexec.contrib.summary.writers import current_writer
from aioexec.graph.graph import get_default_graph
from aioexec.ops.control_flow.dependencies import no_op
from aioexec.ops.control_flow.smart_cond import smart_cond
from aioexec.ops.functions.python import py_func
from aioexec.ops.io import summary_functions
from aioexec.ops.math.cast import cast
from aioexec.train.global_steps import get_or_create_global_step

_SUMMARIES: Final = "_SUMMARY_V2"
"""The collection with all of these operations."""


def _recorded(made: Any, name: str, tensor: Any, step: Any, **options: Any) -> Any:
    """The operation that writes a summary of a tensor."""
    writer = current_writer()
    if writer is None:
        return no_op()
    graph = get_default_graph()
    outer = graph.get_name_scope()
    number = get_or_create_global_step() if step is None else step

    def write(text: Any, count: Any) -> None:
        writer.add_summary(bytes(text), int(count))

    def record() -> Any:
        with graph.name_scope(f"{outer}/" if outer else None):  # tags do not depend on conditionals
            text = made(name, tensor, collections=[], **options)
            last = text.op.name.rpartition("/")[2]
            return py_func(write, [text, cast(number, dtypes.int64)], [], name=f"{last}_write")

    operation = smart_cond(should_record_summaries(), record, no_op)
    graph.add_to_collection(_SUMMARIES, operation)
    return operation


def all_summary_ops() -> list[Any]:
    """Return the operations of all summaries of the default graph."""
    return get_default_graph().get_collection(_SUMMARIES)


def scalar(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """Return an operation that writes a scalar; `step` is by default the global step."""
    return _recorded(summary_functions.scalar, name, tensor, step, family=family)


def histogram(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """Return an operation that writes a histogram of a tensor."""
    return _recorded(summary_functions.histogram, name, tensor, step, family=family)


def image(
    name: str,
    tensor: Any,
    bad_color: Any = None,
    max_images: int = 3,
    family: str | None = None,
    step: Any = None,
) -> Any:
    """Return an operation that writes images [batch, height, width, channels]; `bad_color` is ignored."""
    return _recorded(summary_functions.image, name, tensor, step, max_outputs=max_images, family=family)


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int,
    family: str | None = None,
    step: Any = None,
) -> Any:
    """Return an operation that writes sounds [batch, samples, channels] with values in [-1, 1]."""
    options = {"sample_rate": sample_rate, "max_outputs": max_outputs, "family": family}
    return _recorded(summary_functions.audio, name, tensor, step, **options)


def generic(name: str, tensor: Any, metadata: Any = None, family: str | None = None, step: Any = None) -> Any:
    """Return an operation that writes a tensor as it is, with a SummaryMetadata."""
    options = {"summary_metadata": metadata, "family": family}
    return _recorded(summary_functions.tensor_summary, name, tensor, step, **options)
