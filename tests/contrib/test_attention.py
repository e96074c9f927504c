"""Attention mechanisms and `AttentionWrapper` against NumPy: scores, alignments, names of variables, errors."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from tests.contrib.seq2seq_models import BATCH, UNITS, native, part_of, softmax, variables
from tests.recurrent.networks import beside, close, drawn, gru_step, results, sigmoid, weights

seq2seq = ax.contrib.seq2seq
MEMORY_STEPS, DEPTH, SIZE = 4, 2, 3
MEMORY = drawn(1, BATCH, MEMORY_STEPS, SIZE)
LENGTHS = np.array([2, 4, 1], np.int32)
QUERY = drawn(2, BATCH, UNITS)
X = drawn(3, BATCH, 5, DEPTH)
BEFORE = softmax(drawn(4, BATCH, MEMORY_STEPS))


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def masked(lengths):
    """The memory, zero past the lengths, and which steps are before them."""
    inside = np.arange(MEMORY_STEPS)[None] < (MEMORY_STEPS if lengths is None else lengths[:, None])
    inside = np.broadcast_to(inside, (BATCH, MEMORY_STEPS))
    return MEMORY * inside[..., None], inside


def luong(given, query, lengths=None):
    memory, inside = masked(lengths)
    keys = memory @ part_of(given, "memory_layer")["kernel"]
    scores = np.einsum("bd,btd->bt", query, keys)
    for name, g in given.items():
        if name.endswith("attention_g"):
            scores = g * scores
    return np.where(inside, scores, -np.inf), memory


def bahdanau(given, query, lengths=None):
    memory, inside = masked(lengths)
    hidden = memory @ part_of(given, "memory_layer")["kernel"]
    hidden = hidden + (query @ part_of(given, "query_layer")["kernel"])[:, None]
    values = {name.rpartition("/")[2]: value for name, value in given.items()}
    v = values["attention_v"]
    if "attention_g" in values:
        v = values["attention_g"] * v / np.sqrt((v**2).sum())
        hidden = hidden + values["attention_b"]
    return np.where(inside, (v * np.tanh(hidden)).sum(2), -np.inf), memory


MECHANISMS = {
    "luong": (seq2seq.LuongAttention, {}, luong, {"memory_layer/kernel"}),
    "scaled luong": (
        seq2seq.LuongAttention,
        {"scale": True},
        luong,
        {"memory_layer/kernel", "luong_attention/attention_g"},
    ),
    "bahdanau": (
        seq2seq.BahdanauAttention,
        {},
        bahdanau,
        {
            "memory_layer/kernel",
            "bahdanau_attention/query_layer/kernel",
            "bahdanau_attention/attention_v",
        },
    ),
    "normalized bahdanau": (
        seq2seq.BahdanauAttention,
        {"normalize": True},
        bahdanau,
        {
            "memory_layer/kernel",
            "bahdanau_attention/query_layer/kernel",
            "bahdanau_attention/attention_v",
            "bahdanau_attention/attention_g",
            "bahdanau_attention/attention_b",
        },
    ),
}


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize(("kind", "options", "model", "names"), MECHANISMS.values(), ids=MECHANISMS)
async def test_alignments_are_the_softmax_of_scores(kind, options, model, names, lengths):
    mechanism = kind(UNITS, MEMORY, lengths, **options)
    alignments, state = mechanism(ax.constant(QUERY), ax.zeros([BATCH, MEMORY_STEPS]))
    given = weights(variables())

    found, values = await results((alignments, mechanism.values), given)

    scores, memory = model(given, QUERY, lengths)
    assert set(given) == names
    assert state is alignments
    assert close(found, softmax(scores))
    assert close(values, memory)
    assert (mechanism.batch_size, mechanism.alignments_size) == (BATCH, MEMORY_STEPS)


async def test_variables_begin_with_the_values_that_change_nothing():
    normalized = seq2seq.BahdanauAttention(4, MEMORY, normalize=True)
    normalized(ax.constant(QUERY), None)
    scaled = seq2seq.LuongMonotonicAttention(UNITS, MEMORY, scale=True, score_bias_init=-2.5)
    scaled(ax.constant(QUERY), ax.constant(BEFORE))

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        values = {each.op.name: await session.run(each) for each in ax.global_variables()}

    assert close(values["bahdanau_attention/attention_g"], 0.5)
    assert close(values["bahdanau_attention/attention_b"], np.zeros(4))
    assert close(values["luong_monotonic_attention/attention_g"], 1.0)
    assert close(values["luong_monotonic_attention/attention_score_bias"], -2.5)


async def test_another_probability_function_and_mask_value():
    mechanism = seq2seq.LuongAttention(
        UNITS, MEMORY, LENGTHS, probability_fn=lambda scores: scores, score_mask_value=-7.0
    )
    alignments, _ = mechanism(ax.constant(QUERY), None)
    given = weights(variables())

    scores, _ = luong(given, QUERY, LENGTHS)
    assert close(await results(alignments, given), np.where(np.isinf(scores), -7, scores))


async def test_a_function_chooses_keys_and_values():
    mechanism = seq2seq.LuongAttention(
        UNITS, MEMORY, custom_key_value_fn=lambda keys, values: (keys * 2, values + 1)
    )
    alignments, _ = mechanism(ax.constant(QUERY), None)
    given = weights(variables())

    found, values = await results((alignments, mechanism.values), given)

    assert close(found, softmax(2 * luong(given, QUERY)[0]))
    assert close(values, MEMORY + 1)


def moved_on(p, before):
    """The distribution of the step that is chosen next, by the probability to reach each."""
    found = np.zeros_like(p)
    for row in range(len(p)):
        reached = 0.0
        for i in range(p.shape[1]):
            reached = reached * (1 - p[row, i - 1] if i else 1) + before[row, i]
            found[row, i] = p[row, i] * reached
    return found


@pytest.mark.parametrize("mode", ["recursive", "parallel", "hard"])
async def test_monotonic_attention_moves_forward(mode):
    p = np.array([[0.2, 0.7, 0.4, 0.9], [0.5, 0.1, 0.8, 0.3]], np.float32)
    before = np.array([[0.1, 0.6, 0.2, 0.1], [1, 0, 0, 0]], np.float32)
    if mode == "hard":
        p, before = np.round(p), np.array([[0, 0, 1, 0], [1, 0, 0, 0]], np.float32)

    found = await results(seq2seq.monotonic_attention(p, before, mode), {})

    assert close(found, moved_on(p, before))


@pytest.mark.parametrize("mode", ["recursive", "parallel"])
@pytest.mark.parametrize(
    ("kind", "model", "scope"),
    [
        (seq2seq.LuongMonotonicAttention, luong, "luong_monotonic_attention"),
        (seq2seq.BahdanauMonotonicAttention, bahdanau, "bahdanau_monotonic_attention"),
    ],
)
async def test_monotonic_mechanisms_choose_by_the_sigmoid_of_biased_scores(kind, model, scope, mode):
    mechanism = kind(UNITS, MEMORY, LENGTHS, mode=mode)
    alignments, _ = mechanism(ax.constant(QUERY), ax.constant(BEFORE))
    first = mechanism.initial_alignments(BATCH, ax.float32)
    given = weights(variables())

    found, initial = await results((alignments, first), given)

    scores, _ = model(given, QUERY, LENGTHS)
    assert close(found, moved_on(sigmoid(scores + given[f"{scope}/attention_score_bias"]), BEFORE))
    assert close(initial, np.eye(MEMORY_STEPS)[[0] * BATCH])


async def test_noise_before_the_sigmoid_has_a_seed():
    def noisy(seed):
        mechanism = seq2seq.LuongMonotonicAttention(
            UNITS, MEMORY, sigmoid_noise=5.0, sigmoid_noise_seed=seed, name=f"s{seed}"
        )
        return mechanism(ax.constant(QUERY), ax.constant(BEFORE))[0]

    with ax.variable_scope("a", reuse=ax.AUTO_REUSE):
        ax.set_random_seed(1)
        one, other, third = noisy(1), noisy(1), noisy(2)

    found = await results((one, other, third), {
        "kernel": drawn(7, SIZE, UNITS), "attention_score_bias": np.float32(0)
    })  # fmt: skip

    assert close(found[0], found[1])
    assert not close(found[0], found[2])


async def test_hardmax_and_safe_cumprod():
    logits = np.array([[1.0, 5.0, 5.0], [3.0, 0.0, 1.0]], np.float32)
    p = np.array([[0.5, 1e-20, 0.5], [0.25, 0.0, 1.0]], np.float32)

    found = await results((seq2seq.hardmax(logits), seq2seq.safe_cumprod(p, axis=1, exclusive=True)), {})

    assert close(found[0], [[0, 1, 0], [1, 0, 0]])
    assert close(found[1], [[1, 0.5, 5e-21], [1, 0.25, 0]])


def wrapped(mechanisms, **options):
    return seq2seq.AttentionWrapper(ax.nn.rnn_cell.GRUCell(UNITS), mechanisms, **options)


def reader(given, model, step, layer):
    """One step of a wrapper: inputs, state of the cell and what was read last to the new ones and the alignments."""

    def read(x, state, attention):
        output, state = step(beside(x, attention), state)
        scores, memory = model(given, output, LENGTHS)
        alignments = softmax(scores)
        context = np.einsum("bt,btd->bd", alignments, memory)
        attention = context if layer is None else beside(output, context) @ layer
        return output, state, attention, alignments

    return read


@pytest.mark.parametrize("size", [None, 4])
@pytest.mark.parametrize("output_attention", [True, False])
async def test_a_wrapper_joins_inputs_with_what_was_read_last(size, output_attention):
    mechanism = seq2seq.BahdanauAttention(UNITS, MEMORY, LENGTHS)
    cell = wrapped(mechanism, attention_layer_size=size, output_attention=output_attention)
    outputs, state = ax.nn.dynamic_rnn(cell, ax.constant(X), dtype=ax.float32)
    given = weights(variables())

    found, last = await results((outputs, state), given)

    scope = "rnn/attention_wrapper"
    names = {name for name in given if not name.startswith(f"{scope}/gru_cell")}
    assert names == {
        "memory_layer/kernel",
        f"{scope}/bahdanau_attention/query_layer/kernel",
        f"{scope}/bahdanau_attention/attention_v",
    } | ({f"{scope}/attention_layer/kernel"} if size else set())
    layer = given[f"{scope}/attention_layer/kernel"] if size else None
    step = reader(given, bahdanau, gru_step(part_of(given, "gru_cell")), layer)
    held, attention, expected = np.zeros((BATCH, UNITS), np.float32), np.zeros((BATCH, size or SIZE)), []
    for time in range(X.shape[1]):
        output, held, attention, alignments = step(X[:, time], held, attention)
        expected.append(attention if output_attention else output)
    assert close(found, np.stack(expected, 1))
    assert isinstance(last, seq2seq.AttentionWrapperState)
    assert close(last.cell_state, held)
    assert close(last.attention, attention)
    assert close(last.alignments, alignments)
    assert last.time == X.shape[1]
    assert last.alignment_history == ()


async def test_a_history_has_the_alignments_of_all_steps():
    mechanism = seq2seq.LuongAttention(UNITS, MEMORY, LENGTHS)
    cell = wrapped(mechanism, attention_layer_size=UNITS, alignment_history=True)
    helper = seq2seq.TrainingHelper(X, [5] * BATCH)
    decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(BATCH, ax.float32))
    _, state, _ = seq2seq.dynamic_decode(decoder)
    given = weights(variables())

    history = await results(state.alignment_history.stack(), given)

    layer = given["decoder/attention_wrapper/attention_layer/kernel"]
    step = reader(given, luong, gru_step(part_of(given, "gru_cell")), layer)
    held, attention, expected = np.zeros((BATCH, UNITS), np.float32), np.zeros((BATCH, UNITS)), []
    for time in range(X.shape[1]):
        _, held, attention, alignments = step(X[:, time], held, attention)
        expected.append(alignments)
    assert close(history, np.stack(expected))


async def test_several_mechanisms_read_beside_each_other():
    mechanisms = [seq2seq.LuongAttention(UNITS, MEMORY, LENGTHS), seq2seq.BahdanauAttention(2, MEMORY[:, :3])]
    start = drawn(8, BATCH, UNITS)
    cell = wrapped(
        mechanisms,
        attention_layer_size=[4, 5],
        initial_cell_state=ax.constant(start),
        cell_input_fn=lambda inputs, attention: inputs + attention[:, :DEPTH],
    )
    state = cell.zero_state(BATCH, ax.float32)
    output, after = cell(ax.constant(X[:, 0]), state)

    assert (cell.output_size, output.shape.as_list()) == (9, [BATCH, 9])
    assert [each.shape.as_list() for each in after.alignments] == [[BATCH, 4], [BATCH, 3]]
    assert cell.state_size.alignments == (4, 3)
    assert [name for name in variables() if "/attention_layer" in name] == [
        "attention_wrapper/attention_layer/kernel",
        "attention_wrapper/attention_layer_1/kernel",
    ]
    assert close(await results(state.cell_state, weights(variables())), start)


async def test_layers_and_an_attention_function_of_ones_own():
    def mean(mechanism, output, state, layer):
        alignments = ax.fill([BATCH, MEMORY_STEPS], 1 / MEMORY_STEPS)
        return layer(ax.concat([output, ax.reduce_mean(mechanism.values, 1)], 1)), alignments, state

    cell = wrapped(
        seq2seq.LuongAttention(UNITS, MEMORY),
        attention_layer=ax.layers.Dense(2, name="mine"),
        attention_fn=mean,
    )
    output, state = cell(ax.constant(X[:, 0]), cell.zero_state(BATCH, ax.float32))
    given = weights(variables())

    found, held = await results((output, state.cell_state), given)

    mine = part_of(given, "mine")
    assert cell.output_size == 2
    assert close(found, beside(held, MEMORY.mean(1)) @ mine["kernel"] + mine["bias"])


def test_a_clone_has_other_components():
    cell = wrapped(seq2seq.LuongAttention(UNITS, MEMORY))
    state = cell.zero_state(BATCH, ax.float32)
    replaced = ax.placeholder(ax.float32, [None, UNITS])

    cloned = state.clone(cell_state=replaced)

    assert cloned.cell_state is replaced
    assert replaced.shape.as_list() == [BATCH, UNITS]
    assert cloned.attention is state.attention
    with pytest.raises(GraphValueError):
        state.clone(cell_state=ax.zeros([BATCH, UNITS + 1]))


async def test_a_training_step_with_attention_is_one_native_item():
    mechanism = seq2seq.LuongAttention(UNITS, MEMORY, LENGTHS)
    cell = wrapped(mechanism, attention_layer_size=UNITS)
    helper = seq2seq.TrainingHelper(X, [5, 3, 4])
    decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(BATCH, ax.float32), ax.layers.Dense(4))
    outputs, _, _ = seq2seq.dynamic_decode(decoder)
    loss = seq2seq.sequence_loss(
        outputs.rnn_output, np.ones((BATCH, 5), np.int32), np.ones((BATCH, 5), np.float32)
    )
    train = ax.train.GradientDescentOptimizer(0.1).minimize(loss)

    _, report = await native([loss, train])

    assert [len(partition.items) for partition in report.partitions] == [1]
    assert set(report.breaks_by_op) <= {"Assert"}
    assert report.native_share > 0.95


async def test_a_length_of_zero_is_an_error_of_the_run():
    lengths = ax.placeholder(ax.int32, [BATCH])
    alignments, _ = seq2seq.LuongAttention(UNITS, MEMORY, lengths)(ax.constant(QUERY), None)

    with pytest.raises(InvalidArgumentError, match="must greater than zero"):
        await results(alignments, weights(variables()), {lengths: [1, 0, 2]})


def small(**arguments):
    return wrapped(seq2seq.LuongAttention(UNITS, MEMORY), **arguments)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: seq2seq.LuongAttention(UNITS, ax.placeholder(ax.float32, [2, 3, None])),
            GraphValueError,
            "to have fully defined inner dims",
        ),
        (
            lambda: seq2seq.LuongAttention(UNITS + 1, MEMORY)(ax.constant(QUERY), None),
            GraphValueError,
            "Incompatible or unknown inner dimensions between query and keys",
        ),
        (
            lambda: seq2seq.monotonic_attention(BEFORE, BEFORE, "soft"),
            GraphValueError,
            "mode must be 'recursive', 'parallel', or 'hard'",
        ),
        (
            lambda: seq2seq.LuongAttention(UNITS, MEMORY, probability_fn=3)(ax.constant(QUERY), None),  # type: ignore[arg-type]
            TypeError,
            "not callable",
        ),
        (lambda: wrapped(3), GraphTypeError, "attention_mechanism must be an AttentionMechanism"),
        (lambda: small(cell_input_fn=3), GraphTypeError, "cell_input_fn must be callable"),
        (
            lambda: small(attention_layer_size=[1, 2]),
            GraphValueError,
            "attention_layer_size must contain exactly one per attention_mechanism",
        ),
        (
            lambda: small(attention_layer_size=1, attention_layer=ax.layers.Dense(1)),
            GraphValueError,
            "Only one of attention_layer_size and attention_layer should be set",
        ),
        (
            lambda: small()(ax.constant(X[:, 0]), ax.zeros([BATCH, UNITS])),
            GraphTypeError,
            "Expected state to be instance of AttentionWrapperState",
        ),
        (
            lambda: small().zero_state(BATCH + 1, ax.float32),
            InvalidArgumentError,
            "Non-matching batch sizes between the memory",
        ),
    ],
)
def test_what_is_wrong_is_said(make, error, text):
    with pytest.raises(error, match=text):
        make()
