"""Does not save for the gradient of a loop what no iteration changes.

Each iteration of a loop pushes what its gradient needs to a stack, or to a list that is a variable of the loop, from which each
iteration of the gradient's loop pops it. For the weights of a recurrent network, which a loop reads in each iteration, that is
two copies for each time step.

If what is pushed entered the loop, and the stack or list has one push and one pop, in another loop, then it enters the loop of
the pop as well. An empty tensor is pushed and popped in its place, which keeps the errors of the stack. The values stay as they
are, bit by bit. Only loops that are not inside of other loops are changed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.dtypes import int32
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.rewriting.loops import Loops, is_invariant, without_repeats
from aioexec.planning.subgraph import Bind, Edge, Node, Subgraph


@dataclass(frozen=True, slots=True)
class _Saved:
    """How a loop saves a value.

    Attributes:
        value: the input of `push` that is saved.
        popped: the output of `pop` that is it.
        entrances: an Enter of the loop of each.
        empty: for a list, the node that makes it.
    """

    push: Node
    pop: Node
    popped: int
    entrances: tuple[Node, Node]
    empty: Node | None = None

    @property
    def value(self) -> Edge:
        return self.push.inputs[1]


def save_no_invariants(graph: Subgraph, bind: Bind) -> None:
    """Let values that do not change in a loop enter the loop of its gradient, instead of being saved by each iteration."""
    if not any(node.computes("StackPopV2", "TensorListPopBack") for node in graph.nodes):
        return
    loops = Loops(graph)
    for saved in _found(loops):
        if _is_invariant(loops, saved):
            _save_nothing(loops, saved)
    loops.apply()


def _found(loops: Loops) -> Iterator[_Saved]:
    for node in loops.graph.nodes:
        saved = None
        if node.computes("StackV2"):
            saved = _on_stack(loops, node)
        elif node.computes("TensorListPopBack"):
            saved = _in_list(loops, node)
        if saved is not None and all(map(loops.is_outermost, (saved.push, saved.pop))):
            yield saved


def _on_stack(loops: Loops, stack: Node) -> _Saved | None:
    """The only push and the only pop of a stack."""
    enters = loops.takers((stack, 0))
    if not all(map(is_invariant, enters)):
        return None
    users = [user for enter in enters for user in loops.takers((enter, 0))]
    push, pop = (
        next((node for node in users if node.computes(op_type)), None)
        for op_type in ("StackPushV2", "StackPopV2")
    )
    if len(users) != 2 or push is None or pop is None:
        return None
    return _Saved(push, pop, 0, (push.inputs[0][0], pop.inputs[0][0]))


def _in_list(loops: Loops, pop: Node) -> _Saved | None:
    """The only push to a list that only `pop` pops, if the list is a variable of both loops and of nothing else."""
    pop_enter = _enter_of(loops, pop)
    left = None if pop_enter is None else pop_enter.inputs[0][0]
    if pop_enter is None or left is None or not _has_role(left, Role.EXIT):
        return None
    switch, _ = left.inputs[0]
    pushes = loops.takers((switch, 1))
    push_enter = _enter_of(loops, pushes[0]) if len(pushes) == 1 else None
    if push_enter is None or not pushes[0].computes("TensorListPushBack"):
        return None
    empty, _ = push_enter.inputs[0]
    if loops.takers((switch, 0)) != [left] or loops.takers((left, 0)) != [pop_enter]:
        return None
    if not empty.computes("EmptyTensorList") or loops.takers((empty, 0)) != [push_enter]:
        return None
    return _Saved(pushes[0], pop, 1, (push_enter, pop_enter), empty)


def _enter_of(loops: Loops, user: Node) -> Node | None:
    """The Enter of the loop variable that a node takes as input 0, and that is its output 0 in the next iteration.

    None if there is no such variable, or something else in the loop takes it.
    """
    switch, index = user.inputs[0]
    if not _has_role(switch, Role.SWITCH) or index != 1 or loops.takers((switch, 1)) != [user]:
        return None
    merge, _ = switch.inputs[0]
    if not _has_role(merge, Role.MERGE) or len(merge.inputs) != 2 or loops.takers((merge, 0)) != [switch]:
        return None
    (enter, _), (following, _) = merge.inputs
    if not _has_role(enter, Role.ENTER) or not _has_role(following, Role.NEXT_ITERATION):
        return None
    is_next = following.inputs[0] == (user, 0) and loops.takers((user, 0)) == [following]
    return enter if is_next else None


def _has_role(node: Node, role: Role) -> bool:
    return node.feed is None and node.row.role is role


def _is_invariant(loops: Loops, saved: _Saved) -> bool:
    """Whether what is saved entered the loop, and everything is on one device."""
    value, _ = saved.value
    nodes = [value, saved.push, saved.pop, *([saved.empty] if saved.empty is not None else [])]
    frames_differ = loops.frame_of[id(saved.push)] is not loops.frame_of[id(saved.pop)]
    return frames_differ and is_invariant(value) and len({node.device for node in nodes}) == 1


def _save_nothing(loops: Loops, saved: _Saved) -> None:
    """Save an empty tensor instead of a value, which enters the loop of the pop."""
    push, pop, value = saved.push, saved.pop, saved.value
    dtype = push.op.outputs[0].dtype if saved.empty is None else push.op.attrs["element_dtype"]
    nothing = loops.constant(np.empty(0, dtype.numpy), push, "/empty", dtype=dtype)
    into_push, into_pop = saved.entrances
    push.inputs[1] = loops.enter(nothing, into_push, push, "/empty/Enter")
    if saved.empty is not None:
        shape = np.zeros(1, np.int32)
        saved.empty.inputs[0] = loops.constant(shape, saved.empty, "/shape", dtype=int32)
        pop.inputs[1] = loops.enter(
            loops.constant(shape, pop, "/shape", dtype=int32), into_pop, pop, "/shape/Enter"
        )
    else:
        for user in loops.redirect((push, 0), value):
            user.controls = without_repeats([*user.controls, push])
    invariant = loops.enter(value[0].inputs[0], into_pop, pop, "/invariant")
    for user in loops.redirect((pop, saved.popped), invariant):
        user.controls = without_repeats([*user.controls, pop])
