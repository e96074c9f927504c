"""Random programs of nested conditionals and loops over small tensors, and their expected values.

A program is data: Hypothesis draws it, `build` makes a graph of it with either package (aioexec or TensorFlow, which have the
same names), `evaluate` computes it with NumPy. Predicates depend on integers only, so that no rounding decides a branch;
numbers stay small. Every value is used, so that nothing is pruned and each `tick` counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np
from hypothesis import strategies as st

SIZE = 3
"""How many numbers a program has for a vector; longer ones repeat them."""

MATRIX = np.array([[0.5, -0.25, 0.0], [0.125, 0.5, -0.5], [0.0, 0.25, -0.75]], np.float32)

COUNTER = "counter"


@dataclass(frozen=True)
class Scope:
    """What the names in a body stand for, innermost last: numbers, or tensors with what builds them.

    Attributes:
        ticks: counts: a list of one number, or the variable.
        length: of every vector, a multiple of SIZE.
    """

    integers: tuple[Any, ...]
    vectors: tuple[Any, ...]
    ticks: Any
    length: int

    def extended(self, integers: Any, vectors: Any) -> Scope:
        return Scope((*self.integers, *integers), (*self.vectors, *vectors), self.ticks, self.length)

    def vector(self, numbers: Any) -> np.ndarray:
        return np.resize(np.array(numbers, np.float32), self.length)


@dataclass(frozen=True)
class Operation:
    """A formula over integers and vectors, once for graphs and once for NumPy.

    Attributes:
        takes: for each argument whether it is an integer ("i") or a vector ("v").
        build: gets the package, then tensors.
        compute: gets arrays.
    """

    takes: str
    build: Callable[..., Any]
    compute: Callable[..., Any]


def same(takes: str, formula: Callable[..., Any]) -> Operation:
    """An operation that is written alike for tensors and arrays."""
    return Operation(takes, lambda lib, *arguments: formula(*arguments), formula)


INTEGERS: dict[str, Operation] = {
    "add": same("ii", lambda a, b: a + b),
    "subtract": same("ii", lambda a, b: a - b),
    "product": same("ii", lambda a, b: (a % 13) * (b % 7)),
    "larger": Operation("ii", lambda lib, a, b: lib.maximum(a, b), np.maximum),
    "smaller": Operation("ii", lambda lib, a, b: lib.minimum(a, b), np.minimum),
}

VECTORS: dict[str, Operation] = {
    "mean": same("vv", lambda a, b: (a + b) * np.float32(0.5)),
    "difference": same("vv", lambda a, b: (a - b) * np.float32(0.5)),
    "shifted": same("v", lambda a: a + np.float32(0.25)),
    "nudged": Operation(
        "vv", lambda lib, a, b: a + lib.clip_by_value(b, -1.0, 1.0), lambda a, b: a + np.clip(b, -1.0, 1.0)
    ),
    "squashed": Operation("v", lambda lib, a: lib.tanh(a), np.tanh),
    "scaled": Operation(
        "vi",
        lambda lib, a, k: a * (lib.cast(k % 5, lib.float32) * 0.25),
        lambda a, k: a * (np.float32(k % 5) * np.float32(0.25)),
    ),
    "larger": Operation("vv", lambda lib, a, b: lib.maximum(a, b), np.maximum),
    "gated": Operation("vv", lambda lib, a, b: a * lib.sigmoid(b), lambda a, b: a / (1 + np.exp(-b))),
    "turned": Operation(
        "v",
        lambda lib, a: lib.reshape(lib.matmul(lib.reshape(a, [-1, SIZE]), lib.constant(MATRIX)), [-1]),
        lambda a: (a.reshape(-1, SIZE) @ MATRIX).reshape(-1),
    ),
    "spread": Operation(
        "v",
        lambda lib, a: lib.fill(lib.shape(a), lib.reduce_mean(a)),
        lambda a: np.full(len(a), a.mean(), np.float32),
    ),
    "picked": Operation(
        "vi",
        lambda lib, a, k: a - lib.gather(a, k % SIZE),
        lambda a, k: a - a[k % SIZE],
    ),
    "rolled": Operation(
        "v",
        lambda lib, a: lib.concat([a[1:], a[:1]], 0),
        lambda a: np.concatenate([a[1:], a[:1]]),
    ),
}

SINGLE = VECTORS | {
    "sum": same("vv", lambda a, b: a + b),
    "rest": same("vv", lambda a, b: a - b),
}
"""Also those that are one node each, for programs that do not go round often enough for numbers to grow large."""


@dataclass(frozen=True)
class Expression:
    """An operation of expressions; a name of the scope; a constant; a tick (an integer, and one more counted)."""

    kind: str
    arguments: tuple[Any, ...]

    def build(self, lib: Any, scope: Scope) -> Any:
        name, arguments = self.kind[2:], self.arguments
        known = scope.integers if self.kind[0] == "i" else scope.vectors
        if name == "name":
            return known[arguments[0] % len(known)]
        if name == "constant":
            return lib.constant(*arguments) if self.kind[0] == "i" else lib.constant(scope.vector(arguments))
        built = [each.build(lib, scope) for each in arguments]
        if name == "tick":
            with lib.control_dependencies([scope.ticks.assign_add(1)]):
                return lib.identity(built[0])
        table = INTEGERS if self.kind[0] == "i" else SINGLE
        return table[name].build(lib, *built)

    def evaluate(self, scope: Scope) -> Any:
        name, arguments = self.kind[2:], self.arguments
        known = scope.integers if self.kind[0] == "i" else scope.vectors
        if name == "name":
            return known[arguments[0] % len(known)]
        if name == "constant":
            return np.int32(arguments[0]) if self.kind[0] == "i" else scope.vector(arguments)
        computed = [each.evaluate(scope) for each in arguments]
        if name == "tick":
            scope.ticks[0] += 1
            return computed[0]
        table = INTEGERS if self.kind[0] == "i" else SINGLE
        return table[name].compute(*computed)


@dataclass(frozen=True)
class Body:
    """Blocks one after the other, each of which adds its results to the scope, then the results of the whole."""

    blocks: tuple[Conditional | Loop, ...]
    integers: tuple[Expression, ...]
    vectors: tuple[Expression, ...]

    def build(self, lib: Any, scope: Scope) -> tuple[list[Any], list[Any]]:
        return self._results(
            scope, lambda block, now: block.build(lib, now), lambda each, now: each.build(lib, now)
        )

    def evaluate(self, scope: Scope) -> tuple[list[Any], list[Any]]:
        return self._results(
            scope, lambda block, now: block.evaluate(now), lambda each, now: each.evaluate(now)
        )

    def _results(self, scope: Scope, block_results: Any, result: Any) -> tuple[list[Any], list[Any]]:
        inner = scope
        for block in self.blocks:
            inner = inner.extended(*block_results(block, inner))
        integers = [result(each, inner) for each in self.integers]
        vectors = [result(each, inner) for each in self.vectors]
        # what the blocks put out is used, whether or not the expressions look at it
        integers[0] = reduce(lambda a, b: a + b, inner.integers[len(scope.integers) :], integers[0])
        added = inner.vectors[len(scope.vectors) :]
        vectors[0] = reduce(lambda a, b: (a + b) * np.float32(0.5), added, vectors[0])
        return integers, vectors


@dataclass(frozen=True)
class Conditional:
    """One of two bodies with as many results."""

    left: Expression
    right: Expression
    true: Body
    false: Body

    def build(self, lib: Any, scope: Scope) -> tuple[Any, Any]:
        def branch(body: Body) -> Callable[[], list[Any]]:
            def results() -> list[Any]:
                integers, vectors = body.build(lib, scope)
                return [lib.identity(each) for each in (*integers, *vectors)]

            return results

        pred = lib.less(self.left.build(lib, scope) % 5, self.right.build(lib, scope) % 5)
        found = lib.cond(pred, branch(self.true), branch(self.false))
        return split(found, len(self.true.integers))

    def evaluate(self, scope: Scope) -> tuple[Any, Any]:
        is_true = self.left.evaluate(scope) % 5 < self.right.evaluate(scope) % 5
        return (self.true if is_true else self.false).evaluate(scope)


@dataclass(frozen=True)
class Loop:
    """A body that is run again and again, up to four times, and not once the first integer is 3 modulo `until`.

    Attributes:
        integers, vectors: what the variables of the loop begin with; the body gives the next ones.
    """

    rounds: Expression
    until: int
    integers: tuple[Expression, ...]
    vectors: tuple[Expression, ...]
    body: Body

    def build(self, lib: Any, scope: Scope) -> tuple[Any, Any]:
        count = len(self.integers)
        rounds = self.rounds.build(lib, scope) % 5
        first = [each.build(lib, scope) for each in (*self.integers, *self.vectors)]

        def goes_on(k: Any, *state: Any) -> Any:
            return lib.logical_and(k < rounds, lib.not_equal(state[0] % self.until, 3))

        def following(k: Any, *state: Any) -> list[Any]:
            after = k + 1  # first, so that what is last in a round is any operation
            integers, vectors = self.body.build(lib, scope.extended(*split(list(state), count)))
            return [after, *integers, *vectors]

        found = lib.while_loop(goes_on, following, [lib.constant(0), *first])
        return split(list(found)[1:], count)

    def evaluate(self, scope: Scope) -> tuple[Any, Any]:
        rounds, k = self.rounds.evaluate(scope) % 5, 0
        integers = [each.evaluate(scope) for each in self.integers]
        vectors = [each.evaluate(scope) for each in self.vectors]
        while k < rounds and integers[0] % self.until != 3:
            integers, vectors = self.body.evaluate(scope.extended(integers, vectors))
            k += 1
        return integers, vectors


def split(values: list[Any], count: int) -> tuple[list[Any], list[Any]]:
    return list(values[:count]), list(values[count:])


# Drawing: one small choice after the other, so that programs are drawn fast, and shrink


@cache
def below(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


class Drawing:
    """Draws one program of at most `blocks` conditionals and loops."""

    def __init__(self, draw: Any, blocks: int) -> None:
        self._draw = draw
        self._blocks = blocks

    def _below(self, count: int) -> int:
        drawn: int = self._draw(below(count))
        return drawn

    def body(self, depth: int, integers: int, vectors: int) -> Body:
        """A body with so many results, its blocks nested no deeper than `depth`."""
        blocks = []
        while depth and self._blocks and self._below(3):
            self._blocks -= 1
            blocks.append(self._block(depth))
        return Body(tuple(blocks), self._expressions("i", integers), self._expressions("v", vectors))

    def _block(self, depth: int) -> Conditional | Loop:
        counts = 1 + self._below(2), 1 + self._below(2)
        if self._below(2):
            left, right = self._expressions("i", 2)
            return Conditional(left, right, self.body(depth - 1, *counts), self.body(depth - 1, *counts))
        first = self._expressions("i", counts[0]), self._expressions("v", counts[1])
        (rounds,) = self._expressions("i", 1)
        return Loop(rounds, (5, 1000)[self._below(2)], *first, self.body(depth - 1, *counts))

    def _expressions(self, kind: str, count: int) -> tuple[Expression, ...]:
        return tuple(self._expression(kind, 1 + self._below(2)) for _ in range(count))

    def _expression(self, kind: str, size: int) -> Expression:
        choice = self._below(5)
        if choice < 2 or (size == 0 and choice > 2):
            return self._name(kind)
        if choice == 2:
            numbers = (-3, 1, 9) if kind == "i" else (-0.5, 0.25, 1.0)
            return Expression(
                f"{kind}.constant", tuple(numbers[self._below(3)] for _ in range(1 if kind == "i" else SIZE))
            )
        table = INTEGERS if kind == "i" else VECTORS
        return self._operation(kind, table, lambda each: self._expression(each, size - 1))

    def _operation(
        self, kind: str, table: dict[str, Operation], argument: Callable[[str], Expression]
    ) -> Expression:
        names = [*table, *(["tick"] if kind == "i" else [])]
        name = names[self._below(len(names))]
        takes = "i" if name == "tick" else table[name].takes
        return Expression(f"{kind}.{name}", tuple(argument(each) for each in takes))

    def _name(self, kind: str) -> Expression:
        return Expression(f"{kind}.name", (self._below(9),))

    def small(self) -> Body:
        """A loop of four rounds, or a conditional: two vectors, handed on or made by one operation, perhaps of each other."""

        def near(kind: str, *made: Expression) -> Expression:
            if made and self._below(3) == 0:
                return made[0]
            known = (0, 1, 2) if kind == "i" else (1, 3, 4)
            return Expression(f"{kind}.name", (known[self._below(3)],))

        def vector(*made: Expression) -> Expression:
            if self._below(2):
                return near("v", *made)
            return self._operation("v", SINGLE, lambda kind: near(kind, *(made if kind == "v" else ())))

        def body() -> Body:
            first = vector()
            return Body((), (self._operation("i", INTEGERS, near),), (first, vector(first)))

        if self._below(2):
            block: Loop | Conditional = Conditional(near("i"), near("i"), body(), body())
        else:
            given, rounds = Expression("v.name", (0,)), Expression("i.constant", (9,))
            block = Loop(rounds, 1000, (near("i"),), (given, given), body())
        return Body((block,), (near("i"),), (Expression("v.name", (3,)),))


@st.composite
def programs(draw: Any, blocks: int = 5, depth: int = 3) -> Body:
    """Programs of so many conditionals and loops, nested no deeper than `depth`."""
    return Drawing(draw, blocks).body(depth, 1, 2)


@st.composite
def small_programs(draw: Any) -> Body:
    """Programs of one loop or conditional; see `Drawing.small`."""
    return Drawing(draw, 0).small()


INPUTS = st.tuples(
    st.integers(-20, 20),
    st.integers(0, 9),
    st.lists(st.sampled_from([-1.5, -0.5, 0.0, 0.5, 1.0, 2.0]), min_size=SIZE, max_size=SIZE),
)
"""Two integers and a vector for a program to begin with."""


MADE = tuple(Expression(f"v.{name}", (Expression("v.name", (0,)),)) for name in ("squashed", "turned"))
"""Vectors that every program makes first of the given one, and may use anywhere."""


def evaluated(program: Body, inputs: Any, length: int = SIZE) -> tuple[list[Any], int]:
    """The values that a program computes for vectors of this length, and the number of its ticks."""
    first, second, numbers = inputs
    scope = Scope((np.int32(first), np.int32(second)), (), [0], length)
    scope = scope.extended((), (scope.vector(numbers),))
    with np.errstate(over="ignore"):
        integers, vectors = program.evaluate(scope.extended((), [each.evaluate(scope) for each in MADE]))
    return [*integers, *vectors], scope.ticks[0]


def built(lib: Any, program: Body, length: int = SIZE) -> tuple[list[Any], list[Any], Any]:
    """Placeholders, results, and the variable that counts, in the default graph of either package."""
    feeds = [
        lib.placeholder(lib.int32, [], name="first"),
        lib.placeholder(lib.int32, [], name="second"),
        lib.placeholder(lib.float32, [length], name="vector"),
    ]
    counter = lib.Variable(0, name=COUNTER, use_resource=True, trainable=False)
    scope = Scope(tuple(feeds[:2]), (feeds[2],), counter, length)
    integers, vectors = program.build(lib, scope.extended((), [each.build(lib, scope) for each in MADE]))
    return feeds, [*integers, *vectors], counter
