"""A second program of an item that only reads variables, for as long as these keep their contents.

Kernels of products take a constant right matrix in another layout (see `planning.layout.packed_constants`). A variable is taken
like a constant once several runs have found the same content. No content is compared: a variable that was read as a snapshot is
never written in place (see `resources.variable`), so it is unchanged as long as it has the same buffer.

    state      meaning                                                                next state
    WATCHING   the first program runs; after a number of runs the variables are        BUILDING
               compared with what they were before these
    BUILDING   the second program is built in the background, the first one runs       READY, or UNFIT: it packs nothing
    READY      the second program runs, if the variables are still the same            WATCHING, for twice as many runs

The event loop only.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any, Final
from weakref import ref

import numpy as np

from aioexec.execution.program_build import NoBuilderError
from aioexec.execution.programs.program import Program
from aioexec.resources.variable import Variable

Array = np.ndarray[Any, Any]
Build = Callable[
    [Mapping[Variable, Array], Callable[[Program], None], Callable[[Exception | None], None]], None
]
"""Builds a program in which variables of these contents are packed; calls the first function with it, the second one last."""

LEAST_BYTES: Final = 1 << 18
"""The size of a matrix from which it is worth while: smaller ones stay in the cache, where a kernel packs them in each run."""
_FIRST_RUNS, _MOST_RUNS = 2, 4096
"""Runs between two comparisons: of a new program, and of one whose variables change again and again."""


class State(enum.Enum):
    """The state of the second program; see the module."""

    WATCHING = "watching"
    BUILDING = "building"
    READY = "ready"
    UNFIT = "unfit"


class SettledVariables:
    """The programs of an item for inputs of the same shapes.

    Constant: `_program`, which reads variables as they are; `_variables`, those that are large enough. Changing: `state`;
    `packed`, the second program, while READY; `_seen`, what the variables held at the last comparison, which it does not keep
    from being freed; `_runs` until the next comparison, the last time after `_interval` runs.
    """

    def __init__(self, program: Program, build: Build) -> None:
        self._program = program
        self._build = build
        self._variables = [use.variable for use in program.variant.uses if _is_large(use.variable)]
        self.state = State.WATCHING if self._variables else State.UNFIT
        self.packed: Program | None = None
        self._seen: dict[Variable, ref[Array]] = {}
        self._runs = self._interval = _FIRST_RUNS

    def current(self) -> Program:
        """The program of the next run."""
        if self.packed is not None:
            if _are_held(self.packed.variant.assumed):
                return self.packed
            self.packed = None
            self._watch_longer()
        elif self.state is State.WATCHING:
            self._runs -= 1
            if self._runs <= 0:
                self._compare()
        return self._program

    def _compare(self) -> None:
        """Build the second program if the variables are the same as at the last comparison."""
        self._runs = self._interval
        if any(variable.leased or variable.buffer is None for variable in self._variables):
            self._watch_longer()  # a step is writing
            return
        contents = {variable: variable.read() for variable in self._variables}
        if self._seen and all(seen() is contents[variable] for variable, seen in self._seen.items()):
            self.state, self._seen = State.BUILDING, {}
            self._build(contents, self._keep, self._on_built)
            return
        if self._seen:
            self._watch_longer()
        self._seen = {variable: ref(content) for variable, content in contents.items()}

    def _watch_longer(self) -> None:
        self.state = State.WATCHING
        self._seen = {}
        self._runs = self._interval = min(2 * self._interval, _MOST_RUNS)

    def _keep(self, program: Program) -> None:
        is_whole = len(program.variant.breaks) <= len(self._program.variant.breaks)
        if program.variant.assumed and is_whole:
            self.packed = program

    def _on_built(self, error: Exception | None) -> None:
        if self.packed is not None:
            self.state = State.READY
        elif isinstance(error, NoBuilderError):
            self._watch_longer()
        else:
            self.state = State.UNFIT


def _is_large(variable: Variable) -> bool:
    dims, dtype = variable.dims, variable.dtype.numpy
    if dims is None or len(dims) < 2 or dtype.kind != "f":
        return False
    return prod(dim or 0 for dim in dims) * dtype.itemsize >= LEAST_BYTES


def _are_held(contents: Iterable[tuple[Variable, Array]]) -> bool:
    """Whether variables still have these contents."""
    for variable, content in contents:  # noqa: SIM110 (a generator takes longer than most items do)
        if variable.buffer is not content:
            return False
    return True
