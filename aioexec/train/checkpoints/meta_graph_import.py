"""Imports MetaGraphDefs: adds their nodes, collections and saver to an existing graph.

Functions here block while they read a file and make the nodes, in the graph and the context of their caller.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aioexec.errors import GraphValueError
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.train.checkpoints.meta_graphs import UNBOUND_INPUTS, export_scoped_meta_graph
from aioexec.train.checkpoints.saveables import all_saveable_objects
from aioexec.train.checkpoints.saver import Saver
from aioexec.train.input import queue_runner as _queue_runner  # noqa: F401  (registers their collection)

if TYPE_CHECKING:
    from aioexec.formats.protos import MetaGraphDef


def read_meta_graph_file(filename: str | os.PathLike[str]) -> MetaGraphDef:
    """The MetaGraphDef in a file, in binary or text format.

    Raises:
        NotFoundError: there is no such file.
        DataLossError: it has another content.
    """
    from aioexec.formats.proto_files import read_proto
    from aioexec.formats.protos import MetaGraphDef

    return read_proto(os.fspath(filename), MetaGraphDef)


def _meta_graph(meta_graph_or_file: Any) -> MetaGraphDef:
    from aioexec.graph.io.metagraph_import import as_meta_graph

    if isinstance(meta_graph_or_file, str | os.PathLike):
        return read_meta_graph_file(meta_graph_or_file)
    return as_meta_graph(meta_graph_or_file)


def import_meta_graph(
    meta_graph_or_file: Any, clear_devices: bool = False, import_scope: str | None = None, **kwargs: Any
) -> Saver | None:
    """Add the nodes and collections of a MetaGraphDef to the default graph.

    Args:
        meta_graph_or_file: the MetaGraphDef, or a file with it, in binary or text format.
        clear_devices: remove the devices of nodes.
        import_scope: the scope of all new names.
        kwargs: further arguments of `import_scoped_meta_graph`.

    Returns:
        A saver: that of the MetaGraphDef, or one of all variables; None if there are none.

    Raises:
        OpError: the file cannot be read, or its content cannot be imported; the graph is unchanged.
    """
    return import_meta_graph_with_return_elements(
        meta_graph_or_file, clear_devices=clear_devices, import_scope=import_scope, **kwargs
    )[0]


def import_meta_graph_with_return_elements(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: str | None = None,
    return_elements: Sequence[str] | None = None,
    **kwargs: Any,
) -> tuple[Saver | None, list[Any] | None]:
    """`import_meta_graph`, with the nodes and tensors named in `return_elements` as a second result."""
    from aioexec.graph.io.metagraph_import import undo_on_error

    meta_graph = _meta_graph(meta_graph_or_file)
    graph = kwargs.pop("graph", None) or get_default_graph()
    with graph.as_default(), undo_on_error(graph):
        variables, elements = import_scoped_meta_graph_with_return_elements(
            meta_graph,
            clear_devices=clear_devices,
            graph=graph,
            import_scope=import_scope,
            return_elements=return_elements,
            **kwargs,
        )
        return _saver(meta_graph, import_scope, variables), elements


def _saver(meta_graph: MetaGraphDef, scope: str | None, variables: Mapping[str, Any]) -> Saver | None:
    """A saver for the imported variables; the scope they were imported under is derived from the name of a variable."""
    if not meta_graph.HasField("saver_def"):
        return Saver() if all_saveable_objects(scope=scope) else None
    for name, variable in variables.items():
        scope = variable.name.removesuffix(name)
        break
    saver_def = type(meta_graph.saver_def)()
    saver_def.CopyFrom(meta_graph.saver_def)
    return Saver(saver_def=saver_def, name=scope)


def import_scoped_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    graph: Graph | None = None,
    import_scope: str | None = None,
    input_map: Mapping[str, Any] | None = None,
    unbound_inputs_col_name: str = UNBOUND_INPUTS,
    restore_collections_predicate: Callable[[str], bool] = lambda key: True,
) -> dict[str, Any]:
    """Add the nodes and collections of a MetaGraphDef to a graph; return its variables, by their names in the MetaGraphDef."""
    return import_scoped_meta_graph_with_return_elements(
        meta_graph_or_file,
        clear_devices,
        graph,
        import_scope,
        input_map,
        unbound_inputs_col_name,
        restore_collections_predicate,
    )[0]


def import_scoped_meta_graph_with_return_elements(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    graph: Graph | None = None,
    import_scope: str | None = None,
    input_map: Mapping[str, Any] | None = None,
    unbound_inputs_col_name: str = UNBOUND_INPUTS,
    restore_collections_predicate: Callable[[str], bool] = lambda key: True,
    return_elements: Sequence[str] | None = None,
) -> tuple[dict[str, Any], list[Any] | None]:
    """`import_scoped_meta_graph`, with the nodes and tensors named in `return_elements` as a second result."""
    from aioexec.graph.io.metagraph_import import import_meta_graph_nodes

    return import_meta_graph_nodes(
        _meta_graph(meta_graph_or_file),
        clear_devices,
        graph,
        import_scope,
        input_map,
        unbound_inputs_col_name,
        restore_collections_predicate,
        return_elements,
    )


def copy_scoped_meta_graph(
    from_scope: str | None,
    to_scope: str | None,
    from_graph: Graph | None = None,
    to_graph: Graph | None = None,
) -> dict[str, Any]:
    """Copy a scope of a graph to another scope, or another graph; return the variables of the copy.

    Raises:
        GraphValueError: source and target are the same, or the scope has inputs from outside.
    """
    from_graph = get_default_graph() if from_graph is None else from_graph
    to_graph = get_default_graph() if to_graph is None else to_graph
    if from_graph is to_graph and from_scope == to_scope:
        raise GraphValueError(
            f"'from_scope' and 'to_scope' need to be different when performing copy in the same graph, got {to_scope!r}"
        )
    meta_graph, _ = export_scoped_meta_graph(export_scope=from_scope, graph=from_graph)
    return import_scoped_meta_graph(meta_graph, graph=to_graph, import_scope=to_scope)
