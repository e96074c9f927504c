"""A model of TensorFlow 1.x with a signature for each method, and what it computes, in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

WEIGHTS = np.arange(6, dtype=np.float32).reshape(3, 2) / 10
X = np.array([[1, 2, 3], [-1, 0.5, 0]], np.float32)
TEXT = [b"a", "\u00fc".encode()]


def expected_y() -> Any:
    """The output "y" for `X`."""
    return np.tanh(X @ WEIGHTS)


def expected_scores() -> Any:
    """The scores of the classes for the rows of `X`."""
    logits = X @ WEIGHTS
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def write_model(tf: Any, folder: Path) -> None:
    """Write the model with TensorFlow's builder."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        text = tf.placeholder(tf.string, [None], name="text")
        weights = tf.get_variable("weights", initializer=WEIGHTS)
        y = tf.tanh(tf.matmul(x, weights))
        shouted = tf.string_join([text, tf.constant("!")])
        examples = tf.placeholder(tf.string, [None], name="examples")
        features = tf.parse_example(examples, {"x": tf.FixedLenFeature([3], tf.float32)})
        scores = tf.nn.softmax(tf.matmul(features["x"], weights))
        classes = tf.tile(tf.constant([["left", "right"]]), [tf.shape(scores)[0], 1])
        number = tf.reduce_sum(features["x"], axis=1)
        session.run(tf.global_variables_initializer())
        signature = _signatures_with(tf)
        builder = tf.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            signature_def_map={
                "serving_default": signature(
                    {"x": x, "text": text}, {"y": y, "shouted": shouted}, "tensorflow/serving/predict"
                ),
                "classify": signature(
                    {"inputs": examples},
                    {"classes": classes, "scores": scores},
                    "tensorflow/serving/classify",
                ),
                "regress": signature({"inputs": examples}, {"outputs": number}, "tensorflow/serving/regress"),
            },
        )
        builder.save()


def _signatures_with(tf: Any) -> Any:
    info = tf.saved_model.build_tensor_info

    def signature(inputs: dict[str, Any], outputs: dict[str, Any], method: str) -> Any:
        return tf.saved_model.build_signature_def(
            {key: info(tensor) for key, tensor in inputs.items()},
            {key: info(tensor) for key, tensor in outputs.items()},
            method,
        )

    return signature
