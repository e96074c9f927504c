"""Runs a loop or conditional with reference kernels: the nodes of each iteration, or of the branch that is taken.

A run can pause between two iterations and continue on another thread: it begins on the event loop, and moves to a worker if it
takes longer. One thread at a time is in a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from aioexec.errors import InternalError, InvalidArgumentError
from aioexec.planning.instruction import Instruction, RegionPlan, locate, with_inner
from aioexec.planning.workload import takes_long
from aioexec.resources.variable import Variable

_LOOK = 16
"""Iterations between two reads of the clock."""


class StructureRun:
    """One run of a structure.

    Constant: the instruction, its device. Changing: `values`, those computed inside, by value number; `cancelled`, which any
    thread may set: no further iteration begins; `_is_bounded`, whether `advance` was given a time.
    """

    def __init__(self, instruction: Instruction, inputs: Sequence[Any], device: str) -> None:
        assert instruction.structure is not None
        self.instruction = instruction
        self.device = device
        self.values: dict[int, Any] = dict(instruction.structure.known)
        self.cancelled = False
        self._is_bounded = False
        self._rounds = self._run(instruction, inputs)

    def cancel(self) -> None:
        self.cancelled = True

    def advance(self, nanoseconds: int | None = None) -> bool:
        """Continue for about so long, or to the end: whether it has ended, or was cancelled.

        With a time it also stops before a node that takes long by itself.

        Raises:
            OpError: of the node that failed.
        """
        until = None if nanoseconds is None else perf_counter_ns() + nanoseconds
        self._is_bounded = until is not None
        with np.errstate(all="ignore"):
            for count, must_stop in enumerate(self._rounds):
                if self.cancelled:
                    return True
                if until is not None and (must_stop or (count % _LOOK == 0 and perf_counter_ns() > until)):
                    return False
        return True

    def resources(self) -> Iterator[Any]:
        """Values from outside that the run may read: variables among them must not be written over."""
        yield from self.values.values()
        for instruction in with_inner([self.instruction]):
            if instruction.structure is not None:
                yield from instruction.structure.known.values()

    def outputs(self) -> tuple[Any, ...]:
        """The outputs of the node, once the run has ended."""
        return tuple(self.values.get(value) for value in self.instruction.outputs)

    def _run(self, instruction: Instruction, inputs: Sequence[Any]) -> Iterator[bool]:
        """Run a structure with these inputs; yields after each iteration, and (True) before a node that takes long."""
        structure, values = instruction.structure, self.values
        assert structure is not None
        values.update(structure.known)
        given = inputs if structure.is_loop else inputs[1:]
        for parameter, value in zip(structure.parameters, given, strict=True):
            values[parameter] = value
        if structure.is_loop:
            yield from self._loop(instruction)
        else:
            taken = structure.regions[self._decides(inputs[0], instruction)]
            yield from self._region(taken)
            for output, result in zip(instruction.outputs, taken.results, strict=True):
                values[output] = None if result is None else values[result]

    def _loop(self, instruction: Instruction) -> Iterator[bool]:
        structure, values = instruction.structure, self.values
        assert structure is not None
        condition, body = structure.regions
        (predicate,) = condition.results
        assert predicate is not None
        variables = structure.parameters[: len(body.results)]
        while True:
            yield from self._region(condition)
            if not self._decides(values[predicate], instruction):
                break
            yield from self._region(body)
            for variable, value in zip(
                variables, [values[result] for result in body.results if result is not None], strict=True
            ):
                values[variable] = value
            yield False
        for output, variable in zip(instruction.outputs, variables, strict=True):
            values[output] = values[variable]

    def _region(self, region: RegionPlan) -> Iterator[bool]:
        for instruction in region.instructions:
            inputs = self._inputs(instruction)
            if instruction.structure is not None:
                yield from self._run(instruction, inputs)
                continue
            if self._is_bounded and takes_long(instruction, inputs):
                yield True
            self._step(instruction, inputs)

    def _step(self, instruction: Instruction, inputs: Sequence[Any]) -> None:
        try:
            store(self.values, instruction, instruction.compute(*inputs))
        except Exception as error:
            raise locate(error, instruction, self.device) from error

    def _inputs(self, instruction: Instruction) -> list[Any]:
        return inputs_of(instruction, self.values)

    def _decides(self, predicate: Any, instruction: Instruction) -> bool:
        if np.ndim(predicate) != 0:
            error = InvalidArgumentError(
                f"The predicate must be a scalar, got one of shape {list(np.shape(predicate))}"
            )
            raise locate(error, instruction, self.device)
        return bool(predicate)


def inputs_of(instruction: Instruction, values: Any) -> list[Any]:
    """The inputs of a node; a reference of which the kernel takes the value is replaced by the variable's content."""
    inputs = [values[value] for value in instruction.inputs]
    return dereference(instruction, inputs) if instruction.dereferences else inputs


def dereference(instruction: Instruction, inputs: list[Any]) -> list[Any]:
    """The inputs of a node, with references of which the kernel takes the value replaced by the variables' contents."""
    for k in instruction.dereferences:
        if isinstance(inputs[k], Variable):
            inputs[k] = inputs[k].read()
    return inputs


def store(values: Any, instruction: Instruction, result: Any) -> None:
    """Store the result of a kernel as the node's outputs.

    Raises:
        InternalError: it returned another number of values than the node has outputs.
    """
    count = len(instruction.outputs)
    if count == 1:
        if result is None:
            raise InternalError(f"missing output 0 of {instruction.node.name!r}: its kernel returned nothing")
        values[instruction.outputs[0]] = result if type(result) is np.ndarray else _as_array(result)
    elif count:
        if (
            not isinstance(result, tuple | list)
            or len(result) != count
            or any(value is None for value in result)
        ):
            raise InternalError(
                f"missing output of {instruction.node.name!r}: expected {count} values, got {result!r}"
            )
        for value, output in zip(instruction.outputs, result, strict=True):
            values[value] = _as_array(output)


def _as_array(output: Any) -> Any:
    """The result of a kernel as an array; handles of resources are returned as they are."""
    return np.asarray(output) if isinstance(output, np.generic | int | float | bool | complex) else output
