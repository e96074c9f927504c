"""Cases of the fused batch normalisations and their gradients, computed channel by channel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.ops.harness import Case, case

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
EPSILON = float(np.float32(1e-4))
NAMES = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")


def vector(size: int) -> Array:
    return RNG.uniform(0.5, 2.0, size).astype(np.float32)


def channel_axis(data_format: str) -> int:
    return data_format.index("C")


def forward(data_format: str, is_training: bool, factor: float) -> Any:
    """The op's formula, with the channel axis moved to the end."""

    def compute(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        axis = channel_axis(data_format)
        seen = np.moveaxis(x, axis, -1)
        rows = seen.reshape(-1, seen.shape[-1])
        used = (rows.mean(0), rows.var(0)) if is_training else (mean, variance)
        y = (seen - used[0]) / np.sqrt(used[1] + EPSILON) * scale + offset
        shown = used
        if is_training:
            unbiased = used[1] * (len(rows) / max(len(rows) - 1, 1))
            shown = used[0], unbiased
            if factor != 1.0:
                shown = (1 - factor) * mean + factor * used[0], (1 - factor) * variance + factor * unbiased
        return np.moveaxis(y, -1, axis), *shown, *used

    return compute


def backward(data_format: str, is_training: bool) -> Any:
    def compute(
        dy: Array, x: Array, scale: Array, mean: Array, variance: Array, *_: Array
    ) -> tuple[Array, ...]:
        axis = channel_axis(data_format)
        above, seen = (np.moveaxis(each, axis, -1) for each in (dy, x))
        over = tuple(range(seen.ndim - 1))
        root = 1 / np.sqrt(variance + EPSILON)
        normal = (seen - mean) * root
        dx = above
        if is_training:
            dx = above - above.mean(over) - normal * (above * normal).mean(over)
        dx = np.moveaxis(dx * scale * root, -1, axis)
        return dx, (above * normal).sum(over), above.sum(over), np.zeros(0), np.zeros(0)

    return compute


def images() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "NHWC", (2, 2, 3, 3)
    yield "NCHW", (2, 3, 2, 3)
    yield "NHWC", (5, 9, 7, 33)
    yield "NCHW", (3, 2, 50, 61)
    yield "NHWC", (2, 2, 2, 300)
    yield "NHWC", (1, 1, 1, 4)


MODES = ((True, 1.0), (True, 0.25), (False, 1.0))


def forwards() -> Iterator[Case]:
    for op in NAMES:
        for data_format, shape in [*images(), ("NDHWC", (2, 2, 2, 2, 3)), ("NCDHW", (2, 3, 2, 2, 2))]:
            if len(data_format) == 5 and op != "FusedBatchNormV3":
                continue
            for is_training, factor in MODES:
                channels = shape[channel_axis(data_format)]
                x = np.float32(RNG.normal(3.0, 2.0, shape))
                attrs = {"data_format": data_format, "is_training": is_training}
                function = forward(data_format, is_training, factor)
                yield case(
                    op,
                    x,
                    *(vector(channels) for _ in range(4)),
                    attrs=attrs | {"exponential_avg_factor": factor},
                    expected=with_reserve(function) if op == "FusedBatchNormV3" else function,
                    gradients=(0, 1, 2) if x.size < 40 and channels < x.size else (),
                    differentiated=(0,),
                    dtypes=["float32"],
                    tolerance=2e-5,
                )


def with_reserve(function: Any) -> Any:
    return lambda *inputs: (*function(*inputs), np.zeros(()))


def backwards() -> Iterator[Case]:
    for op in ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"):
        reserve = [np.float32(0.0)] if op.endswith("V3") else []
        for data_format, shape in images():
            for is_training in (True, False):
                axis = channel_axis(data_format)
                x = np.float32(RNG.normal(1.0, 2.0, shape))
                over = tuple(k for k in range(4) if k != axis)
                moments = [x.mean(over), x.var(over)]
                yield case(
                    op,
                    np.float32(RNG.normal(size=shape)),
                    x,
                    vector(shape[axis]),
                    *moments,
                    *reserve,
                    attrs={"data_format": data_format, "is_training": is_training},
                    expected=backward(data_format, is_training),
                    gradients=(0, 2) if x.size < 40 and shape[axis] < x.size else (),
                    dtypes=["float32"],
                    tolerance=1e-4,
                )


CASES = [*forwards(), *backwards()]
