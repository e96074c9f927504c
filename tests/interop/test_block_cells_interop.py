"""The block cells of `contrib.rnn` against the ops that TensorFlow has for them: outputs, states and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.recurrent.networks import drawn, results

pytestmark = pytest.mark.interop

BATCH, STEPS, DEPTH, UNITS = 3, 4, 2, 3
X = drawn(1, STEPS, BATCH, DEPTH)
C, H = drawn(2, BATCH, UNITS), drawn(3, BATCH, UNITS)
ZEROS = np.zeros(UNITS, np.float32)
PEEPHOLES = {f"w_{gate}_diag": drawn(4 + k, UNITS) for k, gate in enumerate("ifo")}
LSTM = {"kernel": drawn(7, DEPTH + UNITS, 4 * UNITS), "bias": drawn(8, 4 * UNITS)}
GRU = {
    "w_ru": drawn(9, DEPTH + UNITS, 2 * UNITS),
    "w_c": drawn(10, DEPTH + UNITS, UNITS),
    "b_ru": drawn(11, 2 * UNITS),
    "b_c": drawn(12, UNITS),
}


def operands(given: dict[str, Any]) -> dict[str, Any]:
    """The values of the variables of an LSTM, by the names of the ops."""
    names = {"kernel": "w", "bias": "b", "w_i_diag": "wci", "w_f_diag": "wcf", "w_o_diag": "wco"}
    return {theirs: given.get(ours, ZEROS) for ours, theirs in names.items()}


def theirs(tf: Any, build: Any, given: dict[str, Any], fetched: Any) -> Any:
    """The outputs of an op of TensorFlow, and the gradients of the sum of their squares by the given values."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensors = {name: tf.constant(value) for name, value in given.items()}
        outputs = fetched(build(tensors))
        loss = tf.add_n([tf.reduce_sum(tf.square(each)) for each in outputs])
        return session.run([*outputs, *tf.compat.v1.gradients(loss, list(tensors.values()))])


async def ours(outputs: list[Any], given: dict[str, Any]) -> Any:
    """The same here, by the variables."""
    by_name = {each.op.name.rpartition("/")[2]: each for each in ax.trainable_variables()}
    loss = ax.add_n([ax.reduce_sum(ax.square(each)) for each in outputs])
    slopes = [ax.convert_to_tensor(slope) for slope in ax.gradients(loss, [by_name[name] for name in given])]
    return await results([*outputs, *slopes], given)


def agree(found: Any, expected: Any) -> bool:
    return all(
        np.allclose(one, other, rtol=1e-4, atol=1e-5) for one, other in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("clip", [-1.0, 0.4])
async def test_a_block_cell_is_the_op_LSTMBlockCell(tf, peepholes, clip):
    given = LSTM | (PEEPHOLES if peepholes else {})
    with ax.Graph().as_default():
        cell = ax.contrib.rnn.LSTMBlockCell(UNITS, 0.7, clip, peepholes)
        output, state = cell(ax.constant(X[0]), (ax.constant(C), ax.constant(H)))
        found = await results([output, state.c], given)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        op = tf.raw_ops.LSTMBlockCell(
            x=X[0],
            cs_prev=C,
            h_prev=H,
            **operands(given),
            forget_bias=0.7,
            cell_clip=clip,
            use_peephole=peepholes,
        )
        expected = session.run([op.h, op.cs])

    assert agree(found, expected)


@pytest.mark.parametrize("peepholes", [False, True])
async def test_a_fused_cell_is_the_op_BlockLSTM(tf, peepholes):
    given = LSTM | (PEEPHOLES if peepholes else {})
    with ax.Graph().as_default():
        cell = ax.contrib.rnn.LSTMBlockFusedCell(UNITS, use_peephole=peepholes)
        outputs, _ = cell(ax.constant(X), initial_state=(ax.constant(C), ax.constant(H)))
        found = await ours([outputs], given)

    def build(tensors: Any) -> Any:
        return tf.raw_ops.BlockLSTM(
            seq_len_max=tf.constant(STEPS, tf.int64),
            x=X,
            cs_prev=C,
            h_prev=H,
            **operands(tensors),
            forget_bias=1.0,
            cell_clip=-1.0,
            use_peephole=peepholes,
        )

    assert agree(found, theirs(tf, build, given, lambda op: [op.h]))


async def test_a_block_cell_is_the_op_GRUBlockCell(tf):
    with ax.Graph().as_default():
        cell = ax.contrib.rnn.GRUBlockCell(UNITS)
        output, _ = cell(ax.constant(X[0]), ax.constant(H))
        found = await results(output, GRU)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        expected = session.run(tf.raw_ops.GRUBlockCell(x=X[0], h_prev=H, **GRU).h)

    assert agree([found], [expected])
