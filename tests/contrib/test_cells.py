"""The cells of `contrib.rnn` against NumPy, over the steps of a sequence: outputs, states, and names of variables."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from tests.contrib.seq2seq_models import part_of, peephole_step, softmax, variables
from tests.recurrent.networks import (
    basic_step,
    beside,
    close,
    drawn,
    gru_step,
    lstm_step,
    results,
    sigmoid,
    unrolled,
    weights,
)

rnn = ax.contrib.rnn
BATCH, STEPS, DEPTH, UNITS = 3, 4, 2, 3
X = drawn(1, BATCH, STEPS, DEPTH)
LENGTHS = np.array([2, 4, 0], np.int32)
ZERO = np.zeros((BATCH, UNITS), np.float32)
PAIR = (ZERO, ZERO)


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def relu(x):
    return np.maximum(x, 0)


def nas_step(given, proj=False):
    def step(x, state):
        c, m = state
        x = np.split(x @ given["kernel"], 8, axis=1)
        h = np.split(m @ given["recurrent_kernel"] + given.get("bias", 0), 8, axis=1)
        first = [
            sigmoid(x[0] + h[0]),
            relu(x[1] + h[1]),
            sigmoid(x[2] + h[2]),
            relu(x[3] * h[3]),
            np.tanh(x[4] + h[4]),
            sigmoid(x[5] + h[5]),
            np.tanh(x[6] + h[6]),
            sigmoid(x[7] + h[7]),
        ]
        second = [
            np.tanh(np.tanh(first[0] * first[1]) + c),
            np.tanh(first[2] + first[3]),
            np.tanh(first[4] * first[5]),
            sigmoid(first[6] + first[7]),
        ]
        c = second[0] * second[1]
        m = np.tanh(c * np.tanh(second[2] + second[3]))
        if "projection_weights" in given:
            m = m @ given["projection_weights"]
        return m, (c, m)

    return step


def ugrnn_step(given):
    def step(x, h):
        g, c = np.split(beside(x, h) @ given["kernel"] + given["bias"], 2, axis=1)
        g = sigmoid(g + 1)
        h = g * h + (1 - g) * np.tanh(c)
        return h, h

    return step


def intersection_step(given):
    def step(x, h):
        if "in_projection/kernel" in given:
            x = x @ given["in_projection/kernel"] + given["in_projection/bias"]
        g, new, d, y = np.split(beside(x, h) @ given["kernel"] + given["bias"], 4, axis=1)
        g, d = sigmoid(g + 1), sigmoid(d + 1)
        return d * x + (1 - d) * relu(y), g * h + (1 - g) * np.tanh(new)

    return step


def sru_step(given):
    def step(x, c):
        x, f, r, t = np.split(x @ given["kernel"], 4, axis=1)
        f, r = sigmoid(f + given["bias"][:UNITS]), sigmoid(r + given["bias"][UNITS:])
        c = f * c + (1 - f) * x
        return r * np.tanh(c) + (1 - r) * t, c

    return step


def normalized(given, x, scope):
    """`x` with rows of mean 0 and variance 1, scaled and shifted."""
    rows = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-12)
    return rows * given[f"{scope}/gamma"] + given[f"{scope}/beta"]


def layer_norm_step(given):
    def step(x, state):
        c, h = state
        parts = np.split(beside(x, h) @ given["kernel"], 4, axis=1)
        scopes = ("input", "transform", "forget", "output")
        i, j, f, o = [normalized(given, part, scope) for part, scope in zip(parts, scopes, strict=True)]
        c = normalized(given, c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j), "state")
        h = np.tanh(c) * sigmoid(o)
        return h, (c, h)

    return step


def coupled_step(given, norm=False):
    kernel = np.concatenate(
        [given[name] for name in sorted(given) if name.startswith("W_") and name[2:].isdigit()]
    )

    def step(x, state):
        c, h = state
        product = beside(x, h) @ kernel + (0 if norm else given["B"])
        j, f, o = np.split(product, 3, axis=1)
        if norm:
            j, f, o = [
                normalized(given, part, scope)
                for part, scope in ((j, "transform"), (f, "forget"), (o, "output"))
            ]
        kept = sigmoid(f + 1 + given.get("W_F_diag", 0) * c)
        c = kept * c + (1 - kept) * np.tanh(j)
        if norm:
            c = normalized(given, c, "state")
        h = sigmoid(o + given.get("W_O_diag", 0) * c) * np.tanh(c)
        if "W_P_0" in given:
            h = np.clip(h @ given["W_P_0"], -0.3, 0.3)
        return h, (c, h)

    return step


def weight_norm_step(given):
    def unit(rows, norm):
        return rows / np.sqrt((rows**2).sum(0)) * norm

    def step(x, state):
        c, h = state
        kernel = np.concatenate(
            [unit(given["kernel"][:DEPTH], given["norm_0"]), unit(given["kernel"][DEPTH:], given["norm_1"])]
        )
        i, j, f, o = np.split(beside(x, h) @ kernel + given["bias"], 4, axis=1)
        i, f = i + given["w_i_diag"] * c, f + given["w_f_diag"] * c
        c = np.clip(c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j), -0.5, 0.5)
        h = sigmoid(o + given["w_o_diag"] * c) * np.tanh(c)
        if "projection/kernel" in given:
            h = h @ unit(given["projection/kernel"], given["projection/norm_0"])
        return h, (c, h)

    return step


def gru_block_step(given):
    names = {"w_ru": "gates/kernel", "b_ru": "gates/bias", "w_c": "candidate/kernel", "b_c": "candidate/bias"}
    return gru_step({names[name]: value for name, value in given.items()})


NORMS = [
    f"{scope}/{part}" for scope in ("transform", "forget", "output", "state") for part in ("gamma", "beta")
]
ROWS = {
    "block lstm": (lambda: rnn.LSTMBlockCell(UNITS), "lstm_cell", ["kernel", "bias"], lstm_step, PAIR),
    "block lstm with peepholes": (
        lambda: rnn.LSTMBlockCell(UNITS, cell_clip=0.4, use_peephole=True, forget_bias=0.5),
        "lstm_cell",
        ["kernel", "bias", "w_i_diag", "w_f_diag", "w_o_diag"],
        lambda given: peephole_step(given, 0.4, 0.5),
        PAIR,
    ),
    "block gru": (
        lambda: rnn.GRUBlockCell(UNITS),
        "gru_cell",
        ["w_ru", "b_ru", "w_c", "b_c"],
        gru_block_step,
        ZERO,
    ),
    "block gru 2": (
        lambda: rnn.GRUBlockCellV2(cell_size=UNITS),
        "gru_cell",
        ["gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"],
        gru_step,
        ZERO,
    ),
    "nas": (lambda: rnn.NASCell(UNITS), "nas_cell", ["kernel", "recurrent_kernel"], nas_step, PAIR),
    "nas with projection": (
        lambda: rnn.NASCell(UNITS, num_proj=2, use_biases=True),
        "nas_cell",
        ["kernel", "recurrent_kernel", "bias", "projection_weights"],
        nas_step,
        (ZERO, ZERO[:, :2]),
    ),
    "ugrnn": (lambda: rnn.UGRNNCell(UNITS), "ugrnn_cell", ["kernel", "bias"], ugrnn_step, ZERO),
    "intersection": (
        lambda: rnn.IntersectionRNNCell(UNITS, num_in_proj=UNITS),
        "intersection_rnn_cell",
        ["kernel", "bias", "in_projection/kernel", "in_projection/bias"],
        intersection_step,
        ZERO,
    ),
    "sru": (lambda: rnn.SRUCell(UNITS), "sru_cell", ["kernel", "bias"], sru_step, ZERO),
    "layer norm": (
        lambda: rnn.LayerNormBasicLSTMCell(UNITS),
        "layer_norm_basic_lstm_cell",
        ["kernel", *NORMS, "input/gamma", "input/beta"],
        layer_norm_step,
        PAIR,
    ),
    "without layer norm": (
        lambda: rnn.LayerNormBasicLSTMCell(UNITS, layer_norm=False),
        "layer_norm_basic_lstm_cell",
        ["kernel", "bias"],
        lstm_step,
        PAIR,
    ),
    "coupled": (
        lambda: rnn.CoupledInputForgetGateLSTMCell(UNITS, use_peepholes=True, num_unit_shards=2),
        "coupled_input_forget_gate_lstm_cell",
        ["W_0", "W_1", "B", "W_F_diag", "W_O_diag"],
        coupled_step,
        PAIR,
    ),
    "coupled with projection": (
        lambda: rnn.CoupledInputForgetGateLSTMCell(UNITS, num_proj=2, proj_clip=0.3),
        "coupled_input_forget_gate_lstm_cell",
        ["W_0", "B", "W_P_0"],
        coupled_step,
        (ZERO, ZERO[:, :2]),
    ),
    "coupled with norms": (
        lambda: rnn.CoupledInputForgetGateLSTMCell(UNITS, layer_norm=True),
        "coupled_input_forget_gate_lstm_cell",
        ["W_0", "B", *NORMS],
        lambda given: coupled_step(given, norm=True),
        PAIR,
    ),
    "weight norm": (
        lambda: rnn.WeightNormLSTMCell(UNITS, use_peepholes=True, cell_clip=0.5, num_proj=2),
        "wn_lstm_cell/wn_lstm_cell",
        [
            "kernel",
            "bias",
            "norm_0",
            "norm_1",
            "w_i_diag",
            "w_f_diag",
            "w_o_diag",
            "projection/kernel",
            "projection/norm_0",
        ],
        weight_norm_step,
        (ZERO, ZERO[:, :2]),
    ),
}


@pytest.mark.parametrize(("make", "scope", "names", "model", "start"), ROWS.values(), ids=ROWS)
async def test_a_cell_computes_what_its_formula_says(make, scope, names, model, start):
    cell = make()
    found = ax.nn.dynamic_rnn(cell, ax.constant(X), LENGTHS, dtype=ax.float32)
    given = weights(variables())

    outputs, state = await results(found, given)

    expected, last = unrolled(model(part_of(given, scope)), X, start, LENGTHS)
    assert {name.removeprefix("rnn/") for name in given} == {f"{scope}/{name}" for name in names}
    assert close(outputs, expected)
    assert close(tuple(state) if isinstance(state, tuple) else state, last)


async def test_concatenated_states_of_the_coupled_cell():
    cell = rnn.CoupledInputForgetGateLSTMCell(UNITS, state_is_tuple=False)
    outputs, state = ax.nn.dynamic_rnn(cell, ax.constant(X), dtype=ax.float32)
    given = weights(variables())

    found, last = await results((outputs, state), given)

    scope = "coupled_input_forget_gate_lstm_cell"
    expected, pair = unrolled(coupled_step(part_of(given, scope)), X, PAIR)
    assert cell.state_size == 2 * UNITS
    assert close(found, expected)
    assert close(last, np.concatenate(pair, 1))


async def test_the_first_values_of_norms_are_those_given():
    cell = rnn.LayerNormBasicLSTMCell(UNITS, norm_gain=2.0, norm_shift=0.5)
    ax.nn.dynamic_rnn(cell, ax.constant(X), dtype=ax.float32)

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        values = {each.op.name: await session.run(each) for each in ax.global_variables()}

    assert close(values["rnn/layer_norm_basic_lstm_cell/state/gamma"], np.full(UNITS, 2))
    assert close(values["rnn/layer_norm_basic_lstm_cell/input/beta"], np.full(UNITS, 0.5))


async def test_dropout_keeps_all_or_nothing_of_the_new_input():
    probability = ax.placeholder(ax.float32, [])
    cell = rnn.LayerNormBasicLSTMCell(
        UNITS, layer_norm=False, dropout_keep_prob=probability, dropout_prob_seed=1
    )
    outputs, _ = ax.nn.dynamic_rnn(cell, ax.constant(X), dtype=ax.float32)
    given = weights(variables())

    kept = await results(outputs, given, {probability: 1.0})
    dropped = await results(outputs, given, {probability: 1e-6})

    step = lstm_step(part_of(given, "layer_norm_basic_lstm_cell"))
    assert close(kept, unrolled(step, X, PAIR)[0])
    assert close(dropped, np.zeros_like(kept))


@pytest.mark.parametrize("is_tuple", [False, True])
async def test_a_cell_attends_to_its_last_outputs(is_tuple):
    length, vector = 2, 4
    cell = rnn.AttentionCellWrapper(
        rnn.GRUCell(UNITS), length, attn_size=5, attn_vec_size=vector, state_is_tuple=is_tuple
    )
    outputs, state = ax.nn.dynamic_rnn(cell, ax.constant(X), dtype=ax.float32)
    given = weights(variables())

    found, last = await results((outputs, state), given)

    mine = part_of(given, "attention_cell_wrapper")
    recur = gru_step(part_of(mine, "gru_cell"))

    def step(x, held):
        h, read, history = held
        x = beside(x, read) @ mine["kernel"] + mine["bias"]
        output, h = recur(x, h)
        y = h @ mine["attention/kernel"] + mine["attention/bias"]
        scores = (
            mine["attention/attn_v"] * np.tanh(history @ mine["attention/attn_w"][0, 0] + y[:, None])
        ).sum(2)
        read = np.einsum("bt,btd->bd", softmax(scores), history)
        output = (
            beside(output, read) @ mine["attn_output_projection/kernel"] + mine["attn_output_projection/bias"]
        )
        return output, (h, read, np.concatenate([history[:, 1:], output[:, None]], 1))

    held, expected = (ZERO, np.zeros((BATCH, 5)), np.zeros((BATCH, length, 5))), []
    for time in range(STEPS):
        output, held = step(X[:, time], held)
        expected.append(output)
    parts = (held[0], held[1], held[2].reshape(BATCH, -1))
    assert close(found, np.stack(expected, 1))
    assert close(tuple(last), parts) if is_tuple else close(last, np.concatenate(parts, 1))
    assert "rnn/attention_cell_wrapper/attn_output_projection/bias" in given


@pytest.mark.parametrize("couples", [False, True])
async def test_a_highway_mixes_inputs_and_outputs(couples):
    cell = rnn.HighwayWrapper(rnn.BasicRNNCell(DEPTH), couples, carry_bias_init=-1.5)
    outputs, _ = ax.nn.dynamic_rnn(cell, ax.constant(X), dtype=ax.float32)
    given = weights(variables())

    found = await results(outputs, given)

    recur = basic_step(part_of(given, "basic_rnn_cell"))

    def step(x, h):
        output, h = recur(x, h)
        carry = sigmoid(x @ given["rnn/carry_w"] + given["rnn/carry_b"])
        transform = 1 - carry
        if not couples:
            transform = sigmoid(x @ given["rnn/transform_w"] + given["rnn/transform_b"])
        return x * carry + output * transform, h

    assert close(found, unrolled(step, X, ZERO[:, :DEPTH])[0])


async def test_a_compiled_cell_is_the_cell():
    cell = rnn.CompiledWrapper(rnn.GRUCell(UNITS), compile_stateful=True)
    outputs, _ = ax.nn.dynamic_rnn(cell, ax.constant(X), dtype=ax.float32)
    given = weights(variables())

    found = await results(outputs, given)

    assert close(found, unrolled(gru_step(part_of(given, "gru_cell")), X, ZERO)[0])
    assert (cell.state_size, cell.output_size) == (UNITS, UNITS)


async def test_batch_and_time_change_places():
    unknown = ax.placeholder(ax.float32, None)
    found = await results(
        (rnn.transpose_batch_time(ax.constant(X)), rnn.transpose_batch_time(unknown)), {}, {unknown: X}
    )

    assert close(found[0], X.swapaxes(0, 1))
    assert close(found[1], X.swapaxes(0, 1))


def run(cell, x=X):
    return ax.nn.dynamic_rnn(cell, ax.constant(x), dtype=ax.float32)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: rnn.GRUBlockCell(), GraphValueError, "Exactly one of num_units or cell_size"),
        (lambda: rnn.GRUBlockCell(2, 2), GraphValueError, "Exactly one of num_units or cell_size"),
        (
            lambda: rnn.LSTMBlockCell(UNITS)(ax.constant(X[:, 0]), (ZERO, ZERO, ZERO)),
            GraphValueError,
            "Expecting state to be a tuple with length 2",
        ),
        (
            lambda: rnn.LSTMBlockFusedCell(UNITS)(ax.constant(X)),
            GraphValueError,
            "Either initial_state or dtype needs to be specified",
        ),
        (
            lambda: rnn.LSTMBlockFusedCell(UNITS)(ax.constant(X), initial_state=(ZERO,)),
            GraphValueError,
            "Expecting initial_state to be a tuple with length 2 or None",
        ),
        (lambda: run(rnn.IntersectionRNNCell(UNITS)), GraphValueError, "Must have input size == output size"),
        (
            lambda: rnn.NASCell(UNITS)(ax.placeholder(ax.float32, [2, None]), PAIR),
            GraphValueError,
            "Could not infer input size",
        ),
        (
            lambda: rnn.AttentionCellWrapper(rnn.GRUCell(UNITS), 0),
            GraphValueError,
            "attn_length should be greater than zero",
        ),
        (
            lambda: rnn.AttentionCellWrapper(rnn.LSTMBlockCell(UNITS), 2, state_is_tuple=False),
            GraphValueError,
            "Cell returns tuple of states",
        ),
        (lambda: rnn.HighwayWrapper(3), GraphTypeError, "is not an RNNCell"),
    ],
)
def test_what_is_wrong_is_said(make, error, text):
    with pytest.raises(error, match=text):
        make()
