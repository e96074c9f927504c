"""The time of a formula over large arrays: Black-Scholes prices of calls and puts."""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import sessions
from bench.sessions import Graphed
from bench.workload import Case, Workload

QUESTION = __doc__
MEASURES = "time of a step"
CASES = [Case("4e6 options", size=4_000_000), Case("1e4 options", size=10_000)]
RATE, VOLATILITY = np.float32(0.1), np.float32(0.2)


def fed(case: Case) -> list[sessions.Array]:
    """Prices, strikes and years."""
    random = np.random.default_rng(0)
    ranges = (10, 50), (10, 50), (1, 2)
    return [random.uniform(low, high, case.size).astype(np.float32) for low, high in ranges]


def priced(inputs: Any, log: Any, sqrt: Any, exp: Any, erf: Any) -> Any:
    """Calls and puts, with the operators of whatever the inputs are."""
    price, strike, years = inputs
    deviation = VOLATILITY * sqrt(years)
    first = (log(price / strike) + (RATE + VOLATILITY * VOLATILITY * np.float32(0.5)) * years) / deviation
    second = first - deviation
    discounted = strike * exp(-RATE * years)

    def cumulative(x: Any) -> Any:
        return np.float32(0.5) + np.float32(0.5) * erf(x * np.float32(np.sqrt(0.5)))

    call = price * cumulative(first) - discounted * cumulative(second)
    return call, call + discounted - price


def build(lib: Any, case: Case) -> Graphed:
    inputs = [lib.placeholder(lib.float32, [case.size]) for _ in range(3)]
    outputs = priced(inputs, lib.log, lib.sqrt, lib.exp, lib.erf)
    return Graphed(outputs, dict(zip(inputs, fed(case), strict=True)))


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await sessions.aioexec(build, case, stack)


def tensorflow(case: Case) -> Workload:
    return sessions.tensorflow(build, case)


def jax(case: Case) -> Workload:
    import jax.numpy as jnp
    from jax.scipy.special import erf

    def step(*inputs: Any) -> Any:
        return priced(inputs, jnp.log, jnp.sqrt, jnp.exp, erf)

    return sessions.jax(step, *fed(case))


def torch(case: Case) -> Workload:
    import torch as library

    inputs = [library.from_numpy(array) for array in fed(case)]

    def step() -> Any:
        with library.inference_mode():
            outputs = priced(inputs, library.log, library.sqrt, library.exp, library.erf)
            return [output.numpy() for output in outputs]

    return Workload(step)
