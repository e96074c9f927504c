"""`contrib.seq2seq.sequence_loss` against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from tests.contrib.seq2seq_models import log_softmax
from tests.recurrent.networks import close, drawn, results

sequence_loss = ax.contrib.seq2seq.sequence_loss
LOGITS = drawn(1, 3, 4, 5)
TARGETS = np.random.default_rng(2).integers(0, 5, (3, 4))
WEIGHTS = np.array([[1, 1, 0.5, 0], [1, 0, 0, 0], [0, 0, 0, 0]], np.float32)


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def losses():
    return -np.take_along_axis(log_softmax(LOGITS), TARGETS[..., None], 2)[..., 0] * WEIGHTS


@pytest.mark.parametrize(
    ("flags", "axis", "by_weights"),
    [
        ((True, True, False, False), None, True),
        ((True, False, False, False), 1, True),
        ((False, True, False, False), 0, True),
        ((False, False, True, True), None, False),
        ((False, False, True, False), 1, False),
        ((False, False, False, True), 0, False),
        ((False, False, False, False), (), True),
    ],
)
async def test_losses_are_reduced_as_the_flags_say(flags, axis, by_weights):
    found = await results(sequence_loss(LOGITS, TARGETS, WEIGHTS, *flags), {})

    divisor = WEIGHTS.sum(axis) if by_weights else np.count_nonzero(WEIGHTS, axis)
    expected = losses() if axis == () else losses().sum(axis) / np.maximum(divisor, 1e-12)
    assert close(found, expected)


async def test_another_loss_function_gets_labels_and_logits():
    loss = sequence_loss(
        LOGITS,
        TARGETS,
        WEIGHTS,
        softmax_loss_function=lambda labels, logits: ax.cast(labels, ax.float32) + logits[:, 0],
    )

    expected = ((TARGETS + LOGITS[..., 0]) * WEIGHTS).sum() / WEIGHTS.sum()
    assert close(await results(loss, {}), expected.astype(np.float32))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: sequence_loss(LOGITS[0], TARGETS, WEIGHTS), "Logits must be a"),
        (lambda: sequence_loss(LOGITS, TARGETS[0], WEIGHTS), "Targets must be a"),
        (lambda: sequence_loss(LOGITS, TARGETS, WEIGHTS[0]), "Weights must be a"),
        (
            lambda: sequence_loss(LOGITS, TARGETS, WEIGHTS, sum_over_batch=True),
            "average_across_batch and sum_over_batch cannot be set to True",
        ),
        (
            lambda: sequence_loss(LOGITS, TARGETS, WEIGHTS, False, True, sum_over_timesteps=True),
            "one dimension cannot be averaged while the other one is summed",
        ),
    ],
)
def test_what_is_wrong_is_said(make, text):
    with pytest.raises(GraphValueError, match=text):
        make()
