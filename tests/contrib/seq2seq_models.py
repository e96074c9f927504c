"""Decoding, attention and beam search in plain NumPy, and small cells for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import aioexec as ax
from tests.recurrent.networks import Step, beside, sigmoid

BATCH, STEPS, DEPTH, UNITS, SYMBOLS = 3, 4, 2, 3, 5


def softmax(x: Any) -> Any:
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def log_softmax(x: Any) -> Any:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def part_of(given: dict[str, Any], scope: str) -> dict[str, Any]:
    """The values of a scope, by their names in it."""
    return {name.partition(f"{scope}/")[2]: value for name, value in given.items() if f"{scope}/" in name}


def peephole_step(given: dict[str, Any], cell_clip: float = np.inf, forget_bias: float = 1.0) -> Step:
    """The step of an LSTM with peepholes and clipping."""

    def step(x: Any, state: Any) -> tuple[Any, Any]:
        c, h = state
        i, j, f, o = np.split(beside(x, h) @ given["kernel"] + given["bias"], 4, axis=1)
        i, f = i + given["w_i_diag"] * c, f + given["w_f_diag"] * c
        c = np.clip(c * sigmoid(f + forget_bias) + sigmoid(i) * np.tanh(j), -cell_clip, cell_clip)
        h = sigmoid(o + given["w_o_diag"] * c) * np.tanh(c)
        return h, (c, h)

    return step


def decoded(
    step: Step,
    state: Any,
    first: Any,
    following: Callable[[int, Any], tuple[Any, Any]],
    finished: Any,
    most: int,
) -> tuple[list[Any], Any, Any]:
    """Outputs of all steps, the state after the last, and the lengths.

    `following` returns for the next time and the outputs of a step the next inputs, and which rows are finished.
    """
    outputs: list[Any] = []
    inputs, lengths = first, np.zeros(len(finished), np.int32)
    while not finished.all() and len(outputs) < most:
        output, state = step(inputs, state)
        outputs.append(output)
        lengths = np.where(finished, lengths, len(outputs))
        inputs, done = following(len(outputs), output)
        finished = finished | done
    return outputs, state, lengths


def beam_search(
    step: Step,
    states: Any,
    embedding: Any,
    start: Any,
    end: int,
    width: int,
    most: int,
    penalty: float = 0.0,
) -> tuple[list[list[list[int]]], Any]:
    """For each row of the batch its best sequences up to the end token, best first, and their scores [batch, width].

    `states` has one state for each row, a matrix of one row.
    """
    found, scores = [], []
    for token, state in zip(start, states, strict=True):
        beams = [([token], 0.0, state, False)]
        for _ in range(most):
            if all(done for *_, done in beams):
                break
            candidates: list[Any] = []
            for rank, (tokens, log_prob, held, done) in enumerate(beams):
                if done:
                    candidates.append((log_prob, len(tokens) - 1, rank * 1000 + end, tokens, held, True))
                    continue
                output, new = step(embedding[tokens[-1:]], held)
                for symbol, added in enumerate(log_softmax(output)[0]):
                    is_end = symbol == end
                    # As in TensorFlow, a length counts the symbols before the end token while candidates are compared.
                    length = len(tokens) - 1 if is_end else len(tokens)
                    candidates.append(
                        (log_prob + added, length, rank * 1000 + symbol, [*tokens, symbol], new, is_end)
                    )
            ranked = sorted(candidates, key=lambda each: (-each[0] / ((5 + each[1]) / 6) ** penalty, each[2]))
            beams = [(tokens, log_prob, held, done) for log_prob, _, _, tokens, held, done in ranked[:width]]
            row_scores = [each[0] / ((5 + each[1]) / 6) ** penalty for each in ranked[:width]]
        found.append([tokens[1:] for tokens, *_ in beams])
        scores.append(row_scores)
    return found, np.array(scores)


def trimmed(sequence: Any, end: int) -> list[int]:
    """A sequence up to its first end token, which is included."""
    tokens = [int(token) for token in sequence]
    return tokens[: tokens.index(end) + 1] if end in tokens else tokens


def variables() -> dict[str, tuple[int, ...]]:
    """The shapes of all trainable variables of the default graph, by name."""
    return {variable.op.name: tuple(variable.shape.as_list()) for variable in ax.trainable_variables()}


async def native(fetches: Any, feeds: Any = None) -> Any:
    """Run fetches until they are compiled; return their values and the report on the last run."""
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"
    async with ax.Session(config=config) as session:
        await session.run(ax.global_variables_initializer())
        for _ in range(3):
            found = await session.run(fetches, feeds)
        return found, await session.describe(fetches, feeds)
