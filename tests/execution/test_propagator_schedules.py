"""The propagator in any order of events: random programs compute what Python computes, whatever ends when.

Programs are conditionals and loops, nested, over a few variables: data-dependent conditions, loops that run no iteration, loops
on branches that are not taken, variables that are the same in each iteration, several exits, iterations that overlap.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import aioexec as ax
from aioexec import dtypes
from aioexec.planning.items import Kind
from aioexec.planning.plan import Partition
from tests.execution.schedules import Schedule, partition_of
from tests.tiers import feed, graph

VARIABLES = 4
MODULUS = 97


@dataclass(frozen=True)
class Assign:
    target: int
    formula: int
    left: int
    right: int


@dataclass(frozen=True)
class If:
    left: int
    right: int
    then: Block
    otherwise: Block


@dataclass(frozen=True)
class While:
    """Runs while its counter is below a variable, and below `limit`."""

    bound: int
    limit: int
    parallel: int
    body: Block


Statement = Assign | If | While
Block = tuple[Statement, ...]


def random_block(choose: random.Random, depth: int) -> Block:
    return tuple(random_statement(choose, depth) for _ in range(choose.randrange(1, 3)))


def random_statement(choose: random.Random, depth: int) -> Statement:
    def variable() -> int:
        return choose.randrange(VARIABLES)

    kind = choose.choice([Assign, If, While]) if depth else Assign
    if kind is Assign:
        return Assign(variable(), choose.randrange(len(FORMULAS)), variable(), variable())
    if kind is If:
        return If(variable(), variable(), random_block(choose, depth - 1), random_block(choose, depth - 1))
    return While(variable(), choose.randrange(5), choose.choice([1, 2, 10]), random_block(choose, depth - 1))


def written(block: Block) -> list[int]:
    """The variables a block may change."""
    found: set[int] = set()
    for statement in block:
        if isinstance(statement, Assign):
            found.add(statement.target)
        elif isinstance(statement, If):
            found.update(written(statement.then), written(statement.otherwise))
        else:
            found.update(written(statement.body))
    return sorted(found)


FORMULAS: Sequence[Any] = (
    lambda x, y: (x + y) % MODULUS,
    lambda x, y: (x * y + 1) % MODULUS,
    lambda x, y: (x - y) % 5,
    lambda x, y: x,
)


def computed(block: Block, values: list[int]) -> list[int]:
    """A program in Python."""
    values = list(values)
    for statement in block:
        if isinstance(statement, Assign):
            operands = values[statement.left], values[statement.right]
            values[statement.target] = FORMULAS[statement.formula](*operands)
        elif isinstance(statement, If):
            holds = values[statement.left] < values[statement.right]
            values = computed(statement.then if holds else statement.otherwise, values)
        else:
            counter = 0
            while counter < min(values[statement.bound], statement.limit):
                values = computed(statement.body, values)
                counter += 1
    return values


def built(block: Block, values: list[Any]) -> list[Any]:
    """A program as a graph."""
    values = list(values)
    for statement in block:
        if isinstance(statement, Assign):
            operands = values[statement.left], values[statement.right]
            values[statement.target] = FORMULAS[statement.formula](*operands)
        elif isinstance(statement, If):
            values = built_if(statement, values)
        else:
            values = built_while(statement, values)
    return values


def built_if(statement: If, values: list[Any]) -> list[Any]:
    changed = sorted({*written(statement.then), *written(statement.otherwise)})

    def branch(block: Block) -> list[Any]:
        after = built(block, values)
        return [ax.identity(after[k]) for k in changed]

    results = ax.cond(
        values[statement.left] < values[statement.right],
        lambda: branch(statement.then),
        lambda: branch(statement.otherwise),
        strict=True,
    )
    return replaced(values, changed, results)


def built_while(statement: While, values: list[Any]) -> list[Any]:
    changed = written(statement.body)

    def goes_on(counter: Any, *variables: Any) -> Any:
        bound = replaced(values, changed, variables)[statement.bound]
        return counter < ax.minimum(bound, statement.limit)

    def step(counter: Any, *variables: Any) -> Any:
        after = built(statement.body, replaced(values, changed, variables))
        return [counter + 1, *(after[k] for k in changed)]

    start = [ax.constant(0), *(values[k] for k in changed)]
    results = ax.while_loop(goes_on, step, start, parallel_iterations=statement.parallel)
    return replaced(values, changed, results[1:])


def replaced(values: list[Any], places: Sequence[int], by: Sequence[Any]) -> list[Any]:
    after = list(values)
    for place, value in zip(places, by, strict=True):
        after[place] = value
    return after


class Program:
    """A random program and its plan; the last variable is a constant at first, the others are fed."""

    CONSTANT = 3

    def __init__(self, seed: int, depth: int) -> None:
        choose = random.Random(seed)
        self.block = random_block(choose, depth)
        with graph():
            feeds = [feed([], "int32") for _ in range(VARIABLES - 1)]
            start = [*feeds, ax.constant(self.CONSTANT, dtypes.int32)]
            fetches = [ax.identity(value) for value in built(self.block, start)]
        self.partition = partition_of(fetches, feeds, is_partial=choose.random() < 0.3)

    def check(self, choose: random.Random) -> int:
        """Run one schedule; how many events it had."""
        feeds = [choose.randrange(8) for _ in range(VARIABLES - 1)]
        schedule = Schedule(self.partition, feeds)
        schedule.run(choose)
        schedule.check_end()
        expected = computed(self.block, [*feeds, self.CONSTANT])
        assert [int(value) for value in schedule.fetched()] == expected, schedule.story
        return len(schedule.story)


def kinds(partition: Partition) -> set[Kind]:
    return {item.kind for item in partition.items}


@pytest.mark.slow
@pytest.mark.behaviour(69, 70, 71, 72, 73)
def test_random_programs_compute_what_python_computes_in_any_order_of_events():
    programs = [Program(seed, depth=2) for seed in range(60)]
    choose = random.Random(7)

    events = sum(program.check(choose) for program in programs for _ in range(25))

    assert events > 30_000
    control = {Kind.SWITCH, Kind.MERGE, Kind.ENTER, Kind.EXIT, Kind.NEXT_ITERATION}
    assert set.union(*(kinds(program.partition) for program in programs)) >= control


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_thousands_of_random_programs_in_any_order_of_events():
    for seed in range(1000, 4000):
        program, choose = Program(seed, depth=3), random.Random(seed)
        for _ in range(10):
            program.check(choose)
