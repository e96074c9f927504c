"""The versions of models in a soak test: each computes a function of its own, and some are damaged.

A version V has two signatures over rows of x. `serving_default` returns in y (V mod 7 + 2) · sum(row) + 10⁶ · V, exact in
float64; a sum below 10⁵ shows which version has answered. `roots` returns in y sqrt(sum(row)) + V, and refuses negative sums.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.formats.protos import SavedModel
from aioexec.saved_model.signature_def_utils import predict_signature_def

Array = np.ndarray[Any, Any]

WIDTH = 3
LINEAR, ROOTS = "serving_default", "roots"
PROTO = "saved_model.pb"
VARIABLES = Path("variables", "variables.data-00000-of-00001")
INDEX = Path("variables", "variables.index")
_STEP = 1_000_000


def expected(version: int, signature: str, x: Array) -> Array:
    """What a version returns."""
    sums = x.sum(axis=1)
    return (version % 7 + 2) * sums + _STEP * version if signature == LINEAR else np.sqrt(sums) + version


def version_of(y: Array) -> int:
    """The version that has returned y for `serving_default`."""
    return int(y[0] // _STEP)


async def write(folder: Path, version: int) -> None:
    """Write the SavedModel of a version to a folder that does not exist."""
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float64, [None, WIDTH], name="x")
        factor = ax.Variable(np.float64(version % 7 + 2), name="factor")
        added = ax.Variable(np.float64(version), name="added")
        sums = ax.reduce_sum(x, axis=1)
        y = sums * factor + added * np.float64(_STEP)
        root = ax.check_numerics(ax.sqrt(sums), "negative sum") + added
        async with ax.Session(graph=graph) as session:
            await session.run(ax.global_variables_initializer())
            builder = ax.saved_model.Builder(folder)
            signatures = {
                LINEAR: predict_signature_def({"x": x}, {"y": y}),
                ROOTS: predict_signature_def({"x": x}, {"y": root}),
            }
            await builder.add_meta_graph_and_variables(session, ["serve"], signatures)
            await builder.save()


# Damages


def _truncate(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _truncated_proto(folder: Path) -> None:
    _truncate(folder / PROTO)


def _garbage_proto(folder: Path) -> None:
    (folder / PROTO).write_bytes(b"\xff" * 100)


def _changed_variables(folder: Path) -> None:
    data = bytearray((folder / VARIABLES).read_bytes())
    data[0] ^= 1  # of the variable "added": without a checksum the version would answer for another one
    (folder / VARIABLES).write_bytes(data)


def _truncated_variables(folder: Path) -> None:
    _truncate(folder / VARIABLES)


def _no_index(folder: Path) -> None:
    (folder / INDEX).unlink()


def _no_files(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def _changed_proto(folder: Path, change: Callable[[Any], None]) -> None:
    model = SavedModel.FromString((folder / PROTO).read_bytes())
    change(model.meta_graphs[0])
    (folder / PROTO).write_bytes(model.SerializeToString())


def _unknown_op(folder: Path) -> None:
    def change(meta_graph: Any) -> None:
        next(node for node in meta_graph.graph_def.node if node.op == "Sqrt").op = "SquareRoute"

    _changed_proto(folder, change)


def _unknown_tensor(folder: Path) -> None:
    def change(meta_graph: Any) -> None:
        meta_graph.signature_def[LINEAR].outputs["y"].name = "nowhere:0"

    _changed_proto(folder, change)


DAMAGES: list[Callable[[Path], None]] = [
    _truncated_proto,
    _garbage_proto,
    _changed_variables,
    _truncated_variables,
    _no_index,
    _no_files,
    _unknown_op,
    _unknown_tensor,
]
"""Ways to damage a SavedModel that its loading must find."""


def copy_in_place(source: Path, target: Path) -> list[Callable[[], None]]:
    """Begin a copy that is seen while it is made, and return its steps: the proto is first."""
    target.mkdir()
    steps: list[Callable[[], None]] = []
    for name in (Path(PROTO), INDEX, VARIABLES):
        data = (source / name).read_bytes()
        middle = len(data) // 2
        steps += [partial(_append, target / name, part) for part in (data[:middle], data[middle:])]
    return steps


def _append(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(data)


async def publish(source: Path, target: Path) -> None:
    """Move a written version to its place in the folder that is watched, all of it at once."""
    await asyncio.to_thread(source.rename, target)
