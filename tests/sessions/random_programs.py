"""Random integer programs, built twice: as a graph, and as Python functions that compute the expected values."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

import aioexec as ax

Environment = Mapping[Any, Any]
"""Values of the placeholders by number, and of the variables of each loop by its own key."""
Meaning = Callable[[Environment], int]
Term = tuple[Any, Meaning]
"""A tensor, and its value."""

_CPUS = ("/cpu:0", "/cpu:1")
_DEEPEST = 2  # conditionals and loops inside each other


def _wrapped(value: int) -> int:
    """A value wrapped to 32 bits."""
    return (value + 2**31) % 2**32 - 2**31


async def _halved_later(value: Any) -> Any:
    await asyncio.sleep(0)
    return np.int32(value // 2)


def _halved(value: Any) -> Any:
    return np.int32(value // 2)


class Program:
    """A program of one seed: arithmetic, Python nodes, conditionals and loops inside each other, here and there on a device.

    Args:
        devices: those on which some of the nodes are placed.

    Attributes:
        feeds: its placeholders.
        outputs: what is fetched, with its meaning.
    """

    def __init__(self, random: Random, devices: Sequence[str] = _CPUS) -> None:
        self._random = random
        self._devices = devices
        self._depth = 0
        self.feeds = [ax.placeholder(ax.int32, []) for _ in range(3)]
        self._inputs: list[Term] = [(tensor, self._fed(k)) for k, tensor in enumerate(self.feeds)]
        self.outputs = [self._term(self._inputs, 5) for _ in range(random.randrange(1, 5))]

    @staticmethod
    def _fed(number: int) -> Meaning:
        return lambda environment: int(environment[number])

    def _term(self, known: list[Term], size: int) -> Term:
        if size <= 0 or self._random.random() < 0.1:
            return self._random.choice(known)
        kinds = [self._sum, self._product, self._largest, self._python, self._constant]
        if self._depth < _DEEPEST:
            kinds += [self._conditional, self._conditional, self._loop]
        with self._somewhere():
            return self._random.choice(kinds)(known, size - 1)

    def _somewhere(self) -> contextlib.AbstractContextManager[Any]:
        if self._random.random() < 0.6:
            return contextlib.nullcontext()
        return ax.device(self._devices[self._random.randrange(len(self._devices))])

    def _sum(self, known: list[Term], size: int) -> Term:
        (a, a_means), (b, b_means) = self._term(known, size), self._term(known, size)
        return a + b, lambda environment: _wrapped(a_means(environment) + b_means(environment))

    def _product(self, known: list[Term], size: int) -> Term:
        (a, a_means), (b, b_means) = self._term(known, size), self._term(known, size)
        return (a % 97) * (
            b % 89
        ), lambda environment: (a_means(environment) % 97) * (b_means(environment) % 89)

    def _largest(self, known: list[Term], size: int) -> Term:
        (a, a_means), (b, b_means) = self._term(known, size), self._term(known, size)
        return ax.maximum(a, b), lambda environment: max(a_means(environment), b_means(environment))

    def _constant(self, known: list[Term], size: int) -> Term:
        value = self._random.randrange(-50, 50)
        return ax.constant(value), lambda environment: value

    def _python(self, known: list[Term], size: int) -> Term:
        tensor, means = self._term(known, size)
        halved = ax.py_func(self._random.choice([_halved, _halved_later]), [tensor], ax.int32)
        halved.set_shape([])
        return halved, lambda environment: means(environment) // 2

    def _conditional(self, known: list[Term], size: int) -> Term:
        tested, tested_means = self._term(known, size)
        bound = self._random.randrange(-5, 5)
        means: dict[bool, Meaning] = {}

        def branch(taken: bool) -> Any:
            tensor, means[taken] = self._term(known, size - 1)
            return tensor

        self._depth += 1
        result = ax.cond(tested > bound, lambda: branch(True), lambda: branch(False))
        self._depth -= 1
        return result, lambda environment: means[tested_means(environment) > bound](environment)

    def _loop(self, known: list[Term], size: int) -> Term:
        rounds, key = self._random.randrange(5), object()
        start, start_means = self._term(known, size - 1)
        step: list[Meaning] = []

        def body(count: Any, value: Any) -> Any:
            inside: list[Term] = [
                *known,
                (count, lambda environment: int(environment[key][0])),
                (value, lambda environment: int(environment[key][1])),
            ]
            result, means = self._term(inside, size - 1)
            step.append(means)
            return count + 1, result

        def meaning(environment: Environment) -> int:
            value = start_means(environment)
            for k in range(rounds):
                value = step[0]({**environment, key: (k, value)})
            return value

        self._depth += 1
        parallel = self._random.choice([1, 2, 10])
        _, result = ax.while_loop(
            lambda count, value: count < rounds, body, [ax.constant(0), start], parallel_iterations=parallel
        )
        self._depth -= 1
        return result, meaning
