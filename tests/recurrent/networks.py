"""Recurrent networks in NumPy, and running a graph once with given variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import aioexec as ax

Step = Callable[[Any, Any], tuple[Any, Any]]
"""One step of a cell: inputs and state to output and new state."""


def drawn(seed: int, *shape: int) -> Any:
    """The same values each time."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def weights(variables: dict[str, Any]) -> dict[str, Any]:
    """A value for each variable, by the last parts of its name."""
    return {name: drawn(k + 100, *shape) for k, (name, shape) in enumerate(sorted(variables.items()))}


async def results(fetches: Any, given: dict[str, Any], feeds: Any = None, jit: str = "off") -> Any:
    """Run fetches of the default graph; each variable has the value in `given` whose key its name ends with."""
    config = ax.ConfigProto()
    config.aioexec.jit = jit
    async with ax.Session(config=config) as session:
        for variable in ax.global_variables():
            (value,) = [value for key, value in given.items() if variable.op.name.endswith(key)]
            await session.run(variable.assign(value))
        return await session.run(fetches, feeds)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def beside(x: Any, h: Any) -> Any:
    return np.concatenate([x, h], axis=1)


def basic_step(given: dict[str, Any]) -> Step:
    def step(x: Any, h: Any) -> tuple[Any, Any]:
        output = np.tanh(beside(x, h) @ given["kernel"] + given["bias"])
        return output, output

    return step


def gru_step(given: dict[str, Any]) -> Step:
    def step(x: Any, h: Any) -> tuple[Any, Any]:
        r, u = np.split(sigmoid(beside(x, h) @ given["gates/kernel"] + given["gates/bias"]), 2, axis=1)
        candidate = np.tanh(beside(x, r * h) @ given["candidate/kernel"] + given["candidate/bias"])
        output = u * h + (1 - u) * candidate
        return output, output

    return step


def lstm_step(given: dict[str, Any], forget_bias: float = 1.0) -> Step:
    def step(x: Any, state: Any) -> tuple[Any, Any]:
        c, h = state
        i, j, f, o = np.split(beside(x, h) @ given["kernel"] + given["bias"], 4, axis=1)
        c = c * sigmoid(f + forget_bias) + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
        return h, (c, h)

    return step


def unrolled(step: Step, x: Any, state: Any, lengths: Any = None) -> tuple[Any, Any]:
    """Run a step over `x`, `[batch, steps, depth]`; the outputs `[batch, steps, units]` and the final state, a tuple."""
    is_tuple = isinstance(state, tuple)
    outputs = []
    for time in range(x.shape[1]):
        output, new = step(x[:, time], state)
        if lengths is not None:
            ended = (time >= np.asarray(lengths))[:, None]
            output = np.where(ended, 0, output)
            new = (
                tuple(np.where(ended, old, part) for old, part in zip(state, new, strict=True))
                if is_tuple
                else np.where(ended, state, new)
            )
        outputs.append(output)
        state = new
    return np.stack(outputs, axis=1), state


def close(got: Any, expected: Any) -> bool:
    """Whether values, or tuples of values, agree up to rounding."""
    if isinstance(expected, tuple):
        return len(got) == len(expected) and all(map(close, got, expected))
    return np.shape(got) == np.shape(expected) and np.allclose(got, expected, rtol=1e-5, atol=1e-6)
