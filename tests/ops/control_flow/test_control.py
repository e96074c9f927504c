"""Control dependencies, assertions and prints as functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant
from aioexec.graph.graph import Graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.ops.control_flow import checks, dependencies, numerics, printing
from tests.ops.evaluate import Evaluator, evaluate
from tests.ops.native import NativeStatusError, run_native


@pytest.fixture
def graph():
    with Graph().as_default() as graph:
        yield graph


def placeholder(graph: Graph, dtype: Any = dtypes.float32, shape: Any = None) -> Any:
    return graph.create_op("Placeholder", (), attrs={"dtype": dtype, "shape": shape}).outputs[0]


# group, tuple, with_dependencies


def test_a_group_waits_for_all_its_inputs(graph):
    one, other = constant(1), constant(2)

    together = dependencies.group(one, [other.op], {"third": constant(3)})

    assert together.type == "NoOp"
    assert together.name == "group_deps"
    assert {op.name for op in together.control_inputs} == {"Const", "Const_1", "Const_2"}


def test_a_group_has_a_node_for_each_device(graph):
    with graph.device("/cpu:0"):
        one = constant(1)
    with graph.device("/cpu:1"):
        other = constant(2)

    together = dependencies.group(one, other, name="all")

    assert together.name == "all"
    parts = together.control_inputs
    assert [part.type for part in parts] == ["NoOp", "NoOp"]
    assert [part.device for part in parts] == [one.op.device, other.op.device]


def test_an_empty_group_does_nothing(graph):
    assert dependencies.group().type == "NoOp"
    assert dependencies.no_op("nothing").name == "nothing"


def test_a_group_refuses_what_is_no_node(graph):
    with pytest.raises(GraphTypeError, match="must be operations or tensors, got 3"):
        dependencies.group(3)


def test_a_tuple_hands_on_each_value_when_all_are_there(graph):
    one, slices = constant([1.0]), IndexedSlices(constant([[2.0]]), constant([0]))

    result = dependencies.tuple_([one, None, slices], control_inputs=[constant(9).op])

    assert result[0].name == "tuple/control_dependency:0"
    assert result[1] is None
    assert result[2].values.name == "tuple/control_dependency_1:0"
    (gate,) = result[0].op.control_inputs
    assert gate.name == "tuple/group_deps"
    assert {op.name for op in gate.control_inputs} == {"Const", "Const_1", "tuple/Const"} or len(
        gate.control_inputs
    ) == 3
    assert evaluate(result[0]).tolist() == [1.0]


def test_a_tuple_of_nothing_is_refused(graph):
    with pytest.raises(GraphValueError, match="at least one Tensor"):
        dependencies.tuple_([None])
    with pytest.raises(GraphTypeError, match="control_inputs"):
        dependencies.tuple_([constant(1)], control_inputs=[3])


def test_a_value_can_be_made_to_wait(graph):
    waited, value = constant(1).op, constant(2)

    result = dependencies.with_dependencies([waited], value)

    assert result.op.type == "Identity"
    assert result.op.control_inputs == [waited]


# Assert and Print


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        (3, 3, "3"),
        ([1, 2, 3, 4, 5], 3, "1 2 3..."),
        ([1, 2, 3], 3, "1 2 3"),
        ([1, 2, 3, 4, 5], -1, "1 2 3 4 5"),
        ([1, 2, 3], 0, "..."),
        ([[1, 2], [3, 4]], 10, "[1 2][3 4]"),
        ([[1, 2], [3, 4]], 3, "[1 2][3...]..."),
        (np.arange(12).reshape(2, 3, 2), 100, "[[0 1][2 3][4 5]][[6 7][8 9][10 11]]"),
        (np.arange(12).reshape(2, 3, 2), 3, "[[0 1][2...]]..."),
        (np.zeros((2, 0)), 5, ""),
        ([True, False], 3, "1 0"),
        (np.array([1.5, 2.25, 1e10, np.nan], np.float32), 4, "1.5 2.25 1e+10 nan"),
        (np.float32(0.1), 3, "0.1"),
        (np.float32(1 / 3), 3, "0.333333343"),
        (np.float64(1 / 3), 3, "0.33333333333333331"),
        (np.float16(0.1), 3, "0.0999755859"),
        (np.array([b"a", b'b\n"'], object), 3, 'a b\\n\\"'),
    ],
)
def test_values_are_shown_as_tensorflow_shows_them(value, limit, text):
    assert printing.summarize(value, limit) == text


def test_a_failed_assertion_shows_its_data(graph):
    failed = printing.Assert(placeholder(graph, dtypes.bool, ()), ["x was", np.arange(5)], summarize=2)

    assert failed.name == "Assert/Assert"
    with pytest.raises(InvalidArgumentError, match=r"^assertion failed: \[x was\] \[0 1\.\.\.\]$"):
        evaluate(failed, {failed.inputs[0]: np.array(False)})


def test_print_writes_to_standard_error_and_hands_the_value_on(graph, capsys):
    shown = printing.Print(constant(3.0), [constant([1, 2, 3, 4]), "text"], "values: ", first_n=2)
    session = Evaluator()

    values = [session.run(shown) for _ in range(3)]

    assert values == [3.0, 3.0, 3.0]
    assert capsys.readouterr().err == "values: [1 2 3...][text]\n" * 2


# Numbers that are not finite


def test_a_check_says_what_it_found(graph):
    x = placeholder(graph)
    checked = numerics.check_numerics(x, "loss")

    for values, finding in (([1, np.nan], "NaN"), ([np.inf, 1], "Inf"), ([-np.inf, np.nan], "Inf and NaN")):
        with pytest.raises(InvalidArgumentError, match=f"^loss : Tensor had {finding} values$"):
            evaluate(checked, {x: np.array(values, np.float32)})


@pytest.mark.parametrize(("values", "status"), [([1, np.nan], 1), ([np.inf, 1], 2), ([-np.inf, np.nan], 3)])
def test_the_native_check_says_the_same(graph, values, status):
    checked = numerics.check_numerics(constant(values, dtypes.float32), "loss").op

    with pytest.raises(
        NativeStatusError, match=f"status {status}: {{message}} : {numerics.FINDINGS[status - 1]}"
    ):
        run_native(checked, [np.array(values, np.float32)])


def test_a_verified_tensor_waits_for_its_check(graph):
    x = placeholder(graph)

    verified = numerics.verify_tensor_all_finite(x, "bad")

    assert verified.name == "VerifyFinite/control_dependency:0"
    assert [op.type for op in verified.op.control_inputs] == ["CheckNumerics"]


def test_checks_can_be_added_for_everything(graph):
    x = placeholder(graph)
    apply_op("Identity", x, name="y")
    constant(3)

    everything = numerics.add_check_numerics_ops()

    checked = [op for op in graph.get_operations() if op.type == "CheckNumerics"]
    assert [op.get_attr("message") for op in checked] == [b"Placeholder:0", b"y:0"]
    assert checked[1].control_inputs == [checked[0]]
    assert set(everything.control_inputs) == set(checked)


# Assertions


def holds(operation: Any, feeds: Any = None) -> bool:
    try:
        evaluate(operation, feeds)
    except InvalidArgumentError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("assert_equal", ([1, 2], 1), ([1, 2], 0)),
        ("assert_none_equal", ([1, 2], 3), ([1, 2], 2)),
        ("assert_less", ([1, 2], 3), ([1, 2], 2)),
        ("assert_less_equal", ([1, 2], 2), ([1, 2], 1)),
        ("assert_greater", ([1, 2], 0), ([1, 2], 1)),
        ("assert_greater_equal", ([1, 2], 1), ([1, 2], 2)),
    ],
)
def test_comparisons_hold_everywhere_or_fail(graph, name, good, bad):
    if name == "assert_equal":
        good = ([1, 1], 1)
    x, y = placeholder(graph, dtypes.int32), placeholder(graph, dtypes.int32, ())
    check = getattr(checks, name)(x, y)

    assert holds(check, {x: np.array(good[0], np.int32), y: np.array(good[1], np.int32)})
    assert not holds(check, {x: np.array(bad[0], np.int32), y: np.array(bad[1], np.int32)})
    assert holds(check, {x: np.zeros(0, np.int32), y: np.array(bad[1], np.int32)})


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("positive", 0.5, 0.0),
        ("negative", -0.5, 0.0),
        ("non_positive", 0.0, 0.5),
        ("non_negative", 0.0, -0.5),
    ],
)
def test_signs_hold_everywhere_or_fail(graph, name, good, bad):
    x = placeholder(graph)
    check = getattr(checks, f"assert_{name}")(x)

    assert holds(check, {x: np.array([good, 3 * good], np.float32)})
    assert not holds(check, {x: np.array([good, bad], np.float32)})


def test_what_is_known_to_be_false_is_refused_at_once(graph):
    with pytest.raises(
        InvalidArgumentError,
        match=r"oops\nCondition x == y did not hold element-wise:\nx \(.*/x:0\) = \n\[1 2\]",
    ):
        checks.assert_equal([1, 2], [1, 3], message="oops")
    with pytest.raises(InvalidArgumentError, match="Condition x > 0 did not hold"):
        checks.assert_positive([-1, 2])
    assert checks.assert_less([1], [2]).type == "Assert"


def test_a_failed_comparison_shows_both_sides(graph):
    x = placeholder(graph, dtypes.int32, (2,))
    check = checks.assert_less(x, 2, message="too large")

    with pytest.raises(
        InvalidArgumentError, match=r"\[too large\] \[Condition x < y did .*:0\) = \] \[1 2\] \[y .*\] \[2\]$"
    ):
        evaluate(check, {x: np.array([1, 2], np.int32)})


def test_nearness_has_a_tolerance(graph):
    x = placeholder(graph)

    assert holds(checks.assert_near(x, 1.0), {x: np.float32(1 + 5e-7)})
    assert not holds(checks.assert_near(x, 1.0), {x: np.float32(1.001)})
    assert holds(checks.assert_near(x, 1.0, rtol=0.01), {x: np.float32(1.001)})


def test_ranks_are_decided_while_building_where_shapes_are_known(graph):
    known = placeholder(graph, shape=(2, None))

    assert checks.assert_rank(known, 2).type == "NoOp"
    assert checks.assert_rank_at_least(known, 1).type == "NoOp"
    assert checks.assert_rank_in(known, [1, 2]).type == "NoOp"
    for refused in (
        lambda: checks.assert_rank(known, 3, message="mm"),
        lambda: checks.assert_rank_at_least(known, 3),
        lambda: checks.assert_rank_in(known, (1, 3)),
    ):
        with pytest.raises(GraphValueError, match=r"Placeholder:0 must have rank .*received rank 2"):
            refused()


def test_ranks_are_checked_in_the_run_otherwise(graph):
    x = placeholder(graph)
    vector, matrix = {x: np.zeros(2, np.float32)}, {x: np.zeros((2, 2), np.float32)}

    assert holds(checks.assert_rank(x, 2), matrix)
    assert not holds(checks.assert_rank(x, 2), vector)
    assert holds(checks.assert_rank_at_least(x, 1), matrix)
    assert not holds(checks.assert_rank_at_least(x, 2), vector)
    assert holds(checks.assert_rank_in(x, [0, 1]), vector)
    assert not holds(checks.assert_rank_in(x, [0, 1]), matrix)


def test_a_rank_is_an_integer_scalar(graph):
    with pytest.raises(GraphTypeError, match="must be of type int32"):
        checks.assert_rank(placeholder(graph), 2.0)
    with pytest.raises(GraphValueError, match="must be a scalar"):
        checks.assert_rank(placeholder(graph), placeholder(graph, dtypes.int32, (2,)))


def test_types_and_static_shapes_are_checked_while_building(graph):
    x = placeholder(graph, shape=())

    assert checks.assert_type(x, dtypes.float32).type == "NoOp"
    assert checks.assert_integer(3).type == "NoOp"
    assert checks.assert_scalar(x) is x
    assert checks.assert_same_float_dtype([x, constant(1.0)]) == dtypes.float32
    assert checks.assert_same_float_dtype() == dtypes.float32
    assert checks.is_numeric_tensor(x)
    assert not checks.is_numeric_tensor(constant("text"))
    checks.assert_proper_iterable([1])
    with pytest.raises(GraphTypeError, match="must be of type int32"):
        checks.assert_type(x, dtypes.int32)
    with pytest.raises(GraphTypeError, match="integer type"):
        checks.assert_integer(x)
    with pytest.raises(GraphValueError, match="scalar"):
        checks.assert_scalar([1.0])
    with pytest.raises(GraphValueError, match="dtype"):
        checks.assert_same_float_dtype([x, constant(1.0, dtypes.float64)])
    for wrong in ("text", 3, x):
        with pytest.raises(GraphTypeError, match="proper iterable"):
            checks.assert_proper_iterable(wrong)


@pytest.mark.parametrize(
    ("values", "non_decreasing", "increasing"),
    [
        ([1, 2, 3], True, True),
        ([1, 1, 3], True, False),
        ([[3, 2]], False, False),
        ([7], True, True),
        ([], True, True),
    ],
)
def test_order_is_checked_along_the_elements(graph, values, non_decreasing, increasing):
    x = placeholder(graph)
    fed = {x: np.array(values, np.float32)}

    assert evaluate(checks.is_non_decreasing(x), fed) == non_decreasing
    assert evaluate(checks.is_strictly_increasing(x), fed) == increasing
