"""Copies between main memory and the memory of a device, inside the device's own partition.

Each input of a node is expected in one of the two memories, and each output is left in one: `host_memory` of the kernel says in
main memory, everything else is in the device's. Small integers that are wanted in main memory are computed there, if they
follow from others there (see `host_values`). Strings and lists of tensors are always in main memory; variables and other
resources are objects, in neither. Where an edge leads from one memory to the other, a copy is inserted, one for all consumers.
A reference is read when its consumer runs: each consumer has a copy of its own, which waits for everything the consumer waits
for, and so is in the same iteration of a loop.

A constant is uploaded once for all steps: its copy is a constant too (see `Partition.uploads`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from aioexec import dtypes
from aioexec.dtypes import float32
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.kernels.kernel_registry import host_memory_inputs, host_memory_outputs
from aioexec.planning.host_values import compute_on_host
from aioexec.planning.new_nodes import NewName, NodeMaker
from aioexec.planning.subgraph import Edge, Node, Subgraph, in_order


class _Memory(enum.Enum):
    HOST = "host"
    DEVICE = "device"
    NEITHER = "neither"


_OF_HOST = frozenset({dtypes.string, dtypes.variant})
_ON_HOST = frozenset({"_HostSend", "_HostRecv"})


def insert_copies(part: Subgraph, device: str, device_type: str, new_name: NewName) -> None:
    """Insert the copies that the nodes of a device's partition need.

    Args:
        device, device_type: its full name, and its type.
    """
    compute_on_host(
        part.nodes,
        (
            edge
            for node in _with_inputs(part.nodes)
            for position, edge in enumerate(node.inputs)
            if _is_flow(node, position) or _memory_of_input(node, position, device_type) is _Memory.HOST
        ),
        lambda edge: _memory_of_output(edge, device_type) is _Memory.HOST,
    )
    maker = NodeMaker(new_name)
    copies: dict[tuple[int, int, _Memory, int], Node] = {}
    for node in _with_inputs(part.nodes):
        for position, edge in enumerate(node.inputs):
            wanted = _memory_of_input(node, position, device_type)
            if wanted in (_Memory.NEITHER, _memory_of_output(edge, device_type)):
                continue
            is_reference = edge[0].output_dtype(edge[1]).is_ref
            key = (id(edge[0]), edge[1], wanted, id(node) if is_reference else 0)
            if key not in copies:
                copies[key] = _copy(edge, wanted, device, maker)
                if is_reference:
                    copies[key].controls = _waits(node, edge[0])
            node.inputs[position] = (copies[key], 0)
    part.nodes = in_order([*part.nodes, *copies.values()])


def _with_inputs(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if node.feed is None and not node.is_constant]


def _waits(node: Node, variable: Node) -> list[Node]:
    """What a node waits for besides a variable, but for values that are known when the step begins."""
    producers = [
        producer
        for producer, _ in node.inputs
        if producer is not variable
        and not producer.is_constant
        and (producer.feed is not None or producer.row.role is not Role.VARIABLE)
    ]
    return list(dict.fromkeys([*node.controls, *producers]))


def _copy(edge: Edge, wanted: _Memory, device: str, maker: NodeMaker) -> Node:
    producer, index = edge
    name = "_CopyToHost" if wanted is _Memory.HOST else "_CopyToDevice"
    copy = maker.make(name, producer, device, [edge], T=producer.output_dtype(index).base_dtype)
    if producer.values is not None:
        copy.values, copy.inputs = (producer.values[index],), []
    return copy


def _memory_of_input(node: Node, position: int, device_type: str) -> _Memory:
    producer, index = node.inputs[position]
    dtype = producer.output_dtype(index)
    if node.row.role is Role.SEND:
        return _Memory.NEITHER  # it sends what it gets, from either memory
    if _is_flow(node, position):
        return _Memory.NEITHER
    if dtype.base_dtype is dtypes.resource or (dtype.is_ref and position not in node.dereferences()):
        return _Memory.NEITHER
    if dtype.base_dtype in _OF_HOST or node.row.name in _ON_HOST or node.on_host:
        return _Memory.HOST
    return _Memory.HOST if position in host_memory_inputs(node.op, device_type) else _Memory.DEVICE


def _is_flow(node: Node, position: int) -> bool:
    """Whether an input orders the accesses to a TensorArray; it has no meaning."""
    arguments = node.row.definition.inputs
    return node.row.lists is not None and position < len(arguments) and arguments[position].dtype is float32


def _memory_of_output(edge: Edge, device_type: str) -> _Memory:
    """Where a value is; that of a reference is where its variable has it."""
    producer, index = edge
    if producer.is_constant:
        return _Memory.DEVICE if producer.row.role is Role.COPY_TO_DEVICE else _Memory.HOST
    dtype = producer.output_dtype(index)
    if dtype.base_dtype in _OF_HOST or producer.row.name in _ON_HOST or producer.on_host:
        return _Memory.HOST
    return _Memory.HOST if index in host_memory_outputs(producer.op, device_type) else _Memory.DEVICE
