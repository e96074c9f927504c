"""Lowers functional conditionals and loops to Switch, Merge and frames, the only form of control flow in planning.

    If     every input passes a Switch on the condition, to one body or the other; a Merge takes each output from the body that
           ran
    Case   a binary tree of conditionals
    While  a frame: each variable passes Enter, Merge, Switch, the body and NextIteration, and leaves by an Exit. A loop
           invariant enters once, for all iterations

`inline` writes the bodies; the nodes made here only carry values to and from them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.graph.func_graph import FuncGraph
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.control_flow.inline import Call, Inliner, Lowering, Outcome, Pivot
from aioexec.planning.new_nodes import tensor_of
from aioexec.planning.subgraph import Edge, Node

Branch = Callable[[Sequence[Edge], Pivot], Outcome]
"""Writes a branch, given the edges of its inputs and its pivot."""


def lower_call(inliner: Inliner, call: Call) -> Outcome:
    """Lower a function call to the function's body."""
    (body,) = call.bodies()
    return _only(inliner, call, body, call.inputs)


def _only(inliner: Inliner, call: Call, body: FuncGraph, args: Sequence[Edge]) -> Outcome:
    """Write a body that runs whenever the calling operation does."""
    pivot = _start(inliner, call) if call.controls or (call.is_conditional and call.inputs) else None
    return inliner.body(call, call.name, body, args, pivot, range(len(args)) if call.controls else ())


def _start(inliner: Inliner, call: Call) -> Pivot:
    """The pivot of a call: it waits for the call's control inputs, and also for its inputs if these can be dead."""

    def make() -> Node:
        ports = [inliner.port(call, "input", edge) for edge in call.inputs] if call.is_conditional else []
        waits = dict.fromkeys([*call.controls, *(node for node in ports if node is not None)])
        return inliner.make("NoOp", call, "start", [], list(waits))

    return functools.cache(make)


# Conditionals


def lower_if(inliner: Inliner, call: Call) -> Outcome:
    """One of two bodies."""
    if_true, if_false = call.bodies()
    condition = _boolean(inliner, call, call.inputs[0])
    predicate = inliner.make("Identity", call, "condition", [condition], call.controls), 0
    branches = [
        functools.partial(_body, inliner, call, name, body)
        for name, body in (("else", if_false), ("then", if_true))
    ]
    return _choose(inliner, call, predicate, call.inputs[1:], branches)


def _body(
    inliner: Inliner, call: Call, name: str, body: FuncGraph, args: Sequence[Edge], pivot: Pivot
) -> Outcome:
    return inliner.body(call, f"{call.name}/{name}", body, args, pivot)


def _boolean(inliner: Inliner, call: Call, edge: Edge) -> Edge:
    """A condition of any type as a boolean."""
    if tensor_of(edge).dtype.base_dtype == dtypes.bool:
        return edge
    return inliner.make("ToBool", call, "to_bool", [edge]), 0


def _choose(
    inliner: Inliner, call: Call, predicate: Edge, values: Sequence[Edge], branches: Sequence[Branch]
) -> Outcome:
    """Run the first branch if a predicate is false, the second if it is true."""
    switch = inliner.make("Switch", call, "switch", [predicate, predicate])
    switched = [inliner.make("Switch", call, "input", [value, predicate]) for value in values]
    outcomes, pivots = [], []
    for port, branch in enumerate(branches):
        pivots.append(_pivot(inliner, call, (switch, port)))
        outcomes.append(branch([(node, port) for node in switched], pivots[port]))
    pairs = zip(*(outcome.outputs for outcome in outcomes), strict=True)
    merged: list[Edge] = [(inliner.make("Merge", call, "output", pair), 0) for pair in pairs]
    effects: list[Node] = []
    if any(outcome.effects for outcome in outcomes):
        ends: list[Edge] = [
            (inliner.make("Identity", call, "end", [(pivot(), 0)], outcome.effects), 0)
            for outcome, pivot in zip(outcomes, pivots, strict=True)
        ]
        effects = [inliner.make("Merge", call, "ended", ends)]
    finished = [node for node, _ in merged] or effects or [predicate[0]]
    return Outcome(merged, effects, lambda: finished)


def _pivot(inliner: Inliner, call: Call, edge: Edge) -> Pivot:
    return functools.cache(lambda: inliner.make("Identity", call, "pivot", [edge]))


def lower_case(inliner: Inliner, call: Call) -> Outcome:
    """Run the body at an index; the last one if the index is out of range."""
    bodies = call.bodies()
    if len(bodies) == 1:
        return _only(inliner, call, bodies[0], call.inputs[1:])
    branches = [functools.partial(_body, inliner, call, f"branch_{k}", body) for k, body in enumerate(bodies)]
    index = inliner.make("Identity", call, "index", call.inputs[:1], call.controls)
    number = _Numbers(inliner, call, index if call.is_conditional else None)
    last = number.constant(len(bodies) - 1)
    at_least = number.compute("GreaterEqual", (index, 0), number.constant(0))
    at_most = number.compute("LessEqual", (index, 0), last)
    is_valid = number.compute("LogicalAnd", at_least, at_most)
    chosen = number.compute("SelectV2", is_valid, (index, 0), last)
    return _halves(inliner, call, branches, 0, chosen, call.inputs[1:], number)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Computes with indices; constants wait for a pivot if there is one."""

    inliner: Inliner
    call: Call
    pivot: Node | None

    def constant(self, value: int) -> Edge:
        controls = () if self.pivot is None else (self.pivot,)
        array = np.array(value, np.int32)
        return self.inliner.make(
            "Const", self.call, "number", (), controls, value=array, dtype=dtypes.int32
        ), 0

    def compute(self, op_type: str, *inputs: Edge) -> Edge:
        return self.inliner.make(op_type, self.call, op_type.lower(), inputs), 0


def _halves(
    inliner: Inliner,
    call: Call,
    branches: Sequence[Branch],
    first: int,
    index: Edge,
    values: Sequence[Edge],
    number: _Numbers,
) -> Outcome:
    """Run one of several branches, by an index: `first` is that of the first of them."""
    half = len(branches) // 2
    parts = branches[:half], branches[half:]

    def write(part: int, args: Sequence[Edge], pivot: Pivot) -> Outcome:
        if len(parts[part]) == 1:
            return parts[part][0](args[1:], pivot)
        inner = _Numbers(inliner, call, pivot())
        return _halves(inliner, call, parts[part], first + part * half, args[0], args[1:], inner)

    is_upper = number.compute("GreaterEqual", index, number.constant(first + half))
    return _choose(
        inliner, call, is_upper, [index, *values], [functools.partial(write, part) for part in (0, 1)]
    )


# Loops


def lower_while(inliner: Inliner, call: Call) -> Outcome:
    """A body that is repeated while a condition holds."""
    return _Loop(inliner, call).write()


class _Loop:
    """A loop being written.

    Constant: `constants`, the loop invariants, but for one if that would leave no variable; `variables`, the other inputs. A
    loop without inputs gets a variable of its own, since a frame needs at least one.
    """

    def __init__(self, inliner: Inliner, call: Call) -> None:
        self._inliner = inliner
        self._call = call
        self._condition, self._body = call.bodies()
        pairs = enumerate(zip(self._body.inputs, self._body.outputs, strict=True))
        same = [k for k, (given, result) in pairs if given is result]
        self._constants = same if len(same) < len(call.inputs) else same[1:]
        self._variables = [k for k in range(len(call.inputs)) if k not in self._constants]

    def write(self) -> Outcome:
        make, call = functools.partial(self._inliner.make, call=self._call), self._call
        firsts = [call.inputs[k] for k in self._variables] or [self._dummy_variable()]
        enters = [self._enter(edge, is_constant=False) for edge in firsts]
        constants = {k: self._enter(call.inputs[k], is_constant=True) for k in self._constants}
        merges = [make("Merge", name="merge", inputs=[enter, enter]) for enter in enters]
        args = self._args(constants, [(merge, 0) for merge in merges])
        name, free = f"{call.name}/cond", self._constants
        condition = self._inliner.body(call, name, self._condition, args, lambda: merges[0], free)
        decides = [_boolean(self._inliner, call, condition.outputs[0])]
        loop_cond = make("LoopCond", name="loop_cond", inputs=decides, controls=condition.effects), 0
        switches = [make("Switch", name="switch", inputs=[(merge, 0), loop_cond]) for merge in merges]
        pivot = _pivot(self._inliner, call, (switches[0], 1))
        args = self._args(constants, [(switch, 1) for switch in switches])
        body = self._inliner.body(call, f"{call.name}/body", self._body, args, pivot, free)
        results = [body.outputs[k] for k in self._variables]
        if not results:
            results = [(make("Identity", name="result", inputs=[(switches[0], 1)], controls=body.effects), 0)]
        for merge, result in zip(merges, results, strict=True):
            following = make("NextIteration", name="next", inputs=[result]), 0
            merge.inputs[1] = following
            merge.op.set_input(1, tensor_of(following))
        exits = [make("Exit", name="exit", inputs=[(switch, 0)]) for switch in switches]
        return self._outcome(exits, has_effects=bool(condition.effects or body.effects))

    def _outcome(self, exits: Sequence[Node], has_effects: bool) -> Outcome:
        outputs: dict[int, Edge] = {k: (node, 0) for k, node in zip(self._variables, exits, strict=False)}
        for k in (
            self._constants
        ):  # waits for the end of the loop: it may be the handle of a resource that the loop changes
            outputs[k] = (
                self._inliner.make("Identity", self._call, "same", [self._call.inputs[k]], exits[:1]),
                0,
            )
        effects = list(exits[:1]) if has_effects else []
        return Outcome([outputs[k] for k in range(len(outputs))], effects, lambda: list(exits))

    def _dummy_variable(self) -> Edge:
        attrs = {"value": np.array(False), "dtype": dtypes.bool}
        return self._inliner.make("Const", self._call, "nothing", (), self._call.controls, **attrs), 0

    def _enter(self, edge: Edge, is_constant: bool) -> Edge:
        call = self._call
        attrs = {
            "frame_name": call.name,
            "is_constant": is_constant,
            "parallel_iterations": max(1, call.op.attrs["parallel_iterations"]),
        }
        return self._inliner.make("Enter", call, "enter", [edge], call.controls, **attrs), 0

    def _args(self, constants: dict[int, Edge], variables: Sequence[Edge]) -> list[Edge]:
        """The edges for the inputs of a body."""
        found = dict(constants)
        found.update(zip(self._variables, variables, strict=False))
        return [found[k] for k in range(len(found))]


LOWERINGS: Final[dict[Role, Lowering]] = {
    Role.CALL: lower_call,
    Role.SYMBOLIC: lower_call,
    Role.IF: lower_if,
    Role.CASE: lower_case,
    Role.WHILE: lower_while,
}
"""The lowering of each kind of operation that calls bodies."""
