"""Gradients of conditionals and loops in graphs that TensorFlow built: the values of TensorFlow's gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.gradients.programs import PROGRAMS, Program

pytestmark = [pytest.mark.interop, pytest.mark.slow]

REFUSED = {"used_condition_value", "grads_of_loop_in_body"}
"""Programs TensorFlow does not differentiate: a value made by the condition, gradients of gradients of loops."""

POINTS = ([0.7, 1.1], [0.2, 0.3])
BROKEN_IN_FUNCTIONS = {"growing"}
"""TensorFlow fails on the gradient of its own functional form: it takes a variable for as long at first as at last."""

SHARED = [pytest.param(build, id=build.__name__) for build in PROGRAMS if build.__name__ not in REFUSED]


def recorded(tf: Any, build: Program, functional: bool) -> tuple[Any, list[Any]]:
    """The graph of a program as TensorFlow builds it, without gradients, and the gradients TensorFlow computes."""
    (tf.enable_control_flow_v2 if functional else tf.disable_control_flow_v2)()
    try:
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float64, [2], name="x")
            result = build(tf, x)
            parts = result if isinstance(result, list | tuple) else [result]
            total = tf.add_n([tf.reduce_sum(part) for part in parts], name="total")
            graph_def = graph.as_graph_def()
            gradient = tf.convert_to_tensor(tf.gradients(total, [x])[0])
            with tf.Session() as session:
                return graph_def, [session.run(gradient, {x: point}) for point in POINTS]
    finally:
        tf.disable_control_flow_v2()


async def differentiated_here(graph_def: Any) -> list[Any]:
    with ax.Graph().as_default():
        elements = ax.import_graph_def(graph_def, return_elements=["x:0", "total:0"], name="")
        assert elements is not None
        x, total = elements
        gradient = ax.convert_to_tensor(ax.gradients(total, [x])[0])
        async with ax.Session() as session:
            return [await session.run(gradient, {x: point}) for point in POINTS]


@pytest.mark.parametrize("build", SHARED)
async def test_gradients_of_imported_dataflow_are_those_of_tensorflow(tf, build):
    graph_def, expected = recorded(tf, build, functional=False)

    np.testing.assert_allclose(await differentiated_here(graph_def), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("build", SHARED)
async def test_gradients_of_imported_functions_are_those_of_tensorflow(tf, build):
    if build.__name__ in BROKEN_IN_FUNCTIONS:
        pytest.skip("TensorFlow's own gradient of it fails")
    graph_def, expected = recorded(tf, build, functional=True)

    np.testing.assert_allclose(await differentiated_here(graph_def), expected, rtol=1e-9, atol=1e-12)
