"""Versions of the variables in a program: which buffer holds a variable's content at each point of the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aioexec import shapes
from aioexec.graph.kernel import Spec
from aioexec.planning.buffers import Buffer, Local
from aioexec.planning.plan import Instruction, Item
from aioexec.planning.variant import VariableUse
from aioexec.resources.variable import Variable


@dataclass(slots=True, eq=False)
class _Use:
    """One variable in one program.

    `old` is its content at entry, `new` what native rows write, `now` the buffer that is current at this point of the
    abstract run. `old.dies` is the last position at which a snapshot of it may be needed, `wrote_at` the first write.
    """

    variable: Variable
    spec: Spec | None
    old: Buffer | None = None
    new: Buffer | None = None
    now: Buffer | None = None
    reader: Instruction | None = None
    written_by: int | None = None
    wrote_at: int | None = None
    broken: bool = False

    def freeze(self) -> VariableUse:
        in_place = (
            self.wrote_at is not None
            and not self.broken
            and (self.old is None or self.old.dies < self.wrote_at)
        )
        return VariableUse(
            self.variable,
            self.reader,
            None if self.old is None else self.old.slot,
            None if self.new is None else self.new.slot,
            self.written_by,
            in_place,
        )


class Versions:
    """The variables of an item, in the order they are met.

    `rebound` are buffers whose address is set behind a break that may have changed the variable.
    """

    def __init__(self, item: Item, held: Mapping[int, Any], external: Callable[[int], Buffer]) -> None:
        self._external = external
        self._uses: dict[Variable, _Use] = {}
        self._last_use: dict[Variable, int] = {}
        self.rebound: list[Buffer] = []
        for position, instruction in enumerate(item.instructions):
            for value in instruction.inputs:
                variable = held.get(value)
                if isinstance(variable, Variable):
                    self._last_use[variable] = position

    def _use(self, variable: Variable) -> _Use:
        if variable not in self._uses:
            spec = None
            if shapes.is_fully_defined(variable.dims):
                spec = Spec(variable.dtype.numpy, tuple(int(d or 0) for d in variable.dims or ()))
            if spec is not None and spec.dtype == object:
                spec = None
            self._uses[variable] = _Use(variable, spec)
        return self._uses[variable]

    def content(self, variable: Variable, position: int, instruction: Instruction) -> Local:
        """Where a write row finds the content it updates; not a snapshot."""
        local = self.read(variable, position, instruction, snapshot=False)
        assert local is not None
        return local

    def read(
        self, variable: Variable, position: int, instruction: Instruction, snapshot: bool = True
    ) -> Local | None:
        """The content as of now; None if it has no place in memory (unknown shape)."""
        use = self._use(variable)
        if use.spec is None:
            return None
        if use.now is None:
            use.now = use.old = self._external(use.spec.nbytes)
            use.reader = instruction
        if snapshot:
            use.now.dies = max(use.now.dies, position)
        return Local(use.now, 0, use.spec)

    def can_write(self, variable: Variable) -> bool:
        """Whether a native row may write: there is one new buffer, and no snapshot of it may be needed later."""
        use = self._use(variable)
        if use.spec is None or use.broken:
            return False
        return use.new is None or use.new.dies < 0

    def written(self, variable: Variable) -> Buffer:
        use = self._use(variable)
        assert use.spec is not None
        if use.new is None:
            use.new = self._external(use.spec.nbytes)
        return use.new

    def wrote(self, variable: Variable, position: int, row: int) -> None:
        use = self._use(variable)
        use.now = self.written(variable)
        use.written_by = row
        use.wrote_at = position if use.wrote_at is None else use.wrote_at

    def break_on(self, handles: list[Variable], position: int) -> tuple[tuple[Buffer, Variable], ...]:
        """A break gets these variables themselves: later rows see whatever it leaves."""
        rebinds = []
        for variable in handles:
            use = self._use(variable)
            use.broken = True
            if use.spec is not None and self._last_use.get(variable, -1) > position:
                use.now = self._external(use.spec.nbytes)
                self.rebound.append(use.now)
                rebinds.append((use.now, variable))
        return tuple(rebinds)

    def uses(self) -> list[_Use]:
        return list(self._uses.values())
