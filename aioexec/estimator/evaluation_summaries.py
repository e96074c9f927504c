"""Writes the results of an evaluation to an event file."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.formats.protos import Summary
from aioexec.formats.tensor_codec import make_tensor_proto
from aioexec.graph.keys import GraphKeys
from aioexec.train.hooks.file_writer_cache import FileWriterCache
from aioexec.train.off_loop import off_loop

logger = logging.getLogger(__name__)


async def write_results(folder: str, results: Mapping[str, Any], checkpoint_path: str | None) -> None:
    """Write results and the path of the checkpoint as summaries, at the global step that is among the results.

    Numbers become scalars, arrays tensors; a serialized Summary is written with the name of the result as its tag.
    """
    step = int(results[GraphKeys.GLOBAL_STEP])
    named = ", ".join(
        f"{name} = {value}" for name, value in sorted(results.items()) if not isinstance(value, bytes)
    )
    logger.info("Saving dict for global step %d: %s", step, named)
    writer = await off_loop(FileWriterCache.get, folder)
    writer.add_summary(_summary_of(results), step)
    if checkpoint_path:
        logger.info("Saving 'checkpoint_path' summary for global step %d: %s", step, checkpoint_path)
        summary = Summary()
        path = make_tensor_proto(np.array(checkpoint_path, object), dtypes.string)
        summary.value.add(tag="checkpoint_path").tensor.CopyFrom(path)
        writer.add_summary(summary, step)
    await writer.flush()


def _summary_of(results: Mapping[str, Any]) -> Summary:
    summary = Summary()
    for name, value in results.items():
        if value is None or name == GraphKeys.GLOBAL_STEP:
            continue
        if isinstance(value, np.float32 | float | np.integer | int):
            summary.value.add(tag=name, simple_value=float(value))
        elif isinstance(value, bytes):
            for number, each in enumerate(Summary.FromString(value).value):
                summary.value.add().CopyFrom(each)
                summary.value[-1].tag = f"{name}/{number}"
        elif isinstance(value, np.ndarray):
            entry = summary.value.add(tag=name, node_name=name)
            entry.tensor.CopyFrom(make_tensor_proto(value, dtypes.as_dtype(value.dtype)))
        else:
            logger.warning(
                "Skipping summary for %s, must be a float, np.float32, np.int64, np.int32 or int or np.ndarray or a "
                "serialized string of Summary.",
                name,
            )
    return summary
