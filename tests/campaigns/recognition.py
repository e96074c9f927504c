"""Random graphs around computations that become one node: their values are those of NumPy, whatever is used besides.

    python -m tests.campaigns.recognition --first 0 --count 2000

A seed draws attention, a layer normalisation or a recurrent loop, in one of the forms in which programs write it, its sizes,
and what else is done with its parts: they are fetched, waited for, used by other nodes, or differentiated. Every fetch is
compared with the same nodes computed without the passes, and the main one with its formula in float64.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

import aioexec as ax
from tests.campaigns import campaign
from tests.planning.recognized import attention_values, layer_norm_values, run

Array = np.ndarray[Any, Any]
TOLERANCE = 2e-5


class Drawn:
    """A graph under construction: its feeds, the tensors inside that a seed may use, and the result with its value."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.feeds: dict[Any, Array] = {}
        self.inner: list[Any] = []
        self.result: Any = None
        self.value: Array = np.zeros(0)

    def array(self, *shape: int) -> Array:
        return self.numbers.uniform(-1, 1, shape).astype(np.float32)

    def fed(self, *shape: int) -> tuple[Any, Array]:
        """A placeholder that knows its dimensions, some, or none of them, and its value."""
        dims: Any = list(shape)
        if self.random.random() < 0.5:
            dims[0] = None
        value = self.array(*shape)
        tensor = ax.placeholder(ax.float32, dims)
        self.feeds[tensor] = value
        return tensor, value

    def weight(self, *shape: int) -> tuple[Any, Array]:
        """A constant, or a feed."""
        if self.random.random() < 0.3:
            return self.fed(*shape)
        value = self.array(*shape)
        return ax.constant(value), value

    def keep(self, tensor: Any) -> Any:
        """A part of the computation."""
        self.inner.append(tensor)
        return tensor

    def sizes(self, count: int, most: int = 6) -> list[int]:
        return [self.random.randint(1, most) for _ in range(count)]

    def chance(self, share: float = 0.5) -> bool:
        return self.random.random() < share


def attention(drawn: Drawn) -> None:
    batch, rows, columns, heads, depth, width = drawn.sizes(6)
    by_position = drawn.chance(0.7)
    operands = []
    for positions, size in ((rows, depth), (columns, depth), (columns, width)):
        shape = (batch, positions, heads, size) if by_position else (batch, heads, positions, size)
        tensor, value = drawn.fed(*shape)
        if by_position:
            tensor, value = drawn.keep(ax.transpose(tensor, [0, 2, 1, 3])), value.transpose(0, 2, 1, 3)
        operands.append((tensor, value))
    (query, q), (key, k), (value, v) = operands
    factor = np.float32(drawn.random.choice([0.5, 0.3, 2.0]))
    form = drawn.random.choice(["product", "quotient", "queries", "none"])
    query = drawn.keep(query * factor) if form == "queries" else query
    if drawn.chance(0.3):
        scores = ax.matmul(query, drawn.keep(ax.transpose(key, [0, 1, 3, 2])))
    else:
        scores = ax.matmul(query, key, transpose_b=True)
    if form in ("product", "quotient"):
        scores = drawn.keep(scores) * factor if form == "product" else drawn.keep(scores) / factor
    scale = {"quotient": 1 / float(factor), "none": 1.0}.get(form, float(factor))
    added: Any = 0.0
    if drawn.chance(0.7):
        dims = [1 if drawn.chance() else size for size in (batch, heads, rows, columns)]
        mask, added = drawn.weight(*dims[drawn.random.choice([0, 0, 2]) :])
        scores = drawn.keep(scores)
        is_added = drawn.chance()
        scores = scores + mask if is_added else scores - mask
        added = added.astype(np.float64) * (1 if is_added else -1)
    weights = softmax(drawn, drawn.keep(scores))
    result = ax.matmul(drawn.keep(weights), value)
    drawn.value = attention_values(q, k, v, added, scale=scale)
    if drawn.chance(0.7):
        result, drawn.value = (
            ax.transpose(drawn.keep(result), [0, 2, 1, 3]),
            drawn.value.transpose(0, 2, 1, 3),
        )
    drawn.result = result


def softmax(drawn: Drawn, scores: Any) -> Any:
    if drawn.chance(0.7):
        return ax.nn.softmax(scores)
    powers = drawn.keep(ax.exp(scores - drawn.keep(ax.reduce_max(scores, -1, keepdims=True))))
    return powers / ax.reduce_sum(powers, drawn.random.choice([-1, 3]), keepdims=True)


def layer_norm(drawn: Drawn) -> None:
    shape = drawn.sizes(drawn.random.randint(2, 3), 9)
    x, value = drawn.fed(*shape)
    if drawn.chance():
        other, added = drawn.fed(*shape) if drawn.chance(0.7) else drawn.weight(1, *shape[1:])
        x, value = drawn.keep(x + other), value + added
    (scale, factors), (shift, offsets) = drawn.weight(shape[-1]), drawn.weight(shape[-1])
    epsilon = 0.25
    mean = drawn.keep(ax.reduce_mean(x, drawn.random.choice([-1, len(shape) - 1]), keepdims=True))
    centred = x - mean
    squares = drawn.random.choice(
        [
            lambda: ax.squared_difference(x, ax.stop_gradient(mean)),
            lambda: ax.squared_difference(mean, x),
            lambda: ax.square(centred),
            lambda: centred * centred,
        ]
    )()
    variance = drawn.keep(ax.reduce_mean(squares, [-1], keepdims=True)) + epsilon
    drawn.result = drawn.random.choice(
        [
            lambda: ax.nn.batch_normalization(x, mean, variance - epsilon, shift, scale, epsilon),
            lambda: x * (ax.rsqrt(variance) * scale) + (shift - mean * (ax.rsqrt(variance) * scale)),
            lambda: drawn.keep(centred * ax.rsqrt(variance)) * scale + shift,
            lambda: shift + centred * drawn.keep(ax.rsqrt(variance) * scale),
            lambda: centred / ax.sqrt(variance) * scale + shift,
        ]
    )()
    drawn.value = layer_norm_values(value, factors, offsets, epsilon)


def recurrence(drawn: Drawn) -> None:
    steps, batch, features, units = drawn.sizes(4)
    x, rows = drawn.fed(steps, batch, features)
    is_first, repeats = drawn.chance(), drawn.random.choice([1, 1, 2])
    weights, matrix = drawn.weight(features + repeats * units, units)
    array = ax.TensorArray(ax.float32, steps, clear_after_read=False).unstack(x)
    reads_again = drawn.chance(0.2)

    def body(t: Any, h: Any, written: Any) -> Any:
        row = array.read(t)
        states = [h] * repeats
        joined = ax.concat([row, *states] if is_first else [*states, row], 1)
        h = ax.tanh(ax.matmul(joined, weights))
        if reads_again:
            h = h + ax.reduce_sum(row, 1, keepdims=True)
        return t + 1, h, written.write(t, h)

    outputs = ax.TensorArray(ax.float32, steps, clear_after_read=False)
    first = [0, ax.zeros([batch, units]), outputs]
    _, _, written = ax.while_loop(lambda t, *_: t < steps, body, first)
    drawn.result = written.stack()
    h, values = np.zeros((batch, units)), []
    for row in rows.astype(np.float64):
        joined = np.concatenate([row, *[h] * repeats] if is_first else [*[h] * repeats, row], 1)
        h = np.tanh(joined @ matrix)
        h = h + row.sum(1, keepdims=True) if reads_again else h
        values.append(h)
    drawn.value = np.stack(values)


KINDS: Sequence[Callable[[Drawn], None]] = (attention, attention, layer_norm, layer_norm, recurrence)


def fetches_of(drawn: Drawn) -> list[Any]:
    """The result, and what a seed does with the parts."""
    fetches = [drawn.result]
    for tensor in drawn.inner if drawn.chance(0.4) else ():
        use = drawn.random.choice(["none", "none", "fetch", "node", "wait"])
        if use == "fetch":
            fetches.append(tensor)
        elif use == "node":
            fetches.append(ax.reduce_sum(tensor))
        elif use == "wait":
            with ax.control_dependencies([tensor]):
                fetches.append(ax.constant(1.0))
    if drawn.chance(0.2):
        loss = ax.reduce_sum(ax.square(drawn.result))
        fetches += [each for each in ax.gradients(loss, list(drawn.feeds)) if each is not None]
    if drawn.chance(0.3):
        fetches.append(drawn.result * 2.0)
    return fetches


def case(seed: int, jits: Sequence[str] = ("off", "eager")) -> str | None:
    """Return what is wrong with a seed, if anything."""
    drawn = Drawn(seed)
    with ax.Graph().as_default():
        drawn.random.choice(KINDS)(drawn)
        fetches = fetches_of(drawn)
    return asyncio.run(_compare(drawn, fetches, jits))


async def _compare(drawn: Drawn, fetches: list[Any], jits: Sequence[str]) -> str | None:
    wanted = await run(fetches, drawn.feeds, remapping=False)
    for jit in jits:
        results = await run(fetches, drawn.feeds, jit)
        pairs = [*zip(results, wanted, strict=True), (results[0], drawn.value)]
        for number, (result, expected) in enumerate(pairs):
            if result.shape != expected.shape:
                return f"fetch {number} with jit {jit}: shape {result.shape}, expected {expected.shape}"
            scale = max(1.0, float(np.abs(expected).max(initial=0)))
            worst = float(np.abs(result - expected).max(initial=0))
            if not worst <= TOLERANCE * scale:
                return f"fetch {number} with jit {jit}: {worst} off, at most {TOLERANCE * scale} allowed"
    return None


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
