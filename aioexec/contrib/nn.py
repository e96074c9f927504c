"""Cross entropies with logits before labels, as in TensorFlow 0.x, under the names of `tf.contrib.nn`."""

from __future__ import annotations

from aioexec.compat.v0 import nn as _nn

deprecated_flipped_sigmoid_cross_entropy_with_logits = _nn.sigmoid_cross_entropy_with_logits
deprecated_flipped_softmax_cross_entropy_with_logits = _nn.softmax_cross_entropy_with_logits
deprecated_flipped_sparse_softmax_cross_entropy_with_logits = _nn.sparse_softmax_cross_entropy_with_logits
