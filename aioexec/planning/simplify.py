"""Passes that make a subgraph smaller without changing its results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from aioexec.dtypes import DType, string
from aioexec.formats.repeated import is_one_repeated
from aioexec.graph.kernels.kernel import Compute, Role
from aioexec.graph.kernels.work import evaluate_estimate
from aioexec.planning.subgraph import Bind, Node, Subgraph, Value
from aioexec.planning.workload import STRING_BYTES

LARGEST_FOLDED = 10 * 2**20
"""The most bytes of a folded value, and of each input of it; larger ones are computed in each step, as in TensorFlow."""
LONGEST_FOLDED_NS = 50_000_000
"""The longest kernel, in nanoseconds, that is run to fold a value; longer ones run in a step, which can be cancelled."""
_WAITED_FOR = frozenset(
    {Role.COMPUTE, Role.CONSTANT, Role.PLACEHOLDER, Role.IDENTITY, Role.VARIABLE, Role.READ, Role.UPDATE}
)


def fold_constants(graph: Subgraph, bind: Bind) -> None:
    """Compute nodes that depend on constants alone, with the reference kernels."""
    for node in graph.nodes:
        if not node.is_pure or node.controls or node.is_constant:
            continue
        if node.row.role is Role.CONSTANT:
            node.values = (node.op.attrs["value"],)
        elif node.row.kernel is not None and all(producer.is_constant for producer, _ in node.inputs):
            node.values = _fold(node, bind)
        if node.values is not None:
            node.inputs = []
    graph.drop_unneeded()


def _fold(node: Node, bind: Bind) -> tuple[np.ndarray[Any, Any], ...] | None:
    inputs = [producer.values[index] for producer, index in node.inputs if producer.values is not None]
    taken = 0 if node.row.shape_only else max(map(_taken_bytes, inputs), default=0)
    if taken > LARGEST_FOLDED:
        return None
    size = _static_bytes(node, inputs)
    if size is None or size > LARGEST_FOLDED:
        return None
    return evaluate(node, bind(node.op, node.device), inputs)


def _taken_bytes(value: Value) -> int:
    """Bytes of an input; for strings also the cost of handling each, in bytes."""
    if value.dtype != object:
        return value.nbytes
    total = value.nbytes + value.size * STRING_BYTES
    return total if total > LARGEST_FOLDED else total + _text_bytes(value)


def _text_bytes(value: Value) -> int:
    return sum(len(each) for each in value.ravel() if isinstance(each, bytes))


def evaluate(node: Node, compute: Compute, inputs: Sequence[Value]) -> tuple[Value, ...] | None:
    """The outputs of a node's kernel; None if it may take long, or raises: a step then raises the error and names the node."""
    if (
        node.row.work is not None
        and evaluate_estimate(node.row.work, node.op.attrs, inputs) > LONGEST_FOLDED_NS
    ):
        return None
    try:
        with np.errstate(all="ignore"):
            result = compute(*inputs)
    except Exception:
        return None
    outputs = result if len(node.op.outputs) > 1 else (result,)
    return tuple(np.asarray(value) for value in outputs)


def _static_bytes(node: Node, inputs: Sequence[Value]) -> int | None:
    """An upper bound on the bytes of the outputs; None if their number of elements is not known."""
    total = 0
    for tensor in node.op.outputs:
        if tensor.dims is None or None in tensor.dims:
            return LARGEST_FOLDED if node.row.dynamic_shape else None
        each = tensor.dtype.numpy.itemsize
        if tensor.dtype is string:
            # RegexReplace may insert one text into another at each of its bytes.
            text = sum(_text_bytes(value) for value in inputs if value.dtype == object)
            each += STRING_BYTES + text * text
        total += math.prod(d or 0 for d in tensor.dims) * each
    return total


def drop_identities(graph: Subgraph, bind: Bind) -> None:
    """Redirect consumers of an Identity to its input, unless it has control edges or is a snapshot of a variable."""
    aliases: dict[int, tuple[Node, int]] = {}
    waited_for = {id(control) for node in graph.nodes for control in node.controls}
    targets = {id(node) for node in graph.targets}
    for node in graph.nodes:
        node.inputs = [aliases.get(id(producer), (producer, index)) for producer, index in node.inputs]
        plain = (
            node.feed is None
            and node.row.role is Role.IDENTITY
            and len(node.inputs) == 1
            and not node.is_constant
        )
        if plain and not node.controls and id(node) not in waited_for | targets and not node.dereferences():
            aliases[id(node)] = node.inputs[0]
    fed = {id(node) for node in graph.feeds}
    graph.fetches = [
        aliases[id(node)] if id(node) in aliases and id(aliases[id(node)][0]) not in fed else (node, index)
        for node, index in graph.fetches
    ]
    if aliases:
        graph.drop_unneeded()


def drop_unused(graph: Subgraph, bind: Bind) -> None:
    """Remove pure nodes of which only control edges are used; their consumers get control edges from their inputs instead.

    For example, the gradient with respect to a batch is not computed only because a group of gradients waits for it. As in
    TensorFlow, a node that is removed can no longer report an error in the shapes of its inputs. Nodes that may fail otherwise
    are kept, and so are nodes for which a target waits directly: the target may be the call of a function, whose results are
    requested.
    """
    uses = Counter(id(producer) for node in graph.nodes for producer, _ in node.inputs)
    uses.update(id(node) for node in (*(node for node, _ in graph.fetches), *graph.targets, *graph.feeds))
    uses.update(id(control) for target in graph.targets for control in target.controls)
    waiters: dict[int, list[Node]] = {}
    dropped = False
    for node in graph.nodes:
        for control in node.controls:
            waiters.setdefault(id(control), []).append(node)
    for node in reversed(graph.nodes):
        if uses[id(node)] or id(node) not in waiters or not _is_dispensable(node):
            continue
        instead = list(dict.fromkeys(node.producers()))
        waiting = waiters.pop(id(node))
        for waiter in waiting:
            controls = [
                each for control in waiter.controls for each in (instead if control is node else (control,))
            ]
            waiter.controls = list(dict.fromkeys(controls))
        for producer in instead:
            waiters.setdefault(id(producer), []).extend(waiting)
        uses.subtract(id(producer) for producer, _ in node.inputs)
        dropped = True
    if dropped:
        graph.drop_unneeded()


def _is_dispensable(node: Node) -> bool:
    """Whether removing a node changes nothing: it cannot fail, and its consumers may wait for its inputs instead.

    Control-flow nodes are not dispensable: only one output of a Switch is dead, and no control edge can wait for one output.
    """
    native = node.row.native
    if not node.is_pure or native is None or native.statuses or not node.inputs:
        return False
    if any(tensor.dtype.is_ref for tensor in node.op.inputs):
        return False  # the read fails if the variable is not initialised
    return all(each.feed is not None or each.row.role in _WAITED_FOR for each in node.producers())


def merge_common_subexpressions(graph: Subgraph, bind: Bind) -> None:
    """Compute equal pure nodes once."""
    first: dict[Hashable, Node] = {}
    replacements: dict[int, Node] = {}
    for node in graph.nodes:
        node.inputs = [(replacements.get(id(producer), producer), index) for producer, index in node.inputs]
        if not node.is_pure or node.controls:
            continue
        key = _key(node)
        kept = first.setdefault(key, node)
        if kept is not node:
            replacements[id(node)] = kept
    if replacements:
        graph.replace(replacements)


def _key(node: Node) -> Hashable:
    if node.values is not None:
        return node.device, *(_content(value) for value in node.values)
    inputs = [(id(producer), index) for producer, index in node.inputs]
    if node.row.definition.is_commutative:
        inputs.sort()
    attrs = [(name, _content(value)) for name, value in node.op.attrs.items() if not name.startswith("_")]
    return node.row.name, node.device, tuple(sorted(attrs)), tuple(inputs)


def _content(value: Any) -> Hashable:
    """A hashable key that is equal only for equal attribute values or arrays."""
    if isinstance(value, DType):
        return "dtype", value.name
    if isinstance(value, np.ndarray):
        if is_one_repeated(value):
            return value.shape, _content(value[(slice(1),) * value.ndim].copy())
        if value.dtype != object:
            return value.dtype.str, value.shape, value.tobytes()
        elements = value.ravel().tolist()
        are_bytes = set(map(type, elements)) <= {bytes}
        return "object", value.shape, tuple(elements if are_bytes else map(_content, elements))
    if isinstance(value, tuple | list):
        return type(value).__name__, tuple(map(_content, value))
    return (type(value).__name__, repr(value)) if not isinstance(value, str | bytes) else value
