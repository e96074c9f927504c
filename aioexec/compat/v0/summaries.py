"""Summaries with the arguments of TensorFlow 0.x: the tag is an argument, not the name of the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec import dtypes
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import add_to_collections
from aioexec.ops.io.summary_functions import merge, merge_all


def _collected(summary: Tensor, collections: Sequence[str] | None) -> Tensor:
    add_to_collections([GraphKeys.SUMMARIES] if collections is None else collections, summary)
    return summary


def scalar_summary(
    tags: Any, values: Any, collections: Sequence[str] | None = None, name: str | None = None
) -> Tensor:
    """Add a scalar summary for each tag: `summary.scalar(name, tensor)` since 1.0, whose tag is its name.

    Args:
        tags: a string, or strings of the shape of `values`.
    """
    return _collected(apply_op("ScalarSummary", tags, values, name=name), collections)


def histogram_summary(
    tag: Any, values: Any, collections: Sequence[str] | None = None, name: str | None = None
) -> Tensor:
    """Add a histogram of the elements of a tensor: `summary.histogram(name, values)` since 1.0."""
    return _collected(
        apply_op("HistogramSummary", tag, convert_to_tensor(values, name="values"), name=name), collections
    )


def image_summary(
    tag: Any,
    tensor: Any,
    max_images: int = 3,
    collections: Sequence[str] | None = None,
    name: str | None = None,
) -> Tensor:
    """Add the first images of a batch: `summary.image(name, tensor, max_outputs)` since 1.0."""
    images = convert_to_tensor(tensor, name="tensor")
    return _collected(apply_op("ImageSummary", tag, images, max_images=max_images, name=name), collections)


def audio_summary(
    tag: Any,
    tensor: Any,
    sample_rate: float,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    name: str | None = None,
) -> Tensor:
    """Add the first clips of a batch: `summary.audio(name, tensor, sample_rate, max_outputs)` since 1.0."""
    rate = convert_to_tensor(sample_rate, dtypes.float32, name="sample_rate")
    return _collected(
        apply_op("AudioSummaryV2", tag, tensor, rate, max_outputs=max_outputs, name=name), collections
    )


def merge_summary(
    inputs: Sequence[Any], collections: Sequence[str] | None = None, name: str | None = None
) -> Tensor:
    """Merge summaries: `summary.merge` since 1.0."""
    return merge(inputs, collections, name)


def merge_all_summaries(key: str = GraphKeys.SUMMARIES) -> Tensor | None:
    """Merge all summaries of a collection, None if there are none: `summary.merge_all` since 1.0."""
    return merge_all(key)
