"""`python -m bench.network_graphs NETWORK BATCH frozen|variables FOLDER`: build a network with TensorFlow and write it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from bench.network_graphs.counting import flops
from bench.network_graphs.files import write
from bench.network_graphs.networks import NETWORKS
from bench.network_graphs.parameters import Network, Parameters


def main() -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = (
        "0"  # its layout pass joins nodes under other names: they could not be counted
    )
    import tensorflow.compat.v1 as tf

    name, batch, kind, folder = sys.argv[1:]
    tf.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        parameters = Parameters(tf, kind == "frozen")
        network = NETWORKS[name](parameters, int(batch))
        init = [] if parameters.frozen else [tf.global_variables_initializer()]
    step = {
        "outputs": [tensor.name for tensor in network.outputs],
        "targets": [] if network.train is None else [network.train.name],
        "init": [operation.name for operation in init],
        **_counts(tf, graph, parameters, network, init),
    }
    write(
        Path(folder),
        graph.as_graph_def().SerializeToString(),
        {tensor.name: value for tensor, value in network.feeds.items()},
        {tensor.name: value for tensor, value in parameters.values.items()},
        step,
    )


def _counts(tf: Any, graph: Any, parameters: Parameters, network: Network, init: list[Any]) -> dict[str, int]:
    def session_of(config: Any) -> Any:
        session = tf.Session(graph=graph, config=config)
        if init:
            session.run(init, parameters.values)
        return session

    fed = sum(value.nbytes for value in network.feeds.values())
    return {"flops": flops(tf, session_of, network), "read_bytes": parameters.read_bytes + fed}


if __name__ == "__main__":
    main()
