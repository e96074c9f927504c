"""Lays out loops and conditionals: rows with jumps, and places for loop variables and for the results of branches.

A carried value has a place of its own, which each iteration (or either branch) writes. That requires the same shape every time.
A value whose shape changes, or that the arena cannot hold, is carried as an object, by Python. No row inside may write a
variable: which variables a stopped program has written is derived from the row at which it stopped, and rows in a loop run more
than once.
"""

from __future__ import annotations

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Spec
from aioexec.planning.instruction import Instruction, RegionPlan
from aioexec.planning.layout.buffers import Buffer, Local
from aioexec.planning.layout.pending import (
    AbstractValue,
    InMemory,
    Label,
    ListsRefusedError,
    Object,
    PendingJump,
    PendingMove,
    RefusedError,
    Slab,
    copy_row,
)
from aioexec.planning.layout.state import LayoutState
from aioexec.resources.variable import Variable

ROUNDS = 16
"""The number of iterations that is assumed when the cost of a loop is estimated."""


def lay_structure(
    layout: LayoutState, position: int, instruction: Instruction, inputs: list[AbstractValue]
) -> str | None:
    """Append the rows of a loop or conditional; returns the reason if it cannot have any, with the layout unchanged."""
    structure = instruction.structure
    assert structure is not None
    carried: set[int] = set()  # results that are objects
    while True:
        mark = layout.mark()
        layout.around.append((position, layout.end_of(position)) if structure.is_loop else None)
        attempt = _Attempt(layout, position, instruction, inputs, frozenset(carried))
        try:
            changing = attempt.loop() if structure.is_loop else attempt.conditional()
        except RefusedError as refusal:
            layout.roll_back_to(mark)
            return str(refusal)
        finally:
            layout.around.pop()
        if not changing:
            return None
        layout.roll_back_to(mark)
        carried |= changing


@dataclass(slots=True)
class _Attempt:
    """One attempt at a layout, in which results are objects if their shapes changed in earlier attempts."""

    layout: LayoutState
    position: int
    instruction: Instruction
    inputs: list[AbstractValue]
    as_objects: frozenset[int]

    # Loops

    def loop(self) -> set[int]:
        """Lay out a loop; returns the variables whose shape changes between iterations: if any, the layout is discarded."""
        layout, structure = self.layout, self.instruction.structure
        assert structure is not None
        condition, body = structure.regions
        count = len(body.results)
        variables = structure.parameters[:count]
        for parameter, abstract in zip(structure.parameters[count:], self.inputs[count:], strict=True):
            layout.values[parameter] = abstract
        for abstract in self.inputs[count:]:
            self._keep(abstract)
        for k, parameter in enumerate(variables):
            layout.values[parameter] = self._place(k, self.inputs[k], parameter)
        self._carry(self.inputs[:count], [layout.values[parameter] for parameter in variables])
        lists = [(slab, slab.version) for slab in layout.slabs if slab.is_value]
        top, out = Label(len(layout.pending)), Label()
        cost = layout.cost
        self._region(condition)
        (predicate,) = condition.results
        assert predicate is not None
        self._jump(out, layout.values[predicate])
        self._region(body)
        results = [layout.values[value] for value in body.results if value is not None]
        places = [layout.values[parameter] for parameter in variables]
        carried = {id(place.slab) for place in places if isinstance(place, InMemory)}
        if any(slab.version != version and id(slab) not in carried for slab, version in lists):
            raise ListsRefusedError("a list from outside, whose present version the next iteration needs")
        changing = {k for k in range(count) if not _fits(results[k], places[k])}
        if changing:
            return changing
        self._carry(self._all_in_place(results, places), places)
        layout.pending.append(PendingJump(top, None, self.position))
        out.row = len(layout.pending)
        layout.cost += (layout.cost - cost) * (ROUNDS - 1)
        for output, place in zip(self.instruction.outputs, places, strict=True):
            layout.values[output] = _present_content(place)
        return set()

    def _place(self, k: int, abstract: AbstractValue, value: int) -> Local | Object | InMemory:
        """The place of a carried value, with its initial value."""
        spec = self.layout.spec(abstract)
        if isinstance(abstract, InMemory):
            return abstract
        if isinstance(abstract, Variable):
            raise RefusedError("a resource that changes in a loop")
        if k in self.as_objects or spec is None:
            return Object(value)
        buffer = self.layout.arena(spec.nbytes, self.position)
        buffer.keep_past(self.layout.end_of(self.position))
        buffer.carried = True
        return Local(buffer, 0, Spec(spec.dtype, spec.shape))

    def _keep(self, abstract: AbstractValue) -> None:
        """Extend the live range of a value past the end of the structure."""
        if isinstance(abstract, Local):
            abstract.buffer.keep_past(self.layout.end_of(self.position))

    def _all_in_place(self, results: list[AbstractValue], places: list[AbstractValue]) -> list[AbstractValue]:
        """The results of an iteration, each in its carried place where a row can write it there."""
        handed_on = {id(abstract.buffer) for abstract in results if isinstance(abstract, Local)}
        return [
            # a value that becomes another variable's next value must exist until all of them are carried
            result
            if isinstance(place, Local) and id(place.buffer) in handed_on
            else self._in_place(result, place)
            for result, place in zip(results, places, strict=True)
        ]

    def _in_place(self, result: AbstractValue, place: AbstractValue) -> AbstractValue:
        """Let a row write a result directly to its carried place, if the previous value is not needed any more then."""
        if not (isinstance(result, Local) and isinstance(place, Local)):
            return result
        made, kept = result.buffer, place.buffer
        whole = made.slot is None and result.offset == 0 and made.nbytes == kept.nbytes
        if not whole or made is kept or made.born <= self.position or made.carried:
            return result
        may_inherit = any(heir is made for heir in kept.heirs)
        if kept.seen > made.born or (kept.seen == made.born and not may_inherit):
            return result
        self.layout.unite(made, kept)
        return place

    # Conditionals

    def conditional(self) -> set[int]:
        """Lay out a conditional; returns the results whose shapes differ between the branches."""
        layout, structure = self.layout, self.instruction.structure
        assert structure is not None
        for parameter, abstract in zip(structure.parameters, self.inputs[1:], strict=True):
            layout.values[parameter] = abstract
            self._keep(abstract)
        predicate = self.inputs[0]
        if isinstance(predicate, np.ndarray) and predicate.shape == ():
            taken = structure.regions[bool(predicate)]
            self._region(taken)
            for output, result in zip(self.instruction.outputs, taken.results, strict=True):
                # a result that only the other branch has is forwarded, but never read
                layout.values[output] = np.zeros(()) if result is None else layout.values[result]
            return set()
        otherwise, out = Label(), Label()
        self._jump(otherwise, predicate)
        versions = [(slab, slab.version) for slab in layout.slabs]
        places = self._branch(structure.regions[1], {})
        changed = [(slab, slab.version) for slab, _ in versions]
        for slab, version in versions:  # the other branch begins with the lists before the structure
            slab.version = version
        layout.pending.append(PendingJump(out, None, self.position))
        otherwise.row = len(layout.pending)
        changing = self._other_branch(structure.regions[0], places, changed)
        out.row = len(layout.pending)
        return changing

    def _branch(self, region: RegionPlan, places: dict[int, AbstractValue]) -> dict[int, AbstractValue]:
        """Lay out a branch, and copy its results to their places, which are made if there are none."""
        self._region(region)
        layout, structure = self.layout, self.instruction.structure
        assert structure is not None
        shared = [
            k
            for k, pair in enumerate(zip(*(part.results for part in structure.regions), strict=True))
            if None not in pair
        ]
        found: dict[int, AbstractValue] = {}
        for k, result in enumerate(region.results):
            if result is not None and k not in shared:
                layout.values[self.instruction.outputs[k]] = layout.values[
                    result
                ]  # the other branch has no such result
        for k in shared:
            result = region.results[k]
            assert result is not None
            found[k] = layout.values[result]
        if not places:
            places = {
                k: self._place(k, abstract, self.instruction.outputs[k]) for k, abstract in found.items()
            }
        elif any(not _fits(abstract, places[k]) for k, abstract in found.items()):
            return found
        self._carry(list(found.values()), [places[k] for k in found])
        return places

    def _other_branch(
        self, region: RegionPlan, places: dict[int, AbstractValue], changed: list[tuple[Slab, int]]
    ) -> set[int]:
        """Lay out the other branch; lists count as changed if either changes them. Returns the results that do not fit."""
        found = self._branch(region, places) if places else self._branch(region, {})
        if found is not places and places:
            return {k for k, abstract in found.items() if not _fits(abstract, places[k])}
        for slab, version in changed:
            slab.version = max(slab.version, version)
        for k, place in places.items():
            self.layout.values[self.instruction.outputs[k]] = _present_content(place)
        return set()

    # Both

    def _region(self, region: RegionPlan) -> None:
        for instruction in region.instructions:
            self.layout.visit(instruction)

    def _jump(self, target: Label, predicate: AbstractValue) -> None:
        """Jump unless the predicate holds."""
        spec = self.layout.spec(predicate)
        if spec is None or spec.shape != ():
            raise RefusedError("a predicate that memory cannot hold, or no scalar")
        operand = self.layout.address(self.position, self.instruction, predicate)
        self.layout.pending.append(PendingJump(target, operand, self.position))

    def _carry(self, sources: list[AbstractValue], places: list[AbstractValue]) -> None:
        """Copy values to their places with the effect of a simultaneous copy."""
        moves: list[tuple[AbstractValue, int]] = []
        copies: list[tuple[Local | np.ndarray, Buffer, Spec]] = []
        kept = {id(place.buffer) for place in places if isinstance(place, Local)}
        for source, place in zip(sources, places, strict=True):
            if isinstance(place, InMemory):
                continue
            if isinstance(place, Object):
                if not (isinstance(source, Object) and source.value == place.value):
                    moves.append((source, place.value))
                    self._keep(source)
                continue
            assert isinstance(place, Local)
            assert isinstance(source, Local | np.ndarray)
            if isinstance(source, Local) and source.buffer is place.buffer:
                continue
            if isinstance(source, Local) and id(source.buffer) in kept:
                source = self._copy_before_overwrite(source)
            copies.append((source, place.buffer, place.spec))
        if moves:  # first, since they may read places that the copies overwrite
            self.layout.pending.append(PendingMove(tuple(moves), self.position))
        for each, buffer, spec in copies:
            self._copy(each, buffer, spec)

    def _copy_before_overwrite(self, source: Local) -> Local:
        """A copy of a value that is about to be overwritten."""
        end = self.layout.end_of(self.position)
        buffer = self.layout.arena(source.spec.nbytes, end)
        self._copy(source, buffer, source.spec)
        return Local(buffer, 0, source.spec)

    def _copy(self, source: Local | np.ndarray, target: Buffer, spec: Spec) -> None:
        layout = self.layout
        self._keep(source)
        if isinstance(source, Local):
            place = source.buffer, source.offset
        else:
            place = layout.constant(source), 0
        row = copy_row(spec, place, (target, 0), self.position)
        if row is not None:
            if row.launch.kernel in layout.refused:
                raise RefusedError("its values cannot be copied: that kernel is not compiled")
            layout.pending.append(row)


def _fits(abstract: AbstractValue, place: AbstractValue) -> bool:
    """Whether a value can be carried to a place."""
    if isinstance(place, Object):
        return not isinstance(abstract, InMemory)
    if isinstance(place, InMemory) or isinstance(abstract, InMemory):
        if _is_latest(abstract, place):
            return True
        raise ListsRefusedError("a different list in each iteration or branch")
    assert isinstance(place, Local)
    spec = abstract.spec if isinstance(abstract, Local) else None
    if isinstance(abstract, np.ndarray) and abstract.dtype != object:
        spec = Spec(abstract.dtype, abstract.shape)
    return spec is not None and (spec.dtype, spec.shape) == (place.spec.dtype, place.spec.shape)


def _is_latest(abstract: AbstractValue, place: AbstractValue) -> bool:
    """Whether a value is the latest version of the list of a place."""
    if not (isinstance(abstract, InMemory) and isinstance(place, InMemory)):
        return False
    return abstract.slab is place.slab and abstract.version == abstract.slab.version


def _present_content(place: AbstractValue) -> AbstractValue:
    """The present content of a place; for a list, its latest version."""
    return InMemory(place.slab, place.slab.version) if isinstance(place, InMemory) else place
