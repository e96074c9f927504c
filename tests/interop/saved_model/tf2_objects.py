"""Modules of TensorFlow 2 whose functions are called by name after loading, with and without signatures."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from typing import Any

from tests.interop.building import values
from tests.interop.saved_model.tf2_modules import spec

Pair = namedtuple("Pair", ["low", "high"])


def functions_of_a_module(tf: Any, folder: Path) -> Any:
    """Functions with defaults, keywords, several traces, nested arguments and results, state; no signatures."""

    class Layer(tf.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            self.w = tf.Variable(values(seed, 2, 2), name="w")

        @tf.function
        def __call__(self, x: Any, training: bool = False, *, scale: float = 1.0) -> Any:
            return x @ self.w * scale + (1.0 if training else 0.0)

    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [Layer(1), Layer(2)]
            self.named = {"first": Layer(3), "second": self.layers[0]}
            self.count = tf.Variable(0, trainable=False)
            self.untouched = tf.Variable([7.0], name="untouched")
            self.again = tf.Variable([8.0], name="untouched")
            self.itself = self
            self.table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64)), -1
            )
            self.file = tf.saved_model.Asset(str(folder / "words.txt"))

        @tf.function
        def apply(self, inputs: Any) -> Any:
            x, (y, z) = inputs["x"], inputs["rest"]
            return {"sum": x + y, "pair": Pair(x - z, [z, None, x])}

        @tf.function(input_signature=[])
        def step(self) -> Any:
            self.count.assign_add(1)
            return self.count.read_value()

        @tf.function(input_signature=[])
        def reset(self) -> None:
            self.count.assign(0)

        @tf.function(input_signature=[spec(tf, [None], "string")])
        def look(self, words: Any) -> Any:
            return self.table.lookup(words), tf.io.read_file(self.file.asset_path)

        @tf.function(input_signature=[spec(tf, [None, 2])])
        def both(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return x

    (folder / "words.txt").write_text("content", encoding="utf-8")
    model = Model()
    called, rows = model.layers[0].__call__, spec(tf, [None, 2])
    for training in (False, True):
        called.get_concrete_function(rows, training)
    called.get_concrete_function(spec(tf, [3, 2]), scale=2.0)
    model.layers[1].__call__.get_concrete_function(rows)
    model.named["first"].__call__.get_concrete_function(spec(tf, [None, 2], name="given"))
    one = spec(tf, [2])
    model.apply.get_concrete_function({"x": one, "rest": (one, one)})
    model.traced = model.both.get_concrete_function()
    return model
