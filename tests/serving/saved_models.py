"""SavedModels for tests, written message by message."""

from __future__ import annotations

from pathlib import Path

import aioexec as ax
from aioexec.formats.protos import SavedModel


def write_adder(folder: Path, added: float) -> None:
    """A SavedModel whose only signature returns the sum of each row of x, and `added`."""
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None, 2], name="x")
        y = ax.add(ax.reduce_sum(x, axis=1), added, name="y")
    model = SavedModel(saved_model_schema_version=1)
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    meta.graph_def.CopyFrom(graph.as_graph_def())
    signature = meta.signature_def["serving_default"]
    signature.method_name = "tensorflow/serving/predict"
    for infos, key, tensor in ((signature.inputs, "x", x), (signature.outputs, "y", y)):
        infos[key].name = tensor.name
        infos[key].dtype = tensor.dtype.as_datatype_enum
        for size in tensor.dims or ():
            infos[key].tensor_shape.dim.add(size=-1 if size is None else size)
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
