"""StringFormat and PrintV2: tensors as readable text."""

from __future__ import annotations

import logging
import pprint
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import InvalidArgumentError
from aioexec.formats.file_errors import canonical
from aioexec.formats.sequential_files import open_output
from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext, StepContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.common.elementwise import Array
from aioexec.ops.common.tensor_values import is_tensor
from aioexec.ops.control_flow.nesting import map_sequences
from aioexec.ops.control_flow.printing import summarize
from aioexec.ops.strings.elements import array_of, scalar_bytes, text_of
from aioexec.shapes import Dims

logger = logging.getLogger("aioexec")


def shown_value(value: Any, ends: int) -> str:
    """Format an array, a line per row, with `summarize` elements at either end of each dimension (all if negative)."""
    array = np.asarray(value)
    if array.ndim == 0:
        return _element(array[()])
    return _rows(array, array.ndim, ends)


def _element(item: Any) -> str:
    if isinstance(item, bytes):
        return f'"{summarize(item, 1)}"'
    return summarize(item, 1)


def _rows(array: Array, rank: int, ends: int) -> str:
    depth = rank - array.ndim + 1
    between = " " if array.ndim == 1 else "\n" * (array.ndim - 1) + " " * depth
    return f"[{between.join(_parts(array, rank, ends))}]"


def _parts(array: Array, rank: int, ends: int) -> Iterator[str]:
    is_cut = 0 <= 2 * ends < len(array)
    for k, part in enumerate(array):
        if is_cut and ends <= k < len(array) - ends:
            if k == ends:
                yield "..."
            continue
        yield _element(part) if array.ndim == 1 else _rows(part, rank, ends)


def _format_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    parts: list[str] = (
        attrs["template"].split(attrs["placeholder"]) if attrs["placeholder"] else [attrs["template"]]
    )
    if len(parts) - 1 != len(context.input_dtypes):
        raise InvalidArgumentError(
            f"num placeholders in template and num inputs must match: {len(parts) - 1} vs. {len(context.input_dtypes)}"
        )

    def compute(*inputs: Array) -> Array:
        texts = [parts[0]]
        for value, part in zip(inputs, parts[1:], strict=True):
            texts += [shown_value(value, attrs["summarize"]), part]
        return array_of(["".join(texts).encode()], ())

    return compute


register(
    "StringFormat(inputs:T) -> (output:string) [T:list(type)>=0; template:string='%s'; placeholder:string='%s'; "
    "summarize:int=3]",
    shape=lambda context: [()],
    kernel=_format_kernel,
    gradient=undefined_gradient,
)

_FILE: Final = "file://"
_STREAMS: Final = ("stdout", "stderr")
_LEVELS: Final = {"log(info)": logging.INFO, "log(warning)": logging.WARNING, "log(error)": logging.ERROR}


def _print_kernel(context: KernelContext) -> Compute:
    stream, end = context.attrs["output_stream"], context.attrs["end"]
    if stream not in _STREAMS and stream not in _LEVELS and not stream.startswith(_FILE):
        raise InvalidArgumentError(f"Unknown output stream: {stream}")

    def compute(step: StepContext, value: Array) -> Any:
        text = text_of(scalar_bytes(value, "input")) + end
        if stream.startswith(_FILE):
            return step.run_in_worker(partial(_append, stream.removeprefix(_FILE), text))
        if stream in _LEVELS:
            logger.log(_LEVELS[stream], "%s", text.removesuffix("\n"))
        else:
            getattr(sys, stream).write(text)
        return None

    return compute


def _append(path: str, text: str) -> None:
    try:
        with open_output(path, appends=True) as file:
            file.write(text.encode())
    except (OSError, ValueError) as error:
        raise canonical(path, error) from error


def _print_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[0], 0)
    return []


register(
    "PrintV2(input:string) -> () [output_stream:string='stderr'; end:string='\\n'] {stateful}",
    shape=_print_shape,
    kernel=_print_kernel,
    gradient=undefined_gradient,
    asynchronous=True,
)


def string_format(
    template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None
) -> Tensor:
    """Replace the placeholders of a template by tensors, showing `summarize` elements at either end of each dimension."""
    values = inputs if isinstance(inputs, list | tuple) else [inputs]
    return apply_op(
        "StringFormat",
        [convert_to_tensor(value) for value in values],
        template=template,
        placeholder=placeholder,
        summarize=summarize,
        name=name,
    )


def print(*inputs: Any, **options: Any) -> Operation:
    """Return an operation that prints values separated by spaces.

    Texts are printed as they are, other values of Python as they are shown by `pprint`, with tensors in them as `string_format`
    shows tensors.

    Args:
        options: `output_stream` (sys.stderr, sys.stdout, or a name: "stdout", "stderr", "log(info)", "file://..."),
            `summarize` (3), `sep`, `end`, `name`.
    """
    stream, separator = options.get("output_stream", sys.stderr), options.get("sep", " ")
    names = {id(sys.stdout): "stdout", id(sys.stderr): "stderr"}
    return apply_no_output_op(
        "PrintV2",
        _printed(inputs, separator, options.get("summarize", 3)),
        output_stream=stream if isinstance(stream, str) else names.get(id(stream), "stderr"),
        end=options.get("end"),
        name=options.get("name"),
    )


def _printed(inputs: Sequence[Any], separator: str, ends: int) -> Tensor:
    """The text of values; a single scalar string is that itself, without quotes."""
    first = inputs[0] if len(inputs) == 1 else None
    if isinstance(first, Tensor) and first.dtype == dtypes.string and first.dims == ():
        return first
    mark = "{}"
    while any(mark in value for value in inputs if isinstance(value, str)):
        mark += "0"
    tensors: list[Any] = []

    def marked(value: Any) -> Any:
        if isinstance(value, SparseTensor):
            tensors.extend((value.indices, value.values, value.dense_shape))
            return f"SparseTensor(indices={mark}, values={mark}, shape={mark})"
        if is_tensor(value):
            tensors.append(value)
            return mark
        return value

    texts = [
        value if isinstance(value, str) else pprint.pformat(map_sequences(marked, value)) for value in inputs
    ]
    return string_format(separator.join(texts).replace(f"'{mark}'", mark), tensors, mark, ends)
