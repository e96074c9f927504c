"""Updates of optimizers that absorb their gradient, a matrix product, and the conditions that prevent it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.graph.kernels.kernel import ElementwiseKernel, LoopKernel
from aioexec.planning.layout.variant import ProgramRow, Variant
from tests.planning.test_layout import laid_out
from tests.tiers import constant, feed, graph, op, read, reference, resource

BATCH, INPUTS, OUTPUTS = 64, 300, 256
X, DY = np.zeros((BATCH, INPUTS), np.float32), np.zeros((BATCH, OUTPUTS), np.float32)


def product(x: Any, dy: Any, name: str = "gradient") -> Any:
    return op("MatMul", x, dy, transpose_a=True, name=name)


def descent(variable: Any, gradient: Any, rate: Any = None, name: str = "step") -> Any:
    rate = constant(0.5) if rate is None else rate
    return op("ResourceApplyGradientDescent", variable, rate, gradient, name=name)


def rows(variant: Variant) -> list[list[str]]:
    """For each row the nodes it does; those of a step that makes its gradient begin with that."""
    found = []
    for row in variant.rows:
        assert isinstance(row, ProgramRow)
        parts = row.parts or ((row.position, 0),)
        names = [variant.instructions[position].node.name for position, _ in parts]
        takes = isinstance(row.kernel, LoopKernel) and row.kernel.body.__name__ == "product_handed_over"
        assert takes == (names[-1].startswith("step") and len(names) == 2)
        found.append(names)
    return found


def test_a_step_makes_its_gradient():
    with graph():
        x, dy, variable = feed(X.shape), feed(DY.shape), resource([INPUTS, OUTPUTS])
        step = descent(variable, product(x, dy))

    variant = laid_out([], {x: X, dy: DY}, [step])

    assert rows(variant) == [["gradient", "step"]]
    assert variant.native == variant.total == 2
    assert variant.arena_bytes == 0  # there is no gradient
    (use,) = variant.uses
    assert use.in_place
    assert use.writes == ((0,),)


def test_a_variable_by_reference_is_one_like_any_other():
    with graph():
        x, dy, variable = feed(X.shape), feed(DY.shape), reference([INPUTS, OUTPUTS])
        step = op("ApplyGradientDescent", variable, constant(0.5), product(x, dy), name="step")

    assert rows(laid_out([], {x: X, dy: DY}, [step.op])) == [["gradient", "step"]]


def test_a_step_with_many_operands_makes_its_gradient():
    with graph():
        x, dy = feed(X.shape), feed(DY.shape)
        states = [resource([INPUTS, OUTPUTS]) for _ in range(4)]
        scalars = [constant(0.5) for _ in range(6)]
        step = op("ResourceApplyAdamWithAmsgrad", *states, *scalars, product(x, dy), name="step")

    assert rows(laid_out([], {x: X, dy: DY}, [step])) == [["gradient", "step"]]


def test_a_kernel_that_cannot_be_compiled_is_not_used():
    with graph():
        x, dy, variable = feed(X.shape), feed(DY.shape), resource([INPUTS, OUTPUTS])
        step = descent(variable, product(x, dy))
    (refused,) = (
        row.kernel for row in laid_out([], {x: X, dy: DY}, [step]).rows if isinstance(row, ProgramRow)
    )

    variant = laid_out([], {x: X, dy: DY}, [step], refused={refused})

    assert rows(variant) == [["gradient"], ["step"]]


def test_the_kernel_that_is_called_is_compiled_too():
    with graph():
        x, dy, variable = feed(X.shape), feed(DY.shape), resource([INPUTS, OUTPUTS])
        step = descent(variable, product(x, dy))

    kernels = laid_out([], {x: X, dy: DY}, [step]).kernels

    assert {type(kernel) for kernel in kernels} == {LoopKernel, ElementwiseKernel}


def test_what_stays_in_the_program_is_not_made_of_a_product_that_is_handed_over():
    with graph():
        x, dy, variable = feed(X.shape), feed(DY.shape), resource([INPUTS, OUTPUTS])
        scaled = op("Mul", product(x, dy), constant(0.5), name="scaled")
        norm = op("Sum", op("Square", scaled, name="square"), constant([0, 1], "int32"), name="norm")
        step = descent(variable, scaled)

    assert rows(laid_out([norm], {x: X, dy: DY}, [step]))[0] == ["gradient"]


def test_what_is_read_before_the_step_is_read_before_it():
    with graph() as made:
        x, dy, variable = feed(X.shape), feed(DY.shape), resource([INPUTS, OUTPUTS])
        gradient = product(x, dy)
        with made.control_dependencies([gradient.op]):
            back = op("MatMul", dy, read(variable), transpose_b=True, name="back")
        with made.control_dependencies([back.op]):
            step = descent(variable, gradient)

    variant = laid_out([back], {x: X, dy: DY}, [step])

    assert rows(variant) == [["back"], ["gradient", "step"]]


def test_a_gradient_with_another_use_is_stored():
    with graph():
        x, dy, variable = feed(X.shape), feed(DY.shape), resource([INPUTS, OUTPUTS])
        gradient = product(x, dy)
        step = descent(variable, gradient)
        norm = op("Sum", op("Square", gradient, name="square"), constant([0, 1], "int32"), name="norm")

    assert rows(laid_out([gradient], {x: X, dy: DY}, [step])) == [["gradient"], ["step"]]
    assert ["gradient"] in rows(laid_out([norm], {x: X, dy: DY}, [step]))


@pytest.mark.parametrize(
    ("batch", "inputs", "outputs"), [(129, INPUTS, OUTPUTS), (BATCH, 30, 20)], ids=["many terms", "small"]
)
def test_a_product_that_would_not_gain_is_a_row_of_its_own(batch, inputs, outputs):
    with graph():
        x, dy, variable = feed((batch, inputs)), feed((batch, outputs)), resource([inputs, outputs])
        step = descent(variable, product(x, dy))
        feeds = {x: np.zeros((batch, inputs), np.float32), dy: np.zeros((batch, outputs), np.float32)}

    assert rows(laid_out([], feeds, [step])) == [["gradient"], ["step"]]


def test_a_factor_that_is_the_variable_itself_is_not_written_while_it_is_read():
    left = np.zeros((300, 100), np.float64)
    with graph():
        x, variable = feed((100, 300), "float64"), resource((100, 300), "float64")
        gram = op("MatMul", x, read(variable, "float64"), transpose_b=True, name="gram")
        gradient = op("MatMul", gram, read(variable, "float64"), name="gradient")
        step = descent(variable, gradient, constant(0.5, "float64"))

    found = rows(laid_out([], {x: left.T.copy()}, [step]))

    assert found[-2:] == [["gradient"], ["step"]]


def test_a_factor_that_is_written_between_the_product_and_the_step_keeps_them_apart():
    with graph() as made:
        x, dy, variable = feed(X.shape), feed(DY.shape), resource([INPUTS, OUTPUTS])
        other = resource(X.shape)
        gradient = product(read(other), dy)
        with made.control_dependencies([gradient.op]):
            write = op("AssignAddVariableOp", other, x, dtype=dtypes.float32, name="write")
        with made.control_dependencies([write]):
            step = descent(variable, gradient)

    found = rows(laid_out([], {x: X, dy: DY}, [step]))

    assert found[-3:] == [["gradient"], ["write"], ["step"]]


def test_a_gradient_with_a_bias_is_no_product():
    with graph():
        x, dy, variable, bias = feed(X.shape), feed(DY.shape), resource([INPUTS, OUTPUTS]), feed([OUTPUTS])
        gradient = op("BiasAdd", product(x, dy), bias, name="biased")
        step = descent(variable, gradient)

    feeds = {x: X, dy: DY, bias: np.zeros(OUTPUTS, np.float32)}
    assert rows(laid_out([], feeds, [step])) == [["gradient", "biased"], ["step"]]
