"""Partitions a placed subgraph, one partition for each device.

An edge between devices becomes a pair of nodes: a Send on the producer's device, a Recv on the consumers', shared by all
consumers there. A control edge is transferred as a constant that waits for the producer; its consumers wait for an Identity of
the received value.

Constants are duplicated, not sent. References and resource handles are valid on their own device only and must not cross, but
the *value* of a reference may, and is read when it is sent. Fetches are transferred to the client device, where the feeds are.
For loops that span devices see `control_flow.partition_loops`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import InternalError, InvalidArgumentError
from aioexec.graph.attrs import input_count
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.control_flow.partition_loops import Loops, role_of
from aioexec.planning.new_nodes import NewName, NodeMaker, tensor_of
from aioexec.planning.subgraph import Edge, Node, Subgraph, in_order


def partition(
    subgraph: Subgraph, incarnations: Mapping[str, int], new_name: NewName, client_device: str
) -> dict[str, Subgraph]:
    """The part of each device, the client's first; the subgraph is consumed.

    The client's part has all feeds and fetches; each part has the targets on its device, and its Sends as further targets, so
    that passes keep them.

    Args:
        incarnations: of all devices, by full name.
        new_name: makes names that are unique in the session.

    Raises:
        InvalidArgumentError: a node without device or input, a reference that would cross, or a loop without condition.
    """
    for node in subgraph.nodes:
        _check_device(node, incarnations)
    _check_inputs(subgraph.nodes)
    devices = {node.device for node in subgraph.nodes}
    if subgraph.feeds or subgraph.fetches or not devices:
        devices.add(client_device)
    if len(devices) == 1:
        return {devices.pop(): subgraph}
    parts = _Cut(subgraph, incarnations, new_name).parts(client_device)
    check_partitions(parts)
    return parts


def join_parts(one: Subgraph, other: Subgraph) -> Subgraph:
    """Two parts of one subgraph, neither of which has feeds or fetches, as one."""
    return Subgraph(one.nodes + other.nodes, [], [], one.targets + other.targets)


def _check_device(node: Node, incarnations: Mapping[str, int]) -> None:
    if node.device not in incarnations:
        found = f"is on an unknown device {node.device!r}" if node.device else "has no assigned device"
        raise InvalidArgumentError(
            f"{node.op.type} {node.name!r} {found}; the devices are {list(incarnations)}"
        )


def _check_inputs(nodes: Sequence[Node]) -> None:
    """Check that every input that an op declares is present, to detect errors in passes."""
    present = set(map(id, nodes))
    for node in nodes:
        if node.feed is not None or node.is_constant:
            continue
        wanted = sum([input_count(arg, node.op.attrs) for arg in node.row.definition.inputs])
        connected = len([None for producer, _ in node.inputs if id(producer) in present])
        if connected != wanted or not present.issuperset(map(id, node.controls)):
            raise InvalidArgumentError(
                f"{node.op.type} {node.name!r} has an unconnected input: "
                f"expected {wanted} inputs from nodes of the graph, got {connected}"
            )


def _is_duplicable(node: Node) -> bool:
    """Whether a node is a constant without control inputs; one with control inputs may be dead, and is sent."""
    return (node.is_constant or role_of(node) is Role.CONSTANT) and not node.controls


class _Cut:
    """One partitioning.

    `_parts`: the nodes of each device so far; `_brought`: outputs made available on other devices, by producer, index and
    device; `_awaited`: the same for control edges; `_constants`: duplicates, by original and device.
    """

    def __init__(self, subgraph: Subgraph, incarnations: Mapping[str, int], new_name: NewName) -> None:
        self._subgraph = subgraph
        self._incarnations = incarnations
        self._targets = {id(node) for node in subgraph.targets}
        self._maker = NodeMaker(new_name)
        self._parts: dict[str, list[Node]] = {device: [] for device in incarnations}
        self._further_targets: list[Node] = []
        self._brought: dict[tuple[int, int, str], Edge] = {}
        self._awaited: dict[tuple[int, str], Node] = {}
        self._constants: dict[tuple[int, str], Node] = {}
        self._loops = Loops(subgraph, self._maker)

    def parts(self, client_device: str) -> dict[str, Subgraph]:
        subgraph = self._subgraph
        control_nodes = self._loops.build_clocks(self._bring)
        self._further_targets.extend(node for node in control_nodes if role_of(node) is Role.NEXT_ITERATION)
        for node in control_nodes:
            self._parts[node.device].append(node)
        for node in subgraph.nodes:
            if not _is_duplicable(node) or id(node) in self._targets:
                self._localise(node)
                self._parts[node.device].append(node)
        fetches = [
            self._bring(self._as_value(edge, client_device), client_device) for edge in subgraph.fetches
        ]
        order = [client_device, *(device for device in self._incarnations if device != client_device)]
        return {
            device: Subgraph(
                in_order(self._parts[device]),
                subgraph.feeds if device == client_device else [],
                fetches if device == client_device else [],
                [node for node in (*subgraph.targets, *self._further_targets) if node.device == device],
            )
            for device in order
            if self._parts[device]
        }

    def _localise(self, node: Node) -> None:
        """Redirect all inputs of a node to its own device."""
        dereferenced = node.dereferences()
        for position, edge in enumerate(node.inputs):
            if edge[0].device != node.device:
                self._check_may_cross(
                    edge, position in dereferenced, f"{node.op.type} {node.name!r}", node.device
                )
        node.inputs = [self._bring(edge, node.device) for edge in node.inputs]
        waited_for = (self._await(producer, node.device) for producer in node.controls)
        node.controls = list(dict.fromkeys(producer for producer in waited_for if producer is not None))

    def _as_value(self, edge: Edge, device: str) -> Edge:
        if edge[0].device != device:
            self._check_may_cross(edge, True, "the client", device)
        return edge

    @staticmethod
    def _check_may_cross(edge: Edge, as_value: bool, consumer: str, device: str) -> None:
        tensor = tensor_of(edge)
        is_handle = tensor.dtype.base_dtype is dtypes.resource
        if is_handle or (tensor.dtype.is_ref and not as_value):
            what = "resource handle" if is_handle else "reference"
            raise InvalidArgumentError(
                f"{consumer} on {device} cannot use the {what} {tensor.name!r}, "
                f"which is on {edge[0].device}: place them together"
            )

    def _bring(self, edge: Edge, device: str) -> Edge:
        """An output that is available on `device`: the edge itself, a duplicate, or a received value."""
        producer, index = edge
        if _is_duplicable(producer):
            return self._duplicate(producer, device), index
        if producer.device == device:
            return edge
        key = (id(producer), index, device)
        if key not in self._brought:
            self._brought[key] = (self._transfer(edge, producer, device), 0)
        return self._brought[key]

    def _duplicate(self, constant: Node, device: str) -> Node:
        key = (id(constant), device)
        if key not in self._constants:
            if constant.device == device and id(constant) in self._targets:
                self._constants[key] = constant
            else:
                self._constants[key] = replace(constant, device=device)
                self._parts[device].append(self._constants[key])
        return self._constants[key]

    def _await(self, producer: Node, device: str) -> Node | None:
        """The node on `device` that represents a control edge from `producer`; None if no wait is needed."""
        if _is_duplicable(producer):
            return None
        if producer.device == device:
            return producer
        key = (id(producer), device)
        if key not in self._awaited:
            nothing = np.zeros(0, np.float32)
            make = self._maker.make
            token = make(
                "Const", producer, producer.device, (), [producer], value=nothing, dtype=dtypes.float32
            )
            self._parts[producer.device].append(token)
            received = self._transfer((token, 0), producer, device)
            self._awaited[key] = make("Identity", producer, device, [(received, 0)])
            self._parts[device].append(self._awaited[key])
        return self._awaited[key]

    def _transfer(self, edge: Edge, cause: Node, device: str) -> Node:
        """A new Send of an edge, and its Recv on `device`; `cause` is the node whose output, or completion, is transferred."""
        tensor = tensor_of(edge)
        source = edge[0].device
        dtype = tensor.dtype.base_dtype
        host = "_Host" if dtype is dtypes.string else "_"
        attrs: dict[str, Any] = {
            "tensor_name": self._maker.new_name(f"edge_{edge[1]}_{cause.name}"),
            "send_device": source,
            "send_device_incarnation": signed(self._incarnations[source]),
            "recv_device": device,
        }
        send = self._maker.make(f"{host}Send", cause, source, [edge], T=dtype, **attrs)
        clock = self._loops.clock(cause, device)
        recv = self._maker.make(f"{host}Recv", cause, device, (), clock, tensor_type=dtype, **attrs)
        recv.op.outputs[0].set_shape(tensor.dims)
        self._parts[source].append(send)
        self._further_targets.append(send)
        self._parts[device].append(recv)
        return recv


def sent_feeds(client: Subgraph) -> frozenset[str]:
    """The names of transfers that bring feeds from the client's part to other devices."""
    sends = [node for node in client.nodes if role_of(node) is Role.SEND and not node.controls]
    return frozenset(node.op.attrs["tensor_name"] for node in sends if node.inputs[0][0].feed is not None)


def signed(incarnation: int) -> int:
    """An incarnation as an int64, as in attributes and messages."""
    return (incarnation + (1 << 63)) % (1 << 64) - (1 << 63)


def check_partitions(parts: Mapping[str, Subgraph]) -> None:
    """Check that the parts fit together; the other end of a transfer may be on a device that has no part here.

    Raises:
        InternalError: a node on another device than its part, a transfer with one end, nodes that wait for each other.
    """
    ends: dict[str, dict[str, Node]] = {"Send": {}, "Recv": {}}
    nodes = [(device, node) for device, part in parts.items() for node in part.nodes]
    for device, node in nodes:
        if node.device != device:
            raise InternalError(
                f"{node.op.type} {node.name!r} of {node.device!r} is in the part of {device!r}"
            )
        role = role_of(node)
        if role in (Role.SEND, Role.RECV):
            attrs = node.op.attrs
            here, key = ("Send", "send_device") if role is Role.SEND else ("Recv", "recv_device")
            if attrs[key] != device or ends[here].setdefault(attrs["tensor_name"], node) is not node:
                raise InternalError(
                    f"{node.op.type} {node.name!r} on {device!r} is not the one end of a transfer"
                )
    single = [
        name
        for here, there, key in (("Send", "Recv", "recv_device"), ("Recv", "Send", "send_device"))
        for name, node in ends[here].items()
        if name not in ends[there] and node.op.attrs[key] in parts and not node.op.attrs["client_terminated"]
    ]
    if single:
        raise InternalError(f"transfers with one end: {sorted(single)}")
    _check_order([node for _, node in nodes], ends["Send"])


def _check_order(nodes: list[Node], sends: Mapping[str, Node]) -> None:
    """Check that all parts together have an order in which they can run, but for the back edges of loops."""
    before = {id(node): list(node.producers_before()) for node in nodes}
    for node in nodes:
        if role_of(node) is Role.RECV and node.op.attrs["tensor_name"] in sends:
            before[id(node)].append(sends[node.op.attrs["tensor_name"]])
    order = in_order(nodes, before)
    if len(order) < len(nodes):
        done = {id(node) for node in order}
        stuck = [node.name for node in nodes if id(node) not in done]
        raise InternalError(
            f"{len(stuck)} nodes wait for each other or for nodes in no part, among them {stuck[:5]}"
        )
