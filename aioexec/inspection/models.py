"""Models from files, with a session that is ready for steps: SavedModels, MetaGraphDefs with their checkpoint, GraphDefs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from aioexec.data_classes import dataclass
from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from aioexec.formats.bundle_entries import index_name
from aioexec.formats.protos import ConfigProto
from aioexec.graph.graph import Graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation, Tensor
from aioexec.inspection.graph_files import read_graph_and_saver
from aioexec.saved_model.loaded_model import load
from aioexec.saved_model.model_files import contains_saved_model
from aioexec.sessions.session import Session

_VARIABLES = frozenset({"VarHandleOp", "Variable", "VariableV2"})


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A graph with an open session.

    `inputs` and `outputs` are those of a signature, by name; without one, its placeholders, and nothing.
    """

    graph: Graph
    session: Session
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]

    def fetch(self, name: str) -> Tensor | Operation:
        """An output of the signature, a tensor, or an operation: for one that has outputs the first of them.

        Raises:
            InvalidArgumentError: there is none.
        """
        return self.outputs[name] if name in self.outputs else named(self.graph, name)

    def feed(self, name: str) -> Tensor:
        """An input of the signature, or a tensor; raises as `fetch` does."""
        found = self.inputs[name] if name in self.inputs else named(self.graph, name)
        if not isinstance(found, Tensor):
            raise InvalidArgumentError(f"{name!r} has no output that could be fed")
        return found

    def results(self) -> list[Tensor | Operation]:
        """The outputs of the signature; without one see `results`."""
        return list(self.outputs.values()) or results(self.graph)


@contextlib.asynccontextmanager
async def open_model(
    path: Path, *, signature: str | None = None, checkpoint: str | None = None
) -> AsyncIterator[OpenModel]:
    """Open a model in the block, with its variables initialized.

    Args:
        path: a SavedModel's folder, or a file with a MetaGraphDef or GraphDef.
        signature: of a SavedModel; by default "serving_default", or the only one.
        checkpoint: with the values of a MetaGraphDef's variables; by default they have their initial values.

    Raises:
        NotFoundError, DataLossError, InvalidArgumentError: see `read_graph` and `load`.
        FailedPreconditionError: a checkpoint for a model that has no saver.
    """
    config = ConfigProto()
    config.aioexec.jit = "eager"  # the output must not depend on the progress of a background compilation
    if await asyncio.to_thread(contains_saved_model, path):
        async with await load(path, config=config) as model:
            chosen = model.signature(signature)
            yield OpenModel(model.graph, model.session, chosen.inputs, chosen.outputs)
        return
    graph, saver = await asyncio.to_thread(read_graph_and_saver, path)
    async with Session(graph=graph, config=config) as session:
        initializers = _initializers(graph)
        if initializers:
            await session.run(initializers)
        if checkpoint is not None:
            if saver is None:
                raise FailedPreconditionError(
                    f"{path} has no saver to restore {checkpoint} with: give the .meta file beside the checkpoint"
                )
            await saver.restore(session, checkpoint)
        placeholders = {
            each.name: each.outputs[0]
            for each in graph.get_operations()
            if each.type in ("Placeholder", "PlaceholderWithDefault")
        }
        yield OpenModel(graph, session, placeholders, {})


def checkpoint_beside(path: Path) -> str | None:
    """The checkpoint of a .meta file, if it is there. Blocks."""
    prefix = os.fspath(path).removesuffix(".meta")
    return prefix if prefix != os.fspath(path) and os.path.exists(index_name(prefix)) else None


def named(graph: Graph, name: str) -> Tensor | Operation:
    """The tensor or operation with this name; for an operation with outputs the first one.

    Raises:
        InvalidArgumentError: there is none.
    """
    try:
        if ":" in name:
            return graph.get_tensor_by_name(name)
        operation = graph.get_operation_by_name(name)
    except (KeyError, ValueError) as error:
        raise InvalidArgumentError(f"the graph has no {name!r}") from error
    return operation.outputs[0] if operation.outputs else operation


def results(graph: Graph) -> list[Tensor | Operation]:
    """The outputs that no operation of the graph uses, except references, which assignments return.

    Those of operations with control inputs are no results either: that of a `Saver` would write a checkpoint.

    Raises:
        InvalidArgumentError: there are none.
    """
    found: list[Tensor | Operation] = [
        output
        for operation in graph.get_operations()
        if operation.type not in ("Placeholder", "Const") and not operation.control_inputs
        for output in operation.outputs
        if not (output.consumers() or output.dtype.is_ref)
    ]
    if not found:
        raise InvalidArgumentError("the graph has no results: name the tensors to compute with --fetch")
    return found


def _initializers(graph: Graph) -> list[Operation]:
    """The ops that initialize variables and tables: from the collections, otherwise by TensorFlow's names."""
    variables = {
        *graph.get_collection(GraphKeys.GLOBAL_VARIABLES),
        *graph.get_collection(GraphKeys.LOCAL_VARIABLES),
    }
    if variables:
        return [variable.initializer for variable in variables] + graph.get_collection(
            GraphKeys.TABLE_INITIALIZERS
        )
    operations = {operation.name: operation for operation in graph.get_operations()}
    names = [f"{name}/Assign" for name, operation in operations.items() if operation.type in _VARIABLES]
    return [operations[name] for name in names if name in operations]
