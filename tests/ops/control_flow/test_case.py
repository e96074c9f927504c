"""`case`: selection of one of several functions, in a step or during construction."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.ops.control_flow.smart_cond import smart_case, smart_cond, smart_constant_value
from tests.execution.steps import stepping


@pytest.fixture
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def preds(graph):
    return [ax.placeholder(ax.bool, (), name=name) for name in "abc"]


async def outcomes(graph: Any, preds: Any, fetch: Any) -> dict[tuple[bool, ...], Any]:
    """The results for all values of the predicates: a number, or the message of the error."""
    found: dict[tuple[bool, ...], Any] = {}
    async with stepping(graph) as steps:
        for values in itertools.product([True, False], repeat=len(preds)):
            try:
                found[values] = int((await steps.run([fetch], dict(zip(preds, values, strict=True))))[0])
            except InvalidArgumentError as error:
                found[values] = error.message
    return found


# case


async def test_the_first_predicate_that_holds_decides(graph, preds):
    a, b, _ = preds

    result = ax.case([(a, lambda: 1), (b, lambda: 2)], default=lambda: 3)

    assert await outcomes(graph, [a, b], result) == {
        (True, True): 1,
        (True, False): 1,
        (False, True): 2,
        (False, False): 3,
    }


async def test_without_a_default_one_predicate_must_hold(graph, preds):
    a, b, _ = preds

    found = await outcomes(graph, [a, b], ax.case([(a, lambda: 1), (b, lambda: 2)]))

    assert [found[key] for key in ((True, True), (True, False), (False, True))] == [1, 1, 2]
    assert "None of conditions evaluated as True" in found[False, False]


async def test_exclusive_predicates_may_not_hold_together(graph, preds):
    pairs = [(pred, lambda k=k: ax.constant(k)) for k, pred in enumerate(preds)]

    found = await outcomes(graph, preds, ax.case(pairs, default=lambda: ax.constant(9), exclusive=True))

    for values, outcome in found.items():
        if sum(values) > 1:
            assert "exclusive=True: more than 1 conditions (a:0, b:0, c:0) evaluated as True" in outcome
        else:
            assert outcome == (values.index(True) if any(values) else 9)


async def test_exclusive_predicates_are_all_looked_at_without_a_default(graph, preds):
    a, b, _ = preds

    found = await outcomes(graph, [a, b], ax.case([(a, lambda: 1), (b, lambda: 2)], exclusive=True))

    assert "more than 1 conditions" in found[True, True]
    assert (found[True, False], found[False, True]) == (1, 2)


async def test_a_dict_is_taken_in_the_order_of_its_names(graph, preds):
    a, b, _ = preds

    result = ax.case({b: lambda: 2, a: lambda: 1}, default=lambda: 3)

    assert (await outcomes(graph, [a, b], result))[True, True] == 1


async def test_a_single_pair_needs_no_other(graph, preds):
    found = await outcomes(graph, preds[:1], ax.case([(preds[0], lambda: 1)]))

    assert found[(True,)] == 1
    assert "None of conditions" in found[(False,)]


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        (1, "must be a list, tuple, or dict"),
        ([], "at least one pair"),
        ([1], "must be a 2-tuple"),
        ([(True, lambda: 1)], "pred must be a Tensor, got True"),
    ],
)
def test_pairs_that_are_none_are_refused(graph, pairs, text):
    with pytest.raises(GraphTypeError, match=text):
        ax.case(pairs)


def test_what_pairs_are_made_of_is_checked(graph, preds):
    with pytest.raises(GraphTypeError, match="pred must be a Tensor of type bool"):
        ax.case([(ax.constant(1), lambda: 1)])
    with pytest.raises(GraphTypeError, match="must be callable"):
        ax.case([(preds[0], 1)])
    not_callable: Any = 3
    with pytest.raises(GraphTypeError, match="'default' must be callable"):
        ax.case([(preds[0], lambda: 1)], default=not_callable)


# Decided while building


@pytest.mark.parametrize(("value", "expected"), [(True, True), (False, False), (1, True), (0, False)])
def test_a_python_value_is_known(graph, value, expected):
    assert smart_constant_value(value) is expected
    assert smart_cond(value, lambda: "yes", lambda: "no") == ("yes" if expected else "no")


def test_a_tensor_is_known_if_it_follows_from_constants(graph, preds):
    assert smart_constant_value(ax.constant(3) > 2) is True
    assert smart_constant_value(preds[0]) is None


@pytest.mark.parametrize("wrong", [2, "yes", None, 0.5])
def test_other_values_are_no_predicates(graph, wrong):
    with pytest.raises(GraphTypeError, match="must be a Tensor, or a Python bool, or 1 or 0"):
        smart_constant_value(wrong)


async def test_what_is_not_known_is_decided_in_the_step(graph, preds):
    result = smart_cond(preds[0], lambda: ax.constant(1), lambda: ax.constant(2))

    assert await outcomes(graph, preds[:1], result) == {(True,): 1, (False,): 2}


def test_functions_are_needed_to_decide_between(graph):
    with pytest.raises(GraphTypeError, match="'false_fn' must be callable"):
        smart_cond(True, lambda: 1)


async def test_a_case_leaves_out_what_is_known_not_to_hold(graph, preds):
    result = smart_case(
        [
            (False, lambda: 1),
            (preds[0], lambda: ax.constant(2)),
            (True, lambda: ax.constant(3)),
            (preds[1], lambda: 4),
        ],
        default=lambda: 5,
    )

    assert sum(op.type == "Merge" for op in graph.get_operations()) == 1
    assert await outcomes(graph, preds[:1], result) == {(True,): 2, (False,): 3}


@pytest.mark.parametrize(
    ("index", "functions", "default", "error"),
    [
        (0, [lambda: 1], None, GraphTypeError),
        (1.5, [lambda: 1], None, GraphTypeError),
        ("index", [], None, GraphValueError),
        ("index", 3, None, GraphTypeError),
        ("index", [3], None, GraphTypeError),
        ("index", [("a", lambda: 1)], None, GraphTypeError),
        ("index", {0: 1}, None, GraphTypeError),
        ("index", {0: lambda: 1, 2: lambda: 2}, None, GraphValueError),
        ("index", [lambda: 1], 3, GraphTypeError),
    ],
)
def test_what_chooses_by_no_index_is_refused(graph, index, functions, default, error):
    given = ax.constant(0) if index == "index" else index

    with pytest.raises(error):
        ax.switch_case(given, functions, default)
