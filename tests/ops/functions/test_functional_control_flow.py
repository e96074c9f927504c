"""Calls, conditionals and loops with functions as bodies: results, and the order of side effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.graph.func_graph import FuncGraph
from aioexec.ops.functions.call_functions import For, If, While, partitioned_call
from aioexec.ops.functions.defun import Defun
from tests.tiers import session_on

FLOAT, INT = ax.float32, ax.int32


@pytest.fixture
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["off", "eager"])
def jit(request) -> str:
    """Without compiled programs, and with them."""
    return request.param


def body(name: str, dtypes: Sequence[Any], build: Callable[..., Any]) -> str:
    """A function of the default graph, by its name; what it returns is one value, a list, or nothing."""
    graph = ax.get_default_graph()
    made = FuncGraph(name, graph)
    with made.as_default():
        result = build(*(made.add_input(dtype) for dtype in dtypes))
        results = [] if result is None else result if isinstance(result, list) else [result]
        made.outputs = [made.capture(ax.convert_to_tensor(each)) for each in results]
    graph.add_function(made.as_function())
    return name


def node(op_type: str, inputs: Sequence[Any], name: str | None = None, **attrs: Any) -> ax.Operation:
    tensors = [ax.convert_to_tensor(value) for value in inputs]
    return ax.get_default_graph().create_op(op_type, tensors, name=name, attrs=attrs)


def call(f: str, inputs: Sequence[Any] = (), returns: Sequence[Any] = (FLOAT,), **more: Any) -> ax.Operation:
    return node("StatefulPartitionedCall", inputs, f=f, Tout=list(returns), **more)


def conditional(
    pred: Any, then: str, otherwise: str, inputs: Sequence[Any] = (), returns: Sequence[Any] = (FLOAT,)
) -> ax.Operation:
    return node("If", [pred, *inputs], then_branch=then, else_branch=otherwise, Tout=list(returns))


def variable(value: Any = 0.0) -> Any:
    return ax.get_variable("v", initializer=ax.constant(value), use_resource=True)


async def results(graph: Any, jit: str, *fetches: Any, feeds: Any = None) -> list[Any]:
    """The fetches of each step, in a session with initialised variables."""
    async with session_on(graph, jit) as session:
        await session.run(ax.global_variables_initializer())
        return [await session.run(each, feeds) for each in fetches]


# Values


@pytest.mark.parametrize("count", [0, 1, 5])
async def test_a_loop_repeats_its_body(graph, jit, count):
    body("below", [INT, FLOAT, FLOAT], lambda i, x, k: i < count)
    body("round", [INT, FLOAT, FLOAT], lambda i, x, k: [i + 1, x * k, k])

    loop = node("While", [0, [1.0, 2.0], 3.0], cond="below", body="round")

    ((i, x, k),) = await results(graph, jit, list(loop.outputs))
    assert (i, k) == (count, 3.0)
    np.testing.assert_allclose(x, np.array([1.0, 2.0]) * 3.0**count)


async def test_variables_of_a_loop_may_change_places_and_take_what_never_changes(graph, jit):
    body("below", [INT, FLOAT, FLOAT, FLOAT], lambda i, a, b, k: i < 3)
    body("round", [INT, FLOAT, FLOAT, FLOAT], lambda i, a, b, k: [i + 1, b, k, k])

    loop = node("StatelessWhile", [0, 1.0, 2.0, 3.0], cond="below", body="round")

    assert await results(graph, jit, list(loop.outputs)) == [[3, 3.0, 3.0, 3.0]]


async def test_a_loop_may_have_no_variables_at_all(graph, jit):
    v = variable()

    def handle() -> Any:
        return node("VarHandleOp", [], dtype=FLOAT, shape=(), shared_name=v.op.name).outputs[0]

    body("below", [], lambda: node("ReadVariableOp", [handle()], dtype=FLOAT).outputs[0] < 3.0)
    body("round", [], lambda: added(handle(), 1.0))

    loop = node("While", [], cond="below", body="round")
    with ax.control_dependencies([loop]):
        after = v.read_value()

    assert await results(graph, jit, after, loop, v.read_value()) == [3.0, None, 3.0]


async def test_the_only_variable_of_a_loop_may_be_one_that_never_changes(graph, jit):
    v = variable()

    def following(handle: Any) -> Any:
        added(handle, 1.0)
        return handle

    body(
        "below", [ax.resource], lambda handle: node("ReadVariableOp", [handle], dtype=FLOAT).outputs[0] < 3.0
    )
    body("round", [ax.resource], following)

    loop = node("While", [v.handle], cond="below", body="round")

    assert await results(graph, jit, loop, v.read_value()) == [None, 3.0]


async def test_loops_and_conditionals_nest(graph, jit):
    body("small", [FLOAT], lambda x: x * 2.0)
    body("large", [FLOAT], lambda x: x - 5.0)
    body("inner_below", [INT, INT, FLOAT], lambda j, i, x: j < i)
    body(
        "inner_round",
        [INT, INT, FLOAT],
        lambda j, i, x: [j + 1, i, conditional(x > 10.0, "large", "small", [x]).outputs[0]],
    )
    body("below", [INT, FLOAT], lambda i, x: i < 4)

    def following(i: Any, x: Any) -> list[Any]:
        inner = node("While", [0, i, x], cond="inner_below", body="inner_round")
        return [i + 1, inner.outputs[2]]

    body("round", [INT, FLOAT], following)

    loop = node("While", [0, 3.0], cond="below", body="round")

    expected = 3.0
    for i in range(4):
        for _ in range(i):
            expected = expected - 5.0 if expected > 10.0 else expected * 2.0
    assert await results(graph, jit, loop.outputs[1]) == [expected]


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 3, 4, 9])
async def test_a_case_takes_the_last_branch_for_an_index_that_is_none(graph, jit, index):
    for count in (1, 2, 5):
        for k in range(count):
            body(f"times_{count}_{k}", [FLOAT], lambda x, k=k: x * float(k))
    cases = [
        node(
            "Case", [index, 1.0], branches=[f"times_{count}_{k}" for k in range(count)], Tout=[FLOAT]
        ).outputs[0]
        for count in (1, 2, 5)
    ]
    x = ax.placeholder(INT, [])
    chosen = ax.switch_case(x, {2: lambda: 20, 0: lambda: 0, 1: lambda: 10}, default=lambda: -1)

    fetched = await results(graph, jit, [*cases, chosen], feeds={x: index})

    expected = [index if 0 <= index < count else count - 1 for count in (1, 2, 5)]
    assert fetched == [[*expected, 10 * index if 0 <= index < 3 else -1]]


@pytest.mark.parametrize("value", [True, False, 0, 3, 0.0, -0.5, b"", b"no", [], [0.0]])
async def test_a_condition_may_be_of_any_type(graph, jit, value):
    body("yes", [], lambda: 1.0)
    body("no", [], lambda: 2.0)

    chosen = conditional(np.asarray(value) if value == [] else value, "yes", "no")

    assert await results(graph, jit, chosen.outputs[0]) == [
        1.0 if value not in (False, 0, 0.0, b"", []) else 2.0
    ]


# State


async def test_a_body_waits_for_what_its_call_waits_for(graph, jit):
    v = variable()
    body("read", [FLOAT], lambda x: [v.read_value(), x, ax.constant(1.0)])
    captured = list(graph.functions["read"].graph.captures)

    with ax.control_dependencies([v.assign(5.0)]):
        made = call("read", [ax.constant(2.0), *captured], [FLOAT] * 3)

    assert await results(graph, jit, list(made.outputs)) == [[5.0, 2.0, 1.0]]


@pytest.mark.parametrize("fetched", ["output", "operation", "what waits for it"])
async def test_a_call_does_what_it_does_to_state_whatever_is_wanted_of_it(graph, jit, fetched):
    v = variable()

    def change(x: Any) -> Any:
        v.assign_add(x)
        return x * 2.0

    body("change", [FLOAT], change)
    made = call("change", [3.0, *graph.functions["change"].graph.captures])
    with ax.control_dependencies([made]):
        waiting = v.read_value()
    wanted = {"output": made.outputs[0], "operation": made, "what waits for it": waiting}[fetched]

    found = await results(graph, jit, wanted, v.read_value())

    assert found[1] == 3.0
    assert found[0] == {"output": 6.0, "operation": None, "what waits for it": 3.0}[fetched]


async def test_an_output_comes_after_all_that_is_done_to_state(graph, jit):
    v = variable()
    body("change", [FLOAT], lambda x: [v.assign_add(x) and x])
    made = call("change", [3.0, *graph.functions["change"].graph.captures])

    with ax.control_dependencies([made.outputs[0]]):
        after = v.read_value()

    assert await results(graph, jit, after) == [3.0]


@pytest.mark.parametrize("taken", [True, False])
async def test_only_the_branch_that_is_taken_changes_state(graph, jit, taken):
    v = variable()
    body("add", [ax.resource], lambda handle: added(handle, 1.0))
    body("take", [ax.resource], lambda handle: added(handle, -10.0))
    pred = ax.placeholder(ax.bool, [])

    made = conditional(pred, "add", "take", [v.handle], [])
    with ax.control_dependencies([made]):
        after = v.read_value()

    assert await results(graph, jit, after, feeds={pred: taken}) == [1.0 if taken else -10.0]


def added(handle: Any, value: float) -> None:
    node("AssignAddVariableOp", [handle, value])


async def test_rounds_of_a_loop_change_state_one_after_the_other(graph, jit):
    v = variable(1.0)

    def following(i: Any, handle: Any) -> list[Any]:
        read = node("ReadVariableOp", [handle], dtype=FLOAT).outputs[0]
        added(handle, 0.0)
        with ax.control_dependencies([node("AssignVariableOp", [handle, read * 2.0])]):
            return [i + 1, ax.identity(handle)]

    body("below", [INT, ax.resource], lambda i, handle: i < 5)
    body("round", [INT, ax.resource], following)

    loop = node("While", [0, v.handle], cond="below", body="round")
    with ax.control_dependencies([loop.outputs[0]]):
        after = v.read_value()

    assert await results(graph, jit, after) == [32.0]


async def test_a_condition_with_state_is_asked_once_a_round(graph, jit):
    v = variable()

    def below(handle: Any) -> Any:
        with ax.control_dependencies([node("AssignAddVariableOp", [handle, 1.0])]):
            return node("ReadVariableOp", [handle], dtype=FLOAT).outputs[0] < 4.0

    body("below", [ax.resource], below)
    body("round", [ax.resource], lambda handle: handle)

    loop = node("While", [v.handle], cond="below", body="round")
    with ax.control_dependencies([loop]):
        after = v.read_value()

    assert await results(graph, jit, after) == [4.0]


@pytest.mark.parametrize("taken", [True, False])
async def test_a_call_in_a_conditional_runs_with_its_branch(graph, jit, taken):
    v = variable()

    def change() -> Any:
        v.assign_add(1.0)
        return ax.constant(7.0)

    body("change", [], change)
    captured = list(graph.functions["change"].graph.captures)
    pred = ax.placeholder(ax.bool, [])

    chosen = ax.cond(pred, lambda: call("change", captured).outputs[0], lambda: ax.constant(1.0))

    found = await results(graph, jit, chosen, v.read_value(), feeds={pred: taken})
    assert found == ([7.0, 1.0] if taken else [1.0, 0.0])


async def test_a_call_in_a_loop_runs_in_each_round(graph, jit):
    body("following", [FLOAT], lambda x: x * ax.constant(2.0) + ax.reduce_sum(ax.constant([1.0, 2.0])))

    looped = ax.while_loop(
        lambda i, x: i < 3, lambda i, x: [i + 1, call("following", [x]).outputs[0]], [0, 1.0]
    )

    assert await results(graph, jit, looped[1]) == [((1 * 2 + 3) * 2 + 3) * 2 + 3]


@pytest.mark.parametrize("taken", [True, False])
async def test_a_conditional_in_a_body_holds_nothing_up_by_the_branch_it_did_not_take(graph, jit, taken):
    v = variable()

    def change(x: Any) -> Any:
        ax.cond(x > 0.0, lambda: v.assign_add(1.0).op, lambda: ax.no_op())
        return x * 2.0

    body("change", [FLOAT], change)
    x = ax.placeholder(FLOAT, [])
    made = call("change", [x, *graph.functions["change"].graph.captures])
    with ax.control_dependencies([made]):
        after = v.read_value()

    found = await results(graph, jit, [made.outputs[0], after], feeds={x: 1.0 if taken else -1.0})

    assert found == [[2.0, 1.0] if taken else [-2.0, 0.0]]


async def test_loops_in_a_body_that_is_called_twice_do_not_mix(graph, jit):
    body(
        "looped",
        [FLOAT],
        lambda x: ax.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * 2.0], [0, x])[1],
    )

    once = call("looped", [1.0]).outputs[0]
    twice = call("looped", [once]).outputs[0]

    assert await results(graph, jit, [once, twice]) == [[8.0, 64.0]]


async def test_what_is_random_in_a_body_goes_on_from_step_to_step_for_each_call(graph):
    body("drawn", [], lambda: ax.random_uniform([4], seed=1))
    first, second = call("drawn").outputs[0], call("drawn").outputs[0]

    found = await results(graph, "off", first, [first, second], first)

    assert not np.array_equal(found[0], found[1][0])
    assert np.array_equal(found[0], found[1][1])  # each call has its own generator, of the same seed
    assert not any(np.array_equal(found[2], other) for other in (found[0], found[1][0]))


async def test_nodes_of_a_body_run_where_the_body_and_the_caller_say(graph):
    def spread(x: Any) -> Any:
        with ax.device("/cpu:2"):
            y = x * 2.0
        return y + 1.0

    body("spread", [FLOAT], spread)
    with ax.device("/cpu:1"):
        made = call("spread", [1.0], name="made")
    config = ax.ConfigProto(device_count={"CPU": 3})
    metadata = ax.RunMetadata()

    async with ax.Session(graph=graph, config=config) as session:
        options = ax.RunOptions(trace_level=ax.RunOptions.FULL_TRACE)
        value = await session.run(made.outputs[0], options=options, run_metadata=metadata)

    assert value == 3.0
    ran = {
        stats.node_name: device.device[-1]
        for device in metadata.step_stats.dev_stats
        for stats in device.node_stats
        if stats.node_name in ("made/mul", "made/add")
    }
    assert ran == {"made/mul": "2", "made/add": "1"}


async def test_a_feed_that_a_body_hands_through_is_a_value_of_its_own(graph):
    body("same", [FLOAT], lambda x: x)
    x = ax.placeholder(FLOAT, [2])
    same = call("same", [x]).outputs[0]
    fed = np.array([1.0, 2.0], np.float32)

    (found,) = await results(graph, "off", same, feeds={x: fed})

    assert found is not fed
    np.testing.assert_array_equal(found, fed)


async def test_the_output_of_a_call_may_be_fed(graph):
    body("doubled", [FLOAT], lambda x: x * 2.0)
    made = call("doubled", [ax.placeholder(FLOAT, [])]).outputs[0]

    assert await results(graph, "off", made + 1.0, feeds={made: 4.0}) == [5.0]


async def test_an_error_in_a_body_names_the_node_where_it_was_called(graph):
    body("checked", [FLOAT], lambda x: ax.reshape(x, [3]))
    x = ax.placeholder(FLOAT, None)

    with pytest.raises(ax.errors.InvalidArgumentError, match="outer/Reshape"):
        await results(graph, "off", call("checked", [x], name="outer"), feeds={x: [1.0, 2.0]})


async def test_inputs_and_outputs_of_functions_are_nodes_like_others_without_a_call(graph):
    given = node("_Arg", [], name="given", T=FLOAT, index=0)
    handed = node("_Retval", [given.outputs[0]], name="handed", index=0)

    assert await results(graph, "off", [given.outputs[0] + 1.0, handed], feeds={given.outputs[0]: 2.0}) == [
        [3.0, None]
    ]
    with pytest.raises(
        ax.errors.InvalidArgumentError, match="input 0 of a function, 'given', is run outside of a call"
    ):
        await results(graph, "off", handed)


# Functions that make nodes


async def test_for_counts_up_or_down(graph):
    k = ax.constant(10.0)

    @Defun(INT, FLOAT)
    def adding(i, x):
        return x + ax.cast(i, FLOAT) * k

    up = For(0, 5, 2, [1.0], adding)
    down = For(5, 0, -2, [1.0], adding)

    assert await results(graph, "off", [*up, *down]) == [[61.0, 91.0]]


async def test_while_takes_what_its_body_captures(graph):
    k = ax.constant(3.0)
    defun = Defun

    (after,) = While([1.0], defun(FLOAT)(lambda x: x < 20.0), defun(FLOAT)(lambda x: x * k))

    assert await results(graph, "off", after) == [27.0]
    with pytest.raises(ax.errors.GraphValueError, match="'cond' argument can not have extra captured inputs"):
        While([1.0], defun(FLOAT)(lambda x: x < k), defun(FLOAT)(lambda x: x * k))


async def test_if_and_partitioned_call_take_functions(graph):
    k = ax.constant(3.0)
    defun = Defun
    (chosen,) = If(1.0, [2.0], defun(FLOAT)(lambda x: x + 1.0), defun(FLOAT)(lambda x: x - 1.0))
    (called,) = partitioned_call([2.0], defun(FLOAT)(lambda x: x * k))

    assert await results(graph, "off", [chosen, called]) == [[3.0, 6.0]]
    with pytest.raises(ax.errors.GraphValueError, match="captures some"):
        If(1.0, [2.0], defun(FLOAT)(lambda x: x * k), defun(FLOAT)(lambda x: x))
