"""The networks of `contrib.rnn` over whole sequences against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from tests.contrib.seq2seq_models import native, part_of, peephole_step, variables
from tests.recurrent.networks import (
    close,
    drawn,
    gru_step,
    lstm_step,
    results,
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


@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("as_list", [False, True])
async def test_a_fused_cell_runs_over_whole_sequences(peepholes, lengths, as_list):
    cell = rnn.LSTMBlockFusedCell(UNITS, use_peephole=peepholes, cell_clip=0.6 if peepholes else None)
    steps = X.swapaxes(0, 1)
    start = drawn(5, BATCH, UNITS), drawn(6, BATCH, UNITS)
    outputs, state = cell(
        [ax.constant(each) for each in steps] if as_list else ax.constant(steps),
        initial_state=tuple(map(ax.constant, start)),
        sequence_length=lengths,
    )
    given = weights(variables())

    found, last = await results((outputs, state), given)

    mine = part_of(given, "lstm_fused_cell")
    model = peephole_step(mine, 0.6) if peepholes else lstm_step(mine)
    expected, final = unrolled(model, X, start, lengths)
    assert isinstance(outputs, list) == as_list
    assert close(np.stack(found), expected.swapaxes(0, 1))
    assert close(tuple(last), final)
    assert {name.rpartition("/")[0] for name in given} == {"lstm_fused_cell"}


async def test_a_fused_cell_starts_from_zeros_and_trains_in_one_native_item():
    cell = rnn.LSTMBlockFusedCell(UNITS)
    outputs, _ = cell(ax.constant(X.swapaxes(0, 1)), dtype=ax.float32)
    loss = ax.reduce_sum(ax.square(outputs))
    train = ax.train.GradientDescentOptimizer(0.1).minimize(loss)

    _, report = await native([loss, train])

    assert [len(partition.items) for partition in report.partitions] == [1]
    assert report.breaks_by_op == {}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("as_list", [False, True])
async def test_adaptors_run_cells_forwards_and_backwards(dynamic, as_list):
    forward = rnn.FusedRNNCellAdaptor(rnn.GRUCell(UNITS), use_dynamic_rnn=dynamic)
    backward = rnn.TimeReversedFusedRNN(forward)
    steps = X.swapaxes(0, 1)
    inputs = [ax.constant(each) for each in steps] if as_list else ax.constant(steps)
    with ax.variable_scope("net", reuse=ax.AUTO_REUSE):
        one = forward(inputs, dtype=ax.float32)
        other = backward(inputs, dtype=ax.float32)
    given = weights(variables())

    (found, state), (reverse, last) = await results((one, other), given)

    model = gru_step(part_of(given, "gru_cell"))
    expected, final = unrolled(model, X, ZERO)
    turned, first = unrolled(model, X[:, ::-1], ZERO)
    assert close(np.stack(found), expected.swapaxes(0, 1))
    assert close(state, final)
    assert close(np.stack(reverse), turned[:, ::-1].swapaxes(0, 1))
    assert close(last, first)


async def test_reversed_sequences_end_within_their_lengths():
    net = rnn.TimeReversedFusedRNN(rnn.LSTMBlockFusedCell(UNITS))
    outputs, _ = net(ax.constant(X.swapaxes(0, 1)), dtype=ax.float32, sequence_length=ax.constant(LENGTHS))
    given = weights(variables())

    found = await results(outputs, given)

    def turned(x):
        return np.stack([np.concatenate([row[:n][::-1], row[n:]]) for row, n in zip(x, LENGTHS, strict=True)])

    expected, _ = unrolled(lstm_step(part_of(given, "lstm_fused_cell")), turned(X), PAIR, LENGTHS)
    assert close(found, turned(expected).swapaxes(0, 1))
