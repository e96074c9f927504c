"""Loops that span devices: every device iterates by itself, synchronized with the device that has the LoopCond.

Inside a loop a value is transferred once in each iteration, dead or alive. So each device needs a *clock* for each such loop: a
node that is live exactly once in every iteration, for its Recvs to wait for. A Merge of the loop is one. A device without one
gets a control loop, driven by the LoopCond, which may be on another device:

    start -> Enter -> Merge -> Switch(LoopCond) -> NextIteration -> (Merge)

Enter, NextIteration, Switch and Exit connect different iterations or frames, so no edge between one of them and its Merge may
cross devices. `Loops` ensures this before the graph is partitioned:

- An Enter or NextIteration is duplicated on each device that uses it: its *input* crosses. So a loop invariant crosses once.
- A Switch is placed with its Merge, an Exit with its Switch: the result of a loop crosses outside of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.control_flow.frames import Frame, frames
from aioexec.planning.new_nodes import NodeMaker
from aioexec.planning.subgraph import Edge, Node, Subgraph

Bring = Callable[[Edge, str], Edge]
"""Makes a value available on a device, and returns its edge there."""


def role_of(node: Node) -> Role | None:
    """The role of a node; None for a feed, which only replaces another node."""
    return None if node.feed is not None else node.row.role


class Loops:
    """The loops of a subgraph before it is partitioned; the constructor rearranges `subgraph` as described above.

    `_frames`: the frame of each node, by id(); an Enter is outside, an Exit inside. Empty if there are no loops. `_clocks`: by
    frame and device, for the loops that span devices; set by `build_clocks`.
    """

    def __init__(self, subgraph: Subgraph, maker: NodeMaker) -> None:
        self._maker = maker
        self._subgraph = subgraph
        self._frames: dict[int, Frame] = {}
        self._clocks: dict[tuple[Frame, str], Node] = {}
        if any(role_of(node) is Role.ENTER for node in subgraph.nodes):
            self._frames = dict(frames(subgraph))
            self._gather()
        self._children = {(frame.name, frame.parent): frame for frame in self._frames.values()}

    # Before partitioning

    def _gather(self) -> None:
        """Place the control-flow nodes of loops with their Merges and consumers."""
        nodes = self._subgraph.nodes
        for node in nodes:
            role = role_of(node)
            if role is Role.EXIT or (role is Role.SWITCH and _is_loop_merge(node.inputs[0][0])):
                node.device = node.inputs[0][0].device
        consumers = self._subgraph.consumers()
        kept: list[Node] = []
        instead: dict[int, list[Node]] = {}
        for node in reversed(
            nodes
        ):  # consumers first: the consumer of an Enter may be the Enter of an inner loop
            used_by = consumers.get(id(node))
            if used_by and role_of(node) in (Role.ENTER, Role.NEXT_ITERATION):
                copies = instead[id(node)] = self._on_each_device(node, used_by)
                for producer in dict.fromkeys(map(id, node.producers())):
                    others = [other for other in consumers[producer] if other is not node]
                    consumers[producer] = others + copies
                kept.extend(copies)
            else:
                kept.append(node)
        self._subgraph.nodes = kept[::-1]
        targets = self._subgraph.targets
        self._subgraph.targets = [copy for node in targets for copy in instead.get(id(node), [node])]

    def _on_each_device(self, node: Node, consumers: Sequence[Node]) -> list[Node]:
        """Duplicate a node on each device that uses it."""
        copies: dict[str, Node] = {}
        for consumer in consumers:
            copy = copies.get(consumer.device)
            if copy is None:
                copy = replace(
                    node, inputs=list(node.inputs), controls=list(node.controls), device=consumer.device
                )
                copies[consumer.device] = copy
                self._frames[id(copy)] = self._frames[id(node)]
            consumer.inputs = [(copy if producer is node else producer, k) for producer, k in consumer.inputs]
            consumer.controls = [copy if producer is node else producer for producer in consumer.controls]
        return list(copies.values())

    # Clocks

    def build_clocks(self, bring: Bring) -> list[Node]:
        """Build a clock on each device of each loop that spans devices; returns the control nodes made."""
        made: list[Node] = []
        merges: dict[tuple[Frame | None, str], Node] = {}
        conditions: dict[Frame | None, Node] = {}
        for node in self._subgraph.nodes:
            if _is_loop_merge(node):
                merges.setdefault((self._outside(node), node.device), node)
            elif role_of(node) is Role.LOOP_COND:
                conditions[self._outside(node)] = node
        for frame, devices in self._spans().items():
            if frame not in conditions:
                raise InvalidArgumentError(
                    f"the loop {frame.name!r} has nodes on {devices} but no LoopCond to keep them in step"
                )
            for device in devices:
                if (frame, device) in merges:
                    self._clocks[frame, device] = merges[frame, device]
                else:
                    made.extend(self._control_loop(frame, device, conditions[frame], bring))
        return made

    def clock(self, producer: Node, device: str) -> list[Node]:
        """The nodes for which a Recv on `device` of an output of `producer` has to wait."""
        frame = self._outside(producer)
        return [] if frame is None else [self._clocks[frame, device]]

    def _outside(self, node: Node) -> Frame | None:
        """The loop in which the outputs of a node are used."""
        frame = self._frames.get(id(node))
        if frame is None:
            return None
        if role_of(node) is Role.ENTER:
            return self._children.get((node.op.attrs["frame_name"], frame))
        if role_of(node) is Role.EXIT and frame.parent is not None:
            frame = frame.parent
        return frame if frame.parent is not None else None

    def _spans(self) -> dict[Frame, list[str]]:
        """The loops that span devices, outer ones first, and those devices."""
        devices: dict[Frame, dict[str, None]] = {}
        for node in self._subgraph.nodes:
            inside = self._frames.get(id(node)) if role_of(node) is Role.EXIT else self._outside(node)
            while inside is not None and inside.parent is not None:
                devices.setdefault(inside, {})[node.device] = None
                inside = inside.parent
        spanning = [frame for frame, found in devices.items() if len(found) > 1]
        return {frame: list(devices[frame]) for frame in sorted(spanning, key=lambda frame: frame.depth)}

    def _control_loop(self, frame: Frame, device: str, condition: Node, bring: Bring) -> list[Node]:
        make, cause = self._maker.make, condition
        start = self._start(frame, device, condition)
        enter = make(
            "Enter",
            cause,
            device,
            [(start, 0)],
            frame_name=frame.name,
            parallel_iterations=frame.parallel_iterations,
        )
        merge = make("Merge", cause, device, [(enter, 0), (enter, 0)])
        self._clocks[frame, device] = merge
        switch = make("Switch", cause, device, [(merge, 0), bring((condition, 0), device)])
        following = make("NextIteration", cause, device, [(switch, 1)])
        merge.inputs[1] = (following, 0)
        merge.op.set_input(1, following.op.outputs[0])
        return [start, enter, merge, switch, following]

    def _start(self, frame: Frame, device: str, cause: Node) -> Node:
        """The initial value of a control loop: a constant; in a nested loop, one in each iteration of the outer loop."""
        assert frame.parent is not None
        nothing = np.zeros(0, np.float32)
        outer = self._clocks.get((frame.parent, device))
        start = self._maker.make(
            "Const", cause, device, (), [] if outer is None else [outer], value=nothing, dtype=dtypes.float32
        )
        if outer is None:
            start.values = (nothing,)
        return start


def _is_loop_merge(node: Node) -> bool:
    return role_of(node) is Role.MERGE and any(
        role_of(producer) is Role.NEXT_ITERATION for producer, _ in node.inputs
    )
