"""`BeamSearchDecoder` and its parts against a plain search in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from tests.contrib.seq2seq_models import (
    BATCH,
    DEPTH,
    SYMBOLS,
    UNITS,
    beam_search,
    native,
    part_of,
    softmax,
    trimmed,
    variables,
)
from tests.recurrent.networks import beside, close, drawn, gru_step, results, weights

seq2seq = ax.contrib.seq2seq
WIDTH, MOST, END = 3, 6, 4
EMBEDDING = 2 * drawn(3, SYMBOLS, DEPTH)
START = np.array([0, 1, 2], np.int32)
STATE = drawn(2, BATCH, UNITS)
MEMORY = drawn(5, BATCH, 4, UNITS)


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def search(cell=None, state=None, limit=MOST, **options):
    decoder = seq2seq.BeamSearchDecoder(
        cell or ax.nn.rnn_cell.GRUCell(UNITS),
        ax.constant(EMBEDDING),
        START,
        END,
        seq2seq.tile_batch(ax.constant(STATE), WIDTH) if state is None else state,
        WIDTH,
        ax.layers.Dense(SYMBOLS, name="scores"),
        **options,
    )
    return seq2seq.dynamic_decode(decoder, maximum_iterations=limit)


def model(given):
    """One step of a GRU and a dense layer, with sharp scores."""
    recur, layer = gru_step(part_of(given, "gru_cell")), part_of(given, "scores")

    def step(x, h):
        output, state = recur(x, h)
        return output @ layer["kernel"] + layer["bias"], state

    return step


def sharp(shapes):
    """Values with which the end token comes early in some beams and late in others."""
    given = {name: 3 * value for name, value in weights(shapes).items()}
    given["decoder/scores/bias"] = np.array([0, 0, 0, 0, 2.5], np.float32)
    return given


@pytest.mark.parametrize("penalty", [0.0, 1.0, -0.7])
async def test_a_search_finds_the_best_sequences(penalty):
    outputs, state, _ = search(length_penalty_weight=penalty)
    given = sharp(variables())

    found, final = await results((outputs, state), given)

    expected, scores = beam_search(
        model(given), np.split(STATE, BATCH), EMBEDDING, START, END, WIDTH, MOST, penalty
    )
    assert isinstance(found, seq2seq.FinalBeamSearchDecoderOutput)
    assert [[trimmed(row[:, beam], END) for beam in range(WIDTH)] for row in found.predicted_ids] == expected
    assert any(END in tokens for row in expected for tokens in row)
    steps = found.beam_search_decoder_output
    assert close(steps.scores[:, -1], scores)
    assert steps.parent_ids.shape == found.predicted_ids.shape == (BATCH, MOST, WIDTH)
    assert final.lengths.tolist() == [[len(tokens) for tokens in row] for row in expected]
    assert final.finished.tolist() == [[tokens[-1] == END for tokens in row] for row in expected]
    assert outputs.predicted_ids.shape.as_list() == [BATCH, None, WIDTH]


async def test_a_search_ends_when_all_beams_are_finished():
    outputs, state, _ = search(limit=None)
    given = sharp(variables())
    given["decoder/scores/bias"] = np.array([0, 0, 0, 0, 9], np.float32)

    found, final = await results((outputs.predicted_ids, state), given)

    assert final.finished.all()
    assert found.shape[1] == final.lengths.max()
    assert (found[np.arange(found.shape[1])[None, :, None] >= final.lengths[:, None]] == END).all()


def attending(history=False):
    """A cell that reads a memory repeated for the beams, and its initial state."""
    memory = seq2seq.tile_batch(ax.constant(MEMORY), WIDTH)
    cell = seq2seq.AttentionWrapper(
        ax.nn.rnn_cell.GRUCell(UNITS),
        seq2seq.LuongAttention(UNITS, memory),
        attention_layer_size=UNITS,
        alignment_history=history,
    )
    start = cell.zero_state(BATCH * WIDTH, ax.float32)
    return cell, start.clone(cell_state=seq2seq.tile_batch(ax.constant(STATE), WIDTH))


async def test_a_cell_with_attention_reads_a_memory_that_is_repeated_for_the_beams():
    outputs, _, _ = search(*attending())
    given = sharp(variables())

    found = await results(outputs.predicted_ids, given)

    recur, layer = gru_step(part_of(given, "gru_cell")), part_of(given, "scores")
    keys, mix = part_of(given, "memory_layer")["kernel"], part_of(given, "attention_layer")["kernel"]

    def step(x, held):
        state, attention, memory = held
        output, state = recur(beside(x, attention), state)
        shares = softmax(np.einsum("bd,btd->bt", output, memory @ keys))
        attention = beside(output, np.einsum("bt,btd->bd", shares, memory)) @ mix
        return attention @ layer["kernel"] + layer["bias"], (state, attention, memory)

    rows = [(STATE[row : row + 1], np.zeros((1, UNITS)), MEMORY[row : row + 1]) for row in range(BATCH)]
    expected, _ = beam_search(step, rows, EMBEDDING, START, END, WIDTH, MOST)
    assert [[trimmed(row[:, beam], END) for beam in range(WIDTH)] for row in found] == expected


async def test_a_history_is_put_into_the_order_of_the_final_beams():
    outputs, state, _ = search(*attending(history=True), reorder_tensor_arrays=False)
    parents, lengths = outputs.beam_search_decoder_output.parent_ids, state.lengths
    given = sharp(variables())
    history, parents, lengths = await results(
        (state.cell_state.alignment_history.stack(), parents, lengths), given
    )
    with ax.Graph().as_default():
        _, state, _ = search(*attending(history=True))
        found = await results(state.cell_state.alignment_history, given)

    expected = history.copy()
    for row in range(BATCH):
        for beam in range(WIDTH):
            place = beam
            for time in reversed(range(lengths[row].max())):
                if time < lengths[row, beam]:
                    expected[time, row * WIDTH + beam] = history[time, row * WIDTH + place]
                place = parents[row, time, place]
    assert close(found, expected)
    assert not close(found, history)


async def test_coverage_counts_only_for_finished_batches_with_attention():
    outputs, state, _ = search(*attending(), coverage_penalty_weight=0.5)
    given = sharp(variables())

    found, final = await results((outputs, state), given)

    assert final.accumulated_attention_probs.shape == (BATCH, WIDTH, 4)
    assert (final.accumulated_attention_probs.sum(-1) <= final.lengths + 1e-4).all()
    assert found.predicted_ids.shape == (BATCH, MOST, WIDTH)


async def test_the_step_of_a_search_is_one_native_item():
    outputs, _, _ = search()

    _, report = await native(outputs.predicted_ids)

    growing = {"GatherTree", "Range", *(f"TensorArray{verb}V3" for verb in ("", "Gather", "Size", "Write"))}
    assert [len(partition.items) for partition in report.partitions] == [1]
    assert set(report.breaks_by_op) <= growing | {"Transpose"}
    assert report.native_share > 0.8


async def test_tile_batch_repeats_rows():
    x = np.arange(6).reshape(3, 2)
    unknown = ax.placeholder(ax.int32, [None, 2])
    tiled = seq2seq.tile_batch((ax.constant(x), ax.constant([1, 2]), unknown), 2)

    found = await results(tiled, {}, {unknown: x})

    assert close(found[0], np.repeat(x, 2, axis=0))
    assert close(found[1], [1, 1, 2, 2])
    assert close(found[2], np.repeat(x, 2, axis=0))
    assert [each.shape.as_list() for each in tiled] == [[6, 2], [4], [None, 2]]


async def test_values_along_a_tree():
    """Two steps of one row with two beams: both final beams continue the second beam of the first step."""
    parents = np.array([[[0, 0]], [[1, 1]]], np.int32)
    values = np.array([[[[10], [11]]], [[[20], [21]]]], np.float32)

    both = seq2seq.gather_tree_from_array(values, parents, np.array([[2, 1]], np.int32))
    tree = seq2seq.gather_tree(np.array([[[7, 8]], [[5, 6]]], np.int32), parents, [2], 9)
    found, sequences = await results((both, tree), {})

    assert close(found[:, 0, 0], [[11], [20]])
    assert close(found[:, 0, 1], [[11], [21]])
    assert close(sequences, [[[8, 8]], [[5, 6]]])


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: seq2seq.tile_batch(ax.constant(3), 2), GraphValueError, "must have statically known rank"),
        (lambda: search(state=ax.zeros([BATCH, UNITS])), GraphValueError, "Perhaps you forgot to create"),
        (lambda: search(cell=3), GraphTypeError, "is not an RNNCell"),
        (
            lambda: search(length_penalty_weight=[1.0]),
            GraphValueError,
            "length_penalty_weight should be a scalar",
        ),
        (
            lambda: search(coverage_penalty_weight=1.0),
            GraphValueError,
            "accumulated_attention_probs can be None only if coverage penalty is disabled",
        ),
    ],
)
def test_what_is_wrong_is_said(make, error, text):
    with pytest.raises(error, match=text):
        make()
