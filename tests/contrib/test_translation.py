"""A model that is trained with given symbols decodes greedily and by beams with the same variables."""

from __future__ import annotations

import numpy as np

import aioexec as ax
from tests.contrib.seq2seq_models import BATCH, DEPTH, STEPS, SYMBOLS, UNITS, trimmed
from tests.recurrent.networks import drawn

seq2seq = ax.contrib.seq2seq
MEMORY, EMBEDDING = drawn(1, BATCH, 4, UNITS), 2 * drawn(2, SYMBOLS, DEPTH)
X, LENGTHS, START, END, MOST = drawn(3, BATCH, STEPS, DEPTH), [4, 2, 3], [0] * BATCH, 4, 6


class Model:
    """Two layers of cells with attention, in the scope `decode`; each decoder has a wrapper and a mechanism of its own."""

    def __init__(self):
        cells = ax.nn.rnn_cell
        self.cell = cells.MultiRNNCell([cells.LSTMCell(UNITS) for _ in range(2)])
        self.projection = ax.layers.Dense(SYMBOLS, use_bias=False, name="projection")

    def attending(self):
        mechanism = seq2seq.BahdanauAttention(UNITS, ax.constant(MEMORY), LENGTHS, normalize=True)
        cell = seq2seq.AttentionWrapper(self.cell, mechanism, attention_layer_size=UNITS)
        return cell, cell.zero_state(BATCH, ax.float32)

    def trained(self):
        with ax.variable_scope("decode"):
            cell, state = self.attending()
            helper = seq2seq.TrainingHelper(X, [STEPS] * BATCH)
            decoder = seq2seq.BasicDecoder(cell, helper, state, self.projection)
            outputs, _, _ = seq2seq.dynamic_decode(decoder, impute_finished=True, maximum_iterations=STEPS)
        ones = np.ones((BATCH, STEPS), np.float32)
        return seq2seq.sequence_loss(outputs.rnn_output, ones.astype(np.int32), ones)

    def greedy(self):
        with ax.variable_scope("decode", reuse=True):
            cell, state = self.attending()
            helper = seq2seq.GreedyEmbeddingHelper(ax.constant(EMBEDDING), START, END)
            decoder = seq2seq.BasicDecoder(cell, helper, state, self.projection)
            return seq2seq.dynamic_decode(decoder, maximum_iterations=MOST)[0].sample_id

    def by_one_beam(self):
        with ax.variable_scope("decode", reuse=True):
            cell, state = self.attending()
            decoder = seq2seq.BeamSearchDecoder(
                cell, ax.constant(EMBEDDING), START, END, state, 1, self.projection
            )
            return seq2seq.dynamic_decode(decoder, maximum_iterations=MOST)[0].predicted_ids


async def test_training_and_decoding_share_all_variables():
    with ax.Graph().as_default():
        model = Model()
        loss = model.trained()
        names = [variable.op.name for variable in ax.trainable_variables()]
        train = ax.train.AdamOptimizer(0.01).minimize(loss)
        greedy, beam = model.greedy(), model.by_one_beam()
        async with ax.Session() as session:
            await session.run(ax.global_variables_initializer())
            losses = [(await session.run([loss, train]))[0] for _ in range(4)]
            found, searched = await session.run([greedy, beam])

        assert [variable.op.name for variable in ax.trainable_variables()] == names
    attention, scope = "decode/decoder/attention_wrapper", "bahdanau_attention"
    assert {name for name in names if "multi_rnn_cell" not in name} == {
        "decode/memory_layer/kernel",
        "decode/decoder/projection/kernel",
        f"{attention}/attention_layer/kernel",
        f"{attention}/{scope}/query_layer/kernel",
        *(f"{attention}/{scope}/attention_{part}" for part in "vgb"),
    }
    assert losses == sorted(losses, reverse=True)
    rows = zip(found, searched[..., 0], strict=True)
    assert all(trimmed(one, END) == trimmed(other, END) for one, other in rows)
