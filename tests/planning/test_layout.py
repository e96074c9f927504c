"""Layout: nodes become rows, aliases, known values or breaks; and the buffers to which variables are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.kernels.kernel import Spec
from aioexec.planning.layout.variant import Break, Place, ProgramRow, Row, VariableUse, Variant
from aioexec.planning.layout.variant_builder import lay_out_item
from aioexec.planning.plan import Partition
from aioexec.resources.variable import Variable
from tests.planning.planned import plan
from tests.tiers import Ops, constant, feed, graph, op, read, resource


def laid_out(
    fetches: Sequence[Any] = (),
    feeds: dict[Any, Any] | None = None,
    targets: Sequence[Any] = (),
    **options: Any,
) -> Variant:
    """The variant of a signature of one item, for feeds like these arrays."""
    made = plan(fetches, list(feeds or {}), targets)
    assert len(made.items) == 1
    return lay_out_item(made.items[0], made.values, specs(made, feeds or {}), **options)


def specs(made: Partition, feeds: dict[Any, Any]) -> dict[int, Spec]:
    arrays = dict(zip(made.feeds, map(np.asarray, feeds.values()), strict=True))
    item = made.items[0]
    return {
        value: Spec(
            arrays[value].dtype, arrays[value].shape, arrays[value] if value in item.shape_inputs else None
        )
        for value in item.inputs
    }


def operands(row: Row) -> list[tuple[int, int]]:
    assert isinstance(row, ProgramRow)
    return list(row.operands)


X = np.zeros((4, 8), np.float32)


def test_a_chain_of_nodes_is_a_row_each_in_one_piece_of_memory():
    with graph():
        x = feed([4, 8])
        y = x
        for _ in range(10):
            y = op("Neg", y)

    variant = laid_out([y], {x: X})

    assert len(variant.rows) == 10
    assert variant.arena_bytes == 128  # the first nine in turn; the last is the output itself
    assert (variant.native, variant.total) == (10, 10)
    assert operands(variant.rows[-1])[-1] == (1, 0)


def test_shapes_are_folded_with_all_that_follows_from_them():
    with graph():
        x = feed([None, None])
        dims = op("Shape", x)
        y = op("Reshape", x, op("Neg", constant([1], "int32")))
        size = op("Cast", op("Size", x), DstT=x.dtype)
        z = op("Mul", y, size)

    variant = laid_out([z, dims], {x: X})

    assert [type(row) for row in variant.rows] == [
        ProgramRow,
        ProgramRow,
    ]  # the product, and the copy of the shape
    assert variant.constants.nbytes >= 4 + 8
    assert (variant.native, variant.total) == (5, 5)


def test_reshapes_and_identities_are_no_rows():
    with graph():
        x = feed([4, 8])
        y = op("Neg", op("Reshape", op("Neg", x), constant([-1], "int32")))

    assert len(laid_out([y], {x: X}).rows) == 2


def test_outputs_that_share_memory_are_copied():
    with graph():
        x = feed([4, 8])
        y = op("Neg", x)
        flat = op("Reshape", y, constant([-1], "int32"))

    variant = laid_out([y, flat, op("Identity", x)], {x: X})

    assert len(variant.rows) == 3
    assert [spec.shape for _, spec in variant.outputs] == [(4, 8), (32,), (4, 8)]


def test_an_input_whose_content_is_known_is_a_constant():
    with graph():
        x, shape = feed([4, 8]), feed([2], "int32")
        y = op("Neg", op("Reshape", x, shape))

    assert laid_out([y], {x: X, shape: np.array([8, 4], np.int32)}).outputs[0][1].shape == (8, 4)
    with pytest.raises(GraphValueError):
        laid_out([y], {x: X, shape: np.array([5, 5], np.int32)})


def test_a_read_is_an_alias_and_a_write_after_its_last_use_is_in_place():
    with graph():
        v = resource([8])
        value = read(v)
        update = op("AssignSubVariableOp", v, op("Mul", value, constant(0.1)))

    variant = laid_out([], {}, [update])

    assert len(variant.rows) == 2
    (use,) = variant.uses
    assert use.in_place
    assert use.writes == ((1,),)
    assert use.shape == (8,)


@pytest.mark.parametrize("reader", ["itself", "later", "fetched"])
def test_a_write_before_the_last_use_of_a_read_is_not_in_place(reader: str):
    with graph() as g:
        v = resource([8])
        value = read(v)
        update = op("AssignAddVariableOp", v, value if reader == "itself" else constant([1.0] * 8))
        with g.control_dependencies([update]):
            later = op("Neg", value)

    variant = laid_out({"later": [later], "fetched": [value]}.get(reader, []), {}, [update])

    assert [use.in_place for use in variant.uses] == [False]


def test_a_variable_only_written_is_not_read():
    with graph():
        v, x = resource([8]), feed([8])
        update = op("AssignVariableOp", v, x)

    (use,) = laid_out([], {x: np.zeros(8, np.float32)}, [update]).uses

    assert use.reader is None
    assert use.old_slot is None
    assert use.new_slot is not None


def test_a_variable_written_again_after_a_read_of_the_first_write_breaks():
    with graph() as g:
        v = resource([8])
        first = op("AssignVariableOp", v, constant([1.0] * 8))
        with g.control_dependencies([first]):
            between = read(v)
        with g.control_dependencies([between]):
            second = op("AssignVariableOp", v, constant([2.0] * 8))

    variant = laid_out([between], {}, [second])

    assert [row.reason for row in variant.breaks] == [
        "a variable written again while what it held before is needed"
    ]


@pytest.mark.parametrize(
    "reader", ["waits only", "used before", "used by the write", "used later", "alias used later"]
)
def test_a_variable_is_written_again_natively_once_nothing_needs_the_first_write(reader: str):
    with graph() as g:
        v = resource([8])
        first = op("AssignAddVariableOp", v, constant([1.0] * 8))
        with g.control_dependencies([first]):
            between = read(v)
        used = op("Neg", between)
        alias = op("Reshape", between, constant([2, 4], "int32"))
        waits = {"used before": [used], "alias used later": [alias]}.get(reader, [between])
        with g.control_dependencies(waits):
            delta = between if reader == "used by the write" else constant([2.0] * 8)
            second = op("AssignAddVariableOp", v, delta)
        with g.control_dependencies([second]):
            later = op("Abs", alias if reader == "alias used later" else between)

    variant = laid_out([later] if "later" in reader else [], {}, [second, used.op])

    assert len(variant.breaks) == ("later" in reader or "by" in reader)


def test_the_wholeness_of_a_variable_when_a_program_stops():
    with graph() as g:
        v, w = resource([8]), resource([8])
        x = feed([8])
        first = op("AssignAddVariableOp", v, x)
        with g.control_dependencies([first]):
            middle = op("Neg", x)
        with g.control_dependencies([middle]):
            second = op("AssignAddVariableOp", v, middle)
            other = op("AssignVariableOp", w, middle)

    variant = laid_out([], {x: np.zeros(8, np.float32)}, [second, other])

    use = next(use for use in variant.uses if use.variable.name == v.op.name)
    assert use.writes == ((0,), (2,))
    assert [use.is_whole(reached.__gt__) for reached in range(5)] == [False, True, True, True, True]


def test_a_write_of_several_rows_is_whole_only_behind_all_of_them():
    use = VariableUse(Variable("v", dtypes.float32, (2,)), (2,), None, 0, 1, ((1, 2, 3), (5, 6)), False, True)

    assert [use.is_whole(reached.__gt__) for reached in range(9)] == [
        False, False, False, False, True, True, False, True, True
    ]  # fmt: skip


def test_an_op_without_a_native_form_is_a_break_with_its_reason(ops: Ops):
    ops.broken("TestBreak", lambda x: x)
    with graph():
        x = feed([8])
        y = op("Neg", op("TestBreak", op("Neg", x)))

    variant = laid_out([y], {x: np.zeros(8, np.float32)})

    assert [type(row) for row in variant.rows] == [ProgramRow, Break, ProgramRow]
    (row,) = variant.breaks
    assert row.reason == "no native kernel"
    (place,) = row.inputs
    assert isinstance(place, Place)
    assert place == Place(variant.arena_slot, 0, place.spec)
    assert (variant.native, variant.total) == (2, 3)


def test_behind_a_break_only_what_is_read_is_bound_again(ops: Ops):
    ops.add(
        "TestTouch(v:resource) -> () {stateful}",
        lambda variable: None,
        shape=lambda context: [],
        writes=(0,),
        reads=(0,),
    )
    with graph() as g:
        v, w = resource([8]), resource([8])
        touched = [op("TestTouch", v), op("TestTouch", w)]
        with g.control_dependencies(touched):
            value = read(v)

    variant = laid_out([op("Neg", value)], {}, touched)

    assert [len(row.rebinds) for row in variant.breaks] == [1, 0]
    (slot, variable, shape, reader) = variant.breaks[0].rebinds[0]
    assert (variable.name, shape, reader.node.name) == (v.op.name, (8,), value.op.name)
    assert slot > variant.constants_slot


def test_nodes_whose_kernels_are_refused_become_breaks():
    with graph():
        x = feed([8])
        y = op("Neg", op("Add", x, x))
    array = np.zeros(8, np.float32)
    kernels = laid_out([y], {x: array}).kernels

    assert len(laid_out([y], {x: array}, refused=kernels).breaks) == 2


def test_strings_are_kept_out_of_memory(ops: Ops):
    ops.add("TestUpper(x:string) -> (y:string)", lambda x: x)
    with graph():
        x, n = feed([None], "string"), feed([None])
        fetches = [op("TestUpper", x), op("Identity", x), op("Neg", n)]

    variant = laid_out(fetches, {x: np.array([b"a"], object), n: np.zeros(3, np.float32)})

    assert len(variant.inputs) == 1
    assert len(variant.object_inputs) == 1
    assert len(variant.objects) == 2
    assert len(variant.outputs) == 1


def test_a_variable_of_unknown_shape_is_left_to_breaks():
    with graph():
        v = op("VariableV2", dtype=dtypes.float32, shape=(None, 3))
        y = op("Neg", v)

    variant = laid_out([y])

    assert [row.reason for row in variant.breaks] == ["an input that memory cannot hold"]
    assert variant.objects
    assert all(use.old_slot is None for use in variant.uses)
