"""Loads SavedModels into a session of the caller, under the names of `tf.saved_model.loader`.

`aioexec.load` is shorter: it opens a session of its own, and checks what is fed.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from aioexec.saved_model.model_files import Path, contains_saved_model, meta_graph_of, read_saved_model
from aioexec.saved_model.restoring import Imported, import_graph, initialize
from aioexec.train.off_loop import off_loop

if TYPE_CHECKING:
    from aioexec.formats.protos import MetaGraphDef


async def load(
    sess: Any, tags: Collection[str], export_dir: Path, import_scope: str | None = None, **saver_kwargs: Any
) -> MetaGraphDef:
    """Load a SavedModel into the graph of a session, restore its variables, and run its initialization.

    The graph must not be changed elsewhere meanwhile: its nodes are added in a thread.

    Args:
        tags: the tags of the graph to load.
        import_scope: the scope of all new names; signatures in the result have the names without it.
        saver_kwargs: further arguments of `train.import_meta_graph`, such as `clear_devices`.

    Returns:
        The graph's MetaGraphDef, with the signatures.

    Raises:
        NoSavedModelError: there is no SavedModel.
        UnknownTagsError: it has no graph with these tags.
        OpError: the graph cannot be imported or restored.
    """
    folder = os.fsdecode(export_dir)

    def read_and_import() -> Imported:
        meta_graph = meta_graph_of(read_saved_model(folder), tags, folder)
        return import_graph(meta_graph, folder, sess.graph, import_scope=import_scope, **saver_kwargs)

    imported = await off_loop(read_and_import)
    await initialize(sess, imported, folder)
    return imported.meta_graph


def maybe_saved_model_directory(export_dir: Path) -> bool:
    """Whether a folder has the files of a SavedModel; these may be damaged."""
    return contains_saved_model(export_dir)
