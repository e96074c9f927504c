"""`contrib.cudnn_rnn` against NumPy: outputs, states, names and first values of variables, checkpoints of plain cells."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from tests.contrib.seq2seq_models import native, part_of, variables
from tests.recurrent.networks import (
    beside,
    close,
    drawn,
    lstm_step,
    results,
    sigmoid,
    unrolled,
    weights,
)

cudnn = ax.contrib.cudnn_rnn
BATCH, STEPS, DEPTH, UNITS, LAYERS = 3, 4, 2, 3, 2
X = drawn(1, BATCH, STEPS, DEPTH)
STEPS_FIRST = X.swapaxes(0, 1)
LENGTHS = np.array([2, 4, 3], np.int32)


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def plain_step(function):
    def make(given):
        def step(x, h):
            output = function(beside(x, h) @ given["kernel"] + given["bias"])
            return output, output

        return step

    return make


def gru_step(given):
    def step(x, h):
        r, u = np.split(sigmoid(beside(x, h) @ given["gates/kernel"] + given["gates/bias"]), 2, axis=1)
        one, other = part_of(given, "input_projection"), part_of(given, "hidden_projection")
        candidate = np.tanh(x @ one["kernel"] + one["bias"] + r * (h @ other["kernel"] + other["bias"]))
        output = u * h + (1 - u) * candidate
        return output, output

    return step


KINDS = {
    "lstm": (cudnn.CudnnLSTM, "cudnn_compatible_lstm_cell", lambda given: lstm_step(given, 0.0)),
    "gru": (cudnn.CudnnGRU, "cudnn_compatible_gru_cell", gru_step),
    "tanh": (cudnn.CudnnRNNTanh, "basic_rnn_cell", plain_step(np.tanh)),
    "relu": (cudnn.CudnnRNNRelu, "basic_rnn_cell", plain_step(lambda x: np.maximum(x, 0))),
}
each_kind = pytest.mark.parametrize(("kind", "cell", "model"), KINDS.values(), ids=KINDS)


def turned(x, lengths):
    ends = [x.shape[1]] * BATCH if lengths is None else lengths
    return np.stack([np.concatenate([row[:n][::-1], row[n:]]) for row, n in zip(x, ends, strict=True)])


def network(given, model, cell, start, lengths, bidirectional):
    """Outputs [batch, steps, ...] and the last states of all cells."""
    x, ends = X, []
    for layer in range(LAYERS):
        if not bidirectional:
            mine = part_of(given, f"cell_{layer}/{cell}")
            x, state = unrolled(model(mine), x, start[layer], lengths)
            ends.append(state)
            continue
        outputs = []
        for way, direction in enumerate(("fw", "bw")):
            mine = part_of(given, f"cell_{layer}/bidirectional_rnn/{direction}/{cell}")
            inputs = turned(x, lengths) if way else x
            found, state = unrolled(model(mine), inputs, start[2 * layer + way], lengths)
            outputs.append(turned(found, lengths) if way else found)
            ends.append(state)
        x = np.concatenate(outputs, 2)
    return x, ends


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("bidirectional", [False, True])
@each_kind
async def test_a_network_runs_its_layers(kind, cell, model, bidirectional, lengths):
    direction = cudnn.CUDNN_RNN_BIDIRECTION if bidirectional else cudnn.CUDNN_RNN_UNIDIRECTION
    net = kind(LAYERS, UNITS, direction=direction)
    parts = 2 if net.rnn_mode == "lstm" else 1
    count = LAYERS * net.num_dirs
    given_states = [drawn(10 + k, count, BATCH, UNITS) for k in range(parts)]
    outputs, states = net(
        ax.constant(STEPS_FIRST),
        initial_state=tuple(map(ax.constant, given_states)),
        sequence_lengths=lengths,
    )
    given = weights(variables())

    found, last = await results((outputs, states), given)

    start = [
        tuple(part[k] for part in given_states[::-1]) if parts == 2 else given_states[0][k]
        for k in range(count)
    ]
    expected, ends = network(given, model, cell, start, lengths, bidirectional)
    assert close(found, expected.swapaxes(0, 1))
    assert len(last) == parts
    assert close(last[0], np.stack([end[1] if parts == 2 else end for end in ends]))
    if parts == 2:
        assert close(last[1], np.stack([end[0] for end in ends]))


async def test_batches_may_come_first_and_states_be_zero():
    net = cudnn.CudnnLSTM(1, UNITS)
    outputs, states = net(ax.constant(X), time_major=False)
    given = weights(variables())

    found, last = await results((outputs, states), given)

    zero = np.zeros((BATCH, UNITS), np.float32)
    expected, end = unrolled(lstm_step(part_of(given, "cudnn_compatible_lstm_cell"), 0.0), X, (zero, zero))
    assert close(found, expected)
    assert close(last[0][:, 0], end[1])
    assert net.state_shape(BATCH) == ([1, BATCH, UNITS], [1, BATCH, UNITS])
    assert net.input_size == DEPTH


def test_variables_have_the_names_under_which_tensorflow_saves_them():
    cudnn.CudnnLSTM(2, UNITS)(ax.constant(STEPS_FIRST))
    cudnn.CudnnGRU(1, UNITS, direction="bidirectional")(ax.constant(STEPS_FIRST))

    one, other = "cudnn_lstm/rnn/multi_rnn_cell", "cudnn_gru/stack_bidirectional_rnn/cell_0/bidirectional_rnn"
    assert variables() == {
        f"{one}/cell_0/cudnn_compatible_lstm_cell/kernel": (DEPTH + UNITS, 4 * UNITS),
        f"{one}/cell_1/cudnn_compatible_lstm_cell/kernel": (2 * UNITS, 4 * UNITS),
        **{f"{one}/cell_{k}/cudnn_compatible_lstm_cell/bias": (4 * UNITS,) for k in range(2)},
        **{
            f"{other}/{way}/cudnn_compatible_gru_cell/{name}": shape
            for way in ("fw", "bw")
            for name, shape in {
                "gates/kernel": (DEPTH + UNITS, 2 * UNITS),
                "gates/bias": (2 * UNITS,),
                "candidate/input_projection/kernel": (DEPTH, UNITS),
                "candidate/input_projection/bias": (UNITS,),
                "candidate/hidden_projection/kernel": (UNITS, UNITS),
                "candidate/hidden_projection/bias": (UNITS,),
            }.items()
        },
    }


async def test_plain_cells_restore_the_checkpoint_of_a_network(tmp_path):
    outputs, _ = cudnn.CudnnLSTM(LAYERS, UNITS)(ax.constant(STEPS_FIRST))
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        expected = await session.run(outputs)
        path = await ax.train.Saver().save(session, str(tmp_path / "model"))

    with ax.Graph().as_default(), ax.variable_scope("cudnn_lstm"):
        cells = [cudnn.CudnnCompatibleLSTMCell(UNITS) for _ in range(LAYERS)]
        again, _ = ax.nn.dynamic_rnn(
            ax.nn.rnn_cell.MultiRNNCell(cells), ax.constant(STEPS_FIRST), dtype=ax.float32, time_major=True
        )
        async with ax.Session() as session:
            await ax.train.Saver().restore(session, path)
            found = await session.run(again)

    assert close(found, expected)


async def test_the_gru_cell_begins_with_open_gates():
    cell = cudnn.CudnnCompatibleGRUCell(UNITS)
    output, _ = cell(ax.constant(X[:, 0]), ax.zeros([BATCH, UNITS]))
    given = weights(variables())

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        first = await session.run(ax.global_variables()[1])
    found = await results(output, given)

    mine = part_of(given, "cudnn_compatible_gru_cell")
    assert close(first, np.ones(2 * UNITS))
    assert close(found, gru_step(mine)(X[:, 0], np.zeros((BATCH, UNITS), np.float32))[0])


async def test_kernels_begin_with_a_part_for_each_gate():
    seen = []

    def initializer(shape, dtype=None):
        seen.append(list(shape))
        return ax.fill(shape, float(len(seen)))

    cudnn.CudnnLSTM(1, UNITS, kernel_initializer=initializer)(ax.constant(STEPS_FIRST))

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        kernel, bias = [await session.run(each) for each in ax.global_variables()]

    parts = [
        np.concatenate([np.full((DEPTH, UNITS), 2 * k + 1), np.full((UNITS, UNITS), 2 * k + 2)])
        for k in range(4)
    ]
    assert seen == [[UNITS, DEPTH], [UNITS, UNITS]] * 4
    assert close(kernel, np.concatenate(parts, 1))
    assert close(bias, np.zeros(4 * UNITS))


@pytest.mark.parametrize("training", [False, True])
async def test_dropout_is_between_layers_in_training(training):
    net = cudnn.CudnnRNNTanh(2, UNITS, dropout=0.999999, seed=1)
    outputs, states = net(ax.constant(STEPS_FIRST), training=training)
    given = weights(variables())

    found, last = await results((outputs, states[0]), given)

    zero = np.zeros((BATCH, UNITS), np.float32)
    steps = [plain_step(np.tanh)(part_of(given, f"cell_{layer}/basic_rnn_cell")) for layer in range(2)]
    hidden, end = unrolled(steps[0], X, zero)
    expected, _ = unrolled(steps[1], hidden * (not training), zero)
    assert close(last[0], end)
    assert close(found, expected.swapaxes(0, 1))


async def test_a_training_step_is_one_native_item():
    outputs, _ = cudnn.CudnnLSTM(LAYERS, UNITS, direction="bidirectional")(ax.constant(STEPS_FIRST))
    loss = ax.reduce_sum(ax.square(outputs))
    train = ax.train.GradientDescentOptimizer(0.1).minimize(loss)

    _, report = await native([loss, train])

    assert [len(partition.items) for partition in report.partitions] == [1]
    assert report.breaks_by_op == {}


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: cudnn.CudnnLSTM(1, 2, direction="both"), GraphValueError, "Invalid rnn direction"),
        (
            lambda: cudnn.CudnnLSTM(1, 2, "skip_input"),
            GraphValueError,
            "input_mode 'skip_input' is not offered",
        ),
        (lambda: cudnn.CudnnLSTM(1, 2, dtype=ax.int32), GraphValueError, "Only support float16"),
        (lambda: cudnn.CudnnLSTM(1, 2).input_size, GraphValueError, "'input_size' is unknown"),
        (
            lambda: cudnn.CudnnLSTM(1, 2)(ax.placeholder(ax.float32, [2, 3, None])),
            GraphValueError,
            "The last dimension of the inputs",
        ),
        (
            lambda: cudnn.CudnnLSTM(1, 2)(ax.zeros([2, 3])),
            GraphValueError,
            "Expecting input_shape with 3 dims",
        ),
        (
            lambda: cudnn.CudnnGRU(1, 2)(ax.constant(X), initial_state=ax.zeros([1, 3, 2])),
            GraphTypeError,
            "expecting tuple",
        ),
    ],
)
def test_what_is_wrong_is_said(make, error, text):
    with pytest.raises(error, match=text):
        make()
