"""Cases of attention, against its formula in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.ops.harness import Case, case

FLOATS = ["float64", "float32"]
HEADS_FIRST, POSITIONS_FIRST, TURNED = [0, 1, 2, 3], [0, 2, 1, 3], [0, 2, 3, 1]


def numbers(*shape: int) -> Any:
    return np.sin(np.arange(1.0, np.prod(shape) + 1) * 1.7).reshape(shape)


def attention(scale: float, orders: list[list[int]], sign: int = 1) -> Any:
    def expected(query: Any, key: Any, value: Any, *masks: Any) -> Any:
        q, k, v = (np.transpose(x, order) for x, order in zip((query, key, value), orders, strict=False))
        scores = np.einsum("...td,...sd->...ts", q, k) * scale
        for mask in masks:
            scores = scores + sign * mask
        e = np.exp(scores - scores.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        return np.transpose(np.einsum("...ts,...se->...te", p, v), orders[3])

    return expected


def attention_case(
    query: Any, key: Any, value: Any, *masks: Any, orders: Any, scale: float = 0.5, sign: int = 1
) -> Case:
    names = ("query_order", "key_order", "value_order", "output_order")
    attrs = {"scale": scale, "subtracts": sign < 0, **dict(zip(names, orders, strict=True))}
    return case(
        "_Attention",
        query,
        key,
        value,
        list(masks),
        attrs=attrs,
        expected=attention(scale, orders, sign),
        dtypes=FLOATS,
    )


def cases() -> Iterator[Case]:
    plain = [HEADS_FIRST] * 4
    yield attention_case(numbers(2, 3, 5, 4), numbers(2, 3, 7, 4), numbers(2, 3, 7, 6), orders=plain)
    by_position = [POSITIONS_FIRST] * 4
    query, key, value = numbers(2, 5, 3, 4), numbers(2, 7, 3, 4) - 0.5, numbers(2, 7, 3, 6)
    yield attention_case(query, key, value, orders=by_position)
    for mask in (numbers(2, 1, 1, 7), numbers(5, 7), numbers(2, 3, 5, 7), numbers(5, 1), np.float64(0.5)):
        for sign in (1, -1):
            yield attention_case(query, key, value, 3 * mask, orders=by_position, sign=sign)
    turned_keys = [POSITIONS_FIRST, [0, 2, 1, 3], POSITIONS_FIRST, HEADS_FIRST]
    yield attention_case(query, key, value, orders=turned_keys)
    yield attention_case(
        query,
        numbers(2, 3, 4, 7),
        value,
        orders=[POSITIONS_FIRST, [0, 1, 3, 2], POSITIONS_FIRST, [0, 2, 1, 3]],
    )
    ranks = [[0, 1, 2]] * 4
    yield attention_case(numbers(4, 5, 3), numbers(4, 6, 3), numbers(4, 6, 2), numbers(4, 1, 6), orders=ranks)
    long = numbers(1, 60, 2, 8), numbers(1, 1500, 2, 8), numbers(1, 1500, 2, 8)
    yield attention_case(*long, numbers(1, 1, 1, 1500) * 9, orders=by_position, scale=3.0)
    one_row = numbers(2, 1, 3, 4), numbers(2, 7, 3, 4) - 0.5, numbers(2, 7, 3, 6)
    yield attention_case(*one_row, numbers(2, 1, 1, 7), orders=by_position)
    yield attention_case(
        numbers(2, 3, 1, 4),
        numbers(2, 3, 4, 9),
        numbers(2, 3, 9, 600),
        orders=[HEADS_FIRST, [0, 1, 3, 2], HEADS_FIRST, HEADS_FIRST],
    )
    many = numbers(9, 2, 2, 8), numbers(9, 3, 2, 8), numbers(9, 3, 2, 8)
    yield attention_case(*many, orders=by_position)
    yield attention_case(numbers(0, 5, 3, 4), numbers(0, 7, 3, 4), numbers(0, 7, 3, 6), orders=by_position)
    hidden = np.where(np.arange(7) < 3, 0.0, -1e30)
    yield attention_case(query, key, value, hidden, orders=by_position)


CASES = list(cases())
