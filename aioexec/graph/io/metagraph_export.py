"""Writes a graph, or one of its scopes, as a MetaGraphDef: nodes, functions, collections, OpDefs.

A scope is exported with names relative to it, so that it can be imported under another. Inputs from outside of the scope are
*unbound*: they get reserved names and are listed in a collection, and the importer supplies them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from google.protobuf.any_pb2 import Any as AnyMessage

from aioexec.errors import GraphTypeError
from aioexec.formats.protos import AttrValue, CollectionDef, GraphDef, MetaGraphDef, NodeDef, SaverDef
from aioexec.graph import registry
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.io.graphdef_export import graph_to_graph_def, strip_default_attrs as strip_attrs
from aioexec.graph.io.graphdef_source import COLOCATION
from aioexec.graph.io.op_def_export import stripped_op_list_for_graph
from aioexec.graph.io.proto_functions import get_from_proto_function, get_to_proto_function
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.keys import GraphKeys
from aioexec.graph.scope_names import is_in_scope, strip_name_scope

UNBOUND_PREFIX: Final = "$unbound_inputs_"
TENSORFLOW_VERSION: Final = "1.15.0"
"""The version of the format. Readers depend on it, for example for the field `trainable` of variables."""

_WRITTEN_BY: Final = "aioexec"
_FRAME: Final = "frame_name"

logger = logging.getLogger(__name__)


_TYPES = {
    "graph": Graph,
    "meta_info_def": MetaGraphDef.MetaInfoDef,
    "graph_def": GraphDef,
    "saver_def": SaverDef,
}


def _check_types(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None and not isinstance(value, _TYPES[name]):
            raise GraphTypeError(
                f"{name} must be of type {_TYPES[name].__name__}, got {type(value).__name__!r}"
            )


def create_meta_graph_def(
    meta_info_def: Any = None,
    graph_def: GraphDef | None = None,
    saver_def: SaverDef | None = None,
    collection_list: Iterable[str] | None = None,
    graph: Graph | None = None,
    export_scope: str | None = None,
    exclude_nodes: Collection[str] | None = None,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
) -> MetaGraphDef:
    """Make a MetaGraphDef of a graph, a saver and collections.

    Args:
        meta_info_def: further MetaInfoDef fields; versions and the op list are added.
        graph_def: the nodes; all of the graph by default.
        collection_list: the collections to export; all by default.
        export_scope: export only items of collections in this scope, with names relative to it.
        exclude_nodes: names of nodes whose mention in collections is dropped.
        clear_extraneous_savers: of savers, export the one of `saver_def` only.
        strip_default_attrs: leave out attributes with their op's default, see `graphdef_export.strip_default_attrs`.

    Raises:
        GraphTypeError: an argument of a wrong type.
    """
    _check_types(graph=graph, meta_info_def=meta_info_def, graph_def=graph_def, saver_def=saver_def)
    graph = get_default_graph() if graph is None else graph
    result = MetaGraphDef(meta_info_def=meta_info_def, saver_def=saver_def)
    result.graph_def.CopyFrom(graph_to_graph_def(graph, add_shapes=True) if graph_def is None else graph_def)
    _write_info(result, strip_default_attrs)
    for key in graph.get_all_collection_keys() if collection_list is None else collection_list:
        saver = get_from_proto_function(key) if clear_extraneous_savers and key == GraphKeys.SAVERS else None
        kept = None if saver is None or saver_def is None else [saver(saver_def)]
        add_collection_def(result, key, graph, export_scope, exclude_nodes, kept)
    return result


def _write_info(meta_graph: MetaGraphDef, strip: bool) -> None:
    info = meta_graph.meta_info_def
    info.tensorflow_version, info.tensorflow_git_version = TENSORFLOW_VERSION, _WRITTEN_BY
    if not info.stripped_op_list.op:
        info.stripped_op_list.CopyFrom(stripped_op_list_for_graph(meta_graph.graph_def))
    if strip:
        strip_attrs(meta_graph.graph_def)
        info.stripped_default_attrs = True


# Collections


def add_collection_def(
    meta_graph_def: MetaGraphDef,
    key: Any,
    graph: Graph | None = None,
    export_scope: str | None = None,
    exclude_nodes: Collection[str] | None = None,
    override_contents: Sequence[Any] | None = None,
) -> None:
    """Add a collection of a graph to a MetaGraphDef; one that cannot be encoded is skipped with a warning.

    Args:
        export_scope: export only items in this scope, with names relative to it.
        exclude_nodes: names of nodes whose mention is dropped.
        override_contents: the items to write instead of the graph's.
    """
    if not isinstance(key, str):
        logger.warning("only collections with string keys are exported, not %r", key)
        return
    graph = get_default_graph() if graph is None else graph
    items = [
        item
        for item in override_contents or graph.get_collection(key)
        if _is_exported(item, export_scope, exclude_nodes or ())
    ]
    if not items:
        return
    try:
        written = _collection(key, items, export_scope)
    except (AttributeError, TypeError, ValueError) as error:
        logger.warning("collection %r is not exported: %s", key, error)
    else:
        meta_graph_def.collection_def[key].CopyFrom(written)


def add_strings(meta_graph_def: MetaGraphDef, key: str, strings: Iterable[str]) -> None:
    """Add a collection of strings to a MetaGraphDef."""
    meta_graph_def.collection_def[key].bytes_list.value[:] = [string.encode() for string in strings]


def _is_exported(item: Any, scope: str | None, excluded: Collection[str]) -> bool:
    name = item if isinstance(item, str) else getattr(item, "name", None)
    if not isinstance(name, str):
        return True
    if name in excluded or name.partition(":")[0] in excluded:
        return False
    return name.lstrip("^").startswith(UNBOUND_PREFIX) or is_in_scope(name, scope)


def _collection(key: str, items: Sequence[Any], scope: str | None) -> CollectionDef:
    result = CollectionDef()
    to_proto = get_to_proto_function(key)
    if to_proto is not None:
        messages = [to_proto(item, export_scope=scope) for item in items]
        result.bytes_list.value.extend(each.SerializeToString() for each in messages if each is not None)
        return result
    first = items[0]
    if isinstance(first, str | bytes):
        result.bytes_list.value.extend(item.encode() if isinstance(item, str) else item for item in items)
    elif isinstance(first, int):
        result.int64_list.value.extend(items)
    elif isinstance(first, float):
        result.float_list.value.extend(items)
    elif isinstance(first, AnyMessage):
        result.any_list.value.extend(items)
    else:
        result.node_list.value.extend(strip_name_scope(item.name, scope) for item in items)
    return result


# Export of one scope


def extract_scope(
    graph_def: GraphDef,
    export_scope: str | None = None,
    exclude_nodes: Collection[str] = (),
    clear_devices: bool = False,
) -> tuple[GraphDef, list[str]]:
    """Extract the nodes in a scope, with names relative to it; returns them and the names of their inputs from outside."""
    result = GraphDef(versions=graph_def.versions, library=graph_def.library)
    unbound: list[str] = []
    for node in graph_def.node:
        if is_in_scope(node.name, export_scope) and node.name not in exclude_nodes:
            copy = result.node.add()
            copy.CopyFrom(node)
            if clear_devices:
                copy.device = ""
            if export_scope:
                unbound.extend(_make_names_relative(copy, export_scope))
    return result, list(dict.fromkeys(unbound))


def _make_names_relative(node: NodeDef, scope: str) -> Iterator[str]:
    """Make the names in a node relative to the scope; yield its inputs from outside the scope."""
    node.name = strip_name_scope(node.name, scope)
    for place, text in enumerate(node.input):
        if is_in_scope(text, scope):
            node.input[place] = strip_name_scope(text, scope)
        else:
            mark = "^" if text.startswith("^") else ""
            node.input[place] = f"{mark}{UNBOUND_PREFIX}{text.removeprefix('^')}"
            yield node.input[place]
    if COLOCATION in node.attr:
        _make_groups_relative(node.attr[COLOCATION], scope)
    if registry.is_registered(node.op) and registry.lookup(node.op).role is Role.ENTER:
        frame = node.attr[_FRAME]
        frame.s = strip_name_scope(frame.s, scope).encode()


def _make_groups_relative(groups: AttrValue, scope: str) -> None:
    kept = [
        strip_name_scope(group, scope).encode()
        for group in groups.list.s
        if is_in_scope(group.decode(), scope)
    ]
    groups.list.SetInParent()
    del groups.list.s[:]
    groups.list.s.extend(kept)
