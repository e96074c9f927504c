"""The files of a SavedModel: its proto, variables and assets. Every call blocks: coroutines make them off the loop."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from aioexec.errors import DataLossError
from aioexec.saved_model.constants import (
    SAVED_MODEL_FILENAME_PB,
    SAVED_MODEL_FILENAME_PBTXT,
    SAVED_MODEL_SCHEMA_VERSION,
    VARIABLES_DIRECTORY,
    VARIABLES_FILENAME,
)
from aioexec.saved_model.errors import NoSavedModelError, UnknownTagsError

if TYPE_CHECKING:
    from aioexec.formats.protos import MetaGraphDef, SavedModel

Path = str | os.PathLike[str]

_FILES: Final = (SAVED_MODEL_FILENAME_PB, SAVED_MODEL_FILENAME_PBTXT)


def proto_file(export_dir: Path) -> str | None:
    """The path of the SavedModel proto in a folder, binary or text; None if there is none."""
    paths = (os.path.join(os.fspath(export_dir), name) for name in _FILES)
    return next((path for path in paths if os.path.isfile(path)), None)


def contains_saved_model(export_dir: Path) -> bool:
    """Whether a folder is a SavedModel: it has saved_model.pb or saved_model.pbtxt."""
    return proto_file(export_dir) is not None


def variables_prefix(export_dir: Path) -> str:
    """The path of the checkpoint in a SavedModel."""
    return os.path.join(os.fspath(export_dir), VARIABLES_DIRECTORY, VARIABLES_FILENAME)


def read_saved_model(export_dir: Path) -> SavedModel:
    """Read the proto of a SavedModel.

    Raises:
        NoSavedModelError: the folder has none.
        DataLossError: the file is damaged, or no SavedModel of schema version 1.
    """
    from aioexec.formats.proto_files import read_proto
    from aioexec.formats.protos import SavedModel

    path = proto_file(export_dir)
    if path is None:
        expected = f"{os.fspath(export_dir)}{os.sep}{{{'|'.join(reversed(_FILES))}}}"
        raise NoSavedModelError(f"SavedModel file does not exist at: {expected}")
    saved_model = read_proto(path, SavedModel)
    version = saved_model.saved_model_schema_version
    if version != SAVED_MODEL_SCHEMA_VERSION or not saved_model.meta_graphs:
        raise DataLossError(
            f"{path}: expected a SavedModel of schema version {SAVED_MODEL_SCHEMA_VERSION} with at least one graph, "
            f"got version {version} with {len(saved_model.meta_graphs)} graphs"
        )
    return saved_model


def meta_graph_of(saved_model: SavedModel, tags: Collection[str], export_dir: Path) -> MetaGraphDef:
    """The graph that has these tags, and no others.

    Raises:
        UnknownTagsError: there is none.
    """
    for meta_graph in saved_model.meta_graphs:
        if set(meta_graph.meta_info_def.tags) == set(tags):
            return meta_graph
    available = [sorted(each.meta_info_def.tags) for each in saved_model.meta_graphs]
    raise UnknownTagsError(
        f"MetaGraphDef associated with tags {sorted(tags)} could not be found in SavedModel {os.fspath(export_dir)!r}, "
        f"with available tags {available}; `aioexec saved-model show` shows what it has"
    )
