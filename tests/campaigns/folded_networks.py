"""Random networks of convolutions, products, normalisations and activations: rewritten, not rewritten, and by NumPy.

A case is a chain of random layers on images, then on a matrix, with residuals, other uses of values in between and random
fetches. It runs natively with the passes that `RewriterConfig.remapping` turns off, and without; NumPy computes in float64.

    python -m tests.campaigns.folded_networks --count 2000
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import aioexec as ax
from tests.campaigns import campaign
from tests.tiers import op

Array = np.ndarray[Any, Any]
Value = tuple[Any, Array]
"""A tensor, and its value in float64."""
EPSILON = 0.001
TOLERANCE = 2e-5
"""Of the largest element; each layer is scaled so that values stay near 1."""


class Network:
    """A network under construction; `values` are all so far, the last one is the input of the next layer."""

    def __init__(self, rng: random.Random, fed: Any, value: Array) -> None:
        self.rng = rng
        self.numbers = np.random.default_rng(rng.getrandbits(32))
        self.values: list[Value] = [(fed, value.astype(np.float64))]

    def weight(self, *shape: int, low: float = -1.0) -> Value:
        """A constant, sometimes behind an Identity."""
        drawn = self.numbers.uniform(low, 1.0, shape).astype(np.float32)
        made = ax.constant(drawn)
        return (op("Identity", made) if self.rng.random() < 0.5 else made), drawn.astype(np.float64)

    def add_layers(self, count: int) -> None:
        for _ in range(count):
            is_image = self.values[-1][1].ndim == 4
            layers: list[Callable[[Any, Array], Value]] = [
                self.scale,
                self.shift,
                self.activation,
                self.residual,
            ]
            layers += (
                [self.conv, self.dilated, self.depthwise, self.batch_norm, self.batch_norm]
                if is_image
                else [self.product]
            )
            self.values.append(self.rng.choice([*layers, self.written_out])(*self.values[-1]))

    def conv(self, x: Any, value: Array) -> Value:
        size, n = self.rng.choice([1, 1, 3]), self.rng.choice([4, 7, 32, 40])
        (w, filters), stride = self.weight(size, size, value.shape[3], n), self.rng.choice([1, 1, 2])
        stride = stride if value.shape[1] > size else 1
        strides = [1, stride, stride, 1]
        if self.rng.random() < 0.5:
            made, seen = op("Conv2D", x, w, strides=strides, padding="SAME"), windows(value, size, stride)
        else:
            pads = [(0, 0), *[(self.rng.randint(0, 2), self.rng.randint(0, 2)) for _ in range(2)], (0, 0)]
            padded = np.pad(value, pads)
            if min(padded.shape[1:3]) < size:
                return x, value
            made = op("Conv2D", op("Pad", x, ax.constant(pads)), w, strides=strides, padding="VALID")
            seen = sliding(padded, size, stride)
        return self.scaled(made, np.einsum("bhwcij,ijcn->bhwn", seen, filters))

    def dilated(self, x: Any, value: Array) -> Value:
        """A convolution of phases; of rows, as in one dimension, if the image is one row."""
        is_row, size = value.shape[1] == 1, self.rng.choice([2, 3])
        sizes = (1, size) if is_row else (size, size)
        blocks = [1 if is_row else self.rng.randint(1, 3), self.rng.randint(2, 4)]
        pads, crops = [], []
        for length, taps, block in zip(value.shape[1:3], sizes, blocks, strict=True):
            early = self.rng.randint(0, 2 * block) if block > 1 else 0
            late = -(length + early) % block + (block * self.rng.randint(0, 1) if block > 1 else 0)
            left = length + early + late - (taps - 1) * block
            if left < 1:
                return x, value
            first = self.rng.randint(0, min(self.rng.choice([early, early, left]), left - 1))
            crops.append([first, self.rng.randint(0, min(late, left - 1 - first))])
            pads.append([early, late])
        is_depthwise = self.rng.random() < 0.3
        w, filters = self.weight(*sizes, value.shape[3], 1 if is_depthwise else self.rng.choice([4, 7, 32]))
        kind = "DepthwiseConv2dNative" if is_depthwise else "Conv2D"
        within = slice(1, 2) if is_row else slice(0, 2)
        phases = op("Squeeze", x, squeeze_dims=[1]) if is_row else x
        phases = op("SpaceToBatchND", phases, ax.constant(blocks[within]), ax.constant(pads[within]))
        phases = op("ExpandDims", phases, ax.constant(1)) if is_row else phases
        made = op(kind, phases, w, strides=[1, 1, 1, 1], padding="VALID")
        made = op("Squeeze", made, squeeze_dims=[1]) if is_row else made
        made = op("BatchToSpaceND", made, ax.constant(blocks[within]), ax.constant(crops[within]))
        made = op("ExpandDims", made, ax.constant(1)) if is_row else made
        seen = dilated_windows(np.pad(value, [(0, 0), *pads, (0, 0)]), sizes, blocks)
        seen = seen[:, crops[0][0] : seen.shape[1] - crops[0][1], crops[1][0] : seen.shape[2] - crops[1][1]]
        rule = "bhwcij,ijcm->bhwc" if is_depthwise else "bhwcij,ijcn->bhwn"
        return self.scaled(made, np.einsum(rule, seen, filters))

    def depthwise(self, x: Any, value: Array) -> Value:
        each = self.rng.choice([1, 1, 2]) if value.shape[3] < 32 else 1
        w, filters = self.weight(3, 3, value.shape[3], each)
        made = op("DepthwiseConv2dNative", x, w, strides=[1, 1, 1, 1], padding="SAME")
        result = np.einsum("bhwcij,ijcm->bhwcm", windows(value, 3, 1), filters)
        return self.scaled(made, result.reshape(*value.shape[:3], -1))

    def product(self, x: Any, value: Array) -> Value:
        n, transpose = self.rng.choice([5, 16, 36]), self.rng.random() < 0.5
        w, matrix = self.weight(*((n, value.shape[1]) if transpose else (value.shape[1], n)))
        made = op("MatMul", x, w, transpose_b=transpose)
        return self.scaled(made, value @ (matrix.T if transpose else matrix))

    def scaled(self, made: Any, result: Array) -> Value:
        """The product times a power of two that brings it near 1."""
        factor = 0.5 ** round(np.log2(max(abs(result).max(), 1e-30)))
        return op("Mul", made, ax.constant(np.float32(factor))), result * factor

    def scale(self, x: Any, value: Array) -> Value:
        s, vector = self.weight(value.shape[-1], low=0.3)
        return (op("Mul", x, s) if self.rng.random() < 0.5 else op("Mul", s, x)), value * vector

    def shift(self, x: Any, value: Array) -> Value:
        t, vector = self.weight(value.shape[-1])
        kind = self.rng.choice(["BiasAdd", "AddV2", "Sub"])
        return op(kind, x, t), value - vector if kind == "Sub" else value + vector

    def batch_norm(self, x: Any, value: Array) -> Value:
        operands = [self.weight(value.shape[-1], low=low) for low in (0.3, -1.0, -1.0, 0.3)]
        kind = self.rng.choice(["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])
        attrs: dict[str, Any] = {"epsilon": EPSILON, "is_training": False}
        made = op(kind, x, *(tensor for tensor, _ in operands), **attrs)[0]
        scale, offset, mean, variance = (vector for _, vector in operands)
        return made, (value - mean) / np.sqrt(variance + np.float32(EPSILON)) * scale + offset

    def written_out(self, x: Any, value: Array) -> Value:
        (v, variance), (g, scale) = (self.weight(value.shape[-1], low=0.3) for _ in range(2))
        (m, mean), (b, offset) = (self.weight(value.shape[-1]) for _ in range(2))
        inverse = op("Mul", op("Rsqrt", op("AddV2", v, ax.constant(np.float32(EPSILON)))), g)
        made = op("AddV2", op("Mul", x, inverse), op("Sub", b, op("Mul", m, inverse)))
        return made, (value - mean) / np.sqrt(variance + np.float32(EPSILON)) * scale + offset

    def activation(self, x: Any, value: Array) -> Value:
        kind = self.rng.choice(["Relu", "Relu6", "LeakyRelu", "Swish", "Tanh"])
        if kind == "Swish":
            return op("Mul", x, op("Sigmoid", x)), value / (1 + np.exp(-value))
        made = op(kind, x)
        if kind == "Tanh":
            return made, np.tanh(value)
        low = np.float32(0.2) * value if kind == "LeakyRelu" else 0.0
        return made, np.minimum(np.where(value > 0, value, low), 6 if kind == "Relu6" else np.inf)

    def residual(self, x: Any, value: Array) -> Value:
        same = [each for each in self.values if each[1].shape == value.shape]
        other, added = self.rng.choice(same)
        return op("AddV2", *((x, other) if self.rng.random() < 0.5 else (other, x))), value + added

    def flatten(self) -> None:
        x, value = self.values[-1]
        self.values.append((op("Mean", x, ax.constant([1, 2])), value.mean((1, 2))))


def windows(value: Array, size: int, stride: int) -> Array:
    """The windows of images, [batch, height, width, channels, size, size], with padding "SAME"."""
    pads = [(0, 0)]
    for length in value.shape[1:3]:
        total = max((-(-length // stride) - 1) * stride + size - length, 0)
        pads.append((total // 2, total - total // 2))
    return sliding(np.pad(value, [*pads, (0, 0)]), size, stride)


def sliding(value: Array, size: int, stride: int) -> Array:
    """The windows within images."""
    seen = np.lib.stride_tricks.sliding_window_view(value, (size, size), (1, 2))
    return np.asarray(seen[:, ::stride, ::stride])


def dilated_windows(value: Array, sizes: Sequence[int], blocks: Sequence[int]) -> Array:
    """The windows within images whose elements are `blocks` apart."""
    spans = tuple((size - 1) * block + 1 for size, block in zip(sizes, blocks, strict=True))
    seen = np.lib.stride_tricks.sliding_window_view(value, spans, (1, 2))
    return np.asarray(seen[..., :: blocks[0], :: blocks[1]])


def case(seed: int) -> str | None:
    return asyncio.run(_run(random.Random(seed)))


async def _run(rng: random.Random) -> str | None:
    height = 1 if rng.random() < 0.2 else rng.randint(3, 9)
    shape = rng.randint(1, 3), height, rng.randint(3, 9), rng.choice([3, 8, 32])
    value = np.random.default_rng(rng.getrandbits(32)).uniform(-1, 1, shape).astype(np.float32)
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, shape)
        network = Network(rng, x, value)
        network.add_layers(rng.randint(3, 12))
        if rng.random() < 0.5:
            network.flatten()
            network.add_layers(rng.randint(1, 5))
    fetched = [network.values[-1], *rng.sample(network.values[1:], min(rng.choice([0, 0, 1, 2]), 2))]
    for remaps in (True, False):
        config = ax.ConfigProto()
        config.aioexec.jit = "eager"
        rewriter = config.graph_options.rewrite_options
        rewriter.remapping = rewriter.ON if remaps else rewriter.OFF
        async with ax.Session(graph=graph, config=config) as session:
            results = await session.run([tensor for tensor, _ in fetched], {x: value})
        for (tensor, expected), result in zip(fetched, results, strict=True):
            error = abs(result - expected).max() / max(abs(expected).max(), 1.0)
            if result.shape != expected.shape or not error <= TOLERANCE:
                return f"{tensor.op.name} with remapping {remaps}: {error:.1e} from NumPy's"
    return None


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
