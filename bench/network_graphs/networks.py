"""The networks by name."""

from __future__ import annotations

from collections.abc import Callable

from bench.network_graphs.convolutional import mobilenet_v1, resnet50
from bench.network_graphs.parameters import Network, Parameters
from bench.network_graphs.recurrent import lstm
from bench.network_graphs.transformers import bert

NETWORKS: dict[str, Callable[[Parameters, int], Network]] = {
    "resnet50": resnet50,
    "mobilenet_v1": mobilenet_v1,
    "bert_base": bert,
    "lstm_256": lstm,
}
"""Each adds a network to the default graph, and returns its step at a batch size."""
