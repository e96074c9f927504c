"""Reads variables before a loop that does not change them.

TensorFlow's graphs read a resource variable in each iteration. If all that may write it is outside of the loop and comes after
its read there, each iteration reads the same content. It is read once, when the loop begins, and enters the loop; so weights
look as they do in a frozen graph to all that comes later.

One error can be new: that of an uninitialized variable whose read no iteration reaches. Only loops that are not inside of other
loops are changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from aioexec.dtypes import resource
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.rewriting.loops import Loops, is_invariant, without_repeats
from aioexec.planning.subgraph import Bind, Node, Subgraph

_PASSING: Final = (Role.ENTER, Role.EXIT, Role.NEXT_ITERATION, Role.IDENTITY, Role.SWITCH, Role.MERGE)


def read_before_loops(graph: Subgraph, bind: Bind) -> None:
    """Read variables before the loops that do not change them."""
    reads = [
        node for node in graph.nodes if node.computes("ReadVariableOp") and is_invariant(node.inputs[0][0])
    ]
    if reads and not any(node.output_dtype(0) == resource for node in graph.feeds):
        _EarlyReads(Loops(graph), reads).rewrite()


class _EarlyReads:
    """One pass over a graph: sets of reads are words with a bit for each.

    Constant: `_reads`; `_after`, for each node, by id(), the reads that come before it; `_handles`, by key the nodes of each
    variable; `_entering`, by the name of a loop the nodes that compute the initial values of its variables.
    """

    def __init__(self, loops: Loops, reads: Sequence[Node]) -> None:
        self._loops = loops
        self._reads = [node for node in reads if loops.is_outermost(node)]
        self._after = _after(loops.graph, self._reads)
        self._handles: dict[tuple[str, str], list[Node]] = {}
        self._entering: dict[str, list[Node]] = {}
        for node in loops.graph.nodes:
            if node.computes("VarHandleOp"):
                self._handles.setdefault(_key(node), []).append(node)
            elif node.feed is None and node.row.role is Role.ENTER and not is_invariant(node):
                self._entering.setdefault(node.op.attrs["frame_name"], []).extend(node.producers())

    def rewrite(self) -> None:
        writers = {key: list(self._writers(handles)) for key, handles in self._handles.items()}
        for k, read in enumerate(self._reads):
            variable, _ = read.inputs[0][0].inputs[0]
            if variable.computes("VarHandleOp") and self._has_one_content(read, k, writers[_key(variable)]):
                self._read_before(read)
        self._loops.apply()

    def _has_one_content(self, read: Node, k: int, writers: Sequence[Node]) -> bool:
        """Whether read `k` has the same content in each iteration, and all that use it are on its device."""
        loops = self._loops
        if any(user.device != read.device for user in loops.users.get(id(read), ())):
            return False
        is_outside = all(loops.frame_of[id(each)].parent is None for each in writers)
        return is_outside and all(self._after[id(each)] >> k & 1 for each in writers)

    def _read_before(self, read: Node) -> None:
        """Read a variable before the loop of its read, which begins when the initial values of its variables are there."""
        loops, handle = self._loops, read.inputs[0][0]
        begins = without_repeats(
            node
            for node in self._entering.get(loops.frame_of[id(read)].name, ())
            if not node.is_constant and node.row.role is not Role.VARIABLE
        )
        dtype = read.op.attrs["dtype"]
        made = loops.make("ReadVariableOp", read, handle.inputs, "/before_loop", begins, dtype=dtype)
        entered = loops.enter((made, 0), handle, read, "/before_loop/Enter")
        loops.redirect((read, 0), entered)
        for user in loops.users.get(id(read), ()):
            if read in user.controls or not user.is_pure:
                others = [control for control in user.controls if control is not read]
                user.controls = without_repeats([*others, entered[0], *read.controls])

    def _writers(self, handles: Sequence[Node]) -> Iterator[Node]:
        """What may write the variable that these nodes make a handle of."""
        waiting = list(handles)
        seen = {id(node) for node in waiting}
        while waiting:
            node = waiting.pop()
            for user in self._loops.users.get(id(node), ()):
                places = {place for place, (producer, _) in enumerate(user.inputs) if producer is node}
                if id(user) in seen or not places:
                    continue
                seen.add(id(user))
                if user.feed is None and user.row.role in _PASSING:
                    waiting.append(user)
                elif not places <= set(user.row.reads) - set(user.row.writes):
                    yield user


def _after(graph: Subgraph, reads: Sequence[Node]) -> dict[int, int]:
    """For each node, by id(), the bit set of the reads that come before it, also by the back edge of a loop."""
    own = {id(node): 1 << k for k, node in enumerate(reads)}
    found = dict.fromkeys(map(id, graph.nodes), 0)
    is_changing = True
    while is_changing:  # once for each back edge on the way, and once more
        is_changing = False
        for node in graph.nodes:
            before = 0
            for producer in node.producers():
                before |= found[id(producer)] | own.get(id(producer), 0)
            is_changing |= before != found[id(node)]
            found[id(node)] = before
    return found


def _key(variable: Node) -> tuple[str, str]:
    """What all nodes of one variable have in common."""
    attrs = variable.op.attrs
    return attrs["container"], attrs["shared_name"] or variable.name
