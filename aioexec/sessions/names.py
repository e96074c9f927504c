"""Resolves names to a signature, with the errors of TensorFlow's rewriting of a graph for execution."""

from __future__ import annotations

from collections.abc import Sequence

from aioexec.errors import InvalidArgumentError, NotFoundError, UnknownNameError
from aioexec.graph.graph import Graph
from aioexec.graph.node import Operation, Tensor
from aioexec.planning.subgraph import Signature


def parse_tensor_name(name: str) -> tuple[str, int]:
    """Node and output index; "a" means "a:0"."""
    node, colon, index = name.rpartition(":")
    return (node, int(index)) if colon and index.isdigit() else (name, 0)


def canonical(name: str) -> str:
    """A tensor's name with its output index."""
    return "{}:{}".format(*parse_tensor_name(name))


def signature_of(
    graph: Graph,
    feed_names: Sequence[str],
    output_names: Sequence[str],
    target_names: Sequence[str],
    is_partial: bool = False,
) -> Signature:
    """The signature of these names, without duplicates among fetches and targets.

    Raises:
        InvalidArgumentError: there are no outputs; a tensor is fed twice, or fed and fetched; an output index is too large.
        NotFoundError: a node is not in the graph.
    """
    if not output_names and not target_names:
        raise InvalidArgumentError("Must specify at least one target to fetch or execute.")
    fed = [canonical(name) for name in feed_names]
    for place, name in enumerate(fed):
        if name in fed[:place]:
            raise InvalidArgumentError(f'Endpoint "{name}" fed more than once.')
    for name in output_names:
        if canonical(name) in fed:
            raise InvalidArgumentError(f"{canonical(name)} is both fed and fetched.")
    return Signature(
        tuple(fed_tensor(graph, name) for name in feed_names),
        tuple(dict.fromkeys(fetched_tensor(graph, name) for name in output_names)),
        tuple(dict.fromkeys(_targets(graph, target_names))),
        is_partial,
    )


def fed_tensor(graph: Graph, name: str) -> Tensor:
    node, index = parse_tensor_name(name)
    op = find_operation(graph, node)
    if op is None:
        raise NotFoundError(f"FeedInputs: unable to find feed output {name}")
    if index >= len(op.outputs):
        raise InvalidArgumentError(
            f"FeedInputs: {name} should have output index < {len(op.outputs)}, got {index}"
        )
    return op.outputs[index]


def fetched_tensor(graph: Graph, name: str) -> Tensor:
    node, index = parse_tensor_name(name)
    op = find_operation(graph, node)
    if op is None:
        raise NotFoundError(f"FetchOutputs node {name}: not found")
    if index >= len(op.outputs):
        raise InvalidArgumentError(
            f"FetchOutputs {name}: output index too large, must be < {len(op.outputs)}"
        )
    return op.outputs[index]


def _targets(graph: Graph, names: Sequence[str]) -> list[Operation]:
    found = {name: find_operation(graph, parse_tensor_name(name)[0]) for name in names}
    missing = [name for name, op in found.items() if op is None]
    if missing:
        raise NotFoundError(f"PruneForTargets: Some target nodes not found: {' '.join(missing)}")
    return [op for op in found.values() if op is not None]


def find_operation(graph: Graph, name: str) -> Operation | None:
    """The operation of that name, or None."""
    try:
        return graph.get_operation_by_name(name)
    except UnknownNameError:
        return None
