"""Imports a graph of a SavedModel, restores its variables, and runs its initialization.

1. `import_graph` adds the nodes and collections; it blocks, and is called off the loop.
2. `initialize` restores the variables from the checkpoint, and then runs the graph's operation for initialization, with the
   paths of the asset files as feeds.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError, NotFoundError, UnknownNameError
from aioexec.graph.graph import Graph
from aioexec.graph.scope_names import prepend_name_scope
from aioexec.saved_model.assets import asset_paths
from aioexec.saved_model.constants import INIT_OP_SIGNATURE_KEY, LEGACY_INIT_OP_KEY, MAIN_OP_KEY
from aioexec.saved_model.errors import naming_model
from aioexec.saved_model.model_files import variables_prefix
from aioexec.train.checkpoints.checkpoint_state import checkpoint_exists
from aioexec.train.checkpoints.meta_graph_import import import_meta_graph_with_return_elements
from aioexec.train.off_loop import off_loop

if TYPE_CHECKING:
    from aioexec.formats.protos import MetaGraphDef
    from aioexec.train.checkpoints.saver import Saver

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Imported:
    """A graph of a SavedModel that was imported.

    `prefix`: the checkpoint's path; None if there is none. `assets`: the paths of the asset files by tensor name.
    `init_ops`: the names of the operations for initialization.
    """

    meta_graph: MetaGraphDef
    saver: Saver | None
    prefix: str | None
    assets: Mapping[str, str]
    init_ops: Sequence[str]
    elements: Sequence[Any] | None = None


def import_graph(
    meta_graph: MetaGraphDef,
    export_dir: str,
    graph: Graph,
    *,
    import_scope: str | None = None,
    **arguments: Any,
) -> Imported:
    """Add a graph of a SavedModel to `graph`. Blocks.

    Args:
        arguments: further arguments of `import_scoped_meta_graph`.

    Raises:
        OpError: the graph cannot be imported, with the SavedModel's path; `graph` is unchanged.
    """
    assets = asset_paths(meta_graph, export_dir)
    with graph.as_default(), naming_model(export_dir):
        saver, elements = import_meta_graph_with_return_elements(
            meta_graph, import_scope=import_scope, **arguments
        )
    assets = {prepend_name_scope(name, import_scope): path for name, path in assets.items()}
    prefix = variables_prefix(export_dir)
    init_op = init_op_name(meta_graph)
    return Imported(
        meta_graph,
        saver,
        prefix if checkpoint_exists(prefix) else None,
        assets,
        () if init_op is None else (prepend_name_scope(init_op, import_scope),),
        elements,
    )


async def initialize(session: Any, imported: Imported, export_dir: str) -> None:
    """Restore the variables, and run the graph's operation for initialization.

    Raises:
        NotFoundError: there is no checkpoint, it lacks a variable, or an asset file is missing.
        OpError: the step failed, with the SavedModel's path.
    """
    with naming_model(export_dir):
        if imported.saver is None:
            logger.info("The specified SavedModel has no variables; no checkpoints were restored.")
        elif imported.prefix is None:
            raise NotFoundError(
                f"{variables_prefix(export_dir)}: expected a checkpoint with the variables of the graph, got none"
            )
        else:
            await imported.saver.restore(session, imported.prefix)
        if imported.init_ops:
            missing = await off_loop(_missing_files, imported.assets)
            if missing:
                raise NotFoundError(f"expected asset files {missing}, which do not exist")
            operations = [_operation(session.graph, name) for name in imported.init_ops]
            await session.run(operations, imported.assets)


def init_op_name(meta_graph: MetaGraphDef) -> str | None:
    """The name of the operation that a graph is initialized by, after its variables are restored.

    Raises:
        InvalidArgumentError: there are several.
    """
    if INIT_OP_SIGNATURE_KEY in meta_graph.signature_def:
        outputs = meta_graph.signature_def[INIT_OP_SIGNATURE_KEY].outputs
        if INIT_OP_SIGNATURE_KEY in outputs:
            return outputs[INIT_OP_SIGNATURE_KEY].name
    for key in (MAIN_OP_KEY, LEGACY_INIT_OP_KEY):
        names = meta_graph.collection_def[key].node_list.value if key in meta_graph.collection_def else ()
        if len(names) > 1:
            raise InvalidArgumentError(f"Expected exactly one op in collection {key!r}, got {list(names)}")
        if names:
            return names[0]
    return None


def _missing_files(assets: Mapping[str, str]) -> list[str]:
    return [path for path in assets.values() if not os.path.exists(path)]


def _operation(graph: Graph, name: str) -> Any:
    try:
        found = graph.as_graph_element(name)
    except UnknownNameError as error:
        raise InvalidArgumentError(
            f"expected an operation for initialization, got {name!r}, which the graph does not have"
        ) from error
    return getattr(found, "op", found)
