"""Connectionist temporal classification: losses of sequences of several lengths, and decoders."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, case, partly, unknown

STEPS, BATCH, CLASSES = 7, 3, 5
LOGITS = sample("float32", (STEPS, BATCH, CLASSES), 1, -2.0, 2.0)
WORDS = [[1, 3, 0], [2, 2], [0, 1, 2, 3]]
LENGTHS = np.array([7, 5, 6], np.int32)


def sparse(words: list[list[int]]) -> tuple[Any, Any]:
    """The indices and values of labels."""
    places = [[b, k] for b, word in enumerate(words) for k in range(len(word))]
    labels = [label for word in words for label in word]
    return np.array(places, np.int64).reshape(-1, 2), np.array(labels, np.int32)


def loss(
    words: list[list[int]] = WORDS, lengths: Any = LENGTHS, logits: Any = LOGITS, **options: Any
) -> Case:
    places, labels = sparse(words)
    more = {"tolerance": 30.0} | options
    return case("CTCLoss", logits, places, labels, np.array(lengths, np.int32), **more)


def losses() -> list[Case]:
    ignores = {"ignore_longer_outputs_than_inputs": True}
    places, labels = sparse(WORDS)
    rough = {"tolerance": 1e8, "note": "TensorFlow's sums of doubles are in single precision"}
    return [
        loss(),
        loss(lengths=[7, 7, 7]),
        loss([[0], [1], [2]]),
        loss([[1, 1, 1], [2, 2], [0, 0]]),
        loss([[1, 1, 1], [2, 2], [0, 0]], attrs={"ctc_merge_repeated": False}),
        loss([[1, 1, 0], [2, 2], [0, 1, 1]], attrs={"preprocess_collapse_repeated": True}),
        loss(lengths=[2, 5, 3], attrs=ignores),
        loss([[1, 4], [2, 4, 4], [3]]),
        loss(logits=LOGITS * 10),
        loss(logits=LOGITS.astype(np.float64), **rough),
        loss([[1, 3, 0, 1, 2, 3, 0], [2], [0]], lengths=[7, 1, 1]),
        loss(logits=LOGITS[:, :1], words=WORDS[:1], lengths=[7]),
        case("CTCLoss", unknown(LOGITS), unknown(places), unknown(labels), unknown(LENGTHS), tolerance=30.0),
        case(
            "CTCLoss",
            partly(LOGITS, [None, 3, None]),
            partly(places, [None, 2]),
            labels,
            LENGTHS,
            tolerance=30.0,
        ),
        loss(lengths=[2, 5, 6], bad=True),
        loss(lengths=[8, 5, 6], bad=True),
        loss([[1, 3], [], [2]], bad=True),
        loss([[1, -3], [1], [2]], bad=True),
        loss([[4, 3], [1], [2]], bad=True),
        loss(lengths=[7, 5], bad=True),
        loss(logits=LOGITS[0], bad=True),
        case("CTCLoss", LOGITS, places, labels[:-1], LENGTHS, bad=True),
    ]


def decoded(op: str, logits: Any = LOGITS, lengths: Any = LENGTHS, **options: Any) -> Case:
    return case(op, logits, np.array(lengths, np.int32), **options)


def greedy() -> list[Case]:
    op = "CTCGreedyDecoder"
    peaks = sample("float32", (30, 2, 4), 2, -1.0, 1.0)
    return [
        decoded(op),
        decoded(op, attrs={"merge_repeated": True}),
        decoded(op, peaks, [30, 17]),
        decoded(op, peaks, [30, 17], attrs={"merge_repeated": True}),
        decoded(op, np.round(peaks), [30, 30], attrs={"merge_repeated": True}),
        *(decoded(op, peaks, [12, 30], attrs={"blank_index": blank}) for blank in (0, 2, -1, -4)),
        decoded(op, peaks.astype(np.float64), [30, 3]),
        decoded(op, peaks, [0, 0]),
        decoded(op, peaks[:, :0], [], bad=True),
        case(op, unknown(peaks), unknown(np.array([30, 2], np.int32))),
        decoded(op, peaks, [31, 2], bad=True),
        decoded(op, peaks, [30], bad=True),
        decoded(op, peaks[0], [30], bad=True),
        decoded(op, peaks, [30, 2], attrs={"blank_index": 4}, bad=True),
    ]


def beams() -> list[Case]:
    op = "CTCBeamSearchDecoder"
    peaks = sample("float32", (12, 2, 4), 3, -2.0, 2.0)

    def row(width: int, paths: int, merges: bool = False, *more: Any, **options: Any) -> Case:
        attrs = {"beam_width": width, "top_paths": paths, "merge_repeated": merges}
        return decoded(op, *more, attrs=attrs, **{"tolerance": 30.0} | options)

    return [
        *(
            row(width, paths, merges)
            for width, paths in ((1, 1), (3, 2), (20, 3))
            for merges in (False, True)
        ),
        *(row(width, 2, False, peaks, [12, 7]) for width in (2, 5, 100)),
        row(4, 4, True, peaks, [12, 12]),
        row(6, 1, False, LOGITS * 5),
        row(
            30,
            2,
            False,
            peaks.astype(np.float64),
            [9, 3],
            tolerance=1e8,
            note="sums in single precision there",
        ),
        row(1, 1, False, peaks, [0, 1]),
        case(
            op,
            unknown(LOGITS),
            unknown(LENGTHS),
            attrs={"beam_width": 5, "top_paths": 2},
            tolerance=30.0,
        ),
        row(2, 3, bad=True),
        row(9, 2, False, peaks, [0, 0], bad=True),
        row(2, 1, False, peaks, [13, 0], bad=True),
        row(2, 1, False, peaks, [12], bad=True),
        row(2, 1, False, peaks[0], [12], bad=True),
    ]


CASES: list[Case] = [*losses(), *greedy(), *beams()]
