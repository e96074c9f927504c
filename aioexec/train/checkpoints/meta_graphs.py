"""Exports graphs as MetaGraphDefs, from which another program can continue a training.

Functions here block while they convert the graph and write: coroutines call them off the loop. Protos are imported at the first
call.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aioexec.errors import UnimplementedError
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.train.checkpoints.saver_nodes import extraneous_saver_nodes

if TYPE_CHECKING:
    from aioexec.formats.protos import GraphDef, MetaGraphDef, SaverDef

Path = str | os.PathLike[str]

UNBOUND_INPUTS = "unbound_inputs"


def export_meta_graph(
    filename: Path | None = None,
    meta_info_def: Any = None,
    graph_def: GraphDef | None = None,
    saver_def: SaverDef | None = None,
    collection_list: Iterable[str] | None = None,
    as_text: bool = False,
    graph: Graph | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
    **kwargs: Any,
) -> MetaGraphDef:
    """A graph as a MetaGraphDef, for `import_meta_graph`; see `export_scoped_meta_graph`.

    Args:
        filename: a file to write it to.
        meta_info_def: further MetaInfoDef fields; versions and the op list are added.
        collection_list: the collections to export; all by default.
    """
    return export_scoped_meta_graph(
        filename=filename,
        graph_def=graph_def,
        graph=graph,
        export_scope=export_scope,
        as_text=as_text,
        clear_devices=clear_devices,
        saver_def=saver_def,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
        save_debug_info=save_debug_info,
        meta_info_def=meta_info_def,
        collection_list=collection_list,
        **kwargs,
    )[0]


def export_scoped_meta_graph(
    filename: Path | None = None,
    graph_def: GraphDef | None = None,
    graph: Graph | None = None,
    export_scope: str | None = None,
    as_text: bool = False,
    unbound_inputs_col_name: str | None = UNBOUND_INPUTS,
    clear_devices: bool = False,
    saver_def: SaverDef | None = None,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
    **kwargs: Any,
) -> tuple[MetaGraphDef, dict[str, Any]]:
    """A graph, or one of its scopes, as a MetaGraphDef.

    Args:
        filename: a file to write it to; `as_text`: in text format instead of binary.
        graph_def: the nodes of the graph, if already exported.
        export_scope: the scope to export, with names relative to it.
        unbound_inputs_col_name: the collection in the MetaGraphDef that lists the inputs from outside of the scope.
        clear_devices: remove the devices of nodes.
        clear_extraneous_savers: leave out savers other than that of `saver_def`, with their nodes.
        strip_default_attrs: leave out attributes with their op's default, so that older readers need not know them.

    Returns:
        The MetaGraphDef; its variables, by their names in it.
    """
    from aioexec.formats.proto_files import write_proto
    from aioexec.graph.io.graphdef_export import graph_to_graph_def
    from aioexec.graph.io.metagraph_export import add_strings, create_meta_graph_def, extract_scope
    from aioexec.graph.io.metagraph_import import variables_in_scope

    if save_debug_info:
        raise UnimplementedError("export_meta_graph: writing where nodes were created")
    graph = get_default_graph() if graph is None else graph
    if graph_def is None:
        graph_def = graph_to_graph_def(graph, add_shapes=True)
    excluded = extraneous_saver_nodes(graph_def, saver_def) if clear_extraneous_savers else set()
    part, unbound = extract_scope(graph_def, export_scope, excluded, clear_devices)
    result = create_meta_graph_def(
        graph_def=part,
        saver_def=saver_def,
        graph=graph,
        export_scope=export_scope,
        exclude_nodes=excluded,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
        **kwargs,
    )
    if unbound_inputs_col_name and unbound:
        add_strings(result, unbound_inputs_col_name, unbound)
    if filename is not None:
        write_proto(os.fspath(filename), result, as_text)
    return result, variables_in_scope(graph, export_scope)
