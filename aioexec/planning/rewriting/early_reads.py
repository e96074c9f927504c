"""Reads variables before a loop that does not change them.

TensorFlow's graphs read a resource variable in each iteration. If all that may write it is outside of the loop and comes after
its read there, each iteration reads the same content. It is read once, when the loop begins, and enters the loop; so weights
look as they do in a frozen graph to all that comes later.

One error can be new: that of an uninitialized variable whose read no iteration reaches. Only loops that are not inside of other
loops are changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aioexec.dtypes import resource
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.control_flow.frames import Frame
from aioexec.planning.rewriting.loops import Loops, is_invariant, without_repeats
from aioexec.planning.subgraph import Bind, Node, Subgraph

_PASSING: Final = (Role.ENTER, Role.EXIT, Role.NEXT_ITERATION, Role.IDENTITY, Role.SWITCH, Role.MERGE)


def read_before_loops(graph: Subgraph, bind: Bind) -> None:
    """Read variables before the loops that do not change them."""
    reads = [
        node for node in graph.nodes if node.computes("ReadVariableOp") and is_invariant(node.inputs[0][0])
    ]
    if not reads or any(node.output_dtype(0) == resource for node in graph.feeds):
        return
    loops = Loops(graph)
    for read in reads:
        if loops.is_outermost(read) and _reads_one_content(loops, read):
            _read_before(loops, read)
    loops.apply()


def _reads_one_content(loops: Loops, read: Node) -> bool:
    """Whether a read has the same content in each iteration, and all that use it are on its device."""
    variable, _ = read.inputs[0][0].inputs[0]
    if not variable.computes("VarHandleOp"):
        return False
    if any(user.device != read.device for user in loops.users.get(id(read), ())):
        return False
    writers = list(_writers(loops, _key(variable)))
    after = _descendants(loops, read) if writers else set()
    return all(id(each) in after and loops.frame_of[id(each)].parent is None for each in writers)


def _read_before(loops: Loops, read: Node) -> None:
    """Read a variable before the loop of its read."""
    handle = read.inputs[0][0]
    begins = _entering(loops, loops.frame_of[id(read)])
    made = loops.make(
        "ReadVariableOp", read, handle.inputs, "/before_loop", begins, dtype=read.op.attrs["dtype"]
    )
    entered = loops.enter((made, 0), handle, read, "/before_loop/Enter")
    loops.redirect((read, 0), entered)
    for user in loops.users.get(id(read), ()):
        if read in user.controls or not user.is_pure:
            others = [control for control in user.controls if control is not read]
            user.controls = without_repeats([*others, entered[0], *read.controls])


def _writers(loops: Loops, key: tuple[str, str]) -> Iterator[Node]:
    """What may write the variable with this key."""
    waiting = [node for node in loops.graph.nodes if node.computes("VarHandleOp") and _key(node) == key]
    seen = {id(node) for node in waiting}
    while waiting:
        node = waiting.pop()
        for user in loops.users.get(id(node), ()):
            places = {place for place, (producer, _) in enumerate(user.inputs) if producer is node}
            if id(user) in seen or not places:
                continue
            seen.add(id(user))
            if user.feed is None and user.row.role in _PASSING:
                waiting.append(user)
            elif not places <= set(user.row.reads) - set(user.row.writes):
                yield user


def _descendants(loops: Loops, node: Node) -> set[int]:
    """The ids of all nodes that come after a node."""
    found: set[int] = set()
    waiting = [node]
    while waiting:
        for user in loops.users.get(id(waiting.pop()), ()):
            if id(user) not in found:
                found.add(id(user))
                waiting.append(user)
    return found


def _entering(loops: Loops, frame: Frame) -> list[Node]:
    """The nodes that compute the initial values of a loop's variables, without which it does not begin."""
    enters = (
        node
        for node in loops.graph.nodes
        if node.feed is None
        and node.row.role is Role.ENTER
        and node.op.attrs["frame_name"] == frame.name
        and not is_invariant(node)
    )
    before = (producer for enter in enters for producer in enter.producers())
    return without_repeats(
        node for node in before if not node.is_constant and node.row.role is not Role.VARIABLE
    )


def _key(variable: Node) -> tuple[str, str]:
    """What all nodes of one variable have in common."""
    attrs = variable.op.attrs
    return attrs["container"], attrs["shared_name"] or variable.name
