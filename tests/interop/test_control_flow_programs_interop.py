"""Random conditionals and loops, and their gradients: built here, and imported from TensorFlow with and without functions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings

import aioexec as ax
from tests.control_flow_programs import COUNTER, INPUTS, Body, built, programs, small_programs

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

WAYS = ((-1, "off"), (0, "off"), (0, "eager"))
"""Level of optimisation (below 0 loops stay in pieces) and `jit`."""


@dataclass(frozen=True)
class Made:
    """A graph with a program and its gradients; tensors by name."""

    graph_def: Any
    feeds: list[str]
    fetches: list[str]
    init: str


def differentiated(lib: Any, program: Body) -> Made:
    """Build a program with either package, and the gradient of its vectors by the vector it begins with."""
    with lib.Graph().as_default() as graph:
        feeds, results, counter = built(lib, program)
        vectors = [each for each in results if each.dtype == lib.float32]
        (gradient,) = lib.gradients([lib.reduce_sum(each * each) for each in vectors], [feeds[2]])
        fetches = [*results, *([] if gradient is None else [gradient])]
        content = graph.as_graph_def().SerializeToString()
    fed, fetched = ([each.name for each in tensors] for tensors in (feeds, fetches))
    return Made(ax.GraphDef.FromString(content), fed, fetched, counter.initializer.name)


def results_there(tf: Any, made: Made, inputs: Any) -> list[Any]:
    """Values of the fetches and what was counted, in TensorFlow."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.GraphDef.FromString(made.graph_def.SerializeToString()), name="")
        with tf.Session(graph=graph) as session:
            session.run(made.init)
            values = session.run(made.fetches, dict(zip(made.feeds, inputs, strict=True)))
            return [*values, session.run(f"{COUNTER}/Read/ReadVariableOp:0")]


async def results_here(made: Made, inputs: Any, level: Any, jit: str) -> list[Any]:
    """The same, here."""
    config = ax.ConfigProto()
    config.graph_options.optimizer_options.opt_level = level
    config.aioexec.jit = jit
    with ax.Graph().as_default() as graph:
        ax.import_graph_def(made.graph_def, name="")
    async with ax.Session(graph=graph, config=config) as session:
        await session.run(made.init)
        values = await session.run(made.fetches, dict(zip(made.feeds, inputs, strict=True)))
        return [*values, await session.run(f"{COUNTER}/Read/ReadVariableOp:0")]


def check(tf: Any, program: Body, inputs: Any) -> None:
    tf.disable_control_flow_v2()
    of_nodes = differentiated(tf, program)
    try:
        expected = results_there(tf, of_nodes, inputs)
    except tf.errors.InvalidArgumentError as error:  # a gradient of TensorFlow's that nothing reaches is dead
        if "does not have value" not in error.message:
            raise
        reject()
    tf.enable_control_flow_v2()
    try:
        of_functions = differentiated(tf, program)
    finally:
        tf.disable_control_flow_v2()
    own = differentiated(ax, program)
    for made in (of_nodes, of_functions, own):
        for level, jit in WAYS:
            actual = asyncio.run(results_here(made, inputs, level, jit))
            assert len(actual) == len(expected)
            for got, wanted in zip(actual, expected, strict=True):
                assert got.dtype == wanted.dtype
                np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4, err_msg=f"{level} {jit}")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs(blocks=3), INPUTS)
def test_random_programs_and_their_gradients_compute_what_tensorflow_computes(tf, program: Body, inputs: Any):
    check(tf, program, inputs)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(small_programs(), INPUTS)
def test_small_random_programs_and_their_gradients_compute_what_tensorflow_computes(
    tf, program: Body, inputs: Any
):
    check(tf, program, inputs)


@pytest.mark.sweep
@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs(blocks=7, depth=4), INPUTS)
def test_many_large_random_programs_and_their_gradients(tf, program: Body, inputs: Any):
    check(tf, program, inputs)
