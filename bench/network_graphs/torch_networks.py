"""The networks in torch, as its users write them: fused normalisation, attention and recurrent layers where torch has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.network_graphs import torch_images, torch_recommenders, torch_sequences, transformers
from bench.network_graphs.torch_layers import Weights

TORCH_NETWORKS: dict[str, Callable[[Weights], Callable[..., Any]]] = {
    "resnet50": torch_images.resnet50,
    "mobilenet_v1": torch_images.mobilenet_v1,
    "mobilenet_v2": torch_images.mobilenet_v2,
    "inception_v3": torch_images.inception_v3,
    "efficientnet_b0": torch_images.efficientnet_b0,
    "unet": torch_images.unet,
    "bert_base": torch_sequences.bert,
    "bert_large": partial(torch_sequences.bert, size=transformers.BERT_LARGE),
    "gpt2": torch_sequences.gpt2,
    "translator": torch_sequences.translator,
    "lstm_256": torch_sequences.lstm,
    "lstm_1024": torch_sequences.lstm,
    "gru_256": torch_sequences.gru,
    "gru_1024": torch_sequences.gru,
    "dlrm": torch_recommenders.dlrm,
    "wide_and_deep": torch_recommenders.wide_and_deep,
    "wavenet": torch_sequences.wavenet,
}
"""Each makes a function of the feeds, in the order of their placeholders."""
