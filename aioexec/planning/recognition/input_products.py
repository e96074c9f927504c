"""Moves the product of a recurrent network's inputs out of its loop.

In each iteration a cell multiplies [input, state] by one matrix, and the inputs are the rows of a tensor that is known before
the loop: x[t] @ W. All of these are one product, x @ W, of which the loop reads a row and adds it to the product of the state
alone. That takes fewer passes over the weights, and the product of all inputs is as fast as a large one.

    concat([read(x, t), h], 1) @ [W; V]   becomes   (x @ W)[t] + h @ V

Each element becomes a sum of two sums instead of one, so the last bits differ.

Conditions: the matrix does not change in the loop; nothing else uses the concatenation, as gradients do; and x is a list of its
rows, or fills a TensorArray in order outside of the loop, whose elements t, which counts, reads only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.recognition.patterns import constant_of
from aioexec.planning.rewriting.loops import entering, is_invariant
from aioexec.planning.rewriting.replacement import Rewriting, dims_of
from aioexec.planning.subgraph import Bind, Edge, Node, Subgraph

MOST_GROWTH = 16
"""How many times as large as the inputs their product may be, which is in memory while the loop runs; and its most elements."""
MOST_ELEMENTS = 2**25
LEAST_STATE_ELEMENTS = 2**20
"""Elements of the states' matrix from which it pays: a product that is too small to be shared occupies one worker only."""


@dataclass(frozen=True, slots=True)
class _Inputs:
    """An operand of a product that is a row of the inputs: their tensor, and the row's number."""

    rows: Edge
    number: Edge


@dataclass(frozen=True, slots=True)
class _Product:
    """A product in a loop: the node through which its matrix enters, and the operands that `joined` concatenates for it."""

    node: Node
    enter: Node
    operands: Sequence[Edge]
    joined: Node | None


def move_input_products(graph: Subgraph, bind: Bind) -> None:
    """Compute the products of a loop's inputs before the loop."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        product = _product(node, rewriting)
        if product is not None:
            _move(rewriting, product)
    rewriting.apply()


def _product(node: Node, rewriting: Rewriting) -> _Product | None:
    """A product by a matrix that does not change in the loop; None if the node is something else."""
    if node.feed is not None or node.row.name != "MatMul" or node.is_constant:
        return None
    left, enter = node.inputs[0], node.inputs[1][0]
    if node.op.attrs["transpose_a"] or node.op.attrs["transpose_b"] or not is_invariant(enter):
        return None
    joined = left[0]
    if joined.feed is None and joined.row.name == "ConcatV2" and rewriting.uses.only_user(joined) is node:
        axis = constant_of(joined.inputs[-1])
        if axis is not None and int(axis.reshape(())) in (1, -1):
            return _Product(node, enter, joined.inputs[:-1], joined)
    return _Product(node, enter, [left], None)


def _move(rewriting: Rewriting, product: _Product) -> None:
    first, last = product.operands[0], product.operands[-1]
    for operand, is_first in ((first, True), (last, False)):
        inputs = _inputs(operand)
        if inputs is not None and _is_worthwhile(inputs, product):
            rewriting.attempt(_replace, product, inputs, is_first)
            return


def _inputs(operand: Edge) -> _Inputs | None:
    """How an operand is read from the inputs; None if it is something else."""
    read, _ = operand
    if read.feed is not None:
        return None
    if read.row.name == "TensorListGetItem":
        return _of_list(read)
    return _of_array(read) if read.row.name == "TensorArrayReadV3" else None


def _of_list(read: Node) -> _Inputs | None:
    (entered, _), number, _ = read.inputs
    if not is_invariant(entered):
        return None
    made, _ = entered.inputs[0]
    is_tensor = made.feed is None and made.row.name == "TensorListFromTensor"
    return _Inputs(made.inputs[0], number) if is_tensor else None


def _of_array(read: Node) -> _Inputs | None:
    (handle, _), number, (flow, _) = read.inputs
    if not (is_invariant(handle) and is_invariant(flow) and _counts(number)):
        return None
    scatter, _ = flow.inputs[0]
    if scatter.feed is not None or scatter.row.name != "TensorArrayScatterV3":
        return None
    array, numbers, rows, before = scatter.inputs
    if array != handle.inputs[0] or before != (array[0], 1) or not _numbers_all(numbers, rows):
        return None
    return _Inputs(rows, number)


def _numbers_all(numbers: Edge, rows: Edge) -> bool:
    """Whether an edge is the numbers of all rows of a tensor, in order."""
    dims, known = dims_of(rows), constant_of(numbers)
    if known is not None:
        return dims is not None and known.shape == dims[:1] and np.array_equal(known, np.arange(known.size))
    node, _ = numbers
    if node.feed is not None or node.row.name != "Range":
        return False
    (start, step), (count, _) = (constant_of(node.inputs[k]) for k in (0, 2)), node.inputs[1]
    if start != 0 or step != 1 or count.feed is not None or count.row.name != "StridedSlice":
        return False
    (shape, _), *bounds = count.inputs
    contents = [constant_of(bound) for bound in bounds]
    is_first = [None if each is None else each.tolist() for each in contents] == [[0], [1], [1]]
    return is_first and shape.feed is None and shape.row.name == "Shape" and shape.inputs[0] == rows


def _is_worthwhile(inputs: _Inputs, product: _Product) -> bool:
    """Whether the widths of the operands are known, and the product of all inputs is not much larger than they are."""
    rows, matrix = dims_of(inputs.rows), dims_of(product.enter.inputs[0])
    if rows is None or len(rows) != 3 or matrix is None or len(matrix) != 2:
        return False
    (steps, _, width), (height, columns) = rows, matrix
    if width is None or height is None or columns is None or width > height or steps == 1:
        return False
    if 0 < (height - width) * columns < LEAST_STATE_ELEMENTS:
        return False
    return columns <= width * MOST_GROWTH and prod(dim or 1 for dim in (*rows[:2], columns)) <= MOST_ELEMENTS


def _replace(rewriting: Rewriting, product: _Product, inputs: _Inputs, is_first: bool) -> None:
    node, enter = product.node, product.enter
    matrix = enter.inputs[0]
    width, height = (dims_of(inputs.rows) or (0,))[-1] or 0, (dims_of(matrix) or (0,))[0] or 0
    others = product.operands[1:] if is_first else product.operands[:-1]
    own, rest = ((0, width), (width, height)) if is_first else ((height - width, height), (0, height - width))
    if bool(others) != (height > width):
        return
    weights = _rows(rewriting, node, matrix, own, "/_input_weights")
    products = rewriting.make("BatchMatMulV2", node, [inputs.rows, weights], "/_input_products")
    inside = _enter(rewriting, node, enter, (products, 0), "/_input_products/Enter")
    gathered = [inside, inputs.number]
    nodes = [node] if product.joined is None else [node, product.joined]
    if not others:
        rewriting.replace(nodes, [(node, 0)], rewriting.make("Gather", node, gathered))
        return
    row = rewriting.make("Gather", node, gathered, "/_input_product")
    left = others[0]
    if len(others) > 1 and product.joined is not None:
        axis = product.joined.inputs[-1]
        left = rewriting.make("ConcatV2", node, [*others, axis], "/_states", N=len(others)), 0
    states = _rows(rewriting, node, matrix, rest, "/_state_weights")
    states = _enter(rewriting, node, enter, states, "/_state_weights/Enter")
    state_product = rewriting.make("MatMul", node, [left, states], "/_state_product")
    total = rewriting.make("AddV2", node, [(state_product, 0), (row, 0)])
    rewriting.replace(nodes, [(node, 0)], total)


def _rows(rewriting: Rewriting, cause: Node, matrix: Edge, rows: tuple[int, int], suffix: str) -> Edge:
    """Some rows of a matrix."""
    start, stop = rows
    content = constant_of(matrix)
    if content is not None:
        return rewriting.constant(content[start:stop], cause, suffix)
    begin = rewriting.constant(np.array([start, 0], np.int32), cause, suffix + "/begin")
    size = rewriting.constant(np.array([stop - start, -1], np.int32), cause, suffix + "/size")
    return rewriting.make("Slice", cause, [matrix, begin, size], suffix), 0


def _enter(rewriting: Rewriting, cause: Node, like: Node, edge: Edge, suffix: str) -> Edge:
    """A value of outside in the loop that another `Enter` node enters."""
    return rewriting.make("Enter", cause, [edge], suffix, **entering(like)), 0


def _counts(edge: Edge) -> bool:
    """Whether an edge is a variable of a loop that each iteration increases by a constant other than 0."""
    variable = _source(edge)
    if variable.feed is not None or variable.row.role is not Role.MERGE:
        return False
    (_, _), (following, _) = variable.inputs
    if following.row.role is not Role.NEXT_ITERATION:
        return False
    added, _ = following.inputs[0]
    if added.feed is not None or added.row.name not in ("AddV2", "Add"):
        return False
    for term, other in (added.inputs, added.inputs[::-1]):
        step = constant_of(other)
        if step is not None and step.size == 1 and step.any():
            return _source(term) is variable
    return False


def _source(edge: Edge) -> Node:
    """The node whose value an edge carries, before identities and switches."""
    node, _ = edge
    while node.feed is None and node.row.role in (Role.IDENTITY, Role.SWITCH):
        node, _ = node.inputs[0]
    return node
