"""A plan: what a signature compiles to. Frozen; knows no shapes; shared by all steps of the signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aioexec.graph.kernel import Compute, Role
from aioexec.planning.items import ItemNodes
from aioexec.planning.simplify import Bind
from aioexec.planning.subgraph import Node, Signature, Subgraph
from aioexec.resources.variable import Variable


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One node as the reference tier runs it: `compute(*values[inputs])` gives `values[outputs]`.

    Attributes:
        dereferences: positions of inputs that are references to variables and are wanted as values.
    """

    node: Node
    compute: Compute
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dereferences: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A schedulable piece of a plan.

    Attributes:
        instructions: its nodes in order.
        inputs: values it takes from feeds, constants excluded, and other items.
        outputs: values others need of it: the fetches, in their order, then later items.
        shape_inputs: inputs whose content decides shapes inside the item.
        writes: variables that are written; a step holds their lease while the item runs.
    """

    index: int
    instructions: tuple[Instruction, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shape_inputs: tuple[int, ...]
    writes: tuple[Variable, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Items in an order in which they can run, over a table of values.

    Attributes:
        values: a value for each output of each node; constants and variables are there already, everything else is None.
        feeds: the value each feed of the signature goes to.
        fetches: the value each fetch comes from.
        fetch_references: positions of fetches that are references, read at the end of the step.
        fed_fetches: fetch position -> feed position, for tensors both fed and fetched: the caller's own object comes back.
    """

    signature: Signature
    values: tuple[Any, ...]
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]
    fetch_references: tuple[int, ...]
    fed_fetches: dict[int, int]
    items: tuple[Item, ...]
    subgraph: Subgraph


def assemble(signature: Signature, subgraph: Subgraph, items: Sequence[ItemNodes], bind: Bind) -> Plan:
    """Number the values and freeze."""
    ids: dict[tuple[int, int], int] = {}
    values: list[Any] = []
    for node in subgraph.nodes:
        for index in range(len(node.output_dtypes())):
            ids[id(node), index] = len(values)
            values.append(_known(node, index, bind))
    feeds = tuple(ids[id(node), 0] for node in subgraph.feeds)
    fetches = tuple(ids[id(node), index] for node, index in subgraph.fetches)
    fed = {id(node): position for position, node in enumerate(subgraph.feeds)}
    return Plan(
        signature,
        tuple(values),
        feeds,
        fetches,
        tuple(
            k
            for k, (node, index) in enumerate(subgraph.fetches)
            if node.output_dtypes()[index].is_ref and not node.feed
        ),
        {k: fed[id(node)] for k, (node, _) in enumerate(subgraph.fetches) if id(node) in fed},
        _items(items, ids, values, fetches, bind),
        subgraph,
    )


def _known(node: Node, index: int, bind: Bind) -> Any:
    """A value that is the same in every step: a constant, or a variable (the object, whatever its content)."""
    if node.values is not None:
        return node.values[index]
    return bind(node.op)() if node.feed is None and node.row.role is Role.VARIABLE else None


def _items(
    items: Sequence[ItemNodes],
    ids: dict[tuple[int, int], int],
    values: list[Any],
    fetches: Sequence[int],
    bind: Bind,
) -> tuple[Item, ...]:
    made = [tuple(_instruction(node, ids, bind) for node in item.nodes) for item in items]
    producers = {
        output: instruction for item in made for instruction in item for output in instruction.outputs
    }
    used_in = [{value for instruction in item for value in instruction.inputs} for item in made]
    result = []
    for position, instructions in enumerate(made):
        own = {value for instruction in instructions for value in instruction.outputs}
        elsewhere: set[int] = set().union(*(used for k, used in enumerate(used_in) if k != position))
        outside = {value for value in used_in[position] - own if values[value] is None}
        result.append(
            Item(
                position,
                instructions,
                tuple(sorted(outside)),
                tuple(
                    dict.fromkeys([*(value for value in fetches if value in own), *sorted(own & elsewhere)])
                ),
                tuple(sorted(_shape_operands(instructions) & outside)),
                _written(instructions, values, producers),
            )
        )
    return tuple(result)


def _instruction(node: Node, ids: dict[tuple[int, int], int], bind: Bind) -> Instruction:
    return Instruction(
        node,
        bind(node.op),
        tuple(ids[id(producer), index] for producer, index in node.inputs),
        tuple(ids[id(node), index] for index in range(len(node.op.outputs))),
        node.dereferences(),
    )


def _shape_operands(instructions: Sequence[Instruction]) -> set[int]:
    """Values whose content a shape operand depends on, followed backwards through the item."""
    wanted: set[int] = set()
    for instruction in reversed(instructions):
        row = instruction.node.row
        if wanted.intersection(instruction.outputs) and not row.shape_only and row.role is not Role.READ:
            wanted.update(instruction.inputs)
        count = len(instruction.inputs)
        wanted.update(instruction.inputs[k] for k in row.shape_operands if -count <= k < count)
    return wanted


def _written(
    instructions: Sequence[Instruction], values: Sequence[Any], producers: Mapping[int, Instruction]
) -> tuple[Variable, ...]:
    """The variables written, found through the ops that pass a handle or reference on; in the order of their ids."""
    found: set[Variable] = set()
    for instruction in instructions:
        for position in instruction.node.row.writes:
            value = instruction.inputs[position]
            while value in producers and producers[value].inputs:
                value = producers[value].inputs[0]
            if isinstance(values[value], Variable):
                found.add(values[value])
    return tuple(sorted(found, key=lambda variable: variable.id))
