"""Random programs on a TensorArray, built by the same code for aioexec and for TensorFlow's `compat.v1`."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

SIZES = (0, 0, 1, 2, 3)
SHAPES: tuple[list[int | None] | None, ...] = (None, None, [None], [2], [3])
READS = ("stack", "stack", "gather", "concat", "read", "twice", "gradient", "gradient", "late write")

FEEDS = {"x:0": np.ones(2, np.float32), "rows:0": np.arange(6, dtype=np.float32).reshape(3, 2)}


@dataclass(frozen=True, slots=True)
class ArrayProgram:
    """A program on one array: write elements, in a loop of so many rounds or one by one, then read.

    Attributes:
        shape, infers, clears, grows: arguments of the array.
        writes: indices of elements that are written one by one, before the loop.
        rounds: how often the loop writes, from element 0 on; None: there is no loop. `is_fed`: the step says how often.
        unstacks: write rows to all elements first.
        read: how elements are read, those at `indices` if it needs some.
        is_known: whether the shape of what is written is known statically.
    """

    size: int
    shape: list[int | None] | None
    infers: bool
    clears: bool
    grows: bool
    writes: list[int]
    rounds: int | None
    is_fed: bool
    unstacks: bool
    read: str
    indices: list[int]
    is_known: bool

    @property
    def feeds(self) -> dict[str, Any]:
        return {**FEEDS, "rounds:0": self.rounds or 0}


def drawn(seed: int) -> ArrayProgram:
    rng = random.Random(seed)
    size = rng.choice(SIZES)

    def index() -> int:
        return rng.randrange(max(size, 1) + (rng.random() < 0.1))

    return ArrayProgram(
        size=size,
        shape=rng.choice(SHAPES),
        infers=rng.random() < 0.6,
        clears=rng.random() < 0.5,
        grows=rng.random() < 0.15,
        writes=[index() for _ in range(rng.choice([0, 0, 1, 2, size]))],
        rounds=rng.choice([None, None, 0, 1, size]),
        is_fed=rng.random() < 0.5,
        unstacks=rng.random() < 0.1,
        read=rng.choice(READS),
        indices=[index() for _ in range(rng.choice([0, 1, 2, size]))],
        is_known=rng.random() < 0.6,
    )


def built(api: Any, program: ArrayProgram) -> list[Any]:
    """The tensors to fetch, in the default graph; `api` is aioexec, or TensorFlow's `compat.v1`."""
    x = api.placeholder(api.float32, [2] if program.is_known else None, name="x")
    rows = api.placeholder(api.float32, [3, 2] if program.is_known else None, name="rows")
    rounds = api.placeholder(api.int32, [], name="rounds")
    array = api.TensorArray(
        api.float32,
        program.size,
        dynamic_size=program.grows,
        clear_after_read=program.clears,
        infer_shape=program.infers,
        element_shape=program.shape,
    )
    if program.unstacks:
        array = array.unstack(rows)
    for index in program.writes:
        array = array.write(index, x * 2.0)
    if program.rounds is not None:
        _, array = api.while_loop(
            lambda i, array: i < (rounds if program.is_fed else program.rounds),
            lambda i, array: (i + 1, array.write(i, x * 3.0)),
            (api.constant(0), array),
            parallel_iterations=1,
        )
    return _READS[program.read](api, program, array, x)


def _gather(api: Any, program: ArrayProgram, array: Any, x: Any) -> list[Any]:
    indices = api.constant(program.indices, dtype=api.int32, shape=[len(program.indices)])
    return [array.gather(indices)]


def _twice(api: Any, program: ArrayProgram, array: Any, x: Any) -> list[Any]:
    first = array.stack()
    with api.control_dependencies([first]):
        return [first, array.read(0) if program.size else array.stack()]


def _gradient(api: Any, program: ArrayProgram, array: Any, x: Any) -> list[Any]:
    stacked = array.stack()
    return [stacked, *[each for each in api.gradients([stacked], [x]) if each is not None]]


def _late_write(api: Any, program: ArrayProgram, array: Any, x: Any) -> list[Any]:
    index = program.indices[0] if program.indices else 0
    first = array.read(index)
    with api.control_dependencies([first]):
        return [first, array.write(index, x).stack()]


_READS: dict[str, Any] = {
    "stack": lambda api, program, array, x: [array.stack()],
    "gather": _gather,
    "concat": lambda api, program, array, x: [array.concat()],
    "read": lambda api, program, array, x: [array.read(program.indices[0] if program.indices else 0)],
    "twice": _twice,
    "gradient": _gradient,
    "late write": _late_write,
}


def outcome(values: list[Any]) -> tuple[Any, ...]:
    """The results of a step, in a comparable form."""
    return tuple((np.shape(value), np.asarray(value).tolist()) for value in values)
