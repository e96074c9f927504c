"""`dynamic_decode` with `BasicDecoder` and its helpers, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from tests.contrib.seq2seq_models import (
    BATCH,
    DEPTH,
    STEPS,
    SYMBOLS,
    UNITS,
    decoded,
    native,
    part_of,
    variables,
)
from tests.recurrent.networks import close, drawn, gru_step, results, weights

seq2seq = ax.contrib.seq2seq
X = drawn(1, BATCH, STEPS, DEPTH)
LENGTHS = np.array([2, 4, 1], np.int32)
STATE = drawn(2, BATCH, UNITS)
EMBEDDING = drawn(3, SYMBOLS, DEPTH)
GROWING = {"Range", "Transpose", *(f"TensorArray{verb}V3" for verb in ("", "Gather", "Size", "Write"))}
"""The ops on the outputs of a loop without a known number of steps."""
START, END = np.array([0, 1, 2], np.int32), 3


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def cell():
    return ax.nn.rnn_cell.GRUCell(UNITS)


def step_of(given):
    """The step of a GRU and a dense layer."""
    recur, layer = gru_step(part_of(given, "gru_cell")), part_of(given, "scores")

    def step(x, h):
        output, state = recur(x, h)
        return output @ layer["kernel"] + layer["bias"], state

    return step


def decode(helper, layer=True, **options):
    output_layer = ax.layers.Dense(SYMBOLS, name="scores") if layer else None
    decoder = seq2seq.BasicDecoder(cell(), helper, ax.constant(STATE), output_layer)
    return seq2seq.dynamic_decode(decoder, **options)


def taught(given, lengths=LENGTHS):
    """Outputs [steps, batch, symbols], last state and lengths with the inputs `X`."""
    return decoded(
        step_of(given),
        STATE,
        X[:, 0],
        lambda time, output: (X[:, min(time, STEPS - 1)], time >= lengths),
        lengths == 0,
        STEPS,
    )


@pytest.mark.parametrize("output_time_major", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
async def test_a_training_helper_feeds_the_given_inputs(output_time_major, time_major):
    inputs = X.swapaxes(0, 1) if time_major else X
    helper = seq2seq.TrainingHelper(inputs, LENGTHS, time_major=time_major)
    outputs, state, lengths = decode(helper, output_time_major=output_time_major)
    given = weights(variables())

    found = await results((outputs, state, lengths), given)

    expected, expected_state, _ = taught(given)
    logits = np.stack(expected, 0 if output_time_major else 1)
    assert set(given) == {
        *(
            f"decoder/gru_cell/{gate}/{part}"
            for gate in ("gates", "candidate")
            for part in ("kernel", "bias")
        ),
        "decoder/scores/kernel",
        "decoder/scores/bias",
    }
    assert isinstance(found[0], seq2seq.BasicDecoderOutput)
    assert close(found[0].rnn_output, logits)
    assert close(found[0].sample_id, logits.argmax(-1))
    assert found[0].sample_id.dtype == np.int32
    assert close(found[1], expected_state)
    assert close(found[2], LENGTHS)
    static = [STEPS, BATCH, SYMBOLS] if output_time_major else [BATCH, STEPS, SYMBOLS]
    assert outputs.rnn_output.shape.as_list() == static


async def test_finished_rows_emit_zeros_and_keep_their_state_if_wanted():
    outputs, state, _ = decode(seq2seq.TrainingHelper(X, LENGTHS), impute_finished=True)
    given = weights(variables())

    found, last = await results((outputs.rnn_output, state), given)

    expected, _, _ = taught(given)
    ended = np.arange(STEPS)[None, :] >= LENGTHS[:, None]
    assert close(found, np.where(ended[..., None], 0, np.stack(expected, 1)))
    states = [STATE]
    for time in range(STEPS):
        states.append(step_of(given)(X[:, time], states[-1])[1])
    assert close(last, np.stack([states[n][row] for row, n in enumerate(LENGTHS)]))


async def test_the_longest_run_is_limited():
    outputs, _, lengths = decode(seq2seq.TrainingHelper(X, LENGTHS), maximum_iterations=2)
    nothing, _, none = decode(seq2seq.TrainingHelper(X, LENGTHS), maximum_iterations=0, scope="other")
    given = weights(variables())

    found = await results((outputs.rnn_output, lengths, nothing.rnn_output, none), given)

    first = part_of({name: value for name, value in given.items() if name.startswith("decoder")}, "decoder")
    assert close(found[0], np.stack(taught(first)[0][:2], 1))
    assert close(found[1], [2, 2, 1])
    assert close(found[2], np.zeros((BATCH, 0, SYMBOLS)))
    assert close(found[3], [0, 0, 0])


@pytest.mark.parametrize("as_function", [False, True])
async def test_a_greedy_helper_feeds_the_best_symbol_until_the_end_token(as_function):
    table = ax.constant(EMBEDDING)
    embedding = (lambda ids: ax.nn.embedding_lookup(table, ids)) if as_function else table
    outputs, state, lengths = decode(
        seq2seq.GreedyEmbeddingHelper(embedding, START, END), maximum_iterations=7
    )
    given = weights(variables())

    found = await results((outputs.sample_id, outputs.rnn_output, state, lengths), given)

    def following(_, output):
        best = output.argmax(1)
        return EMBEDDING[best], best == END

    expected, last, expected_lengths = decoded(
        step_of(given), STATE, EMBEDDING[START], following, np.zeros(BATCH, bool), 7
    )
    assert close(found[0], np.stack(expected, 1).argmax(-1))
    assert close(found[1], np.stack(expected, 1))
    assert close(found[2], last)
    assert close(found[3], expected_lengths)


async def test_a_sampling_helper_draws_by_the_softmax():
    def logits_of(temperature):
        class Cell(ax.nn.rnn_cell.RNNCell):
            state_size, output_size = 1, SYMBOLS

            def call(self, inputs, state):
                return ax.tile(ax.constant([[0.0, 1.0, 2.0, -30.0, 3.0]]), [400, 1]), state

        helper = seq2seq.SampleEmbeddingHelper(
            ax.constant(EMBEDDING), np.zeros(400, np.int32), END, temperature, seed=3
        )
        decoder = seq2seq.BasicDecoder(Cell(), helper, ax.zeros([400, 1]))
        return seq2seq.dynamic_decode(decoder, maximum_iterations=5)[0].sample_id

    even, sharp, expected = await results(
        (logits_of(1.0), logits_of(0.01), ax.nn.softmax([0.0, 1.0, 2.0, -30.0, 3.0])), {}
    )

    shares = np.bincount(even.ravel(), minlength=SYMBOLS) / even.size
    assert np.allclose(shares, expected, atol=0.03)
    assert (sharp == 4).all()


async def test_an_inference_helper_feeds_samples_of_a_function():
    helper = seq2seq.InferenceHelper(
        lambda outputs: outputs[:, :DEPTH] * 2,
        [DEPTH],
        ax.float32,
        X[:, 0],
        lambda samples: samples[:, 0] > 0.5,
    )
    outputs, _, _ = decode(helper, layer=False, maximum_iterations=3)
    given = weights(variables())

    samples, found = await results((outputs.sample_id, outputs.rnn_output), given)

    recur = gru_step(part_of(given, "gru_cell"))
    expected, _, _ = decoded(
        recur,
        STATE,
        X[:, 0],
        lambda _, output: (output[:, :DEPTH] * 2, output[:, 0] * 2 > 0.5),
        np.zeros(BATCH, bool),
        3,
    )
    assert close(found, np.stack(expected, 1))
    assert close(samples, np.stack(expected, 1)[..., :DEPTH] * 2)


async def test_a_custom_helper_is_made_of_functions():
    helper = seq2seq.CustomHelper(
        lambda: (ax.constant([False] * BATCH), ax.constant(X[:, 0])),
        lambda time, outputs, state: ax.reduce_sum(outputs, 1) + ax.cast(time, ax.float32),
        lambda time, outputs, state, sample_ids: (
            ax.fill([BATCH], time >= 1),
            ax.constant(X[:, 1]),
            state * 0,
        ),
        sample_ids_dtype=ax.float32,
    )
    outputs, state, lengths = decode(helper, layer=False)
    given = weights(variables())

    found, samples, last, n = await results((outputs.rnn_output, outputs.sample_id, state, lengths), given)

    recur = gru_step(part_of(given, "gru_cell"))
    first, second = recur(X[:, 0], STATE)[0], recur(X[:, 1], np.zeros_like(STATE))[0]
    assert close(found, np.stack([first, second], 1))
    assert close(samples, np.stack([first.sum(1), second.sum(1) + 1], 1))
    assert close(last, np.zeros_like(STATE))
    assert close(n, [2, 2, 2])
    with pytest.raises(GraphValueError, match="batch_size accessed before initialize was called"):
        seq2seq.CustomHelper(None, None, None).batch_size  # type: ignore[arg-type]


@pytest.mark.parametrize("probability", [0.0, 1.0])
async def test_scheduled_sampling_feeds_drawn_symbols_by_chance(probability):
    helper = seq2seq.ScheduledEmbeddingTrainingHelper(
        X, LENGTHS, ax.constant(EMBEDDING), probability, seed=1, scheduling_seed=2
    )
    outputs, _, _ = decode(helper)
    given = weights(variables())

    logits, symbols = await results((outputs.rnn_output, outputs.sample_id), given)

    inputs = iter(symbols.swapaxes(0, 1))
    expected, _, _ = decoded(
        step_of(given),
        STATE,
        X[:, 0],
        lambda time, output: (
            EMBEDDING[next(inputs)] if probability else X[:, min(time, STEPS - 1)],
            time >= LENGTHS,
        ),
        LENGTHS == 0,
        STEPS,
    )
    assert close(logits, np.stack(expected, 1))
    assert (symbols == -1).all() == (probability == 0)


async def test_scheduled_sampling_may_feed_some_rows_only():
    chances = [0.0, 1.0, 0.0]
    helper = seq2seq.ScheduledOutputTrainingHelper(X, [STEPS] * BATCH, chances, seed=1)
    decoder = seq2seq.BasicDecoder(ax.nn.rnn_cell.GRUCell(DEPTH), helper, ax.zeros([BATCH, DEPTH]))
    outputs, _, _ = seq2seq.dynamic_decode(decoder)
    given = weights(variables())

    found, samples = await results((outputs.rnn_output, outputs.sample_id), given)

    expected, _, _ = decoded(
        gru_step(part_of(given, "gru_cell")),
        np.zeros((BATCH, DEPTH), np.float32),
        X[:, 0],
        lambda time, output: (
            np.where([[False], [True], [False]], output, X[:, min(time, STEPS - 1)]),
            np.full(BATCH, time >= STEPS),
        ),
        np.zeros(BATCH, bool),
        STEPS,
    )
    assert close(found, np.stack(expected, 1))
    assert (samples == np.array([[False], [True], [False]])).all()


async def test_scheduled_outputs_pass_a_layer_and_join_auxiliary_inputs():
    layer = ax.layers.Dense(DEPTH, use_bias=False, name="back")
    extra = drawn(5, BATCH, STEPS, 1)
    helper = seq2seq.ScheduledOutputTrainingHelper(
        X, LENGTHS, 1.0, next_input_layer=layer, auxiliary_inputs=extra
    )
    outputs, _, _ = decode(helper)
    given = weights(variables())

    found = await results(outputs.rnn_output, given)

    back = part_of(given, "back")["kernel"]

    def following(time, output):
        now = min(time, STEPS - 1)
        return np.concatenate([output @ back, extra[:, now]], 1), time >= LENGTHS

    first = np.concatenate([X[:, 0], extra[:, 0]], 1)
    expected, _, _ = decoded(step_of(given), STATE, first, following, LENGTHS == 0, STEPS)
    assert close(found, np.stack(expected, 1))


async def test_a_training_step_with_a_decoder_is_one_native_item():
    outputs, _, _ = decode(
        seq2seq.TrainingHelper(ax.constant(X), ax.placeholder_with_default(LENGTHS, [BATCH]))
    )
    loss = ax.reduce_sum(ax.square(outputs.rnn_output))
    train = ax.train.GradientDescentOptimizer(0.01).minimize(loss)

    _, report = await native([loss, train])

    assert [len(partition.items) for partition in report.partitions] == [1]
    assert set(report.breaks_by_op) <= {"Assert"}
    assert report.native_share > 0.99


async def test_greedy_decoding_is_one_native_item():
    outputs, _, _ = decode(
        seq2seq.GreedyEmbeddingHelper(ax.constant(EMBEDDING), START, END), maximum_iterations=20
    )

    _, report = await native(outputs.sample_id)

    assert [len(partition.items) for partition in report.partitions] == [1]
    assert set(report.breaks_by_op) <= GROWING
    assert report.native_share > 0.8


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: seq2seq.TrainingHelper(X, 3), GraphValueError, "Expected sequence_length to be a vector"),
        (
            lambda: seq2seq.GreedyEmbeddingHelper(EMBEDDING, 0, END),
            GraphValueError,
            "start_tokens must be a vector",
        ),
        (
            lambda: seq2seq.GreedyEmbeddingHelper(EMBEDDING, START, [END]),
            GraphValueError,
            "end_token must be a scalar",
        ),
        (
            lambda: seq2seq.ScheduledEmbeddingTrainingHelper(X, LENGTHS, EMBEDDING, [[0.5]]),
            GraphValueError,
            "must be either a scalar or a vector",
        ),
        (
            lambda: seq2seq.ScheduledOutputTrainingHelper(X, LENGTHS, 0.5, next_input_layer=len),
            GraphTypeError,
            "next_input_layer must be a Layer",
        ),
        (
            lambda: seq2seq.BasicDecoder(cell(), "helper", STATE),  # type: ignore[arg-type]
            GraphTypeError,
            "helper must be a Helper",
        ),
        (
            lambda: seq2seq.BasicDecoder(cell(), seq2seq.TrainingHelper(X, LENGTHS), STATE, len),
            GraphTypeError,
            "output_layer must be a Layer",
        ),
        (lambda: seq2seq.dynamic_decode("x"), GraphTypeError, "Expected decoder to be type Decoder"),  # type: ignore[arg-type]
        (
            lambda: decode(seq2seq.TrainingHelper(X, LENGTHS), maximum_iterations=[3]),
            GraphValueError,
            "maximum_iterations must be a scalar",
        ),
    ],
)
def test_what_is_wrong_is_said(make, error, text):
    with pytest.raises(error, match=text):
        make()
