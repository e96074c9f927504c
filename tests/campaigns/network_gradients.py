"""Losses and gradients of random networks: in TensorFlow, and here, by TensorFlow's gradient nodes and by our own.

    python -m tests.campaigns.network_gradients --count 300

A seed draws a network (`differentiated_layers.py`). TensorFlow writes it twice: with the gradients of its loss by all
parameters, and without. Here the first graph runs as it is, and the second with the gradients that `aioexec.gradients` adds,
both with reference kernels and natively. A fetch may be off from its value in float64 by a few times what TensorFlow is off, or
random rounding in float32 makes it scatter, plus units in the last place of its largest element: a few, or what the sum of a
gradient over all positions of the input is off by if it is taken in sequence, the square root of their number.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import aioexec as ax
from tests.campaigns import campaign
from tests.campaigns.differentiated_layers import Layers

Array = np.ndarray[Any, Any]
ULP = 2.0**-23
RANDOM_RUNS = 5
"""Runs with random rounding. The largest of five deviations is below a quarter of the standard one once in 3,000 times."""
MULTIPLE = 4
"""Of the error of TensorFlow, or of the largest deviation with random rounding, whichever is larger."""


@dataclass(frozen=True)
class Recorded:
    """A network that TensorFlow has written and run.

    Attributes:
        forward, backward: the GraphDef without and with gradients.
        parameters: what to differentiate by, by name.
        fetches: the loss, then its gradients by the parameters that it depends on.
        expected: the values of the fetches in float64; `allowed` is by how much each may be off.
    """

    forward: bytes
    backward: bytes
    init: str
    loss: str
    parameters: Sequence[str]
    fetches: Sequence[str]
    feeds: Mapping[str, Any]
    expected: Sequence[Array]
    allowed: Sequence[float]


@contextlib.contextmanager
def control_flow(tf: Any, version: int) -> Iterator[None]:
    """Have TensorFlow write loops as primitive ops (1), or as functions (2)."""
    switches = {1: tf.disable_control_flow_v2, 2: tf.enable_control_flow_v2}
    before = 2 if tf.control_flow_v2_enabled() else 1
    switches[version]()
    try:
        yield
    finally:
        switches[before]()


def record(tf: Any, seed: int) -> Recorded:
    """Build a network in both types with TensorFlow, and run it there."""
    with control_flow(tf, 1 + seed % 2):
        return _record(tf, seed)


def _record(tf: Any, seed: int) -> Recorded:
    exact, scattered = _wide(tf, seed)
    with tf.Graph().as_default() as graph:
        layers = Layers(tf, seed, wide=False)
        loss = layers.build()
        init = tf.global_variables_initializer()
        forward = graph.as_graph_def().SerializeToString()
        parameters = [made for made, _ in layers.parameters]
        fetches = [loss, *_gradients(tf, loss, parameters)]
        with tf.Session(graph=graph) as session:
            session.run(init)
            results = session.run(fetches, layers.feeds)
    units = max(MULTIPLE, layers.positions**0.5) * ULP
    allowed = [
        MULTIPLE * max(_distance(result, value), spread) + units * float(np.abs(value).max())
        for result, value, spread in zip(results, exact, scattered, strict=True)
    ]
    return Recorded(
        forward,
        graph.as_graph_def().SerializeToString(),
        init.name,
        loss.name,
        [_tensor_of(made).name for made in parameters],
        [tensor.name for tensor in fetches],
        {tensor.name: value for tensor, value in layers.feeds.items()},
        exact,
        allowed,
    )


def _wide(tf: Any, seed: int) -> tuple[list[Array], list[float]]:
    """The fetches in float64, and how far each scatters with random rounding."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(seed)
        layers = Layers(tf, seed, wide=True)
        loss = layers.build()
        fetches = [loss, *_gradients(tf, loss, [made for made, _ in layers.parameters])]
        with tf.Session(graph=graph) as session:
            exact = session.run(fetches, layers.feeds | {layers.rounding: 0.0})
            runs = [session.run(fetches, layers.feeds | {layers.rounding: ULP}) for _ in range(RANDOM_RUNS)]
    return exact, [max(_distance(run[fetch], value) for run in runs) for fetch, value in enumerate(exact)]


def _gradients(tf: Any, loss: Any, parameters: Sequence[Any]) -> list[Any]:
    found = tf.gradients(loss, parameters, unconnected_gradients="zero")
    return [tf.convert_to_tensor(each) for each in found]


def _tensor_of(parameter: Any) -> Any:
    """The tensor by which gradients by a parameter are taken: a variable's handle or reference."""
    if hasattr(parameter, "handle"):
        return parameter.handle
    return parameter._ref() if hasattr(parameter, "_ref") else parameter


def _distance(result: Array, value: Array) -> float:
    return float(np.abs(result.astype(np.float64) - value).max(initial=0.0))


def differences(recorded: Recorded, results: Sequence[Array]) -> Iterator[str]:
    """What is off more than allowed."""
    for name, result, value, allowed in zip(
        recorded.fetches, results, recorded.expected, recorded.allowed, strict=True
    ):
        if result.shape != value.shape:
            yield f"{name}: shape {result.shape}, expected {value.shape}"
        elif not (off := _distance(result, value)) <= allowed:
            yield f"{name}: {off:.2e} off, at most {allowed:.2e} allowed, largest {np.abs(value).max():.2e}"


async def results_here(recorded: Recorded, jit: str, own: bool) -> list[Array]:
    """The fetches with TensorFlow's gradient nodes, or with our own."""
    with ax.Graph().as_default() as graph:
        graph_def = recorded.forward if own else recorded.backward
        ax.import_graph_def(ax.GraphDef.FromString(graph_def), name="")
        fetches: list[Any] = list(recorded.fetches)
        if own:
            loss, *parameters = (
                graph.get_tensor_by_name(name) for name in (recorded.loss, *recorded.parameters)
            )
            found = ax.gradients(loss, parameters, unconnected_gradients="zero")
            fetches = [loss, *(ax.convert_to_tensor(each) for each in found)]
    config = ax.ConfigProto()
    config.aioexec.jit = jit
    async with ax.Session(graph=graph, config=config) as session:
        await session.run(recorded.init)
        return list(await session.run(fetches, dict(recorded.feeds)))


def case(seed: int, jits: Sequence[str] = ("off", "eager")) -> str | None:
    """Return what is wrong with a seed, if anything."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault(
        "TF_ENABLE_ONEDNN_OPTS", "0"
    )  # with it, TensorFlow 2.21 crashes in the network of seed 46
    import tensorflow

    recorded = record(tensorflow.compat.v1, seed)
    for own in (False, True):
        for jit in jits:
            results = asyncio.run(results_here(recorded, jit, own))
            for difference in differences(recorded, results):
                return f"{'our' if own else 'TensorFlow'} gradients with jit {jit}: {difference}"
    return None


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
