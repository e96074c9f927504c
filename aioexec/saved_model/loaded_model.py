"""`aioexec.load`: a model from its files, with a session of its own.

    async with await ax.load("exports/1") as model:
        answers = await model(images=images)

Reading, parsing and importing are done in a thread, and the variables are restored by a step: the event loop is not blocked.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from aioexec.errors import NotFoundError
from aioexec.graph.graph import Graph
from aioexec.saved_model.model_files import Path
from aioexec.saved_model.model_sources import import_model
from aioexec.saved_model.objects.loaded_objects import LoadedObject
from aioexec.saved_model.objects.object_reading import ReadObjects, read_objects
from aioexec.saved_model.restoring import Imported, initialize
from aioexec.saved_model.signature import Signature
from aioexec.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from aioexec.saved_model.signature_reading import chosen_signature, signatures_of
from aioexec.sessions.session import Session
from aioexec.train.off_loop import off_loop

if TYPE_CHECKING:
    from aioexec.formats.protos import MetaGraphDef


class LoadedModel:
    """A model that was loaded from files; `close` it, or use `async with`.

    Attributes, all constant:
        path: the folder or file it was loaded from.
        tags: the tags of its graph.
        graph, session: the graph, and the session that runs it, in the event loop of `load`.
        meta_graph_def: the graph's MetaGraphDef as it was read; that of a GraphDef is empty.
        signatures: the signatures by name.
        root: the object that was saved, of a model of TensorFlow 2; None of others. Its attributes are the model's too:
            `await model.f(x)` calls a function of the saved module.
    """

    def __init__(
        self,
        path: str,
        tags: Iterable[str],
        session: Session,
        meta_graph_def: MetaGraphDef,
        signatures: Mapping[str, Signature],
        root: LoadedObject | None = None,
    ) -> None:
        self.path = path
        self.tags = frozenset(tags)
        self.graph = session.graph
        self.session = session
        self.meta_graph_def = meta_graph_def
        self.signatures = signatures
        self.root = root

    def __getattr__(self, name: str) -> Any:
        root = None if name.startswith("__") or name == "root" else self.root
        if root is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(root, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(() if self.root is None else dir(self.root))})

    async def __call__(self, **inputs: Any) -> dict[str, np.ndarray[Any, Any]]:
        """Run the signature "serving_default", or the only one; see `Signature.run`."""
        return await self.signature().run(inputs)

    def signature(self, name: str | None = None) -> Signature:
        """The signature of that name; by default "serving_default", or the only one.

        Raises:
            NotFoundError: there is no such signature, or there are several.
        """
        if name is None:
            name = DEFAULT_SERVING_SIGNATURE_DEF_KEY
            if name not in self.signatures and len(self.signatures) == 1:
                (name,) = self.signatures
        if name not in self.signatures:
            raise NotFoundError(f"{self.path}: no signature {name!r}, only {sorted(self.signatures)}")
        return self.signatures[name]

    async def explain(self, signature: str | None = None) -> str:
        """A report on how a signature is executed; see `Session.explain`."""
        chosen = self.signature(signature)
        return await self.session.explain(
            list(chosen.outputs.values()), dict.fromkeys(chosen.inputs.values())
        )

    async def close(self) -> None:
        """End the steps that are active, and release what the model holds."""
        await self.session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def load(
    path: Path,
    *,
    tags: Collection[str] | str | None = None,
    config: Any = None,
    inputs: Mapping[str, str] | Collection[str] | None = None,
    outputs: Mapping[str, str] | Collection[str] | None = None,
) -> LoadedModel:
    """Load a model; nothing blocks the event loop.

    Args:
        path: the folder of a SavedModel; the folder of a training, or a checkpoint with its ".meta" file; or a file with a
            GraphDef of constants.
        tags: the tags of the graph to load; by default the only graph, or the one of the tag "serve".
        config: a ConfigProto for the model's session.
        inputs, outputs: the tensors of the signature "serving_default", by the names that callers use; or tensors and nodes,
            which keep their names. By default those of the SavedModel; of a GraphDef its placeholders, and the tensors that
            nothing takes.

    Raises:
        NotFoundError: there is no model, no graph with these tags, or a variable or asset file is missing.
        DataLossError: a file is damaged.
        OpError: the graph cannot be imported or initialized.
    """
    text = os.fsdecode(path)
    wanted = [tags] if isinstance(tags, str) else tags
    graph = Graph()
    imported, objects = await off_loop(_import, text, wanted, graph)
    session = Session(graph=graph, config=config)
    try:
        signatures = signatures_of(imported.meta_graph, session, text)
        if (
            inputs is not None
            or outputs is not None
            or (not signatures and imported.saver is None and objects is None)
        ):
            name = DEFAULT_SERVING_SIGNATURE_DEF_KEY
            signatures[name] = chosen_signature(name, session, inputs, outputs, text)
        await initialize(session, imported, text)
    except BaseException:
        await session.close()
        raise
    meta_graph = imported.meta_graph
    root = None if objects is None else objects.loaded(graph, session).root
    return LoadedModel(text, meta_graph.meta_info_def.tags, session, meta_graph, signatures, root)


def _import(path: str, tags: Collection[str] | None, graph: Graph) -> tuple[Imported, ReadObjects | None]:
    """Read a model and its objects, and import its graph. Blocks."""
    imported = import_model(path, tags, graph)
    return imported, read_objects(imported.meta_graph, path, imported.prefix, imported.assets)
