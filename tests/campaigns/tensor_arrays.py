"""A campaign: random programs on TensorArrays yield on every tier TensorFlow's values, or fail with its class of error."""

from __future__ import annotations

import asyncio
import functools
import os
from typing import Any

import aioexec as ax
from tests.campaigns import campaign
from tests.ops.containers.tensor_array_programs import ArrayProgram, built, drawn, outcome

RUNS = 3
"""The first run is by NumPy; the later ones are by programs, where there are such."""


def case(seed: int) -> str | None:
    program = drawn(seed)
    found = {jit: asyncio.run(on_tier(program, jit)) for jit in ("off", "eager")}
    found["TensorFlow"] = _on_tensorflow(program)
    return None if len(set(map(repr, found.values()))) == 1 else f"{program} gives {found}"


async def on_tier(program: ArrayProgram, jit: str) -> Any:
    """The values of each run, or the class of the error, if all runs agree."""
    with ax.Graph().as_default() as graph:
        try:
            fetches = built(ax, program)
        except ValueError:
            return "ValueError"
        config = ax.ConfigProto()
        config.aioexec.jit = jit
        async with ax.Session(graph=graph, config=config) as session:
            found = [await _run(session, fetches, program) for _ in range(RUNS)]
    return found[0] if all(each == found[0] for each in found) else found


async def _run(session: Any, fetches: list[Any], program: ArrayProgram) -> Any:
    try:
        return outcome(await session.run(fetches, program.feeds))
    except ax.errors.OpError as error:
        return type(error).__name__


@functools.cache
def _tensorflow() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow

    tensorflow.compat.v1.disable_control_flow_v2()
    return tensorflow.compat.v1


def _on_tensorflow(program: ArrayProgram) -> Any:
    tf = _tensorflow()
    with tf.Graph().as_default():
        try:
            fetches = built(tf, program)
        except ValueError:
            return "ValueError"
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Session(config=config) as session:
            try:
                return outcome(session.run(fetches, program.feeds))
            except tf.errors.OpError as error:
                return type(error).__name__


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
