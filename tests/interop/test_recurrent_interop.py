"""Recurrent networks against TensorFlow's: names and values of variables, outputs, final states, gradients, static shapes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.interop.building import Builder, Built, values
from tests.interop.train.engines import compare, first_control_flow, table

pytestmark = pytest.mark.interop

ROWS, add = table()
BATCH, STEPS, DEPTH, UNITS = 3, 5, 4, 4
LENGTHS = np.array([2, 4, 0], np.int32)
Maker = Callable[[Any], Any]
"""Makes something of the module of either engine."""


@pytest.fixture(scope="module", autouse=True)
def tf_keras(tf: Any) -> Any:
    """The package that has TensorFlow's cells."""
    return pytest.importorskip("tf_keras")


def filled(nn: Any) -> Any:
    """An initializer that depends on the shape only."""

    def initial(shape: Any, dtype: Any = None, partition_info: Any = None, **ignored: Any) -> Any:
        count = int(np.prod([int(size) for size in shape]))
        return nn.constant(
            np.sin(np.arange(1.0, count + 1)).reshape([int(size) for size in shape]) * 0.5, dtype
        )

    return initial


def leaves(structure: Any) -> list[Any]:
    if isinstance(structure, list | tuple):
        return [leaf for part in structure for leaf in leaves(part)]
    return [structure]


def built(nn: Any, outputs: Any, feeds: dict[Any, Any], *inputs: Any) -> Built:
    """What to compare: outputs and states, and the gradients of the sum of their squares by variables and inputs."""
    flat = leaves(outputs)
    loss = nn.add_n([nn.reduce_sum(nn.square(each)) for each in flat])
    by = [*nn.trainable_variables(), *inputs]
    return Built(
        [*flat, *nn.gradients(loss, by)], [feeds], init=nn.global_variables_initializer(), tolerance=20.0
    )


def dynamic(
    make_cell: Maker, lengths: bool = False, static: bool = True, time_major: bool = False, **options: Any
) -> Builder:
    """A program with `dynamic_rnn`."""

    def build(nn: Any) -> Built:
        size = [STEPS, BATCH] if time_major else [BATCH, STEPS]
        x = nn.placeholder(nn.float32, [*(size if static else [None, None]), DEPTH])
        n = nn.placeholder(nn.int32, [BATCH if static else None])
        with nn.variable_scope("net", initializer=filled(nn)):
            found = nn.nn.dynamic_rnn(
                make_cell(nn.nn),
                x,
                n if lengths else None,
                dtype=nn.float32,
                time_major=time_major,
                **options,
            )
        return built(nn, found, {x: values(1, *size, DEPTH), n: LENGTHS}, x)

    return build


CELLS: dict[str, Maker] = {
    "basic rnn": lambda nn: nn.rnn_cell.BasicRNNCell(UNITS),
    "basic rnn with relu": lambda nn: nn.rnn_cell.BasicRNNCell(UNITS, activation=nn.relu),
    "activation by name": lambda nn: nn.rnn_cell.BasicRNNCell(UNITS, activation="softsign"),
    "gru": lambda nn: nn.rnn_cell.GRUCell(UNITS),
    "gru in a named scope": lambda nn: nn.rnn_cell.GRUCell(UNITS, name="mine"),
    "basic lstm": lambda nn: nn.rnn_cell.BasicLSTMCell(UNITS),
    "basic lstm without tuple": lambda nn: nn.rnn_cell.BasicLSTMCell(UNITS, 0.3, state_is_tuple=False),
    "lstm": lambda nn: nn.rnn_cell.LSTMCell(UNITS),
    "lstm with peepholes": lambda nn: nn.rnn_cell.LSTMCell(UNITS, use_peepholes=True, cell_clip=0.4),
    "lstm with projection": lambda nn: nn.rnn_cell.LSTMCell(6, num_proj=UNITS, proj_clip=0.3),
    "lstm without tuple": lambda nn: nn.rnn_cell.LSTMCell(
        6, num_proj=3, use_peepholes=True, state_is_tuple=False
    ),
    "lstm with shards": lambda nn: nn.rnn_cell.LSTMCell(6, num_proj=4, num_unit_shards=2, num_proj_shards=3),
    "two layers": lambda nn: nn.rnn_cell.MultiRNNCell(
        [nn.rnn_cell.BasicLSTMCell(UNITS), nn.rnn_cell.GRUCell(3)]
    ),
    "two layers without tuple": lambda nn: nn.rnn_cell.MultiRNNCell(
        [nn.rnn_cell.GRUCell(UNITS), nn.rnn_cell.BasicRNNCell(3)], state_is_tuple=False
    ),
    "residual": lambda nn: nn.rnn_cell.ResidualWrapper(nn.rnn_cell.BasicLSTMCell(UNITS)),
    "residual function": lambda nn: nn.rnn_cell.ResidualWrapper(
        nn.rnn_cell.GRUCell(UNITS), lambda inputs, outputs: inputs * outputs
    ),
    "on a device": lambda nn: nn.rnn_cell.DeviceWrapper(nn.rnn_cell.BasicLSTMCell(UNITS), "/cpu:0"),
    "dropout": lambda nn: nn.rnn_cell.DropoutWrapper(nn.rnn_cell.BasicLSTMCell(UNITS), 0.7, 0.6, 0.5, seed=7),
    "variational dropout": lambda nn: nn.rnn_cell.DropoutWrapper(
        nn.rnn_cell.MultiRNNCell([nn.rnn_cell.BasicLSTMCell(UNITS), nn.rnn_cell.GRUCell(3)]),
        0.7,
        0.6,
        0.5,
        variational_recurrent=True,
        input_size=DEPTH,
        dtype="float32",
        seed=7,
    ),
    "dropout on all states": lambda nn: nn.rnn_cell.DropoutWrapper(
        nn.rnn_cell.MultiRNNCell([nn.rnn_cell.BasicLSTMCell(UNITS), nn.rnn_cell.GRUCell(3)]),
        state_keep_prob=0.5,
        seed=3,
        dropout_state_filter_visitor=lambda state: True,
    ),
    "dropout in layers": lambda nn: nn.rnn_cell.MultiRNNCell(
        [nn.rnn_cell.DropoutWrapper(nn.rnn_cell.GRUCell(UNITS), output_keep_prob=0.5, seed=k) for k in (1, 2)]
    ),
}
for name, make in CELLS.items():
    # TensorFlow runs iterations concurrently, in which random ops draw in any order.
    one_by_one: dict[str, Any] = {"parallel_iterations": 1} if "dropout" in name else {}
    add(name, dynamic(make, **one_by_one))
    add(f"{name}, lengths", dynamic(make, lengths=True, **one_by_one))
add("unknown sizes", dynamic(CELLS["two layers"], static=False))
add("unknown sizes, lengths", dynamic(CELLS["two layers"], lengths=True, static=False))
add("time major", dynamic(CELLS["basic lstm"], time_major=True))
add("time major, lengths", dynamic(CELLS["basic lstm"], lengths=True, time_major=True))
add("another scope", dynamic(CELLS["basic lstm"], scope="encoder", parallel_iterations=1, swap_memory=True))


def bidirectional(lengths: bool, time_major: bool = False) -> Builder:
    def build(nn: Any) -> Built:
        size = [STEPS, BATCH] if time_major else [BATCH, STEPS]
        x = nn.placeholder(nn.float32, [*size, DEPTH])
        with nn.variable_scope("net", initializer=filled(nn)):
            found = nn.nn.bidirectional_dynamic_rnn(
                nn.nn.rnn_cell.BasicLSTMCell(UNITS),
                nn.nn.rnn_cell.GRUCell(3),
                x,
                LENGTHS if lengths else None,
                dtype=nn.float32,
                time_major=time_major,
            )
        return built(nn, found, {x: values(1, *size, DEPTH)}, x)

    return build


def nested_inputs(nn: Any) -> Built:
    """A cell of its own, with a structure of inputs and of outputs, that creates its variables when called."""

    class Pair(nn.nn.rnn_cell.RNNCell):
        state_size = (UNITS, 2)
        output_size = (UNITS, 2)

        def call(self, inputs: Any, state: Any) -> Any:
            first, second = inputs
            w = nn.get_variable("w", [DEPTH, UNITS])
            one = nn.tanh(nn.matmul(first, w) + state[0])
            other = nn.sigmoid(second * state[1] + second)
            return (one, other), (one * 0.5, other)

    x, y = nn.placeholder(nn.float32, [BATCH, STEPS, DEPTH]), nn.placeholder(nn.float32, [BATCH, STEPS, 2])
    with nn.variable_scope("net", initializer=filled(nn)):
        cell = Pair()
        state = cell.zero_state(BATCH, nn.float32)
        found = nn.nn.dynamic_rnn(cell, (x, y), LENGTHS, initial_state=state)
    assert len(cell.trainable_weights) == 1
    return built(nn, found, {x: values(1, BATCH, STEPS, DEPTH), y: values(2, BATCH, STEPS, 2)}, x, y)


def static(lengths: bool, is_bidirectional: bool = False) -> Builder:
    def build(nn: Any) -> Built:
        x = nn.placeholder(nn.float32, [BATCH, STEPS, DEPTH])
        inputs = nn.unstack(x, axis=1)
        given = nn.constant(LENGTHS) if lengths else None
        cell = nn.nn.rnn_cell.MultiRNNCell([nn.nn.rnn_cell.BasicLSTMCell(UNITS), nn.nn.rnn_cell.GRUCell(3)])
        with nn.variable_scope("net", initializer=filled(nn)):
            if is_bidirectional:
                other = nn.nn.rnn_cell.LSTMCell(2)
                found = nn.nn.static_bidirectional_rnn(
                    cell, other, inputs, dtype=nn.float32, sequence_length=given
                )
            else:
                found = nn.nn.static_rnn(cell, inputs, dtype=nn.float32, sequence_length=given)
        return built(nn, found, {x: values(1, BATCH, STEPS, DEPTH)}, x)

    return build


def saved_state(nn: Any) -> Built:
    """The state goes from one run to the next through a variable."""
    held = nn.get_variable("held", [BATCH, UNITS], initializer=nn.zeros_initializer(), trainable=False)

    class Saver:
        def state(self, name: str) -> Any:
            return held + 0.0

        def save_state(self, name: str, value: Any) -> Any:
            return nn.assign(held, value)

    x = nn.placeholder(nn.float32, [BATCH, 2, DEPTH])
    with nn.variable_scope("net", initializer=filled(nn)):
        found = nn.nn.static_state_saving_rnn(
            nn.nn.rnn_cell.GRUCell(UNITS), nn.unstack(x, axis=1), Saver(), "held"
        )
    feeds = [{x: values(seed, BATCH, 2, DEPTH)} for seed in (1, 2)]
    return Built(leaves(found), feeds, init=nn.global_variables_initializer(), tolerance=20.0)


def raw(emits: bool) -> Builder:
    def build(nn: Any) -> Built:
        x = nn.placeholder(nn.float32, [STEPS, BATCH, DEPTH])
        cell = nn.nn.rnn_cell.LSTMCell(UNITS)
        rows = nn.TensorArray(nn.float32, STEPS).unstack(x)

        def loop_fn(time: Any, output: Any, state: Any, loop_state: Any) -> Any:
            finished = time >= nn.constant(LENGTHS)
            done = nn.reduce_all(finished)
            following = nn.cond(done, lambda: nn.zeros([BATCH, DEPTH]), lambda: rows.read(time))
            if output is None:
                structure = (nn.zeros([2]), nn.zeros([], nn.int32)) if emits else None
                return finished, following, cell.zero_state(BATCH, nn.float32), structure, nn.constant(0.0)
            emitted = (output[:, :2], nn.zeros([BATCH], nn.int32) + time) if emits else output
            return finished, following, state, emitted, loop_state + nn.reduce_sum(output)

        with nn.variable_scope("net", initializer=filled(nn)):
            arrays, state, total = nn.nn.raw_rnn(cell, loop_fn)
        outputs = [array.stack() for array in leaves(arrays)]
        grads = nn.gradients(nn.reduce_sum(nn.square(outputs[0])) + total, [*nn.trainable_variables(), x])
        return Built(
            [*outputs, *leaves(state), total, *grads],
            [{x: values(1, STEPS, BATCH, DEPTH)}],
            init=nn.global_variables_initializer(),
            tolerance=20.0,
        )

    return build


def shared(nn: Any) -> Built:
    """One network for training and another one with its variables."""
    x = nn.placeholder(nn.float32, [BATCH, STEPS, DEPTH])
    found = []
    for reuse in (None, True):
        with nn.variable_scope("model", reuse=reuse, initializer=filled(nn)):
            cell = nn.nn.rnn_cell.MultiRNNCell([nn.nn.rnn_cell.LSTMCell(UNITS) for _ in range(2)])
            found.append(nn.nn.dynamic_rnn(cell, x, dtype=nn.float32))
            found.append(
                nn.nn.bidirectional_dynamic_rnn(cell, nn.nn.rnn_cell.GRUCell(2), x, dtype=nn.float32)
            )
    return built(nn, found, {x: values(1, BATCH, STEPS, DEPTH)}, x)


def written_out(nn: Any) -> Built:
    """A loop in Python over the steps, which shares the variables of the first one; one cell is in both layers."""
    x = nn.placeholder(nn.float32, [BATCH, STEPS, DEPTH])
    cell = nn.nn.rnn_cell.BasicLSTMCell(UNITS, forget_bias=0.0)
    stack = nn.nn.rnn_cell.MultiRNNCell([cell] * 2)
    state = stack.zero_state(BATCH, nn.float32)
    outputs = []
    with nn.variable_scope("RNN", initializer=filled(nn)) as scope:
        for time in range(STEPS):
            if time > 0:
                scope.reuse_variables()
            output, state = stack(x[:, time, :], state)
            outputs.append(output)
    return built(nn, [outputs, state], {x: values(1, BATCH, STEPS, DEPTH)}, x)


def of_old_style(nn: Any) -> Built:
    """A cell that defines the call itself, with a scope of its own, without a constructor of the base."""

    class Old(nn.nn.rnn_cell.RNNCell):
        def __init__(self, units: int) -> None:
            self.units = units

        @property
        def state_size(self) -> int:
            return self.units

        @property
        def output_size(self) -> int:
            return self.units

        def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
            with nn.variable_scope(scope or type(self).__name__):
                w = nn.get_variable("w", [DEPTH, self.units])
                output = nn.tanh(nn.matmul(inputs, w) + state)
            return output, output

    x = nn.placeholder(nn.float32, [BATCH, STEPS, DEPTH])
    with nn.variable_scope("net", initializer=filled(nn)):
        found = nn.nn.dynamic_rnn(Old(UNITS), x, LENGTHS, dtype=nn.float32)
    return built(nn, found, {x: values(1, BATCH, STEPS, DEPTH)}, x)


def in_a_loop(nn: Any) -> Built:
    """A network in the body of a loop over groups of sequences."""
    x = nn.placeholder(nn.float32, [2, BATCH, STEPS, DEPTH])
    cell = nn.nn.rnn_cell.GRUCell(UNITS)

    def last(rows: Any) -> Any:
        return nn.nn.dynamic_rnn(cell, rows, LENGTHS, dtype=nn.float32)[1]

    with nn.variable_scope("net", initializer=filled(nn)):
        found = nn.map_fn(last, x)
    return built(nn, found, {x: values(1, 2, BATCH, STEPS, DEPTH)}, x)


def given_scopes(nn: Any) -> Built:
    """Cells called with a scope: a name, and one that was opened before."""
    x = nn.placeholder(nn.float32, [BATCH, DEPTH])
    found = []
    with nn.variable_scope("net", initializer=filled(nn)):
        for make in (
            nn.nn.rnn_cell.GRUCell,
            lambda n: nn.nn.rnn_cell.MultiRNNCell([nn.nn.rnn_cell.GRUCell(n)]),
        ):
            cell = make(UNITS)
            found.append(cell(x, cell.zero_state(BATCH, nn.float32), "first")[0])
            with nn.variable_scope("second") as scope:
                pass
            cell = make(UNITS)
            found.append(cell(x, cell.zero_state(BATCH, nn.float32), scope=scope)[0])
    return built(nn, found, {x: values(1, BATCH, DEPTH)}, x)


add("bidirectional", bidirectional(False))
add("shared", shared)
add("written out", written_out)
add("of old style", of_old_style)
add("in a loop", in_a_loop)
add("given scopes", given_scopes)
add("bidirectional, lengths", bidirectional(True))
add("bidirectional, time major, lengths", bidirectional(True, time_major=True))
add("nested inputs", nested_inputs)
add("static", static(False))
add("static, lengths", static(True))
add("static, bidirectional", static(False, is_bidirectional=True))
add("static, bidirectional, lengths", static(True, is_bidirectional=True))
add("saved state", saved_state)
add("raw", raw(False))
add("raw, another structure of outputs", raw(True))


FUNCTIONS = [
    "bidirectional_dynamic_rnn",
    "dynamic_rnn",
    "raw_rnn",
    "static_bidirectional_rnn",
    "static_rnn",
    "static_state_saving_rnn",
]
CONSTRUCTORS = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "MultiRNNCell",
    "ResidualWrapper",
]


def signature(function: Any) -> list[tuple[str, Any]]:
    return [(each.name, each.default) for each in inspect.signature(function).parameters.values()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ROWS)
async def test_a_network_is_that_of_tensorflow(tf, name):
    assert await compare(tf, ROWS[name], 20.0, resource=False) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["two layers, lengths", "static, lengths", "raw"])
async def test_variables_may_be_resources(tf, name):
    assert await compare(tf, ROWS[name], 20.0) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["two layers, lengths", "bidirectional, lengths", "nested inputs"])
def test_products_have_the_names_of_tensorflow(tf, name):
    def products(nn: Any) -> list[str]:
        with nn.Graph().as_default() as graph:
            ROWS[name](nn)
        return [node.name for node in graph.get_operations() if node.type in ("MatMul", "Sigmoid", "Select")]

    with first_control_flow(tf):
        expected = products(tf)

    assert [each for each in products(ax) if "gradients" not in each] == [
        each for each in expected if "gradients" not in each
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_takes_tensorflows_arguments(tf, name):
    assert signature(getattr(ax.nn, name)) == signature(getattr(tf.nn, name))


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_a_cell_takes_tensorflows_arguments(tf, name):
    ours, theirs = getattr(ax.nn.rnn_cell, name), getattr(tf.nn.rnn_cell, name)

    assert signature(ours.__init__) == signature(theirs.__init__)
    assert [name for name in ("zero_state", "get_initial_state") if not hasattr(ours, name)] == []
