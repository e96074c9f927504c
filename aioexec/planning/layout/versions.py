"""Versions of the variables in a program: the buffer that holds a variable's content at each point of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from aioexec import shapes
from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Spec
from aioexec.planning.instruction import Instruction
from aioexec.planning.layout.buffers import Buffer, Local
from aioexec.planning.layout.variant import VariableUse
from aioexec.resources.variable import Variable


@dataclass(slots=True, eq=False)
class _Use:
    """One variable in one program.

    `old` is its content at entry, `new` the buffer that native rows write, `now` the buffer that is current at this point of
    the layout. `old.dies` is the last position at which a snapshot of it may be needed, `wrote_at` the first write. `writes`
    are the rows of each write, first and last. `spec` is None once its shape is unknown. `certain`: every run of the program
    needs `old`.
    """

    variable: Variable
    declared: tuple[int, ...] | None
    spec: Spec | None
    old: Buffer | None = None
    new: Buffer | None = None
    now: Buffer | None = None
    reader: Instruction | None = None
    writes: list[tuple[int, int]] = field(default_factory=list)
    wrote_at: int | None = None
    broken: bool = False
    certain: bool = False

    @property
    def in_place(self) -> bool:
        """Whether the new content may be written over the present one."""
        is_free = self.wrote_at is not None and not self.broken
        return is_free and (self.old is None or self.wrote_at is None or self.old.dies < self.wrote_at)

    def freeze(self, places: Callable[[int], Iterable[int]]) -> VariableUse:
        """Make the frozen form; `places` maps a row of the layout to the rows that replace it."""
        return VariableUse(
            self.variable,
            self.declared,
            self.reader,
            None if self.old is None else self.old.slot,
            None if self.new is None else self.new.slot,
            tuple(tuple(row for k in _rows(*write) for row in places(k)) for write in self.writes),
            self.in_place,
            self.certain,
        )


def _rows(first: int, last: int) -> Iterable[int]:
    """The rows of a write; of one without rows, since the variable is empty, the row before."""
    return range(first, last + 1) if first <= last else range(max(first - 1, 0), first)


class Versions:
    """The variables of an item, in order of first use.

    `_rebound` are buffers whose address is set after a break that may have changed the variable, each with the node that first
    reads it: None while there is none, and then no address is set.
    """

    def __init__(self, external: Callable[[int], Buffer]) -> None:
        self._external = external
        self._uses: dict[Variable, _Use] = {}
        self._rebound: dict[int, tuple[Buffer, Instruction | None]] = {}

    def spec(self, variable: Variable) -> Spec | None:
        """The spec of a variable's content at this point; None if it has no place in memory."""
        use = self._uses.get(variable)
        return _declared(variable) if use is None else use.spec

    def _use(self, variable: Variable) -> _Use:
        if variable not in self._uses:
            spec = _declared(variable)
            self._uses[variable] = _Use(variable, None if spec is None else spec.shape, spec)
        return self._uses[variable]

    def content(self, variable: Variable, position: int, instruction: Instruction, certain: bool) -> Local:
        """The place of the content that a row updates or reads a part of; not a snapshot."""
        local = self.read(variable, position, instruction, snapshot=False, certain=certain)
        assert local is not None
        return local

    def read(
        self,
        variable: Variable,
        position: int,
        instruction: Instruction,
        snapshot: bool = True,
        certain: bool = True,
    ) -> Local | None:
        """The present content; None if it has no place in memory (unknown shape). `certain`: the node runs in every run."""
        use = self._use(variable)
        if use.spec is None:
            return None
        if use.now is None:
            use.now = use.old = self._external(use.spec.nbytes)
            use.reader = instruction
        if certain and use.now is use.old and not use.certain:
            use.reader, use.certain = instruction, True
        if id(use.now) in self._rebound and self._rebound[id(use.now)][1] is None:
            self._rebound[id(use.now)] = (use.now, instruction)
        if snapshot:
            use.now.dies = max(use.now.dies, position)
        return Local(use.now, 0, use.spec)

    def may_be_replaced(self, variable: Variable) -> bool:
        """Whether an earlier break is passed the variable itself, so that its content is known only after that."""
        return id(self._use(variable).now) in self._rebound

    def can_write(self, variable: Variable) -> bool:
        """Whether a native row may write: the content has a place in memory, and no break was passed the variable itself."""
        use = self._use(variable)
        return use.spec is not None and not use.broken

    def overwrites(self, variable: Variable) -> Buffer | None:
        """The buffer of an earlier write, which another write would overwrite: a program has one new buffer."""
        return self._use(variable).new

    def buffer_to_write(self, variable: Variable) -> Buffer:
        use = self._use(variable)
        assert use.spec is not None
        if use.new is None:
            use.new = self._external(use.spec.nbytes)
        return use.new

    def note_write(self, variable: Variable, position: int, rows: tuple[int, int]) -> None:
        use = self._use(variable)
        use.now = self.buffer_to_write(variable)
        use.writes.append(rows)
        use.wrote_at = position if use.wrote_at is None else use.wrote_at

    def renumber(self, place: Mapping[int, int]) -> None:
        """Update the numbers of rows that have moved."""
        for use in self._uses.values():
            for k, (first, last) in enumerate(use.writes):
                rows = [place[row] for row in range(first, last + 1)]
                use.writes[k] = (min(rows), max(rows)) if rows else (place[first], place[first] - 1)

    def break_on(self, handles: list[Variable]) -> tuple[tuple[Buffer, Variable, tuple[int, ...]], ...]:
        """Record that a break is passed these variables themselves: later rows read the contents after it."""
        rebinds = []
        for variable in handles:
            use = self._use(variable)
            use.broken = True
            if use.spec is not None:
                use.now = self._external(use.spec.nbytes)
                self._rebound[id(use.now)] = (use.now, None)
                rebinds.append((use.now, variable, use.spec.shape))
        return tuple(rebinds)

    def forget_shape(self, variable: Variable) -> None:
        """Record that its content may have any shape from here on."""
        self._use(variable).spec = None

    def reader(self, rebound: Buffer) -> Instruction | None:
        """The node that first reads a buffer rebound after a break."""
        return self._rebound[id(rebound)][1]

    @property
    def rebound(self) -> list[Buffer]:
        return [buffer for buffer, reader in self._rebound.values() if reader is not None]

    def uses(self) -> list[_Use]:
        return list(self._uses.values())


def _declared(variable: Variable) -> Spec | None:
    if variable.dtype.numpy.hasobject or not shapes.is_fully_defined(variable.dims):
        return None
    return Spec(variable.dtype.numpy, tuple(int(d or 0) for d in variable.dims or ()))
