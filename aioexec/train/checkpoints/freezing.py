"""Graphs for inference: variables are replaced by constants, and nodes that only training needs are removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from aioexec.errors import UnimplementedError
from aioexec.graph import registry
from aioexec.graph.io.sub_graphs import extract_sub_graph, node_of_input

if TYPE_CHECKING:
    from aioexec.formats.protos import GraphDef, NodeDef

_OUTPUT_SHAPES: Final = "_output_shapes"
_VARIABLES: Final = frozenset({"Variable", "VariableV2", "VarHandleOp"})
_FORWARDING_OPS: Final = frozenset({"Identity", "Enter", "Exit", "Switch", "Merge", "NextIteration"})
"""Ops that forward a variable at their input, besides those with reference outputs."""

_REMOVED: Final = frozenset({"CheckNumerics"})
_SPLICED: Final = frozenset({"Identity", "StopGradient"})


async def convert_variables_to_constants(
    sess: Any,
    input_graph_def: GraphDef,
    output_node_names: Sequence[str],
    variable_names_whitelist: Collection[str] | None = None,
    variable_names_blacklist: Collection[str] | None = None,
) -> GraphDef:
    """The subgraph of some output nodes, with variables replaced by constants of their present values.

    Args:
        sess: a session in which the variables have values.
        variable_names_whitelist: the variables to convert, by name; all by default.
        variable_names_blacklist: variables not to convert.

    Raises:
        UnimplementedError: a node uses a variable in a way that a constant does not support.
    """
    result = extract_sub_graph(input_graph_def, output_node_names)
    found = _variables(result, variable_names_whitelist, variable_names_blacklist)
    values = await sess.run({node.name: _read_of(node, sess.graph) for node in found})
    _Frozen(result, values).rewrite()
    return result


def freeze_with_values(
    graph_def: GraphDef,
    output_node_names: Sequence[str],
    value_of: Callable[[str], Any],
    wanted: Collection[str] | None = None,
    unwanted: Collection[str] | None = None,
) -> GraphDef:
    """`convert_variables_to_constants` without a session.

    Args:
        value_of: from the name of a variable to its value.
        wanted, unwanted: the variables to convert, by name, all by default; variables not to convert.
    """
    result = extract_sub_graph(graph_def, output_node_names)
    values = {node.name: value_of(node.name) for node in _variables(result, wanted, unwanted)}
    _Frozen(result, values).rewrite()
    return result


def _variables(
    graph_def: GraphDef, wanted: Collection[str] | None, unwanted: Collection[str] | None
) -> list[NodeDef]:
    """The nodes of the variables to convert."""
    return [
        node
        for node in graph_def.node
        if node.op in _VARIABLES
        and (wanted is None or node.name in wanted)
        and node.name not in (unwanted or ())
    ]


def _read_of(variable: NodeDef, graph: Any) -> Any:
    """A fetchable tensor with the value of a variable."""
    output = graph.get_operation_by_name(variable.name).outputs[0]
    if variable.op != "VarHandleOp":
        return output
    for op in output.consumers():
        if op.type == "ReadVariableOp" and op._get_control_flow_context() is None:
            return op.outputs[0]
    raise UnimplementedError(
        f"variable {variable.name!r}: the graph reads it nowhere outside of loops and branches"
    )


class _Frozen:
    """A GraphDef whose variables become constants.

    Constant: the nodes by name, the values of variables. Growing: `_dtypes`, from each node whose output was a variable and
    becomes a value to the dtype.
    """

    def __init__(self, graph_def: GraphDef, values: dict[str, Any]) -> None:
        self._graph_def = graph_def
        self._nodes = {node.name: node for node in graph_def.node}
        self._values = values
        self._dtypes: dict[str, int] = {}

    def rewrite(self) -> None:
        for name in self._values:
            node = self._nodes[name]
            self._dtypes[name] = node.attr["dtype"].type
        self._find_forwarded()
        users = [node for node in self._graph_def.node if node.name not in self._values and self._uses(node)]
        for node in users:
            self._adapt(node)
        for name in self._values:
            self._make_constant(self._nodes[name])

    def _uses(self, node: NodeDef) -> str | None:
        """The first of its inputs that was a variable."""
        given = (node_of_input(text) for text in node.input if not text.startswith("^"))
        return next((name for name in given if name in self._dtypes), None)

    def _find_forwarded(self) -> None:
        """Find the nodes that forward variables, also around loops."""
        found = True
        while found:
            found = False
            for node in self._graph_def.node:
                source = self._uses(node)
                if source and node.name not in self._dtypes and self._forwards_variable(node):
                    self._dtypes[node.name] = self._dtypes[source]
                    found = True

    def _forwards_variable(self, node: NodeDef) -> bool:
        """Whether a node that takes a variable forwards the variable, rather than its value."""
        from aioexec.formats.protos import DataType

        is_handle = "T" in node.attr and node.attr["T"].type == DataType.DT_RESOURCE
        return (is_handle or node.op.startswith("Ref")) and node.op.removeprefix("Ref") in _FORWARDING_OPS

    def _adapt(self, node: NodeDef) -> None:
        """Change a node that took a variable to take a value."""
        source = self._uses(node)
        assert source is not None
        dtype: Any = self._dtypes[source]
        if node.name in self._dtypes:
            node.op = node.op.removeprefix("Ref")
            node.attr["T"].type = dtype
        elif node.op == "ReadVariableOp":
            self._change_op(node, "Identity", T=dtype)
        elif node.op == "VariableShape":
            out_type = node.attr["out_type"].type
            self._change_op(node, "Shape", T=dtype)
            node.attr["out_type"].type = out_type
        elif node.op == "ResourceGather":
            self._convert_to_gather(node, dtype)
        elif self._takes_handle(node):
            raise UnimplementedError(
                f"{node.op} {node.name!r} does with a variable what cannot be done with a constant"
            )

    def _takes_handle(self, node: NodeDef) -> bool:
        """Whether a node that is not rewritten needs the variable, not its value."""
        if not registry.is_registered(node.op):
            return True
        definition = registry.lookup(node.op).definition
        return any(
            arg.is_ref or (arg.dtype is not None and arg.dtype.name == "resource")
            for arg in definition.inputs
        )

    def _change_op(self, node: NodeDef, op: str, **types: Any) -> None:
        """Change a node to another op with these types; static shapes are kept."""
        node.op = op
        for name in [name for name in node.attr if name != _OUTPUT_SHAPES]:
            del node.attr[name]
        for name, dtype in types.items():
            node.attr[name].type = dtype

    def _convert_to_gather(self, node: NodeDef, dtype: int) -> None:
        from aioexec.formats.protos import DataType
        from aioexec.formats.tensor_codec import make_tensor_proto

        indices, batch_dims = node.attr["Tindices"].type, node.attr["batch_dims"].i
        self._change_op(node, "GatherV2", Tparams=dtype, Tindices=indices, Taxis=DataType.DT_INT32)
        node.attr["batch_dims"].i = batch_dims
        axis = self._graph_def.node.add(name=f"{node.name}/axis", op="Const", device=node.device)
        axis.attr["dtype"].type = DataType.DT_INT32
        axis.attr["value"].tensor.CopyFrom(make_tensor_proto(batch_dims, "int32"))
        controls = [text for text in node.input if text.startswith("^")]
        values = [text for text in node.input if not text.startswith("^")]
        node.input[:] = [*values, axis.name, *controls]

    def _make_constant(self, node: NodeDef) -> None:
        from aioexec.dtypes import as_dtype
        from aioexec.formats.tensor_codec import make_tensor_proto

        dtype: Any = self._dtypes[node.name]
        node.op = "Const"
        node.attr.clear()
        del node.input[:]
        node.attr["dtype"].type = dtype
        node.attr["value"].tensor.CopyFrom(make_tensor_proto(self._values[node.name], as_dtype(dtype)))


def remove_training_nodes(input_graph: GraphDef, protected_nodes: Collection[str] | None = None) -> GraphDef:
    """A graph without CheckNumerics and Identity nodes, except where control edges need them.

    Args:
        protected_nodes: names of nodes to keep, such as fetches.
    """
    protected = set(protected_nodes or ())
    controlling = {text[1:] for node in input_graph.node for text in node.input if text.startswith("^")}
    colocated = {group for node in input_graph.node for group in _groups(node)}
    bypassed: dict[str, str] = {}
    for node in input_graph.node:
        if node.name in protected or node.op not in _REMOVED | _SPLICED:
            continue
        waits = any(text.startswith("^") for text in node.input)
        if node.op in _REMOVED or not (waits or node.name in controlling or node.name in colocated):
            bypassed[node.name] = node.input[0]
    result = type(input_graph)(versions=input_graph.versions, library=input_graph.library)
    for node in input_graph.node:
        if node.name not in bypassed:
            copy = result.node.add()
            copy.CopyFrom(node)
            copy.input[:] = list(_bypassing(node.input, bypassed))
    return result


def _groups(node: NodeDef) -> Iterator[str]:
    if "_class" in node.attr:
        yield from (group.decode().removeprefix("loc:@") for group in node.attr["_class"].list.s)


def _bypassing(inputs: Sequence[str], bypassed: dict[str, str]) -> Iterator[str]:
    """The inputs with removed nodes replaced by these nodes' inputs, for data and control edges."""
    for text in inputs:
        mark = "^" if text.startswith("^") else ""
        while (name := node_of_input(text)) in bypassed:
            text = mark + node_of_input(bypassed[name]) if mark else bypassed[name]
        yield text
