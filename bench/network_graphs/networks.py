"""The networks by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.network_graphs.convolutional import CLASSES, mobilenet_v1, mobilenet_v2, resnet50
from bench.network_graphs.decoders import gpt2, translator
from bench.network_graphs.image_networks import efficientnet_b0, inception_v3, unet
from bench.network_graphs.parameters import Network, Parameters
from bench.network_graphs.recommenders import dlrm, wide_and_deep
from bench.network_graphs.recurrent import gru, lstm
from bench.network_graphs.sound import wavenet
from bench.network_graphs.training import trained
from bench.network_graphs.transformers import BERT_BASE, BERT_LARGE, bert

NETWORKS: dict[str, Callable[[Parameters, int], Network]] = {
    "resnet50": resnet50,
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "inception_v3": inception_v3,
    "efficientnet_b0": efficientnet_b0,
    "unet": unet,
    "bert_base": bert,
    "bert_large": partial(bert, size=BERT_LARGE),
    "gpt2": gpt2,
    "translator": translator,
    "lstm_256": lstm,
    "lstm_1024": partial(lstm, units=1024),
    "gru_256": gru,
    "gru_1024": partial(gru, units=1024),
    "dlrm": dlrm,
    "wide_and_deep": wide_and_deep,
    "wavenet": wavenet,
    "resnet50_training": trained(resnet50, lambda tf: tf.train.MomentumOptimizer(0.01, 0.9), CLASSES),
    "bert_base_training": trained(bert, lambda tf: tf.train.AdamOptimizer(1e-5), BERT_BASE.width),
    "lstm_256_training": trained(lstm, lambda tf: tf.train.AdamOptimizer(1e-3)),
}
"""Each adds a network to the default graph, and returns its step at a batch size."""
