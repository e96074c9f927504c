"""The object graph of a SavedModel of TensorFlow 2: which objects there are, and which one is which attribute of another.

An object is a module, list or dict ("user_object"), a variable, a constant, an asset file, a table ("resource"), a function, or
one of a function's traces ("bare_concrete_function"). Objects refer to each other by number, in cycles too. A function has a
concrete function for each kind of arguments it was traced with: a function of the graph's library, whose last inputs are
captured objects. `read_object_graph` checks everything that is looked up later. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from aioexec.data_classes import dataclass
from aioexec.errors import DataLossError, OpError
from aioexec.saved_model.objects.structures import decode, tensor_count

if TYPE_CHECKING:
    from aioexec.formats.protos import FunctionSpec, MetaGraphDef, SavedConcreteFunction, SavedObject


_LISTS: Final = ("args", "defaults", "kwonlyargs")


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a Python function: names, defaults by name, those for further arguments, those by keyword only."""

    names: Sequence[str]
    defaults: Mapping[str, Any]
    varargs: str | None
    varkw: str | None
    keyword_only: Sequence[str]


@dataclass(frozen=True, slots=True)
class Trace:
    """A concrete function.

    Attributes:
        name: of the function in the library.
        args, kwargs: the structures of its arguments.
        results: the structure of its results.
        captured: the numbers of the objects that are its last inputs.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: Any
    captured: Sequence[int]


@dataclass(frozen=True, slots=True)
class SavedNode:
    """An object: its number, its proto, and the numbers of its attributes by name."""

    number: int
    proto: SavedObject
    children: Mapping[str, int]

    @property
    def kind(self) -> str:
        return self.proto.WhichOneof("kind") or ""


@dataclass(frozen=True, slots=True)
class ObjectGraph:
    """The objects by number, the root first; the concrete functions by name."""

    nodes: Sequence[SavedNode]
    traces: Mapping[str, Trace]


def read_object_graph(meta_graph: MetaGraphDef, path: str) -> ObjectGraph | None:
    """The object graph of a MetaGraphDef; None if it has none.

    Args:
        path: the SavedModel, for messages.

    Raises:
        DataLossError: it contradicts itself or the graph.
    """
    if not meta_graph.HasField("object_graph_def") or not meta_graph.object_graph_def.nodes:
        return None
    return _Reader(meta_graph, path).read()


class _Reader:
    """Reads and checks one object graph. Constant: all attributes."""

    def __init__(self, meta_graph: MetaGraphDef, path: str) -> None:
        self._meta_graph = meta_graph
        self._proto = meta_graph.object_graph_def
        self._path = path
        self._signatures = {
            each.signature.name: each.signature for each in meta_graph.graph_def.library.function
        }

    def read(self) -> ObjectGraph:
        traces = {
            name: self._trace(name, trace) for name, trace in sorted(self._proto.concrete_functions.items())
        }
        nodes = [self._node(number, proto) for number, proto in enumerate(self._proto.nodes)]
        return ObjectGraph(nodes, traces)

    def _wrong(self, what: str, expected: Any, got: Any) -> DataLossError:
        return DataLossError(f"{self._path}: object graph, {what}: expected {expected}, got {got}")

    def _node(self, number: int, proto: SavedObject) -> SavedNode:
        what, count = f"object {number}", len(self._proto.nodes)
        children: dict[str, int] = {}
        for child in proto.children:
            if not 0 <= child.node_id < count:
                raise self._wrong(
                    f"{what}, attribute {child.local_name!r}",
                    f"the number of one of {count} objects",
                    child.node_id,
                )
            if children.setdefault(child.local_name, child.node_id) != child.node_id:
                raise self._wrong(what, "attributes of different names", f"{child.local_name!r} twice")
        node = SavedNode(number, proto, children)
        for name in self._traces_of(proto):
            if name not in self._proto.concrete_functions:
                raise self._wrong(what, "the name of a concrete function", repr(name))
        if node.kind == "asset":
            index, files = proto.asset.asset_file_def_index, len(self._meta_graph.asset_file_def)
            if not 0 <= index < files:
                raise self._wrong(what, f"the number of one of {files} asset files", index)
        return node

    def _traces_of(self, proto: SavedObject) -> Sequence[str]:
        if proto.WhichOneof("kind") == "function":
            return list(proto.function.concrete_functions)
        if proto.WhichOneof("kind") == "bare_concrete_function":
            return [proto.bare_concrete_function.concrete_function_name]
        return []

    def _trace(self, name: str, proto: SavedConcreteFunction) -> Trace:
        what = f"function {name!r}"
        count, captured = len(self._proto.nodes), list(proto.bound_inputs)
        outside = [number for number in captured if not 0 <= number < count]
        if outside:
            raise self._wrong(f"{what}, captured inputs", f"numbers of {count} objects", outside)
        if name not in self._signatures:
            raise self._wrong(what, "a function of the graph's library", "none of this name")
        try:
            given = decode(proto.canonicalized_input_signature)
            results = decode(proto.output_signature)
        except OpError as error:
            raise DataLossError(f"{self._path}: object graph, {what}: {error.message}") from error
        if given is None:
            given = ((), {})
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], tuple | list)):
            raise self._wrong(what, "arguments as a pair of a tuple and a dict", type(given).__name__)
        if not isinstance(given[1], Mapping):
            raise self._wrong(what, "arguments as a pair of a tuple and a dict", type(given[1]).__name__)
        self._check_counts(what, name, given, results, len(captured))
        return Trace(name, tuple(given[0]), given[1], results, captured)

    def _check_counts(self, what: str, name: str, given: Any, results: Any, captured: int) -> None:
        inputs, outputs = len(self._signatures[name].input_arg), len(self._signatures[name].output_arg)
        count, returned = tensor_count(given), tensor_count(results)
        if count is not None and count + captured != inputs:
            raise self._wrong(what, f"{inputs} inputs", f"{count} arguments and {captured} captured inputs")
        if returned is not None and returned != outputs:
            raise self._wrong(what, f"{outputs} outputs", returned)


def parameters_of(spec: FunctionSpec) -> Parameters | None:
    """The parameters of a function, without that for the object whose method it is; None if they are not described."""
    described = decode(spec.fullargspec)
    if described is None:
        return None
    fields = {
        name: getattr(described, name, None) for name in (*_LISTS, "varargs", "varkw", "kwonlydefaults")
    }
    names, defaults, keyword_only = (list(fields[name] or ()) for name in _LISTS)
    by_name = dict(zip(names[len(names) - len(defaults) :], defaults, strict=False))
    by_name |= fields["kwonlydefaults"] or {}
    if spec.is_method:
        names = names[1:]
    return Parameters(names, by_name, fields["varargs"], fields["varkw"], keyword_only)
