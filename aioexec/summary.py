"""Summary ops and event file writers under the names of `tf.summary`."""

from __future__ import annotations

from typing import Any, Final

from aioexec.observability.summary_writer import FileWriter as FileWriter
from aioexec.ops.io.plugin_assets import (
    PluginAsset as PluginAsset,
    get_all_plugin_assets as get_all_plugin_assets,
    get_plugin_asset as get_plugin_asset,
)
from aioexec.ops.io.summary_functions import (
    audio as audio,
    get_summary_description as get_summary_description,
    histogram as histogram,
    image as image,
    merge as merge,
    merge_all as merge_all,
    scalar as scalar,
    tensor_summary as tensor_summary,
    text as text,
)
from aioexec.train.hooks.file_writer_cache import FileWriterCache as FileWriterCache

_PROTOS: Final = frozenset(
    {"Event", "SessionLog", "Summary", "SummaryDescription", "SummaryMetadata", "TaggedRunMetadata"}
)


def __getattr__(name: str) -> Any:
    """Import the protos on access, since their classes take longer to load than everything else here."""
    if name not in _PROTOS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from aioexec.formats import protos

    return getattr(protos, name)
