"""`tf.nn` of TensorFlow 0.x: `aioexec.nn`, with the cross entropies' logits first, and the old names of recurrent networks."""

from __future__ import annotations

import sys
from typing import Any

from aioexec.graph.node import Tensor
from aioexec.ops.nn import cross_entropy


def softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, dim: int = -1, name: str | None = None
) -> Tensor:
    """Return the cross entropy of each row: `nn.softmax_cross_entropy_with_logits(labels=…, logits=…)` since 1.0."""
    return cross_entropy.softmax_cross_entropy_with_logits(labels=labels, logits=logits, dim=dim, name=name)


def sparse_softmax_cross_entropy_with_logits(logits: Any, labels: Any, name: str | None = None) -> Tensor:
    """Return the cross entropy of each row: `nn.sparse_softmax_cross_entropy_with_logits(labels=…, logits=…)` since 1.0."""
    return cross_entropy.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


def sigmoid_cross_entropy_with_logits(logits: Any, targets: Any, name: str | None = None) -> Tensor:
    """Return the cross entropy of each element: `nn.sigmoid_cross_entropy_with_logits(labels=…, logits=…)` since 1.0."""
    return cross_entropy.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name=name)


def __getattr__(name: str) -> Any:
    """Return a name of `aioexec.nn`; `rnn`, `bidirectional_rnn`, `state_saving_rnn` and `seq2seq` under their later names."""
    package = sys.modules["aioexec"]
    later = {
        "rnn": "static_rnn",
        "bidirectional_rnn": "static_bidirectional_rnn",
        "state_saving_rnn": "static_state_saving_rnn",
    }
    if name == "seq2seq":
        return package.contrib.legacy_seq2seq
    return getattr(package.nn, later.get(name, name))
