"""Inlines function bodies: of function calls, and of functional conditionals and loops.

The body of a function is copied to each call site, under the caller's name ("caller/node"), so that plans contain no calls. The
names are the same in every plan: a stateful node of a body keeps its kernel, one for each call site.

A call runs as a whole: nodes of the body wait for the inputs and control inputs of the call, and every consumer of the call
waits for all side effects of the body. If a call may be dead, or is in a loop, nodes of its body without inputs get a control
edge from a *pivot*, a node that is alive exactly when the call is.

The table `lower_control_flow.LOWERINGS` has the lowering of each kind of operation; this module has the common part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.graph.device_spec import merge_names
from aioexec.graph.func_graph import FuncGraph
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import Operation, Tensor
from aioexec.planning.new_nodes import NodeMaker, tensor_of
from aioexec.planning.subgraph import Edge, Node, Subgraph

LARGEST: Final = 250_000
"""The most nodes of all bodies in a subgraph. Functions that call each other twice double the number at each level."""
CONTROL_FLOW: Final = (Role.SWITCH, Role.MERGE, Role.ENTER)
_HARMLESS: Final = (Role.READ, Role.VARIABLE, Role.PLACEHOLDER, Role.CONSTANT)
_COLOCATED: Final = "loc:@"

Pivot = Callable[[], Node]
"""Makes, on first use, the node that is alive exactly when a body runs."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of bodies by an operation, at the place where they are inlined.

    Attributes:
        name: of the operation, prefixed with those of its callers.
        inputs, controls: its inputs and control inputs.
        is_conditional: it may be dead, or is in a loop.
        device: the device requested by the operation and its callers.
    """

    op: Operation
    name: str
    inputs: list[Edge]
    controls: list[Node]
    is_conditional: bool
    device: str

    def bodies(self) -> Sequence[FuncGraph]:
        if self.op.row.bodies is None:
            raise UnimplementedError(f"{self.op.type} {self.op.name!r} cannot be run: it has no lowering")
        return self.op.row.bodies(self.op)


@dataclass(slots=True)
class Outcome:
    """The replacement of an operation.

    Attributes:
        outputs: its outputs, which wait for all side effects.
        effects: the last nodes with side effects.
        finished: makes the further nodes for which control edges from the operation wait; called on first use.
    """

    outputs: list[Edge]
    effects: list[Node]
    finished: Callable[[], list[Node]] = list


Lowering = Callable[["Inliner", Call], Outcome]


@dataclass(slots=True)
class _Needs:
    """The operations of a body that are copied, in order, and the nodes for which its outputs have to wait.

    Attributes:
        effects: operations that change state, or must run, and precede no other such operation.
        pending: for each output, the effects that are not among its ancestors.
        may_be_dead: effects can be dead in a body that runs, since it has conditionals of its own.
        size: the number of nodes, bodies of its own calls included.
    """

    order: list[Operation] = field(default_factory=list)
    effects: list[Operation] = field(default_factory=list)
    pending: list[list[Operation]] = field(default_factory=list)
    may_be_dead: bool = False
    size: int = 0


def inline_bodies(subgraph: Subgraph, lowerings: Mapping[Role, Lowering]) -> None:
    """Replace every operation that calls bodies, and remove nodes that are not needed any more.

    Raises:
        InvalidArgumentError: a body does not fit its operation, or all of them together are too large.
        NotFoundError: a function is not in the library.
    """
    if any(node.feed is None and node.row.role in lowerings for node in subgraph.nodes):
        Inliner(subgraph, lowerings).run()
        subgraph.drop_unneeded()


class Inliner:
    """Rewrites the nodes of a subgraph, in order, with bodies in place of calls.

    Attributes:
        nodes: those written.

    `_calls` are the subgraph's own calls, with their outcome, by id() of the node (the node is stored too, so that its id stays
    valid); `_taken` are the names of the session's graph, `_made` those of nodes that are not copies of nodes of a body.
    """

    def __init__(self, subgraph: Subgraph, lowerings: Mapping[Role, Lowering]) -> None:
        self.nodes: list[Node] = []
        self._subgraph = subgraph
        self._lowerings = lowerings
        self._maker = NodeMaker(lambda prefix: prefix)
        self._calls: dict[int, tuple[Node, Call, Outcome]] = {}
        self._needs: dict[FuncGraph, _Needs | None] = {}
        self._taken: Collection[str] = subgraph.nodes[0].op.graph._by_name
        self._made: set[str] = set()

    def run(self) -> None:
        graph = self._subgraph
        is_conditional = any(node.feed is None and node.row.role in CONTROL_FLOW for node in graph.nodes)
        self._check_size([node.op for node in graph.nodes if node.feed is None])
        for node in graph.nodes:
            node.inputs = [self._edge(edge) for edge in node.inputs]
            node.controls = [each for control in node.controls for each in self._control_sources(control)]
            if node.feed is None and node.row.role in self._lowerings:
                controls = _waits_of_call(node.inputs, node.controls)
                call = Call(node.op, node.name, node.inputs, controls, is_conditional, node.op.device)
                self._calls[id(node)] = node, call, self._lower(call)
            else:
                self.nodes.append(node)
        graph.fetches = [self._resolve_fetch(edge, place) for place, edge in enumerate(graph.fetches)]
        graph.targets = [self._target(node) for node in graph.targets]
        graph.nodes = self.nodes

    def _edge(self, edge: Edge) -> Edge:
        found = self._calls.get(id(edge[0]))
        return edge if found is None else found[2].outputs[edge[1]]

    def _control_sources(self, node: Node) -> list[Node]:
        found = self._calls.get(id(node))
        return [node] if found is None else self.waits(found[2])

    def _resolve_fetch(self, edge: Edge, place: int) -> Edge:
        """The edge of a fetch; a feed that a body returns unchanged becomes a value of its own."""
        found = self._edge(edge)
        if found == edge or found[0].feed is None:
            return found
        return self.make("Identity", self._calls[id(edge[0])][1], f"fetched_{place}", [found]), 0

    def _target(self, node: Node) -> Node:
        found = self._calls.get(id(node))
        return node if found is None else self.make("NoOp", found[1], "done", [], self.waits(found[2]))

    def _check_size(self, operations: Sequence[Operation]) -> None:
        size = sum(self._size(op) for op in operations)
        if size > LARGEST:
            raise InvalidArgumentError(
                f"the functions that are called come to {size} nodes in the places they are called from; "
                f"at most {LARGEST} are allowed"
            )

    def _size(self, op: Operation) -> int:
        if op.row.role not in self._lowerings or op.row.bodies is None:
            return 1
        return 1 + sum(self.needs(body).size for body in op.row.bodies(op))

    # The interface for lowerings

    def make(
        self,
        op_type: str,
        call: Call,
        name: str,
        inputs: Sequence[Edge] = (),
        controls: Sequence[Node] = (),
        **attrs: Any,
    ) -> Node:
        """Write a new node that belongs to no body, under a name that no node of a body has."""
        full = found = f"{call.name}/_{name}"
        count = 0
        while found in self._taken or found in self._made:
            count += 1
            found = f"{full}_{count}"
        self._made.add(found)
        node = self._maker.make(op_type, Node(call.op), call.device, inputs, controls, name=found, **attrs)
        self.nodes.append(node)
        return node

    def port(self, call: Call, name: str, edge: Edge) -> Node | None:
        """A node to wait for that is alive when an edge is; None if it always is."""
        producer = edge[0]
        if producer.feed is not None:
            return None
        if producer.row.role is Role.SWITCH:
            return self.make("Identity", call, name, [edge])
        return producer

    def join(self, call: Call, name: str, nodes: Sequence[Node], may_be_dead: bool) -> list[Node]:
        """One node that waits for several; if they may be dead, it is alive even then."""
        if not nodes or (len(nodes) == 1 and not may_be_dead):
            return list(nodes)
        return [self.make("ControlTrigger" if may_be_dead else "NoOp", call, name, [], nodes)]

    def waits(self, outcome: Outcome) -> list[Node]:
        """The nodes that replace a control edge from an operation that was replaced."""
        return list(dict.fromkeys([*outcome.effects, *outcome.finished()]))

    def body(
        self,
        call: Call,
        name: str,
        body: FuncGraph,
        args: Sequence[Edge],
        pivot: Pivot | None,
        free: Collection[int] = (),
    ) -> Outcome:
        """Write the nodes of a body.

        Args:
            args: the edges that replace its inputs.
            pivot: the node for which nodes without other inputs wait.
            free: the args that do not delay a node: they may be available although the body does not run, or before.
        """
        return _BodyWriter(self, call, self._free_name(name, body), body, args, pivot, free).write()

    def _free_name(self, name: str, body: FuncGraph) -> str:
        """A scope in which no node of the session's graph has the name of one of the body's."""
        found, count = name, 0
        while any(f"{found}/{op.name}" in self._taken for op in self.needs(body).order):
            count += 1
            found = f"{name}_{count}"
        return found

    def _lower(self, call: Call) -> Outcome:
        return self._lowerings[call.op.row.role](self, call)

    def needs(self, body: FuncGraph) -> _Needs:
        """The parts of a body that are copied."""
        if body not in self._needs:
            self._needs[body] = None
            self._needs[body] = self._find_needs(body)
        found = self._needs[body]
        if found is None:
            raise InvalidArgumentError(f"function {body.name!r} calls itself; recursion is not supported")
        return found

    def _find_needs(self, body: FuncGraph) -> _Needs:
        needs = _Needs()
        effects = self._effects(body)
        roots = [*(tensor.op for tensor in body.outputs), *effects]
        needed: set[Operation] = set()
        while roots:
            op = roots.pop()
            if op not in needed:
                needed.add(op)
                roots.extend(tensor.op for tensor in op.inputs)
                roots.extend(op.control_inputs)
        inputs = {tensor.op for tensor in body.inputs}
        needs.order = [op for op in body.get_operations() if op in needed and op not in inputs]
        needs.may_be_dead = any(op.row.role is Role.SWITCH for op in needs.order)
        needs.size = sum(self._size(op) for op in needs.order)
        before = _effects_before(needs.order, effects)
        followed = functools.reduce(int.__or__, (before[op] & ~(1 << k) for k, op in enumerate(effects)), 0)
        last = {op for k, op in enumerate(effects) if not followed >> k & 1}
        needs.effects = [op for op in effects if op in last]
        needs.pending = [
            [op for k, op in enumerate(effects) if op in last and not before.get(tensor.op, 0) >> k & 1]
            for tensor in body.outputs
        ]
        return needs

    def _effects(self, body: FuncGraph) -> list[Operation]:
        """Operations that must run when the body does: those that change state, and its control outputs."""
        found: dict[Operation, None] = {}
        depth: dict[Operation, int] = {}
        exits: list[Operation] = []
        for op in body.get_operations():
            around = max((depth.get(tensor.op, 0) for tensor in op.inputs), default=0)
            around = max([around, *(depth.get(control, 0) for control in op.control_inputs)])
            role = op.row.role
            depth[op] = around + (role is Role.ENTER) - (role is Role.EXIT)
            if role is Role.EXIT and depth[op] == 0:
                exits.append(op)
            if self._has_effect(op) or (op in body.control_outputs and role not in _HARMLESS):
                found[op] = None
        if any(depth[op] for op in found):  # inside a loop: other nodes can wait for its Exits only
            found = {op: None for op in [*found, *exits] if not depth[op]}
        return list(found)

    def _has_effect(self, op: Operation) -> bool:
        row = op.row
        if row.role in self._lowerings and row.bodies is not None:
            return any(self.needs(body).effects for body in row.bodies(op))
        return (row.is_stateful or bool(row.writes)) and row.role not in _HARMLESS


def _effects_before(order: Sequence[Operation], effects: Sequence[Operation]) -> dict[Operation, int]:
    """The bit set of effects at or before each operation."""
    bits = {op: 1 << k for k, op in enumerate(effects)}
    before: dict[Operation, int] = {}
    for op in order:
        found = bits.get(op, 0)
        for tensor in op.inputs:
            found |= before.get(tensor.op, 0)
        for control in op.control_inputs:
            found |= before.get(control, 0)
        before[op] = found
    return before


def _waits_of_call(inputs: Sequence[Edge], controls: Sequence[Node]) -> list[Node]:
    """The control inputs of a call, with those of its inputs that have control inputs.

    An operation is made without the control inputs that an input of it has; but nodes of a body need not use that input.
    """
    waiting = (node for node, _ in inputs if node.feed is None and node.controls)
    return list(dict.fromkeys([*controls, *(node for node in waiting if node.row.role not in CONTROL_FLOW)]))


class _BodyWriter:
    """Writes one copy of a body.

    Growing: `_edges`, the edge that replaces each tensor of the body; `_waits`, the nodes that replace control edges from each
    operation; `_back_edges`, inputs of Merges whose producers come later.
    """

    def __init__(
        self,
        inliner: Inliner,
        call: Call,
        name: str,
        body: FuncGraph,
        args: Sequence[Edge],
        pivot: Pivot | None,
        free: Collection[int],
    ) -> None:
        self._inliner = inliner
        self._call = call
        self._name = name
        self._body = body
        self._pivot = pivot
        self._needs = inliner.needs(body)
        self._inputs = {tensor.op for tensor in body.inputs}
        self._free = {body.inputs[k] for k in free}
        self._edges: dict[Tensor, Edge] = dict(zip(body.inputs, args, strict=True))
        self._waits: dict[Operation, list[Node] | Outcome] = {
            tensor.op: [] if edge[0].feed is not None or edge[0].row.role is Role.SWITCH else [edge[0]]
            for tensor, edge in self._edges.items()
        }
        self._back_edges: list[tuple[Node, int, Tensor]] = []

    def write(self) -> Outcome:
        needs, inliner = self._needs, self._inliner
        for op in needs.order:
            self._write(op)
        for node, place, tensor in self._back_edges:
            node.inputs[place] = self._edges[tensor]
            node.op.set_input(place, tensor_of(self._edges[tensor]))
        outputs = [self._output(place) for place in range(len(self._body.outputs))]
        effects = self._join_effects(needs.effects)
        finished = functools.cache(lambda: self._find_ends(outputs))
        if needs.may_be_dead and effects and self._pivot is not None:
            effects = inliner.join(self._call, "effects", [*effects, self._pivot()], False)
        return Outcome(outputs, effects, finished)

    def _find_ends(self, outputs: Sequence[Edge]) -> list[Node]:
        ports = [self._inliner.port(self._call, "finished", edge) for edge in outputs]
        return list(dict.fromkeys([*(node for node in ports if node is not None), *self._call.controls]))

    def _write(self, op: Operation) -> None:
        controls = [node for control in op.control_inputs for node in self._control_sources(control)]
        waits_inside = any(control not in self._inputs for control in op.control_inputs)
        if self._pivot is not None and not waits_inside and all(tensor in self._free for tensor in op.inputs):
            controls.append(self._pivot())
        inputs = [self._edges.get(tensor, self._first_input(op)) for tensor in op.inputs]
        name, device = f"{self._name}/{op.name}", merge_names(self._call.device, op.device)
        if op.row.role in self._inliner._lowerings:
            is_conditional = self._call.is_conditional or self._pivot is not None or self._needs.may_be_dead
            waits = _waits_of_call(inputs, controls)
            inner = self._inliner._lower(Call(op, name, inputs, waits, is_conditional, device))
            self._waits[op] = inner
            self._edges.update(zip(op.outputs, inner.outputs, strict=True))
            return
        node = Node(self._copy(op, name, inputs, controls, device), None, inputs, controls)
        self._back_edges.extend((node, k, t) for k, t in enumerate(op.inputs) if t not in self._edges)
        self._inliner.nodes.append(node)
        self._waits[op] = [node]
        self._edges.update((tensor, (node, k)) for k, tensor in enumerate(op.outputs))

    def _first_input(self, op: Operation) -> Edge:
        """A placeholder for the input of a Merge whose producer comes later."""
        return next(self._edges[tensor] for tensor in op.inputs if tensor in self._edges)

    def _control_sources(self, op: Operation) -> list[Node]:
        waits = self._waits[op]
        return self._inliner.waits(waits) if isinstance(waits, Outcome) else waits

    def _copy(
        self, op: Operation, name: str, inputs: Sequence[Edge], controls: Sequence[Node], device: str
    ) -> Operation:
        attrs = op.attrs
        if op.row.role is Role.ENTER:
            attrs = {**attrs, "frame_name": f"{self._name}/{attrs['frame_name']}"}
        if "_class" in attrs:
            attrs = {**attrs, "_class": tuple(map(self._rename_group, attrs["_class"]))}
        tensors = [tensor_of(edge) for edge in inputs]
        copy = Operation(
            op.graph, name, op.row, tensors, [node.op for node in controls], attrs, device, op.index
        )
        copy.set_outputs([tensor.dtype for tensor in op.outputs], [tensor.dims for tensor in op.outputs])
        copy.created_at = op.created_at
        return copy

    def _rename_group(self, group: str) -> str:
        member = group.removeprefix(_COLOCATED)
        return f"{_COLOCATED}{self._name}/{member}" if member in self._body._by_name else group

    def _output(self, place: int) -> Edge:
        """An output, which waits for all side effects; an input returned unchanged waits for the pivot as nodes do."""
        tensor = self._body.outputs[place]
        controls = self._join_effects(self._needs.pending[place])
        if self._pivot is not None and tensor in self._free:
            controls.append(self._pivot())
        if not controls:
            return self._edges[tensor]
        return self._inliner.make("Identity", self._call, "result", [self._edges[tensor]], controls), 0

    def _join_effects(self, effects: Sequence[Operation]) -> list[Node]:
        waits = (self._waits[op] for op in effects)
        nodes = dict.fromkeys(
            node for each in waits for node in (each.effects if isinstance(each, Outcome) else each)
        )
        return self._inliner.join(self._call, "effects", list(nodes), self._needs.may_be_dead)
