"""The asset files of a graph in a SavedModel: which tensors are fed with their paths. Pure: nothing is read here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from aioexec.errors import DataLossError, InvalidArgumentError
from aioexec.saved_model.constants import ASSETS_DIRECTORY, ASSETS_KEY

if TYPE_CHECKING:
    from aioexec.formats.protos import AssetFileDef, MetaGraphDef


def asset_paths(meta_graph: MetaGraphDef, export_dir: str) -> dict[str, str]:
    """The path of each asset file, by the name of the tensor that is fed with it.

    Raises:
        InvalidArgumentError: a file name that leads out of the folder of assets.
        DataLossError: the collection of assets is damaged.
    """
    folder = os.path.join(export_dir, ASSETS_DIRECTORY)
    return {
        asset.tensor_info.name: os.path.join(folder, _checked(asset.filename, export_dir))
        for asset in asset_files(meta_graph, export_dir)
    }


def asset_files(meta_graph: MetaGraphDef, export_dir: str) -> Iterator[AssetFileDef]:
    """The assets of a graph, from its field or, of older models, from its collection."""
    from aioexec.formats.protos import AssetFileDef

    if meta_graph.asset_file_def or ASSETS_KEY not in meta_graph.collection_def:
        yield from meta_graph.asset_file_def
        return
    for item in meta_graph.collection_def[ASSETS_KEY].any_list.value:
        try:
            yield AssetFileDef.FromString(item.value)
        except Exception as error:  # protobuf's DecodeError, whichever implementation is in use
            raise DataLossError(
                f"{export_dir}: collection {ASSETS_KEY!r} has an item that is no AssetFileDef"
            ) from error


def _checked(filename: str, export_dir: str) -> str:
    parts = os.path.normpath(filename).split(os.sep)
    if not filename or os.path.isabs(filename) or os.pardir in parts or "\0" in filename:
        raise InvalidArgumentError(
            f"{export_dir}: expected the name of an asset file inside of {ASSETS_DIRECTORY!r}, got {filename!r}"
        )
    return filename
