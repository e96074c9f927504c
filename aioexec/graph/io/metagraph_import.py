"""Imports a MetaGraphDef: its nodes, and its collections, whose items are rebuilt from the imported nodes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.formats.protos import CollectionDef, GraphDef, MetaGraphDef, NodeDef, OpList
from aioexec.graph import registry
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.io.graphdef_import import import_graph_def, own_proto
from aioexec.graph.io.proto_functions import get_collection_proto_type, get_from_proto_function
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.keys import GraphKeys
from aioexec.graph.scope_names import is_in_scope, prepend_name_scope, strip_name_scope

_TRAINABLE_SINCE = (1, 9)
"""The first version of TensorFlow whose VariableDef has the field `trainable`."""

logger = logging.getLogger(__name__)


def as_meta_graph(message: Any) -> MetaGraphDef:
    """`message` as our MetaGraphDef; TensorFlow's is converted by serialization."""
    proto: MetaGraphDef = own_proto(message, MetaGraphDef, "meta_graph_or_file")
    return proto


def import_meta_graph_nodes(
    meta_graph_def: MetaGraphDef,
    clear_devices: bool = False,
    graph: Graph | None = None,
    import_scope: str | None = None,
    input_map: Mapping[str, Any] | None = None,
    unbound_inputs_col_name: str = "unbound_inputs",
    restore_collections_predicate: Callable[[str], bool] = lambda key: True,
    return_elements: Sequence[str] | None = None,
) -> tuple[dict[str, Any], list[Any] | None]:
    """Add the nodes and collections of a MetaGraphDef to a graph.

    Args:
        clear_devices: remove the devices of nodes.
        graph: the default graph by default.
        import_scope: the scope of all new names.
        input_map: replaces inputs, by their name in the MetaGraphDef; see `import_graph_def`.
        unbound_inputs_col_name: the collection that lists the inputs `input_map` must contain.
        restore_collections_predicate: from a collection's name to whether it is imported.
        return_elements: names of nodes and tensors to return.

    Returns:
        The variables in the scope, by their name in the MetaGraphDef; the elements of `return_elements`.

    Raises:
        GraphValueError: unbound inputs that are not in `input_map`, or any error in the nodes.
    """
    _check_bound(meta_graph_def, unbound_inputs_col_name, input_map or {})
    with (graph or get_default_graph()).as_default() as graph, undo_on_error(graph):
        scope = graph.unique_name(import_scope or "", mark_as_used=False)
        elements = import_graph_def(
            _adapt(meta_graph_def.graph_def, clear_devices, scope),
            input_map,
            return_elements,
            import_scope or scope,
            producer_op_list=_producer_ops(meta_graph_def),
        )
        kept = [key for key in _in_order(meta_graph_def) if key != unbound_inputs_col_name]
        _restore_collections(graph, scope, meta_graph_def, filter(restore_collections_predicate, kept))
        return variables_in_scope(graph, scope), elements


def _restore_collections(graph: Graph, scope: str, meta_graph: MetaGraphDef, keys: Iterable[str]) -> None:
    restored = _Collections(graph, scope, _has_trainable_field(meta_graph))
    for key in keys:
        restored.add(key, meta_graph.collection_def[key])


@contextlib.contextmanager
def undo_on_error(graph: Graph) -> Iterator[None]:
    """Restore the nodes and collections of a graph if the block raises."""
    before = {key: list(graph.get_collection(key)) for key in graph.collections}
    try:
        with graph.undo_on_error():
            yield
    except BaseException:
        for key in graph.collections:
            graph.get_collection_ref(key)[:] = before.get(key, [])
        raise


def variables_in_scope(graph: Graph, scope: str | None) -> dict[str, Any]:
    """The global variables in a scope, by their names relative to it."""
    collected = graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
    variables = [each for each in collected if isinstance(getattr(each, "name", None), str)]
    return {strip_name_scope(each.name, scope): each for each in variables if is_in_scope(each.name, scope)}


def _check_bound(meta_graph: MetaGraphDef, collection: str, given: Mapping[str, Any]) -> None:
    if not collection or collection not in meta_graph.collection_def:
        return
    unbound = {
        name.decode(errors="backslashreplace")
        for name in meta_graph.collection_def[collection].bytes_list.value
    }
    missing = sorted(unbound - set(given))
    if missing:
        raise GraphValueError(
            f"Graph contains unbound inputs: {', '.join(missing)}. Must provide these inputs through input_map."
        )


def _adapt(graph_def: GraphDef, clear_devices: bool, scope: str) -> GraphDef:
    """The GraphDef with the scope prefixed to the frames of all its loops, and without devices if these are to be cleared."""
    enters = [place for place, node in enumerate(graph_def.node) if scope and _is_enter(node)]
    if not (enters or clear_devices):
        return graph_def
    adapted = GraphDef()
    adapted.CopyFrom(graph_def)
    for place in enters:
        frame = adapted.node[place].attr["frame_name"]
        frame.s = prepend_name_scope(frame.s, scope).encode()
    for node in adapted.node if clear_devices else ():
        node.device = ""
    return adapted


def _producer_ops(meta_graph: MetaGraphDef) -> OpList | None:
    info = meta_graph.meta_info_def
    return info.stripped_op_list if info.HasField("stripped_op_list") else None


def _is_enter(node: NodeDef) -> bool:
    return registry.is_registered(node.op) and registry.lookup(node.op).role is Role.ENTER


def _has_trainable_field(meta_graph: MetaGraphDef) -> bool:
    """Whether VariableDefs have the field `trainable`; in older ones the collection of trainable variables determines it."""
    version = meta_graph.meta_info_def.tensorflow_version
    if not version:
        return True
    numbers = [part for part in version.split(".")[:2] if part.isdigit()]
    return tuple(map(int, numbers)) >= _TRAINABLE_SINCE


def _in_order(meta_graph: MetaGraphDef) -> list[str]:
    """The names of the collections, trainable variables first: for older variables that collection determines `trainable`."""
    return sorted(meta_graph.collection_def, key=lambda key: (key != GraphKeys.TRAINABLE_VARIABLES, key))


_VARIABLES = frozenset(
    {
        GraphKeys.GLOBAL_VARIABLES,
        GraphKeys.LOCAL_VARIABLES,
        GraphKeys.METRIC_VARIABLES,
        GraphKeys.MODEL_VARIABLES,
        GraphKeys.TRAINABLE_VARIABLES,
        GraphKeys.MOVING_AVERAGE_VARIABLES,
        GraphKeys.CONCATENATED_VARIABLES,
        GraphKeys.TRAINABLE_RESOURCE_VARIABLES,
    }
)
"""Collections of variables: an item that is in several of them becomes one object."""


class _Collections:
    """Rebuilds the items of collections.

    Constant: the graph, the scope of its new nodes, whether VariableDefs have the field `trainable`. Growing: `_variables`, the
    rebuilt ones, by their serialized proto.
    """

    def __init__(self, graph: Graph, scope: str, has_trainable_field: bool) -> None:
        self._graph = graph
        self._scope = scope
        self._has_trainable_field = has_trainable_field
        self._variables: dict[bytes, Any] = {}

    def add(self, key: str, items: CollectionDef) -> None:
        kind = items.WhichOneof("kind")
        if kind is None:
            logger.error("collection %r has an unknown kind and is not imported", key)
            return
        for item in getattr(items, kind).value:
            self._graph.add_to_collection(key, self._restore(key, kind, item))

    def _restore(self, key: str, kind: str, item: Any) -> Any:
        if kind == "bytes_list":
            if get_from_proto_function(key) is not None:
                return self._from_message(key, item)
            return prepend_name_scope(item, self._scope)
        if kind == "node_list":
            return self._graph.as_graph_element(prepend_name_scope(item, self._scope))
        return item

    def _from_message(self, key: str, item: bytes) -> Any:
        if key in _VARIABLES and item in self._variables:
            return self._variables[item]
        message = _parse(get_collection_proto_type(key), item, key)
        if key in _VARIABLES and not self._has_trainable_field:
            message.trainable = key == GraphKeys.TRAINABLE_VARIABLES
        from_proto = get_from_proto_function(key)
        assert from_proto is not None
        made = from_proto(message, import_scope=self._scope)
        if key in _VARIABLES:
            self._variables[item] = made
        return made


def _parse(kind: Any, data: bytes, key: str) -> Any:
    try:
        return kind.FromString(data)
    except Exception as error:  # protobuf's DecodeError, whichever implementation is in use
        raise InvalidArgumentError(f"collection {key!r} has an item that is no {kind.__name__}") from error
