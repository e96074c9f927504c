"""Folds loops: frames with one condition, whose Merges are the loop variables and whose Exits are their final values."""

from __future__ import annotations

from collections.abc import Iterator

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.control_flow.draft import Draft
from aioexec.planning.control_flow.frames import Frame
from aioexec.planning.control_flow.liveness import Predicate, is_loop_merge, role_of
from aioexec.planning.control_flow.regions import Inside, region
from aioexec.planning.subgraph import Edge, Loop, Node

_HARMLESS = (Role.NO_OP, Role.CONTROL_TRIGGER)


@dataclass(slots=True, eq=False)
class _Variable:
    """A loop variable: its Enter, Merge, NextIteration, and the Switch on the condition."""

    enter: Node
    merge: Node
    next: Node
    switch: Node | None = None

    @property
    def is_unchanged(self) -> bool:
        """Whether every iteration leaves it unchanged."""
        return self.switch is not None and self.next.inputs[0] == (self.switch, 1)


@dataclass(slots=True, eq=False)
class _LoopNodes:
    """The nodes of a frame by their role in a loop."""

    condition: Node
    variables: list[_Variable]
    enters: list[Node]
    exits: list[Node]
    computing: list[Node]

    @property
    def predicate(self) -> Predicate:
        return id(self.condition), 0

    def deciding(self) -> Iterator[Node]:
        """The control-flow nodes of the loop except its Enters."""
        yield self.condition
        for variable in self.variables:
            yield from (variable.merge, variable.next)
            if variable.switch is not None:
                yield variable.switch
        yield from self.exits


def fold_loop(draft: Draft, frame: Frame) -> None:
    """Fold a loop into one node of the frame around it, if it is plain."""
    found = _loop_nodes(draft, frame)
    if found is None or not _is_plain(draft, found):
        return
    unchanged = [variable for variable in found.variables if _may_bypass(draft, found, variable)]
    varying = [variable for variable in found.variables if variable not in unchanged]
    switches = {id(variable.switch): variable for variable in found.variables if variable.switch is not None}
    own = {id(node) for node in found.computing}
    entering = {id(node) for node in found.enters}
    deciding = {id(node) for node in found.deciding()}
    inside = Inside(draft, own, deciding, lambda node: id(node) in entering or id(node) in switches)
    for variable in (*varying, *unchanged):
        if variable in unchanged:
            value = inside.edge(variable.enter.inputs[0])
        else:
            inside.wait_for(variable.enter.controls)
            value = inside.add(variable.enter.inputs[0])
        inside.set_replacement((variable.merge, 0), value)
        if variable.switch is not None:
            inside.set_replacement((variable.switch, 1), value)
    in_condition = _ancestors(found.condition, own)
    in_body = [node for node in found.computing if id(node) not in in_condition]
    condition = region(
        inside,
        [node for node in found.computing if id(node) in in_condition],
        [_result(inside, found.condition)],
        {
            id(producer)
            for node in (*in_body, *(each.next for each in varying))
            for producer, _ in node.inputs
        },
    )
    body = region(inside, in_body, [_result(inside, variable.next) for variable in varying])
    _fold(draft, frame, found, varying, inside, Loop(inside.parameters, condition, body))


def _result(inside: Inside, node: Node) -> Edge:
    inside.wait_for(node.controls)
    return inside.edge(node.inputs[0])


def _fold(
    draft: Draft, frame: Frame, found: _LoopNodes, varying: list[_Variable], inside: Inside, loop: Loop
) -> None:
    assert frame.parent is not None
    around = draft.alive[id(found.enters[0])]
    for variable in found.variables:
        if variable not in varying:
            for left in _exits_of(found, variable):
                draft.bypass((left, 0), variable.enter.inputs[0])
    outputs: list[Edge] = []
    for variable in varying:
        exits = _exits_of(found, variable)
        outputs.append((exits[0], 0) if exits else (variable.merge, 0))
        for again in exits[1:]:
            draft.bypass((again, 0), (exits[0], 0))
    made = draft.fold(
        "_Loop",
        found.condition,
        frame.parent,
        loop,
        inside.inputs,
        inside.controls,
        outputs,
        [*found.deciding(), *found.computing],
    )
    for enter in found.enters:
        draft.remove(enter)
    draft.alive[id(made)] = around


def _may_bypass(draft: Draft, found: _LoopNodes, variable: _Variable) -> bool:
    """Whether the final value of a variable may be its initial one: no iteration changes it, and it is alive with the loop.

    An invariant of an outer loop is alive in each of its iterations, also in the last, in which only the condition runs; the
    loop inside is not. If the invariant took the place of its result, each iteration of the outer loop would make another one.
    """
    if not variable.is_unchanged:
        return False
    around = draft.alive[id(found.enters[0])]
    return not _exits_of(found, variable) or draft.conditions_of(variable.enter.inputs[0]) == around


def _exits_of(found: _LoopNodes, variable: _Variable) -> list[Node]:
    return [node for node in found.exits if node.inputs[0] == (variable.switch, 0)]


def _loop_nodes(draft: Draft, frame: Frame) -> _LoopNodes | None:
    """Classify the nodes of a frame; None if a node cannot be part of a plain loop."""
    conditions: list[Node] = []
    merges: list[Node] = []
    switches: dict[int, Node] = {}
    exits: list[Node] = []
    computing: list[Node] = []
    for node in draft.nodes_in(frame):
        role = role_of(node)
        if role is Role.LOOP_COND:
            conditions.append(node)
        elif role is Role.MERGE and is_loop_merge(node):
            merges.append(node)
        elif role is Role.SWITCH:
            if id(node.inputs[0][0]) in switches:
                return None
            switches[id(node.inputs[0][0])] = node
        elif role is Role.EXIT:
            exits.append(node)
        elif role is not Role.NEXT_ITERATION:
            computing.append(node)
    if len(conditions) != 1 or any(node.inputs[1] != (conditions[0], 0) for node in switches.values()):
        return None
    variables = [_variable(merge, switches) for merge in merges]
    found = [variable for variable in variables if variable is not None]
    if len(found) < len(variables) or switches.keys() - {id(merge) for merge in merges}:
        return None
    enters = _enters(draft, frame)
    return _LoopNodes(conditions[0], found, enters, exits, computing) if enters else None


def _variable(merge: Node, switches: dict[int, Node]) -> _Variable | None:
    if len(merge.inputs) != 2 or merge.controls:
        return None
    (first, _), (second, _) = merge.inputs
    if role_of(first) is not Role.ENTER or role_of(second) is not Role.NEXT_ITERATION:
        return None
    return _Variable(first, merge, second, switches.get(id(merge)))


def _enters(draft: Draft, frame: Frame) -> list[Node]:
    assert frame.parent is not None
    return [
        node
        for node in draft.nodes_in(frame.parent)
        if role_of(node) is Role.ENTER and node.op.attrs["frame_name"] == frame.name
    ]


def _is_plain(draft: Draft, found: _LoopNodes) -> bool:
    """Whether a loop can run as one node."""
    variables = {id(variable.enter) for variable in found.variables}
    merged = {id(variable.merge) for variable in found.variables}
    around = draft.alive[id(found.enters[0])]
    goes_on = (*found.predicate, 1)
    for enter in found.enters:
        if draft.alive[id(enter)] != around or enter.output_dtype(0).is_ref:
            return False
        is_variable = id(enter) in variables
        if is_variable and any(id(user) not in merged for user in draft.users(enter)):
            return False
        if not is_variable and not enter.op.attrs["is_constant"]:
            return False
    in_condition = _ancestors(found.condition, {id(node) for node in found.computing})
    for node in found.computing:
        if not draft.is_plain(node):
            return False
        runs_each_round = goes_on in draft.alive[id(node)] or id(node) in in_condition
        if not runs_each_round and not node.is_pure and node.row.role not in _HARMLESS:
            return False
    if draft.targets & {id(node) for node in found.exits}:
        return False
    ways_out = {(variable.switch, 0) for variable in found.variables}
    return all(node.inputs[0] in ways_out for node in found.exits) and _is_closed(draft, found)


def _is_closed(draft: Draft, found: _LoopNodes) -> bool:
    """Whether no value inside is used outside except through Exits, and none is fetched."""
    exits = {id(node) for node in found.exits}
    for variable in found.variables:
        uses = draft.users(variable.switch) if variable.switch is not None else []
        if any((variable.switch, 0) in user.inputs and id(user) not in exits for user in uses):
            return False
    return not any(draft.is_shown(node) for node in (*found.computing, found.condition))


def _ancestors(node: Node, own: set[int]) -> set[int]:
    """The ancestors of a node that are in `own`, by id()."""
    found: set[int] = set()
    waiting = [node]
    while waiting:
        for producer in waiting.pop().producers():
            if id(producer) in own and id(producer) not in found:
                found.add(id(producer))
                waiting.append(producer)
    return found
