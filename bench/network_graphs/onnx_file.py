"""`python -m bench.network_graphs.onnx_file NETWORK FOLDER`: write the ONNX model of a frozen network beside its GraphDef."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.network_graphs.files import GRAPH, ONNX, STEP
from bench.network_graphs.onnx_recurrent import gru, lstm
from bench.network_graphs.onnx_translation import translated

PORTS: dict[str, Callable[..., Any]] = {
    "lstm_256": lstm,
    "lstm_1024": lstm,
    "gru_256": gru,
    "gru_1024": gru,
}
"""Of networks with loops, which are not translated node by node."""


def main() -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow.compat.v1 as tf

    network, folder = sys.argv[1], Path(sys.argv[2])
    outputs = json.loads((folder / STEP).read_text(encoding="utf-8"))["outputs"]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.GraphDef.FromString((folder / GRAPH).read_bytes()), name="")
        tensors = [graph.get_tensor_by_name(name) for name in outputs]
        model = PORTS.get(network, translated)(tf, graph, tensors)
    (folder / ONNX).write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
