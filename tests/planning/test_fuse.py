"""Fusion: the rows that become one, the values that are stored or stay in registers, and the conditions that prevent it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.devices.jit.llvm import templates
from aioexec.graph.kernels.kernel import ElementwiseKernel
from aioexec.planning.fusion import elementwise, groups
from aioexec.planning.fusion.spaces import refined, restrided
from aioexec.planning.layout.variant import ProgramRow, Variant
from tests.planning.test_layout import laid_out
from tests.tiers import constant, feed, graph, op, resource

X = np.zeros((4, 8), np.float32)


@pytest.fixture(autouse=True)
def keen(monkeypatch):
    """Whatever may be fused is."""
    monkeypatch.setattr(elementwise, "LEAST_SAVED_NS", 0)


def kernels(variant: Variant) -> list[ElementwiseKernel]:
    found = []
    for row in variant.rows:
        if isinstance(row, ProgramRow):
            assert isinstance(row.kernel, ElementwiseKernel)
            templates.emit(row.kernel, "kernel")  # it is one
            found.append(row.kernel)
    return found


def names(variant: Variant) -> list[list[str]]:
    """For each row the nodes it does."""
    return [
        [variant.instructions[position].node.name for position, _ in row.parts or ((row.position, 0),)]
        for row in variant.rows
        if isinstance(row, ProgramRow)
    ]


def test_a_chain_is_one_row_without_memory_of_its_own():
    with graph():
        x = feed([4, 8])
        y = op("Tanh", op("Neg", op("Exp", x, name="a"), name="b"), name="c")

    variant = laid_out([y], {x: X})

    assert names(variant) == [["a", "b", "c"]]
    assert variant.arena_bytes == 0
    assert variant.native == variant.total == 3
    assert [kernel.body for kernel in kernels(variant)] == ["v0 = exp(x0); v1 = -v0; v2 = tanh(v1)"]


def test_what_is_fetched_or_read_by_others_is_stored_too():
    with graph():
        x = feed([4, 4])
        a = op("Exp", x)
        b = op("Neg", a)
        product = op("MatMul", b, b)

    variant = laid_out([a, product], {x: X[:, :4]})

    (row, _) = variant.rows
    assert isinstance(row, ProgramRow)
    assert isinstance(row.kernel, ElementwiseKernel)
    assert [name for name, _ in row.kernel.outputs] == ["v0", "v1"]
    assert variant.arena_bytes == 64


def test_a_row_that_repeats_is_read_in_the_space_of_its_neighbours():
    with graph():
        x, row = feed([40, 80]), feed([80])
        y = op("Relu", op("Add", op("Exp", x), row))

    variant = laid_out([y], {x: np.zeros((40, 80), np.float32), row: np.zeros(80, np.float32)})

    (made,) = variant.rows
    assert isinstance(made, ProgramRow)
    assert made.words == (2, 40, 80, 320, 4, 0, 4, 320, 4)
    assert made.units is not None
    assert made.units.strides == (320, 0, 320)


def test_a_short_line_is_not_worth_cutting_up_a_long_one():
    with graph():
        x, row = feed([4000, 3]), feed([3])
        y = op("Add", op("Exp", op("Sin", x)), row)

    variant = laid_out([y], {x: np.zeros((4000, 3), np.float32), row: np.zeros(3, np.float32)})

    assert [len(nodes) for nodes in names(variant)] == [2, 1]


def test_a_cast_and_a_comparison_are_part_of_a_chain():
    with graph():
        x = feed([4, 8])
        wide = op("Cast", op("Exp", x), SrcT=dtypes.float32, DstT=dtypes.float64)
        y = op("Cast", op("Greater", wide, constant(1.0, "float64")), SrcT=dtypes.bool, DstT=dtypes.int32)

    (kernel,) = kernels(laid_out([y], {x: X}))

    assert [dtype for _, dtype in kernel.outputs] == ["int32"]


def test_another_view_of_the_same_memory_keeps_its_order():
    with graph():
        x = feed([4, 4])
        a = op("Exp", x)
        y = op("Add", a, op("Transpose", a, constant([1, 0], "int32")))

    variant = laid_out([y], {x: X[:, :4]})

    assert len(variant.rows) >= 2
    assert names(variant)[0] == [a.op.name]


def test_equal_chains_have_equal_kernels_whatever_their_constants_are_called():
    with graph():
        x, z = feed([4, 8]), feed([4, 8])
        y = op("Mul", op("Add", op("Exp", x), constant(2.0)), constant(2.0))
        w = op("Mul", op("Add", op("Exp", z), constant(3.0)), constant(3.0))

    variant = laid_out([y, w], {x: X, z: X})

    assert len(variant.rows) == 2
    assert len(variant.kernels) == 1
    assert len(kernels(variant)[0].inputs) == 2


def test_a_long_chain_becomes_equal_pieces():
    with graph():
        x = y = feed([4, 8])
        for _ in range(3 * 32):
            y = op("Neg", y)

    variant = laid_out([y], {x: X})

    assert [len(nodes) for nodes in names(variant)] == [32, 32, 32]
    assert len(variant.kernels) == 1
    assert variant.arena_bytes == 128  # the second takes over what the first leaves


def test_rows_whose_kernel_is_refused_stay_rows():
    with graph():
        x = feed([4, 8])
        y = op("Neg", op("Exp", x))
    (kernel,) = laid_out([y], {x: X}).kernels

    variant = laid_out([y], {x: X}, refused={kernel})

    assert [len(nodes) for nodes in names(variant)] == [1, 1]
    assert variant.native == 2


def test_little_that_would_be_saved_is_not_worth_a_kernel(monkeypatch):
    monkeypatch.setattr(elementwise, "LEAST_SAVED_NS", 10**9)
    with graph():
        x = feed([4, 8])
        y = op("Neg", op("Exp", x))

    variant = laid_out([y], {x: X})

    assert [len(nodes) for nodes in names(variant)] == [1, 1]
    assert not any(row.parts for row in variant.rows if isinstance(row, ProgramRow))


def test_an_update_is_part_of_what_computes_it():
    with graph():
        handle, x = resource([4, 8]), feed([4, 8])
        update = op("AssignSubVariableOp", handle, op("Mul", op("Exp", x), constant(0.5)))

    variant = laid_out([], {x: X}, [update])

    (use,) = variant.uses
    (kernel,) = kernels(variant)
    assert len(kernel.outputs) == 1
    assert use.in_place


def test_a_write_does_not_go_past_what_may_fail_before_it():
    with graph() as made:
        handle, x, n = resource([4, 8]), feed([4, 8]), feed([4, 8], "int32")
        a = op("Exp", x)
        with made.control_dependencies([a.op]):
            quotient = op("FloorDiv", n, n)
        with made.control_dependencies([quotient.op]):
            update = op("AssignVariableOp", handle, a)

    variant = laid_out([quotient], {x: X, n: X.astype(np.int32)}, [update])

    found = names(variant)
    assert [quotient.op.name] in found
    assert found.index([quotient.op.name]) < found.index(
        next(nodes for nodes in found if update.name in nodes)
    )


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((6,), (6,), (6,)),
        ((6,), (2, 3), (2, 3)),
        ((6, 4), (3, 8), (3, 2, 4)),
        ((4, 6), (6, 4), None),
        ((6,), (7,), None),
        ((1,), (1,), (1,)),
        ((2, 3, 4), (24,), (2, 3, 4)),
    ],
)
def test_two_spaces_have_a_coarsest_common_one(left, right, expected):
    assert refined(left, right) == expected
    assert refined(right, left) == expected


@pytest.mark.parametrize(
    ("dims", "strides", "finer"),
    [
        ((6,), (4,), (2, 3)),
        ((6, 4), (40, 8), (3, 2, 4)),
        ((6, 4), (0, 4), (3, 2, 2, 2)),
        ((24,), (0,), (4, 6)),
    ],
)
def test_an_operand_runs_through_the_same_places_in_a_finer_space(dims, strides, finer):
    def places(dims: Sequence[int], strides: Sequence[int]) -> list[Any]:
        memory = np.arange(4000, dtype=np.int32)
        return np.lib.stride_tricks.as_strided(memory, dims, strides).reshape(-1).tolist()

    assert places(finer, restrided(strides, dims, finer)) == places(dims, strides)


def calls_to_lay_out_a_sum(terms: int) -> int:
    """Python calls, steps of generators among them."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    with graph():
        x = feed([4, 8])
        y = op("AddN", [x] * terms)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        laid_out([y], {x: X})
    finally:
        sys.setprofile(before)
    return calls


def test_a_sum_of_many_terms_takes_time_in_proportion_to_them(monkeypatch):
    """Every launch of the sum reads and writes the same memory."""
    monkeypatch.setattr(groups, "MOST_STATEMENTS", 1)  # each stays a row, and is compared with the others

    few, many = calls_to_lay_out_a_sum(750), calls_to_lay_out_a_sum(3000)

    assert many < 5 * few
