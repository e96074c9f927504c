"""Further cells of `contrib.rnn` against NumPy: convolutional, grouped, independent, phased, minimal, over frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from tests.contrib.seq2seq_models import part_of, variables
from tests.recurrent.networks import beside, close, drawn, results, sigmoid, unrolled, weights

rnn = ax.contrib.rnn
BATCH, STEPS, DEPTH, UNITS = 3, 4, 4, 2
X = drawn(1, BATCH, STEPS, DEPTH)
ZERO = np.zeros((BATCH, UNITS), np.float32)
PAIR = (ZERO, ZERO)


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def group_step(given):
    def step(x, state):
        c, h = state
        gates: list[list[Any]] = [[] for _ in range(4)]
        for k in range(2):
            joined = np.concatenate([x[:, 2 * k : 2 * k + 2], np.split(h, 2, 1)[k]], 1)
            for gate, part in zip(gates, np.split(joined @ given[f"group{k}/kernel"], 4, 1), strict=True):
                gate.append(part)
        i, j, f, o = [
            np.concatenate(gate, 1) + given[f"bias_{name}"] for name, gate in zip("ijfo", gates, strict=True)
        ]
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
        h = sigmoid(o) * np.tanh(c) @ given["projection/kernel"]
        return h, (c, h)

    return step


def independent_step(given):
    def step(x, h):
        output = np.tanh(x @ given["kernel_w"] + h * given["kernel_u"] + given["bias"])
        return output, output

    return step


def independent_gru_step(given):
    def step(x, h):
        gates = (
            x @ given["gates/kernel_w"] + np.tile(h, [1, 2]) * given["gates/kernel_u"] + given["gates/bias"]
        )
        r, u = np.split(sigmoid(gates), 2, 1)
        c = np.tanh(
            x @ given["candidate/kernel_w"] + r * h * given["candidate/kernel_u"] + given["candidate/bias"]
        )
        output = u * h + (1 - u) * c
        return output, output

    return step


def independent_lstm_step(given):
    def step(x, state):
        c, h = state
        i, j, f, o = np.split(
            x @ given["kernel_w"] + np.tile(h, [1, 4]) * given["kernel_u"] + given["bias"], 4, 1
        )
        c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
        return h, (c, h)

    return step


def minimal_step(given):
    def step(x, h):
        z = np.tanh(x @ given["kernel"][:DEPTH])
        u = sigmoid(beside(z, h) @ given["kernel"][DEPTH:] + given["bias"])
        output = u * h + (1 - u) * z
        return output, output

    return step


def contracting_step(given):
    def step(x, h):
        gates = h @ given["recurrent_kernel"] + x @ given["kernel"][:, : 2 * UNITS] + given["bias"]
        t, e = np.split(sigmoid(gates), 2, 1)
        output = t * np.tanh(h) + (1 - e) * np.tanh(x @ given["kernel"][:, 2 * UNITS :])
        return output, output

    return step


def normalized(given, x, scope):
    rows = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-12)
    return rows * given[f"{scope}/gamma"] + given[f"{scope}/beta"]


def layer_norm_step(norm):
    def make(given):
        def step(x, state):
            c, h = state
            parts = np.split(beside(x, h) @ given["kernel"] + (0 if norm else given["bias"]), 4, axis=1)
            if norm:
                scopes = ("input", "transform", "forget", "output")
                parts = [normalized(given, part, scope) for part, scope in zip(parts, scopes, strict=True)]
            i, j, f, o = parts
            i, f = i + given["w_i_diag"] * c, f + given["w_f_diag"] * c
            c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
            c = np.clip(normalized(given, c, "state") if norm else c, -0.5, 0.5)
            h = sigmoid(o + given["w_o_diag"] * c) * np.tanh(c)
            if "projection/kernel" in given:
                h = np.clip(h @ given["projection/kernel"], -0.2, 0.2)
            return h, (c, h)

        return step

    return make


PEEPHOLES = ["kernel", "bias", "w_f_diag", "w_i_diag", "w_o_diag"]
ROWS = {
    "grouped": (
        lambda: rnn.GLSTMCell(4, num_proj=2, number_of_groups=2),
        "glstm_cell",
        ["group0/kernel", "group1/kernel", "bias_i", "bias_j", "bias_f", "bias_o", "projection/kernel"],
        group_step,
        (np.zeros((BATCH, 4), np.float32), ZERO),
    ),
    "independent": (
        lambda: rnn.IndRNNCell(UNITS),
        "ind_rnn_cell",
        ["kernel_w", "kernel_u", "bias"],
        independent_step,
        ZERO,
    ),
    "independent gru": (
        lambda: rnn.IndyGRUCell(UNITS),
        "indy_gru_cell",
        [f"{scope}/{name}" for scope in ("gates", "candidate") for name in ("kernel_w", "kernel_u", "bias")],
        independent_gru_step,
        ZERO,
    ),
    "independent lstm": (
        lambda: rnn.IndyLSTMCell(UNITS),
        "indy_lstm_cell",
        ["kernel_w", "kernel_u", "bias"],
        independent_lstm_step,
        PAIR,
    ),
    "minimal": (
        lambda: rnn.MinimalRNNCell(UNITS),
        "minimal_rnn_cell",
        ["kernel", "bias"],
        minimal_step,
        ZERO,
    ),
    "contracting": (
        lambda: rnn.CFNCell(UNITS),
        "cfn_cell",
        ["kernel", "recurrent_kernel", "bias"],
        contracting_step,
        ZERO,
    ),
    "layer norm": (
        lambda: rnn.LayerNormLSTMCell(UNITS, use_peepholes=True, cell_clip=0.5, layer_norm=True),
        "layer_norm_lstm_cell",
        [
            *PEEPHOLES,
            *(
                f"{scope}/{part}"
                for scope in ("input", "transform", "forget", "output", "state")
                for part in ("gamma", "beta")
            ),
        ],
        layer_norm_step(True),
        PAIR,
    ),
    "without layer norm": (
        lambda: rnn.LayerNormLSTMCell(UNITS, use_peepholes=True, cell_clip=0.5, num_proj=3, proj_clip=0.2),
        "layer_norm_lstm_cell",
        [*PEEPHOLES, "projection/kernel"],
        layer_norm_step(False),
        (ZERO, np.zeros((BATCH, 3), np.float32)),
    ),
}


@pytest.mark.parametrize(("make", "scope", "names", "model", "start"), ROWS.values(), ids=ROWS)
async def test_a_cell_computes_what_its_formula_says(make, scope, names, model, start):
    outputs, state = ax.nn.dynamic_rnn(make(), ax.constant(X), dtype=ax.float32)
    given = weights(variables())

    found, last = await results((outputs, state), given)

    expected, end = unrolled(model(part_of(given, scope)), X, start)
    assert {name.removeprefix("rnn/") for name in given} == {f"{scope}/{name}" for name in names}
    assert close(found, expected)
    assert close(tuple(last) if isinstance(last, tuple) else last, end)


def convolved(x, kernel):
    """The convolution of `x`, [batch, *size, depth], with an odd kernel, padded to its size."""
    sizes = kernel.shape[:-2]
    padded = np.pad(x, [(0, 0), *((size // 2, size // 2) for size in sizes), (0, 0)])
    found = np.zeros((*x.shape[:-1], kernel.shape[-1]), np.float32)
    for offset in np.ndindex(*sizes):
        window = (slice(None), *(slice(k, k + n) for k, n in zip(offset, x.shape[1:-1], strict=True)))
        found += padded[window] @ kernel[offset]
    return found


@pytest.mark.parametrize("ndims", [1, 2, 3])
async def test_a_convolutional_cell(ndims):
    kind = (rnn.Conv1DLSTMCell, rnn.Conv2DLSTMCell, rnn.Conv3DLSTMCell)[ndims - 1]
    size = [3, 4, 2][:ndims]
    cell = kind(input_shape=[*size, 2], output_channels=3, kernel_shape=[3] * ndims)
    x = drawn(2, BATCH, 3, *size, 2)
    outputs, state = ax.nn.dynamic_rnn(cell, ax.constant(x), dtype=ax.float32)
    given = weights(variables())

    found, last = await results((outputs, state), given)

    scope = f"rnn/conv_{ndims}d_lstm_cell"
    kernel, biases = given[f"{scope}/kernel"], given[f"{scope}/biases"]

    def step(x, state):
        c, h = state
        i, j, f, o = np.split(convolved(np.concatenate([x, h], -1), kernel) + biases, 4, axis=-1)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
        return h, (c, h)

    zero = np.zeros((BATCH, *size, 3), np.float32)
    expected, end = unrolled(step, x, (zero, zero))
    assert set(given) == {f"{scope}/kernel", f"{scope}/biases"}
    assert close(found, expected)
    assert close(tuple(last), end)
    assert cell.output_size.as_list() == [*size, 3]


async def test_a_convolutional_cell_may_join_its_inputs():
    cell = rnn.ConvLSTMCell(1, [3, 2], 2, [1], use_bias=False, skip_connection=True)
    x, zero = drawn(2, BATCH, 3, 2), np.zeros((BATCH, 3, 2), np.float32)
    output, _ = cell(ax.constant(x), (ax.constant(zero), ax.constant(zero)))

    found = await results(output, weights(variables()))

    assert list(variables()) == ["conv_lstm_cell/kernel"]
    assert cell.output_size.as_list() == [3, 4]
    assert close(found[..., 2:], x)


@pytest.mark.parametrize("peepholes", [False, True])
async def test_a_phased_cell_opens_in_its_phase(peepholes):
    cell = rnn.PhasedLSTMCell(UNITS, use_peepholes=peepholes, leak=0.1)
    time = np.array([[[1.0], [2.5], [7.0], [7.5]]] * BATCH, np.float32)
    outputs, state = ax.nn.dynamic_rnn(cell, (ax.constant(time), ax.constant(X)), dtype=ax.float32)
    given = {name: abs(value) + 0.1 for name, value in weights(variables()).items()}

    found, last = await results((outputs, state), given)

    mine = part_of(given, "phased_lstm_cell")

    def linear(name, parts):
        return np.concatenate(parts, 1) @ mine[f"{name}/kernel"] + mine[f"{name}/bias"]

    c, h, expected = ZERO, ZERO, []
    for k in range(STEPS):
        x = X[:, k]
        i, f = np.split(sigmoid(linear("mask_gates", [x, h] + [c] * peepholes)), 2, 1)
        candidate = c * f + i * np.tanh(linear("new_input", [x, h]))
        output = np.tanh(candidate) * sigmoid(linear("output_gate", [x, h] + [candidate] * peepholes))
        share = np.mod(time[:, k] - mine["phase"], mine["period"]) / mine["period"]
        ratio = mine["ratio_on"]
        openness = np.where(
            share < ratio / 2, 2 * share / ratio, np.where(share < ratio, 2 - 2 * share / ratio, 0.1 * share)
        )
        c, h = openness * candidate + (1 - openness) * c, openness * output + (1 - openness) * h
        expected.append(h)
    assert np.allclose(found, np.stack(expected, 1), rtol=1e-4, atol=1e-5)
    assert np.allclose(last.c, c, rtol=1e-4, atol=1e-5)
    assert {"rnn/phased_lstm_cell/period", "rnn/phased_lstm_cell/new_input/bias"} <= set(given)


async def test_periods_and_phases_are_drawn():
    cell = rnn.PhasedLSTMCell(500, period_init_min=2.0, period_init_max=50.0, trainable_ratio_on=False)
    ax.nn.dynamic_rnn(cell, (ax.constant(X[..., :1]), ax.constant(X)), dtype=ax.float32)

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        values = {each.op.name.rpartition("/")[2]: await session.run(each) for each in ax.global_variables()}

    period, phase = values["period"], values["phase"]
    assert 2 <= period.min() < 2.5
    assert 40 < period.max() <= 50
    assert abs(np.log(period).mean() - np.log(10)) < 0.1
    assert phase.min() >= 0
    assert (phase <= 50).all()
    assert not any(each.name.endswith("ratio_on:0") for each in ax.trainable_variables())


@pytest.mark.parametrize("peepholes", [False, True])
async def test_a_cell_over_time_and_frequency(peepholes):
    cell = rnn.TimeFreqLSTMCell(
        UNITS, peepholes, cell_clip=0.7, feature_size=2, frequency_skip=1, num_unit_shards=2
    )
    state = drawn(3, BATCH, 3 * 2 * UNITS)
    output, new_state = cell(ax.constant(X[:, 0]), ax.constant(state))
    given = weights(variables())

    found, last = await results((output, new_state), given)

    mine = part_of(given, "time_freq_lstm_cell")
    kernel = np.concatenate([mine["W_0"], mine["W_1"]])
    below, outputs, states = ZERO, [], []
    for k in range(3):
        c, m = (
            state[:, 2 * k * UNITS : (2 * k + 1) * UNITS],
            state[:, (2 * k + 1) * UNITS : (2 * k + 2) * UNITS],
        )
        joined = np.concatenate([X[:, 0, k : k + 2], m, below], 1)
        i, j, f, o = np.split(joined @ kernel + mine["B"], 4, 1)
        i, f = i + mine.get("W_I_diag", 0) * c, f + mine.get("W_F_diag", 0) * c
        c = np.clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), -0.7, 0.7)
        below = sigmoid(o + mine.get("W_O_diag", 0) * c) * np.tanh(c)
        outputs.append(below)
        states += [c, below]
    assert close(found, np.concatenate(outputs, 1))
    assert close(last, np.concatenate(states, 1))
    assert (cell.state_size, cell.output_size) == (2 * UNITS, UNITS)


def grid(given, windows, held, shares, couples, block=0):
    """Outputs and new states of a block of windows, of `GridLSTMCell`."""

    def gate(kind, way, value, c_freq, c_time):
        name = f"W_{kind}_diag_{'freq' if shares else way}"
        if f"{name}f_{block}" not in given:
            return value
        return value + given[f"{name}f_{block}"] * c_freq + given[f"{name}t_{block}"] * c_time

    c_freq = m_freq = ZERO
    outputs, states = [], []
    for window, (c_time, m_time) in zip(windows, held, strict=True):
        joined = np.concatenate([window, m_time, m_freq], 1)
        new = {}
        for way, old in (("freq", c_freq), ("time", c_time)):
            letter = "f" if shares else way[0]
            parts = np.split(
                joined @ given[f"W_{letter}_{block}_0"] + given[f"B_{letter}_{block}"], 3 if couples else 4, 1
            )
            i = sigmoid(gate("I", way, parts[0], c_freq, c_time))
            f = 1 - i if couples else sigmoid(gate("F", way, parts[2] + 1, c_freq, c_time))
            new[way] = f * old + i * np.tanh(parts[1]), parts[-1]
        c_freq, c_time = new["freq"][0], new["time"][0]
        m_freq = sigmoid(gate("O", "freq", new["freq"][1], c_freq, c_time)) * np.tanh(c_freq)
        m_time = sigmoid(gate("O", "time", new["time"][1], c_freq, c_time)) * np.tanh(c_time)
        outputs += [m_time, m_freq]
        states += [c_time, m_time]
    return outputs, states


@pytest.mark.parametrize("is_tuple", [False, True])
@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize(("shares", "couples"), [(False, False), (True, False), (False, True)])
async def test_a_grid_has_memories_through_time_and_frequencies(shares, couples, peepholes, is_tuple):
    cell = rnn.GridLSTMCell(
        UNITS,
        use_peepholes=peepholes,
        share_time_frequency_weights=shares,
        couple_input_forget_gates=couples,
        feature_size=2,
        frequency_skip=2,
        num_frequency_blocks=[2],
        state_is_tuple=is_tuple,
    )
    outputs, state = ax.nn.dynamic_rnn(cell, ax.constant(X), dtype=ax.float32)
    given = weights(variables())

    found, last = await results((outputs, state), given)

    mine = part_of(given, "grid_lstm_cell")
    held, expected = [PAIR, PAIR], []
    for time in range(STEPS):
        output, states = grid(mine, [X[:, time, :2], X[:, time, 2:]], held, shares, couples)
        held = [(states[0], states[1]), (states[2], states[3])]
        expected.append(np.concatenate(output, 1))
    assert close(found, np.stack(expected, 1))
    assert close(tuple(last), tuple(states)) if is_tuple else close(last, np.concatenate(states, 1))
    assert cell.output_size == 4 * UNITS
    if is_tuple:
        assert last._fields == ("state_f00_b00_c", "state_f00_b00_m", "state_f01_b00_c", "state_f01_b00_m")


async def test_a_grid_of_two_blocks_in_both_directions():
    cell = rnn.BidirectionalGridLSTMCell(
        UNITS,
        feature_size=1,
        frequency_skip=1,
        num_frequency_blocks=[2, 1],
        start_freqindex_list=[0, 2],
        end_freqindex_list=[2, 3],
        backward_slice_offset=1,
    )
    output, state = cell(ax.constant(X[:, 0]), cell.zero_state(BATCH, ax.float32))
    given = weights(variables())

    found, last = await results((output, state), given)

    def run(way, columns):
        mine = part_of(given, way)
        one, other = [], []
        for block, places in enumerate(columns):
            windows = [X[:, 0, k : k + 1] for k in places]
            outputs, states = grid(mine, windows, [PAIR] * len(windows), False, False, block)
            one += outputs
            other += states
        return one, other

    forward, backward = run("fwd", [[0, 1], [2]]), run("bwd", [[2, 1], [3]])
    assert close(found, np.concatenate(forward[0] + backward[0], 1))
    assert close(tuple(last), tuple(forward[1] + backward[1]))
    assert last._fields[0] == "fwd_state_f00_b00_c"
    assert cell.output_size == found.shape[1]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: rnn.GLSTMCell(3, number_of_groups=2), "num_units must be divisible by number_of_groups"),
        (
            lambda: rnn.GLSTMCell(6, number_of_groups=3)(ax.constant(X[:, 0]), PAIR),
            r"input size \(4\) must be divisible by number_of_groups \(3\)",
        ),
        (lambda: rnn.ConvLSTMCell(2, [3, 2], 2, [1]), "Invalid input_shape"),
        (lambda: rnn.GridLSTMCell(2), "Must specify num_frequency_blocks"),
        (
            lambda: rnn.GridLSTMCell(2, feature_size=2, frequency_skip=1, num_frequency_blocks=[2])(
                ax.constant(X[:, 0]), PAIR
            ),
            "Invalid num_frequency_blocks, requires 2 but gets 3",
        ),
        (
            lambda: rnn.GridLSTMCell(2, feature_size=2, frequency_skip=1, num_frequency_blocks=[2, 1])(
                ax.constant(X[:, 0]), PAIR
            ),
            "Length of num_frequency_blocks",
        ),
        (
            lambda: rnn.TimeFreqLSTMCell(2)(ax.constant(X[:, 0]), ZERO),
            "feature_size and frequency_skip must be given",
        ),
    ],
)
def test_what_is_wrong_is_said(make, text):
    with pytest.raises(GraphValueError, match=text):
        make()
