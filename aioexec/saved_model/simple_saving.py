"""`simple_save`: a SavedModel with one signature, in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation
from aioexec.saved_model.builder import SavedModelBuilder
from aioexec.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from aioexec.saved_model.signature_def_utils import predict_signature_def
from aioexec.saved_model.tag_constants import SERVING


async def simple_save(
    session: Any,
    export_dir: str | bytes | os.PathLike[str],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    legacy_init_op: Operation | None = None,
) -> None:
    """Write the graph of a session as a SavedModel with the tag "serve" and the signature "serving_default".

    Args:
        inputs, outputs: the tensors of the signature, by the names that callers use.
        legacy_init_op: is run after the variables are restored, for example the initializer of tables.

    Raises:
        OpError: as the methods of `SavedModelBuilder`.
    """
    builder = SavedModelBuilder(export_dir)
    await builder.add_meta_graph_and_variables(
        session,
        tags=[SERVING],
        signature_def_map={DEFAULT_SERVING_SIGNATURE_DEF_KEY: predict_signature_def(inputs, outputs)},
        assets_collection=session.graph.get_collection(GraphKeys.ASSET_FILEPATHS),
        main_op=legacy_init_op,
        clear_devices=True,
    )
    await builder.save()
