"""`contrib.legacy_seq2seq` against NumPy: names of variables, outputs, losses, and the choice of fed symbols."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from tests.recurrent.networks import beside, close, drawn, gru_step, results, weights

seq2seq = ax.contrib.legacy_seq2seq
BATCH, ENCODER_STEPS, DECODER_STEPS, UNITS, SIZE = 2, 3, 4, 3, 5
SOURCE_SYMBOLS, SYMBOLS = 6, 7
SOURCE = np.random.default_rng(1).integers(0, SOURCE_SYMBOLS, (ENCODER_STEPS, BATCH))
TARGET = np.random.default_rng(2).integers(0, SYMBOLS, (DECODER_STEPS, BATCH))
ZERO = np.zeros((BATCH, UNITS), np.float32)


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def gru(depth):
    return {
        "gru_cell/gates/kernel": (depth + UNITS, 2 * UNITS),
        "gru_cell/gates/bias": (2 * UNITS,),
        "gru_cell/candidate/kernel": (depth + UNITS, UNITS),
        "gru_cell/candidate/bias": (UNITS,),
    }


def under(scope, shapes):
    return {f"{scope}/{name}": shape for name, shape in shapes.items()}


def within(scope, given):
    """The values of a scope, by their names in it."""
    return {name.removeprefix(f"{scope}/"): value for name, value in given.items() if name.startswith(scope)}


def encoded(given, embedding, cell, inputs):
    """Outputs and last state of a GRU over embedded symbols."""
    step, state, outputs = gru_step(within(cell, given)), ZERO, []
    for symbols in inputs:
        output, state = step(given[embedding][symbols], state)
        outputs.append(output)
    return outputs, state


EMBEDDING = {
    "a/rnn/embedding_wrapper/embedding": (SOURCE_SYMBOLS, SIZE),
    **under("a/rnn/embedding_wrapper", gru(SIZE)),
    "a/embedding_rnn_decoder/embedding": (SYMBOLS, SIZE),
    **under("a/embedding_rnn_decoder/rnn_decoder/output_projection_wrapper", gru(SIZE)),
    "a/embedding_rnn_decoder/rnn_decoder/output_projection_wrapper/kernel": (UNITS, SYMBOLS),
    "a/embedding_rnn_decoder/rnn_decoder/output_projection_wrapper/bias": (SYMBOLS,),
}


def plain(given, feeds):
    """The scores of `embedding_rnn_seq2seq`."""
    _, state = encoded(given, "a/rnn/embedding_wrapper/embedding", "a/rnn/embedding_wrapper/gru_cell", SOURCE)
    decoder = "a/embedding_rnn_decoder/rnn_decoder/output_projection_wrapper"
    step, symbols, scores = gru_step(within(f"{decoder}/gru_cell", given)), TARGET[0], []
    for time in range(DECODER_STEPS):
        output, state = step(given["a/embedding_rnn_decoder/embedding"][symbols], state)
        scores.append(output @ given[f"{decoder}/kernel"] + given[f"{decoder}/bias"])
        symbols = scores[-1].argmax(1) if feeds else TARGET[min(time + 1, DECODER_STEPS - 1)]
    return scores, state


def names():
    return {variable.op.name for variable in ax.global_variables()}


@pytest.mark.parametrize("feeds", [False, True])
async def test_an_embedded_decoder_continues_from_the_state_of_the_encoder(feeds):
    given = weights(EMBEDDING)
    outputs, state = seq2seq.embedding_rnn_seq2seq(
        list(SOURCE), list(TARGET), ax.nn.rnn_cell.GRUCell(UNITS), SOURCE_SYMBOLS, SYMBOLS, SIZE,
        feed_previous=feeds, scope="a",
    )  # fmt: skip

    found, last = await results((outputs, state), given)

    expected, expected_state = plain(given, feeds)
    assert names() == set(EMBEDDING)
    assert close(tuple(found), tuple(expected))
    assert close(last, expected_state)


async def test_a_tensor_chooses_in_each_run_whether_symbols_are_fed_back():
    given = weights(EMBEDDING)
    feeds = ax.placeholder(ax.bool, [])
    outputs, state = seq2seq.embedding_rnn_seq2seq(
        list(SOURCE), list(TARGET), ax.nn.rnn_cell.GRUCell(UNITS), SOURCE_SYMBOLS, SYMBOLS, SIZE,
        feed_previous=feeds, scope="a",
    )  # fmt: skip

    for value in (False, True):
        found, last = await results((outputs, state), given, {feeds: value})
        expected, expected_state = plain(given, value)
        assert close(tuple(found), tuple(expected))
        assert close(last, expected_state)
    assert names() == set(EMBEDDING)


DECODER = "a/embedding_attention_decoder"
ATTENTION = {
    "a/rnn/embedding_wrapper/embedding": (SOURCE_SYMBOLS, SIZE),
    **under("a/rnn/embedding_wrapper", gru(SIZE)),
    f"{DECODER}/embedding": (SYMBOLS, SIZE),
    f"{DECODER}/attention_decoder/kernel": (SIZE + 2 * UNITS, SIZE),
    f"{DECODER}/attention_decoder/bias": (SIZE,),
    **under(f"{DECODER}/attention_decoder/output_projection_wrapper", gru(SIZE)),
    f"{DECODER}/attention_decoder/output_projection_wrapper/kernel": (UNITS, SYMBOLS),
    f"{DECODER}/attention_decoder/output_projection_wrapper/bias": (SYMBOLS,),
    f"{DECODER}/attention_decoder/AttnOutputProjection/kernel": (SYMBOLS + 2 * UNITS, SYMBOLS),
    f"{DECODER}/attention_decoder/AttnOutputProjection/bias": (SYMBOLS,),
}
for head in range(2):
    ATTENTION |= {
        f"{DECODER}/attention_decoder/AttnW_{head}": (1, 1, UNITS, UNITS),
        f"{DECODER}/attention_decoder/AttnV_{head}": (UNITS,),
        f"{DECODER}/attention_decoder/Attention_{head}/kernel": (UNITS, UNITS),
        f"{DECODER}/attention_decoder/Attention_{head}/bias": (UNITS,),
    }


def attended(given, feeds, reads_first):
    """The outputs of `embedding_attention_seq2seq` with two heads."""
    outputs, state = encoded(
        given, "a/rnn/embedding_wrapper/embedding", "a/rnn/embedding_wrapper/gru_cell", SOURCE
    )
    memory, mine = np.stack(outputs, axis=1), within(f"{DECODER}/attention_decoder", given)

    def read(query):
        found = []
        for k in range(2):
            y = query @ mine[f"Attention_{k}/kernel"] + mine[f"Attention_{k}/bias"]
            features = memory @ mine[f"AttnW_{k}"][0, 0]
            scores = (mine[f"AttnV_{k}"] * np.tanh(features + y[:, None])).sum(2)
            shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
            found.append((shares[:, :, None] * memory).sum(1))
        return np.concatenate(found, 1)

    step = gru_step(within("output_projection_wrapper/gru_cell", mine))
    attention = read(state) if reads_first else np.zeros((BATCH, 2 * UNITS), np.float32)
    symbols, found = TARGET[0], []
    for time in range(DECODER_STEPS):
        x = beside(given[f"{DECODER}/embedding"][symbols], attention) @ mine["kernel"] + mine["bias"]
        output, state = step(x, state)
        output = output @ mine["output_projection_wrapper/kernel"] + mine["output_projection_wrapper/bias"]
        attention = read(state)
        found.append(
            beside(output, attention) @ mine["AttnOutputProjection/kernel"]
            + mine["AttnOutputProjection/bias"]
        )
        symbols = found[-1].argmax(1) if feeds else TARGET[min(time + 1, DECODER_STEPS - 1)]
    return found, state


@pytest.mark.parametrize(("feeds", "reads_first"), [(False, False), (True, False), (False, True)])
async def test_a_decoder_reads_the_encoders_outputs_in_each_step(feeds, reads_first):
    given = weights(ATTENTION)
    outputs, state = seq2seq.embedding_attention_seq2seq(
        list(SOURCE), list(TARGET), ax.nn.rnn_cell.GRUCell(UNITS), SOURCE_SYMBOLS, SYMBOLS, SIZE,
        num_heads=2, feed_previous=feeds, scope="a", initial_state_attention=reads_first,
    )  # fmt: skip

    found, last = await results((outputs, state), given)

    expected, expected_state = attended(given, feeds, reads_first)
    assert names() == set(ATTENTION)
    assert close(tuple(found), tuple(expected))
    assert close(last, expected_state)


async def test_the_choice_by_a_tensor_keeps_the_structure_of_the_state():
    feeds = ax.placeholder(ax.bool, [])
    cell = ax.nn.rnn_cell.MultiRNNCell([ax.nn.rnn_cell.BasicLSTMCell(UNITS), ax.nn.rnn_cell.GRUCell(UNITS)])
    outputs, state = seq2seq.embedding_attention_seq2seq(
        list(SOURCE), list(TARGET), cell, SOURCE_SYMBOLS, SYMBOLS, SIZE, feed_previous=feeds
    )

    assert [each.shape.as_list() for each in outputs] == [[BATCH, SYMBOLS]] * DECODER_STEPS
    assert isinstance(state[0], ax.nn.rnn_cell.LSTMStateTuple)
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        teacher, fed = [await session.run((outputs, state), {feeds: value}) for value in (False, True)]
    assert close(teacher[0][0], fed[0][0])
    assert np.shape(fed[1][0].c) == (BATCH, UNITS)


async def test_a_basic_model_copies_the_cell_for_the_encoder():
    x, y = drawn(1, ENCODER_STEPS, BATCH, SIZE), drawn(2, DECODER_STEPS, BATCH, SIZE)
    shapes = {
        **under("basic_rnn_seq2seq/rnn", gru(SIZE)),
        **under("basic_rnn_seq2seq/rnn_decoder", gru(SIZE)),
    }
    given = weights(shapes)
    outputs, _ = seq2seq.basic_rnn_seq2seq(
        [ax.constant(each) for each in x],
        [ax.constant(each) for each in y],
        ax.nn.rnn_cell.GRUCell(UNITS),
    )

    found = await results(outputs, given)

    step, state, expected = gru_step(within("basic_rnn_seq2seq/rnn/gru_cell", given)), ZERO, []
    for each in x:
        _, state = step(each, state)
    step = gru_step(within("basic_rnn_seq2seq/rnn_decoder/gru_cell", given))
    for each in y:
        output, state = step(each, state)
        expected.append(output)
    assert names() == set(shapes)
    assert close(tuple(found), tuple(expected))


async def test_a_tied_model_has_one_cell_and_one_embedding():
    scope = "embedding_tied_rnn_seq2seq"
    inner = f"{scope}/combined_tied_rnn_seq2seq/tied_rnn_seq2seq/output_projection_wrapper"
    shapes = {
        f"{scope}/embedding": (SYMBOLS, SIZE),
        **under(inner, gru(SIZE)),
        f"{inner}/kernel": (UNITS, 4),
        f"{inner}/bias": (4,),
    }
    given = weights(shapes)
    outputs, state = seq2seq.embedding_tied_rnn_seq2seq(
        list(SOURCE), list(TARGET), ax.nn.rnn_cell.GRUCell(UNITS), SYMBOLS, SIZE, num_decoder_symbols=4
    )

    found, last = await results((outputs, state), given)

    _, expected = encoded(given, f"{scope}/embedding", f"{inner}/gru_cell", [*SOURCE, *TARGET])
    assert names() == set(shapes)
    assert close(last, expected)
    assert close(found[-1], expected @ given[f"{inner}/kernel"] + given[f"{inner}/bias"])


@pytest.mark.parametrize("feeds", [False, True])
async def test_the_tied_model_feeds_symbols_by_a_tensor(feeds):
    chosen = ax.placeholder_with_default(feeds, [])
    inputs = (list(SOURCE), list(TARGET), ax.nn.rnn_cell.GRUCell(UNITS), SYMBOLS, SIZE)
    with ax.variable_scope("m", initializer=ax.random_uniform_initializer(-1, 1, seed=1)):
        outputs, _ = seq2seq.embedding_tied_rnn_seq2seq(*inputs, feed_previous=chosen)
    with ax.variable_scope("m", reuse=True):
        again, _ = seq2seq.embedding_tied_rnn_seq2seq(
            *(*inputs[:2], ax.nn.rnn_cell.GRUCell(UNITS), *inputs[3:]), feed_previous=feeds
        )

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        found, expected = await session.run((outputs, again))

    assert close(tuple(found), tuple(expected))


async def test_one_encoder_serves_decoders_by_name():
    outputs, states = seq2seq.one2many_rnn_seq2seq(
        list(SOURCE),
        {"x": list(TARGET), "y": list(TARGET[:2])},
        ax.nn.rnn_cell.GRUCell(UNITS),
        {"x": ax.nn.rnn_cell.GRUCell(UNITS), "y": ax.nn.rnn_cell.GRUCell(UNITS)},
        SOURCE_SYMBOLS,
        {"x": SYMBOLS, "y": 9},
        SIZE,
    )

    assert [each.shape.as_list() for each in outputs["y"]] == [[BATCH, 9]] * 2
    assert len(outputs["x"]) == DECODER_STEPS
    assert states["x"].shape.as_list() == [BATCH, UNITS]
    assert {name.split("/")[1] for name in names()} == {"rnn", "one2many_decoder_x", "one2many_decoder_y"}


async def test_cells_within_cells_are_copied_as_they_were_before_the_first_call():
    inner = ax.nn.rnn_cell.DropoutWrapper(ax.nn.rnn_cell.GRUCell(UNITS), output_keep_prob=1.0)
    projected = ax.contrib.rnn.InputProjectionWrapper(ax.nn.rnn_cell.GRUCell(UNITS), 2)
    cell = ax.nn.rnn_cell.MultiRNNCell([inner, projected])

    def model(encoder_inputs, decoder_inputs):
        return seq2seq.embedding_attention_seq2seq(
            encoder_inputs, decoder_inputs, cell, SOURCE_SYMBOLS, SYMBOLS, SIZE
        )

    steps = [ax.constant(each) for each in WEIGHTS]
    outputs, _ = seq2seq.model_with_buckets(
        list(SOURCE), list(TARGET), list(TARGET), steps, [(1, 1), (2, 2)], model
    )

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        found = await session.run(outputs)

    assert len(names()) == len(ax.global_variables())
    assert [each.shape for each in found[1]] == [(BATCH, SYMBOLS)] * 2
    assert {"rnn", "embedding_attention_decoder"} == {name.split("/")[1] for name in names()}


LOGITS = drawn(3, DECODER_STEPS, BATCH, SYMBOLS)
WEIGHTS = np.array([[1, 1], [1, 0.5], [0, 1], [0, 0]], np.float32)


def losses():
    """The cross entropy of each step, `[steps, batch]`."""
    shares = np.log(np.exp(LOGITS).sum(2)) - np.take_along_axis(LOGITS, TARGET[..., None], 2)[..., 0]
    return shares * WEIGHTS


@pytest.mark.parametrize("by_steps", [False, True])
@pytest.mark.parametrize("by_batch", [False, True])
async def test_losses_are_weighted_and_averaged(by_steps, by_batch):
    lists = [ax.constant(each) for each in LOGITS], list(TARGET), [ax.constant(each) for each in WEIGHTS]
    by_example = seq2seq.sequence_loss_by_example(*lists, average_across_timesteps=by_steps)
    total = seq2seq.sequence_loss(*lists, average_across_timesteps=by_steps, average_across_batch=by_batch)

    found, cost = await results((by_example, total), {})

    expected = losses().sum(0) / (WEIGHTS.sum(0) + 1e-12 if by_steps else 1)
    assert close(found, expected)
    assert close(cost, expected.sum() / (BATCH if by_batch else 1))


async def test_another_loss_function_gets_labels_and_logits():
    def loss(labels, logits):
        return ax.reduce_sum(logits, 1) * ax.cast(labels, ax.float32)

    found = await results(
        seq2seq.sequence_loss_by_example(
            list(LOGITS), list(TARGET), list(WEIGHTS), softmax_loss_function=loss
        ),
        {},
    )

    expected = (LOGITS.sum(2) * TARGET * WEIGHTS).sum(0) / (WEIGHTS.sum(0) + 1e-12)
    assert close(found, expected)


@pytest.mark.parametrize("one_cell", [False, True])
@pytest.mark.parametrize("by_example", [False, True])
async def test_buckets_share_their_variables(by_example, one_cell):
    cell = ax.nn.rnn_cell.GRUCell(UNITS)

    def model(encoder_inputs, decoder_inputs):
        return seq2seq.embedding_rnn_seq2seq(
            encoder_inputs,
            decoder_inputs,
            cell if one_cell else ax.nn.rnn_cell.GRUCell(UNITS),
            SOURCE_SYMBOLS,
            SYMBOLS,
            SIZE,
            scope="a",
        )

    given = weights(EMBEDDING)
    outputs, costs = seq2seq.model_with_buckets(
        list(SOURCE),
        list(TARGET),
        list(TARGET),
        [ax.constant(each) for each in WEIGHTS],
        [(1, 2), (ENCODER_STEPS, DECODER_STEPS)],
        model,
        per_example_loss=by_example,
    )

    found, _ = await results((outputs, costs), given)

    assert names() == set(EMBEDDING)
    assert [len(each) for each in found] == [2, DECODER_STEPS]
    assert close(tuple(found[1]), tuple(plain(given, False)[0]))
    assert [cost.shape.as_list() for cost in costs] == [[BATCH] if by_example else []] * 2


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: seq2seq.sequence_loss_by_example(list(LOGITS), list(TARGET[1:]), list(WEIGHTS)),
            "Lengths of logits, weights, and targets must be the same 4, 4, 3",
        ),
        (
            lambda: seq2seq.model_with_buckets([0], [0], [0], [0], [(2, 1)], lambda x, y: (x, y)),
            "Length of encoder_inputs .1. must be at least that of last bucket .2.",
        ),
        (
            lambda: seq2seq.attention_decoder([], None, ax.zeros([2, 3, 4]), None),
            "Must provide at least 1 input",
        ),
        (
            lambda: seq2seq.attention_decoder([0], None, ax.zeros([2, 3, 4]), None, num_heads=0),
            "With less than 1 heads",
        ),
        (
            lambda: seq2seq.attention_decoder([0], None, ax.placeholder(ax.float32, [2, 3, None]), None),
            "of attention_states must be known",
        ),
    ],
)
def test_what_is_wrong_is_said(make, text):
    with pytest.raises(GraphValueError, match=text):
        make()
