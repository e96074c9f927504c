"""Pruning: keeps only the nodes that the fetches and targets need, and no ancestors of feeds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import Operation, Tensor
from aioexec.planning.subgraph import Edge, Node, Signature, Subgraph, in_order


def prune(signature: Signature) -> Subgraph:
    """Copy the ancestors of the fetches and targets, cut at the feeds.

    Raises:
        InvalidArgumentError: the graph has a cycle, or a node takes a reference for which a value is fed.
    """
    feeds = {tensor: Node(tensor.op, feed=tensor) for tensor in signature.feeds}
    sources = {destination: source for source, destination in signature.connections}
    needed = _ancestors(signature, feeds, sources)
    made = {op: Node(op) for op in needed}

    def edge(tensor: Tensor) -> Edge:
        tensor = sources.get(tensor, tensor)
        feed = feeds.get(tensor)
        return (made[tensor.op], tensor.value_index) if feed is None else (feed, 0)

    for op, node in made.items():
        node.inputs = [edge(tensor) for tensor in op.inputs]
        node.controls = [made[producer] for producer in op.control_inputs if producer in made]
    _check_references([tensor for tensor in feeds if tensor.dtype.is_ref], made)
    nodes = [*feeds.values(), *_sort(list(made.values()))]
    return Subgraph(
        nodes,
        list(feeds.values()),
        [edge(tensor) for tensor in signature.fetches],
        [made[op] for op in signature.targets],
    )


def _ancestors(
    signature: Signature, feeds: dict[Tensor, Node], sources: dict[Tensor, Tensor]
) -> set[Operation]:
    cuts = feeds.keys() | sources.keys()
    needed: set[Operation] = set()
    stack = [tensor.op for tensor in signature.fetches if tensor not in feeds]
    stack.extend(signature.targets)
    while stack:
        op = stack.pop()
        if op in needed:
            continue
        needed.add(op)
        for tensor in op.inputs:
            source = sources.get(tensor, tensor)
            if source not in feeds:
                stack.append(source.op)
        stack += [waited_for for waited_for in op.control_inputs if not _is_fed(waited_for, cuts)]
    return needed


def _check_references(fed: Sequence[Tensor], made: Mapping[Operation, Node]) -> None:
    """Refuse nodes that would write to a fed value."""
    for tensor in fed:
        for op in tensor.consumers():
            place = op.inputs.index(tensor)
            if op in made and place not in made[op].dereferences():
                raise InvalidArgumentError(
                    f"Input {place} of node {op.name} was passed {tensor.dtype.base_dtype.name} from the feed of "
                    f"{tensor.name!r} incompatible with expected {tensor.dtype.name}"
                )


def _is_fed(op: Operation, feeds: Collection[Tensor]) -> bool:
    """Whether a feed replaces an operation completely, as a placeholder; others still run if a node depends on them."""
    return op.row.role is Role.PLACEHOLDER and op.outputs[0] in feeds


def _sort(nodes: list[Node]) -> list[Node]:
    """Nodes after their producers, otherwise in the order of the graph; control inputs may have been added later."""
    nodes.sort(key=lambda node: node.op.index)
    position = {id(node): place for place, node in enumerate(nodes)}
    if all(
        position.get(id(p), -1) < place for place, node in enumerate(nodes) for p in node.producers_before()
    ):
        return nodes
    before = {id(node): [p for p in node.producers_before() if id(p) in position] for node in nodes}
    order = in_order(nodes, before)
    if len(order) < len(nodes):
        done = {id(node) for node in order}
        stuck = [node.name for node in nodes if id(node) not in done]
        raise InvalidArgumentError(
            f"the graph has a cycle: {len(stuck)} nodes wait for each other, among them {stuck[:5]}"
        )
    return order
