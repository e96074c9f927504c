"""Runs a SavedModel of TensorFlow 2 by plain means: its graph imported, its variables restored, its resources initialised."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.formats.protos import MetaGraphDef, SavedModel
from tests.interop.comparing import difference, imported, session_here
from tests.interop.saved_model.tf2_exports import Written

INIT = "__saved_model_init_op"


def meta_graph_of(folder: Path) -> MetaGraphDef:
    return SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0]


def eager() -> ax.ConfigProto:
    """Options of a session that runs native programs from the first step."""
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"
    return config


@asynccontextmanager
async def restored(folder: Path, jit: str) -> AsyncIterator[tuple[ax.Session, MetaGraphDef]]:
    """A session with the graph of a SavedModel, restored and initialised."""
    meta_graph = meta_graph_of(folder)
    async with session_here(imported(meta_graph.graph_def), jit) as session:
        saver = meta_graph.saver_def
        if saver.restore_op_name:
            prefix = str(folder / "variables" / "variables")
            await session.run(saver.restore_op_name, {saver.filename_tensor_name: prefix})
        if INIT in meta_graph.signature_def:
            assets = {
                asset.tensor_info.name: str(folder / "assets" / asset.filename)
                for asset in meta_graph.asset_file_def
            }
            await session.run(meta_graph.signature_def[INIT].outputs[INIT].name, assets)
        yield session, meta_graph


def fetches_and_feeds(meta_graph: MetaGraphDef, name: str, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """What `session.run` takes for a call of a signature."""
    signature = meta_graph.signature_def[name]
    fetches = {key: info.name for key, info in signature.outputs.items()}
    return fetches, {signature.inputs[key].name: value for key, value in inputs.items()}


def differences(written: Written, results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where results of the calls are not TensorFlow's."""
    found = []
    for number, (ours, theirs) in enumerate(zip(results, written.expected, strict=True)):
        assert ours.keys() == theirs.keys()
        for name, expected in theirs.items():
            got = ours[name]
            got = np.array(got, object) if isinstance(got, bytes) else got
            problem = difference(got, expected, written.tolerance)
            if problem:
                found.append(f"call {number}, {name}: {problem}")
    return found
