"""Epilogue fusion: the operations that a convolution applies to its output, and the conditions that prevent it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.graph.kernels.epilogue import ADDS_BIAS, CALLS, CLIPS, RECTIFIES
from aioexec.graph.kernels.kernel import LoopKernel
from aioexec.planning.layout.variant import ProgramRow, Variant
from tests.planning.test_layout import laid_out
from tests.tiers import constant, feed, graph, op, read, resource

IMAGES = np.zeros((2, 6, 10, 9), np.float32)
FILTERS = np.zeros((3, 3, 9, 5), np.float32)
BIAS = np.zeros(5, np.float32)


def convolution(x: Any, filters: Any, name: str = "conv") -> Any:
    return op("Conv2D", x, filters, strides=[1, 1, 1, 1], padding="SAME", name=name)


def sources() -> tuple[dict[Any, Any], tuple[Any, Any, Any]]:
    """Feeds, and images, filters and a bias."""
    x, filters, bias = feed(IMAGES.shape), feed(FILTERS.shape), feed(BIAS.shape)
    return {x: IMAGES, filters: FILTERS, bias: BIAS}, (x, filters, bias)


def rows(variant: Variant) -> list[tuple[list[str], int]]:
    """For each row the nodes it does, and what it does at its end."""
    found = []
    for row in variant.rows:
        assert isinstance(row, ProgramRow)
        if isinstance(row.kernel, LoopKernel) and row.kernel.body.__name__ == "pack":
            continue
        parts = row.parts or ((row.position, 0),)
        nodes = [variant.instructions[position].node.name for position, _ in parts]
        convolves = isinstance(row.kernel, LoopKernel) and row.kernel.body.__name__.startswith("forward")
        found.append((nodes, row.words[2] % (2 * CALLS) if convolves else 0))
    return found


@pytest.mark.parametrize("kind", ["Add", "AddV2", "BiasAdd"])
def test_a_bias_and_a_rectifier_are_done_by_the_convolution(kind):
    with graph():
        feeds, (x, filters, bias) = sources()
        y = op("Relu", op(kind, convolution(x, filters), bias, name="biased"), name="y")

    variant = laid_out([y], feeds)

    assert rows(variant) == [(["conv", "biased", "y"], ADDS_BIAS | RECTIFIES)]
    assert variant.native == variant.total == 3
    assert [place for place, _ in variant.outputs] == [variant.item.outputs[0]]


def test_a_bias_may_be_the_first_operand_and_a_rectifier_alone():
    with graph():
        feeds, (x, filters, bias) = sources()
        y = op("Add", bias, convolution(x, filters, "first"), name="y")
        z = op("Relu", convolution(x, filters, "second"), name="z")

    assert rows(laid_out([y], feeds)) == [(["first", "y"], ADDS_BIAS)]
    assert rows(laid_out([z], feeds)) == [(["second", "z"], RECTIFIES)]


def test_a_rectifier_with_an_upper_bound_is_done_too():
    with graph():
        feeds, (x, filters, bias) = sources()
        y = op("Relu6", op("Add", convolution(x, filters), bias, name="biased"), name="y")
        z = op("Relu6", op("Relu", convolution(x, filters, "other"), name="a"), name="z")
        after = op("Relu", op("Relu6", convolution(x, filters, "third"), name="b"), name="c")

    assert rows(laid_out([y], feeds)) == [(["conv", "biased", "y"], ADDS_BIAS | RECTIFIES | CLIPS)]
    assert rows(laid_out([z], feeds)) == [(["other", "a", "z"], RECTIFIES | CLIPS)]
    assert rows(laid_out([after], feeds)) == [(["third", "b", "c"], RECTIFIES | CLIPS | CALLS)]


def test_the_rest_of_a_chain_is_fused_as_ever():
    with graph():
        feeds, (x, filters, bias) = sources()
        biased = op("Add", convolution(x, filters), bias, name="biased")
        y = op("Add", op("Exp", op("Relu", biased, name="a"), name="b"), bias, name="c")

    assert rows(laid_out([y], feeds)) == [
        (["conv", "biased", "a", "b"], ADDS_BIAS | RECTIFIES | CALLS),
        (["c"], 0),
    ]


def test_what_others_read_is_written_as_it_is():
    with graph():
        feeds, (x, filters, bias) = sources()
        made = convolution(x, filters)
        biased = op("Add", made, bias, name="biased")
        y = op("Relu", biased, name="y")

    assert rows(laid_out([y, biased], feeds)) == [(["conv", "biased"], ADDS_BIAS), (["y"], 0)]
    assert rows(laid_out([y, made], feeds))[0] == (["conv"], 0)


def test_two_readers_of_a_convolution_are_no_epilogues():
    with graph():
        feeds, (x, filters, _) = sources()
        made = convolution(x, filters)
        left, right = (op("Reshape", op(kind, made), constant([24, 25], "int32")) for kind in ("Relu", "Exp"))
        y = op("MatMul", left, right, transpose_b=True)
        z = op("Add", made, made)

    assert rows(laid_out([y], feeds))[0] == (["conv"], 0)
    assert rows(laid_out([z], feeds))[0] == (["conv"], 0)


@pytest.mark.parametrize("shape", [(10, 1), (10, 5), (2, 1, 1, 5)], ids=lambda shape: str(len(shape)))
def test_what_varies_along_some_dimensions_is_added_separately(shape):
    with graph():
        x, filters, other = feed(IMAGES.shape), feed(FILTERS.shape), feed(shape)
        y = op("Add", convolution(x, filters), other, name="y")
        feeds = {x: IMAGES, filters: FILTERS, other: np.zeros(shape, np.float32)}

    assert rows(laid_out([y], feeds)) == [(["conv"], 0), (["y"], 0)]


@pytest.mark.parametrize("shape", [(), (1,), (2, 6, 10, 5)], ids=lambda shape: str(len(shape)))
def test_scalars_and_values_of_the_same_size_are_added_by_a_call(shape):
    with graph():
        x, filters, other = feed(IMAGES.shape), feed(FILTERS.shape), feed(shape)
        y = op("Add", convolution(x, filters), other, name="y")
        feeds = {x: IMAGES, filters: FILTERS, other: np.zeros(shape, np.float32)}

    variant = laid_out([y], feeds)

    assert rows(variant) == [(["conv", "y"], CALLS)]
    (call,) = {row.calls for row in variant.rows if isinstance(row, ProgramRow) and row.calls is not None}
    assert call.body == "out = x + y"


def test_a_vector_for_other_rows_is_no_bias():
    with graph():
        x, filters, bias = feed(IMAGES.shape), feed((3, 3, 9, 6)), feed([3])
        made = op("Reshape", convolution(x, filters), constant([240, 3], "int32"))
        y = op("Add", made, bias)
        feeds = {x: IMAGES, filters: np.zeros((3, 3, 9, 6), np.float32), bias: np.zeros(3, np.float32)}

    assert rows(laid_out([y], feeds))[0] == (["conv"], 0)


def test_another_view_of_the_rows_of_a_convolution_gets_the_bias_as_well():
    with graph():
        feeds, (x, filters, bias) = sources()
        made = op("Reshape", convolution(x, filters), constant([2, 60, 5], "int32"))
        y = op("Relu", op("Add", made, bias, name="biased"), name="y")

    assert rows(laid_out([y], feeds)) == [(["conv", "biased", "y"], ADDS_BIAS | RECTIFIES)]


def test_a_rectifier_comes_behind_the_bias():
    with graph():
        feeds, (x, filters, bias) = sources()
        y = op("Add", op("Relu", convolution(x, filters), name="a"), bias, name="b")
        z = op("Add", op("Add", convolution(x, filters, "other"), bias, name="c"), bias, name="d")

    assert rows(laid_out([y], feeds)) == [(["conv", "a", "b"], RECTIFIES | CALLS)]
    assert rows(laid_out([z], feeds)) == [(["other", "c", "d"], ADDS_BIAS | CALLS)]


def test_bits_read_as_another_type_are_no_rows_of_a_convolution():
    with graph():
        feeds, (x, filters, _) = sources()
        bits = op("Bitcast", convolution(x, filters), type=dtypes.int32)

    assert rows(laid_out([op("Relu", bits)], feeds))[0] == (["conv"], 0)


def test_a_bias_made_after_the_convolution_is_added_after_it():
    with graph() as made:
        feeds, (x, filters, bias) = sources()
        y = convolution(x, filters)
        with made.control_dependencies([y.op]):
            late = op("Exp", bias, name="late")
        z = op("Add", y, late, name="z")

    assert rows(laid_out([z], feeds)) == [(["conv"], 0), (["late"], 0), (["z"], 0)]


@pytest.mark.parametrize("shape", [BIAS.shape, (2, 6, 10, 5)])
def test_a_bias_or_residual_written_after_the_convolution_is_added_after_it(shape):
    with graph() as made:
        feeds, (x, filters, _) = sources()
        added, variable = feed(shape), resource(shape)
        y = convolution(x, filters)
        with made.control_dependencies([y.op]):
            write = op("AssignAddVariableOp", variable, added, dtype=dtypes.float32, name="write")
        with made.control_dependencies([write]):
            now = read(variable)
        z = op("Add", y, now, name="z")

    found = rows(laid_out([z], feeds | {added: np.zeros(shape, np.float32)}))

    assert found[0] == (["conv"], 0)
    assert found[-1] == (["z"], 0)


def test_a_variable_is_a_bias_and_may_be_written_afterwards():
    with graph() as made:
        feeds, (x, filters, bias) = sources()
        variable = resource([5])
        z = op("Add", convolution(x, filters), read(variable), name="z")
        with made.control_dependencies([z.op]):
            write = op("AssignAddVariableOp", variable, bias, dtype=dtypes.float32, name="write")

    variant = laid_out([z], feeds, [write])

    assert rows(variant) == [(["conv", "z"], ADDS_BIAS), (["write"], 0)]


def test_launches_of_one_convolution_share_what_is_done_at_the_end(monkeypatch):
    monkeypatch.setattr("aioexec.ops.common.shares.LAUNCH_NS", 10)
    with graph():
        feeds, (x, filters, bias) = sources()
        y = op("Relu", op("Add", convolution(x, filters), bias, name="biased"), name="y")

    variant = laid_out([y], feeds)

    assert rows(variant) == [(["conv", "biased", "y"], ADDS_BIAS | RECTIFIES)] * 12  # a line each
    assert variant.arena_bytes == laid_out([convolution(x, filters)], feeds).arena_bytes


# Calls of elementwise kernels


def residual() -> tuple[Any, Any]:
    """A feed of the size of the convolution, and its value."""
    value = np.zeros((2, 6, 10, 5), np.float32)
    return feed(value.shape), value


def test_a_residual_is_added_after_the_bias_and_before_the_rectifier(monkeypatch):
    monkeypatch.setattr("aioexec.planning.fusion.elementwise.LEAST_SAVED_NS", 0)
    with graph():
        feeds, (x, filters, bias) = sources()
        other, value = residual()
        biased = op("BiasAdd", convolution(x, filters), bias, name="biased")
        y = op("Relu", op("AddV2", other, biased, name="sum"), name="y")

    found = rows(laid_out([y], feeds | {other: value}))

    assert found == [(["conv", "biased", "sum", "y"], ADDS_BIAS | CALLS)]


def test_a_result_that_others_read_or_that_is_fetched_is_not_replaced():
    with graph():
        feeds, (x, filters, _) = sources()
        made = convolution(x, filters)
        y = op("Tanh", made, name="y")
        z = op("MatMul", op("Reshape", made, constant([24, 25], "int32")), constant(np.zeros((25, 2))))

    assert rows(laid_out([y, made], feeds))[0] == (["conv"], 0)
    assert (["conv"], 0) in rows(laid_out([y, z], feeds))


def test_a_residual_made_after_the_convolution_is_added_after_it():
    with graph() as made:
        feeds, (x, filters, _) = sources()
        other, value = residual()
        y = convolution(x, filters)
        with made.control_dependencies([y.op]):
            late = op("Exp", other, name="late")
        z = op("AddV2", y, op("Softmax", late), name="z")

    assert rows(laid_out([z], feeds | {other: value}))[0] == (["conv"], 0)


def test_the_memory_of_a_residual_is_not_reused_by_the_result():
    with graph():
        feeds, (x, filters, _) = sources()
        other, value = residual()
        shortcut = op("Softmax", other, name="shortcut")
        y = op("Softmax", op("AddV2", shortcut, convolution(x, filters), name="sum"), name="y")

    variant = laid_out([y], feeds | {other: value})

    (call,) = (row for row in variant.rows if isinstance(row, ProgramRow) and row.calls is not None)
    _, filters_place, result, _, first_other, *_ = call.operands
    assert result != first_other
    assert abs(result[1] - first_other[1]) >= value.nbytes
    assert filters_place != result


def sum_of_convolutions(count: int) -> Variant:
    """x * w_0 + x * w_1 + ..., all of them convolutions that come before the additions in the graph."""
    with graph():
        feeds, (x, _, _) = sources()
        filters = [feed(FILTERS.shape) for _ in range(count)]
        y, *others = [convolution(x, each, f"conv_{number}") for number, each in enumerate(filters)]
        for number, other in enumerate(others, 1):
            y = op("AddV2", y, other, name=f"add_{number}")
    return laid_out([op("Tanh", y, name="y")], feeds | dict.fromkeys(filters, FILTERS))


def test_each_addition_of_a_sum_of_convolutions_is_done_by_one_of_them():
    variant = sum_of_convolutions(4)

    nodes = [names for names, _ in rows(variant)]
    assert nodes == [["conv_0"], ["conv_1", "add_1"], ["conv_2", "add_2"], ["conv_3", "add_3"], ["y"]]


def test_the_memory_of_a_sum_is_free_after_the_convolution_that_adds_to_it():
    assert sum_of_convolutions(8).arena_bytes == sum_of_convolutions(4).arena_bytes


def test_more_operands_than_a_kernel_has_are_not_called(monkeypatch):
    monkeypatch.setattr("aioexec.planning.fusion.elementwise.LEAST_SAVED_NS", 0)
    with graph():
        feeds, (x, filters, _) = sources()
        scalars = [feed([]) for _ in range(7)]
        y, z = convolution(x, filters), convolution(x, filters)
        for k, scalar in enumerate(scalars):
            y = op("AddV2", y, scalar)
            z = op("AddV2", z, scalar) if k else z
        feeds |= dict.fromkeys(scalars, np.float32(1))

    assert [ends for _, ends in rows(laid_out([y], feeds))] == [0, 0]
    assert [ends for _, ends in rows(laid_out([z], feeds))] == [CALLS]
