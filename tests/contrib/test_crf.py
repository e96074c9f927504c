"""`contrib.crf` against sums and maxima over all sequences of tags."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from tests.contrib.seq2seq_models import native, variables
from tests.recurrent.networks import close, drawn, results

crf = ax.contrib.crf
BATCH, STEPS, TAGS = 4, 4, 3
POTENTIALS = 2 * drawn(1, BATCH, STEPS, TAGS)
TRANSITIONS = 2 * drawn(2, TAGS, TAGS)
LABELS = np.random.default_rng(3).integers(0, TAGS, (BATCH, STEPS)).astype(np.int32)
LENGTHS = np.array([4, 1, 2, 3], np.int32)


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def score(potentials, tags):
    unary = sum(potentials[step, tag] for step, tag in enumerate(tags))
    return unary + sum(TRANSITIONS[one, other] for one, other in itertools.pairwise(tags))


def all_scores(row, length):
    """All sequences of tags of a length, and their scores."""
    return {tags: score(POTENTIALS[row], tags) for tags in itertools.product(range(TAGS), repeat=length)}


def log_sum(scores):
    return np.log(np.exp(np.array(list(scores))).sum())


def each(function):
    return np.array([function(row, length) for row, length in enumerate(LENGTHS)], np.float32)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
async def test_scores_are_sums_of_potentials_and_transitions(dtype):
    tags = LABELS.astype(dtype)
    found = await results(
        (
            crf.crf_sequence_score(POTENTIALS, tags, LENGTHS, TRANSITIONS),
            crf.crf_unary_score(tags, LENGTHS, POTENTIALS),
            crf.crf_binary_score(tags, LENGTHS, TRANSITIONS),
        ),
        {},
    )

    total = each(lambda row, length: score(POTENTIALS[row], LABELS[row, :length]))
    unary = each(lambda row, length: POTENTIALS[row, np.arange(length), LABELS[row, :length]].sum())
    assert close(found[0], total)
    assert close(found[1], unary)
    assert close(found[2], total - unary)


@pytest.mark.parametrize("steps", [STEPS, 1])
async def test_the_norm_sums_over_all_sequences(steps):
    lengths = np.minimum(LENGTHS, steps)
    found = await results(crf.crf_log_norm(POTENTIALS[:, :steps], lengths, TRANSITIONS), {})

    expected = [log_sum(all_scores(row, length).values()) for row, length in enumerate(lengths)]
    assert close(found, np.array(expected, np.float32))


async def test_a_sequence_without_steps_has_the_norm_and_the_score_zero():
    lengths = np.array([0, 4, 0, 1], np.int32)
    norm, total = await results(
        (
            crf.crf_log_norm(POTENTIALS, lengths, TRANSITIONS),
            crf.crf_sequence_score(POTENTIALS, LABELS, lengths, TRANSITIONS),
        ),
        {},
    )

    assert norm[0] == norm[2] == total[0] == total[2] == 0
    assert close(norm[1], np.float32(log_sum(all_scores(1, 4).values())))


async def test_the_likelihood_is_the_share_of_a_sequence():
    likelihood, transitions = crf.crf_log_likelihood(ax.constant(POTENTIALS), LABELS, LENGTHS)

    found = await results(likelihood, {"transitions": TRANSITIONS})

    expected = each(
        lambda row, length: (
            score(POTENTIALS[row], LABELS[row, :length]) - log_sum(all_scores(row, length).values())
        )
    )
    assert variables() == {"transitions": (TAGS, TAGS)}
    assert transitions is ax.trainable_variables()[0]
    assert close(found, expected)


async def test_gradients_are_the_expected_counts():
    transitions = ax.constant(TRANSITIONS)
    norm = crf.crf_log_norm(ax.constant(POTENTIALS), LENGTHS, transitions)

    found = await results(ax.gradients(norm, transitions)[0], {})

    expected = np.zeros((TAGS, TAGS))
    for row, length in enumerate(LENGTHS):
        scores = all_scores(row, length)
        total = log_sum(scores.values())
        for tags, value in scores.items():
            for one, other in itertools.pairwise(tags):
                expected[one, other] += np.exp(value - total)
    assert close(found, expected.astype(np.float32))


async def test_several_tags_may_be_allowed():
    allowed = np.random.default_rng(5).random((BATCH, STEPS, TAGS)) < 0.6
    allowed[..., 0] = True

    found = await results(crf.crf_multitag_sequence_score(POTENTIALS, allowed, LENGTHS, TRANSITIONS), {})

    expected = each(
        lambda row, length: log_sum(
            value
            for tags, value in all_scores(row, length).items()
            if all(allowed[row, step, tag] for step, tag in enumerate(tags))
        )
    )
    assert close(found, expected)


def best(row, length):
    scores = all_scores(row, length)
    tags = max(scores, key=lambda each: scores[each])
    return list(tags), scores[tags]


async def test_decoding_finds_the_best_sequence():
    found, scores = await results(crf.crf_decode(POTENTIALS, TRANSITIONS, LENGTHS), {})

    for row, length in enumerate(LENGTHS):
        tags, value = best(row, length)
        plain, plain_value = crf.viterbi_decode(POTENTIALS[row, :length], TRANSITIONS)
        assert found[row, :length].tolist() == tags == plain
        assert (found[row, length:] == 0).all()
        assert close(scores[row], np.float32(value))
        assert close(plain_value, np.float32(value))
    assert found.dtype == np.int32


async def test_decoding_one_step():
    found, scores = await results(crf.crf_decode(POTENTIALS[:, :1], TRANSITIONS, [1] * BATCH), {})

    assert close(found[:, 0], POTENTIALS[:, 0].argmax(1))
    assert close(scores, POTENTIALS[:, 0].max(1))


async def test_sizes_may_be_known_in_the_run_only():
    potentials = ax.placeholder(ax.float32, [None, None, TAGS])
    lengths = ax.placeholder(ax.int32, [None])
    tags, _ = crf.crf_decode(potentials, TRANSITIONS, lengths)
    norm = crf.crf_log_norm(potentials, lengths, TRANSITIONS)

    found, total = await results((tags, norm), {}, {potentials: POTENTIALS, lengths: LENGTHS})

    assert found[0].tolist() == best(0, 4)[0]
    assert close(total, each(lambda row, length: log_sum(all_scores(row, length).values())))


async def test_a_training_step_is_one_native_item():
    scores = ax.layers.dense(ax.constant(POTENTIALS), TAGS)
    likelihood, _ = crf.crf_log_likelihood(scores, LABELS, LENGTHS)
    loss = ax.reduce_mean(-likelihood)
    train = ax.train.GradientDescentOptimizer(0.1).minimize(loss)

    _, report = await native([loss, train])

    assert [len(partition.items) for partition in report.partitions] == [1]
    assert set(report.breaks_by_op) <= {"Assert"}
    assert report.native_share > 0.98


def test_the_number_of_tags_must_be_known():
    with pytest.raises(GraphValueError, match="the number of tags must be known"):
        crf.crf_log_likelihood(ax.placeholder(ax.float32, [2, 3, None]), LABELS[:2, :3], [1, 2])
