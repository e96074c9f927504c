"""Functions that add summary ops; a tag is the scope name of its node."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import add_to_collections, get_collection, name_scope

if TYPE_CHECKING:
    from aioexec.formats.protos import SummaryDescription, SummaryMetadata

_ILLEGAL: Final = re.compile(r"[^-/\w\.]")


def scalar(
    name: str, tensor: Any, collections: Sequence[str] | None = None, family: str | None = None
) -> Tensor:
    """Add a scalar summary. `family` is a prefix of the tag, by which TensorBoard groups summaries."""
    with _summary_scope(name, family, [tensor]) as (tag, scope):
        made = apply_op("ScalarSummary", tag, tensor, name=scope)
    return _collected(made, collections)


def histogram(
    name: str, values: Any, collections: Sequence[str] | None = None, family: str | None = None
) -> Tensor:
    """Add a histogram of the elements of a tensor."""
    with _summary_scope(name, family, [values], "HistogramSummary") as (tag, scope):
        own = convert_to_tensor(values, name="values")  # keeps the dtype of the values
        made = apply_op("HistogramSummary", tag, own, name=scope)
    return _collected(made, collections)


def image(
    name: str,
    tensor: Any,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """Add the first images of a batch [batch, height, width, channels], tagged `name/image/0` and so on."""
    with _summary_scope(name, family, [tensor]) as (tag, scope):
        own = convert_to_tensor(tensor, name="tensor")
        made = apply_op("ImageSummary", tag, own, max_images=max_outputs, name=scope)
    return _collected(made, collections)


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """Add the first clips of a batch [batch, frames, channels] or [batch, frames], tagged `name/audio/0` and so on."""
    with _summary_scope(name, family, [tensor]) as (tag, scope):
        rate = convert_to_tensor(sample_rate, dtypes.float32, name="sample_rate")
        made = apply_op("AudioSummaryV2", tag, tensor, rate, max_outputs=max_outputs, name=scope)
    return _collected(made, collections)


def text(name: str, tensor: Tensor, collections: Sequence[str] | None = None) -> Tensor:
    """Add strings, displayed as Markdown; a matrix is displayed as a table.

    Raises:
        GraphValueError: the tensor does not hold strings.
    """
    from aioexec.formats.protos import SummaryMetadata

    if tensor.dtype.base_dtype != dtypes.string:
        raise GraphValueError(f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype.name}")
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return tensor_summary(name, tensor, summary_metadata=metadata, collections=collections)


def tensor_summary(
    name: str,
    tensor: Any,
    summary_description: str | None = None,
    collections: Sequence[str] | None = None,
    summary_metadata: SummaryMetadata | None = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """Add a tensor, with metadata that names the plugin that displays it.

    Args:
        summary_description, display_name: stored in the metadata.
    """
    from aioexec.formats.protos import SummaryMetadata

    metadata = SummaryMetadata()
    if summary_metadata is not None:
        metadata.CopyFrom(summary_metadata)
    if summary_description is not None:
        metadata.summary_description = summary_description
    if display_name is not None:
        metadata.display_name = display_name
    with _summary_scope(name, family, [tensor]) as (tag, scope):
        made = apply_op("TensorSummaryV2", tag, tensor, metadata.SerializeToString(), name=scope)
    return _collected(made, collections)


def merge(inputs: Sequence[Any], collections: Sequence[str] | None = None, name: str | None = None) -> Tensor:
    """Merge summaries; their tags must be distinct."""
    cleaned = _cleaned(name)
    with name_scope(cleaned, "Merge", inputs):
        made = apply_op("MergeSummary", inputs, name=cleaned)
    return _collected(made, collections or ())


def merge_all(
    key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None
) -> Tensor | None:
    """Merge all summaries of a collection of the default graph; None if there are none.

    Args:
        scope: a regular expression; only names that it matches from the start are merged.
    """
    found = get_collection(key, scope)
    return merge(found, name=name) if found else None


def get_summary_description(node_def: Any) -> SummaryDescription:
    """Return the SummaryDescription of a TensorSummary node.

    Raises:
        GraphValueError: the node has another type.
    """
    from google.protobuf import json_format

    from aioexec.formats.protos import SummaryDescription

    if node_def.op != "TensorSummary":
        raise GraphValueError(f"Can't get_summary_description on {node_def.op}")
    return json_format.Parse(node_def.attr["description"].s.decode(), SummaryDescription())


@contextlib.contextmanager
def _summary_scope(
    name: str, family: str | None, values: Sequence[Any], default_name: str | None = None
) -> Iterator[tuple[str, str]]:
    """Open a scope named after the summary, which makes its tag unique; a family becomes a prefix of the tag."""
    name, family = _cleaned(name), _cleaned(family)
    with name_scope(name if family is None else f"{family}/{name}", default_name, values) as scope:
        tag = scope.rstrip("/")
        yield tag if family is None else f"{family}/{tag}", scope


def _cleaned(name: Any) -> Any:
    """Replace the characters that node names may not contain."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise GraphTypeError(f"the name of a summary must be a str, got {name!r}")
    return _ILLEGAL.sub("_", name).lstrip("/")


def _collected(summary: Tensor, collections: Sequence[str] | None) -> Tensor:
    add_to_collections([GraphKeys.SUMMARIES] if collections is None else collections, summary)
    return summary
