"""Writes a model as a SavedModel: `Estimator.export_saved_model`.

1. The graph is built with the features of the serving function, in mode PREDICT.
2. The variables are restored from a checkpoint, and everything is written to a temporary folder beside the final one.
3. That folder is renamed: programs that watch for new versions never find an incomplete one. After a failure it is removed.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError
from aioexec.estimator.modes import ModeKeys
from aioexec.files import operations
from aioexec.graph.graph import Graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.random.random_ops import set_random_seed
from aioexec.saved_model.builder import SavedModelBuilder
from aioexec.saved_model.constants import EXTRA_ASSETS_DIRECTORY
from aioexec.saved_model.signature_def_utils import is_valid_signature
from aioexec.saved_model.tag_constants import SERVING
from aioexec.sessions.session import Session
from aioexec.train.checkpoints.saver import Saver
from aioexec.train.off_loop import off_loop
from aioexec.train.sessions.scaffold import Scaffold

if TYPE_CHECKING:
    from aioexec.estimator.run_config import RunConfig
    from aioexec.estimator.specification import EstimatorSpec
    from aioexec.formats.protos import SignatureDef

_TRIES: Final = 10
"""How many names for a new version are tried: the time in seconds, and the numbers after it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Export:
    """What is exported: the model as functions, and the checkpoint.

    `model_fn`: from (features, labels, mode, config) to an EstimatorSpec. `create_global_step`: makes the global step.
    """

    model_fn: Callable[[Any, Any, str, Any], EstimatorSpec]
    create_global_step: Callable[[Graph], Any]
    config: RunConfig
    checkpoint: str


async def export_model(
    export: Export,
    export_dir_base: str,
    serving_input_receiver_fn: Callable[[], Any],
    assets_extra: Mapping[str, str] | None,
    *,
    as_text: bool,
    strip_default_attrs: bool,
) -> bytes:
    """Write a SavedModel into a new folder below `export_dir_base`, named by the time; returns its path.

    Raises:
        GraphValueError: no signature can be served.
        OpError: the model cannot be written; no folder is left.
    """
    final, temporary = await off_loop(_new_folders, os.fsdecode(export_dir_base))
    try:
        builder = SavedModelBuilder(temporary)
        await _add_graph(export, builder, serving_input_receiver_fn, strip_default_attrs)
        await builder.save(as_text)
        await off_loop(_copy_extra, temporary, assets_extra or {})
        await off_loop(operations.rename, temporary, final)
    except BaseException:
        await off_loop(shutil.rmtree, temporary, ignore_errors=True)
        raise
    logger.info("SavedModel written to: %s", final)
    return os.fsencode(final)


async def _add_graph(
    export: Export, builder: SavedModelBuilder, serving_input_receiver_fn: Callable[[], Any], strip: bool
) -> None:
    graph = Graph()
    with graph.as_default():
        export.create_global_step(graph)
        set_random_seed(export.config.tf_random_seed)
        receiver = serving_input_receiver_fn()
        spec = export.model_fn(receiver.features, None, ModeKeys.PREDICT, export.config)
        signatures = _signatures(receiver, spec.export_outputs)
        scaffold = spec.scaffold or Scaffold()
        saver = scaffold.saver or Saver(sharded=True)
        main_op = scaffold.local_init_op or Scaffold.default_local_init_op()
        async with Session(graph=graph, config=export.config.session_config) as session:
            await saver.restore(session, export.checkpoint)
            await builder.add_meta_graph_and_variables(
                session,
                tags=[SERVING],
                signature_def_map=signatures,
                assets_collection=graph.get_collection(GraphKeys.ASSET_FILEPATHS),
                main_op=main_op,
                saver=saver,
                strip_default_attrs=strip,
            )


def _signatures(receiver: Any, export_outputs: Mapping[str, Any]) -> dict[str, SignatureDef]:
    """The SignatureDefs of all outputs, for the inputs and their alternatives, as far as these suit the outputs."""
    inputs = {"": receiver.receiver_tensors, **(receiver.receiver_tensors_alternatives or {})}
    found: dict[str, SignatureDef] = {}
    excluded: dict[str, str] = {}
    for input_name, tensors in inputs.items():
        for output_name, output in export_outputs.items():
            name = f"{input_name}:{output_name}" if input_name else output_name
            try:
                signature = output.as_signature_def(tensors)
            except GraphValueError as error:
                excluded[name] = error.message
                continue
            if is_valid_signature(signature):
                found[name] = signature
    for name, reason in excluded.items():
        logger.info("Signature %r is not exported: %s", name, reason)
    if not found:
        raise GraphValueError(f"Export: expected a signature that can be served, got none: {excluded}")
    return found


# Folders; these block


def _new_folders(base: str) -> tuple[str, str]:
    """A path for a new version that is not taken, and a temporary one beside it."""
    for number in range(_TRIES):
        final = os.path.join(base, str(int(time.time()) + number))
        temporary = os.path.join(base, f"temp-{os.path.basename(final)}")
        if not operations.exists(final) and not operations.exists(temporary):
            operations.makedirs(base)
            return final, temporary
    raise GraphValueError(
        f"Export: expected a free name for a version in {base!r}, got none in {_TRIES} tries"
    )


def _copy_extra(folder: str, assets: Mapping[str, str]) -> None:
    """Copy further files into the SavedModel, by their paths there."""
    for path, source in assets.items():
        target = os.path.join(folder, EXTRA_ASSETS_DIRECTORY, path)
        operations.makedirs(os.path.dirname(target))
        operations.copy(source, target)
