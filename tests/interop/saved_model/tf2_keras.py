"""Keras models, exported by Keras 3 and saved by tf-keras, with tiny layers and weights that are the same each time."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.interop.building import values, whole
from tests.interop.saved_model.tf2_exports import Call, Exported


def exported(build: Any, kind: str) -> Any:
    """An `Export` of what `build` makes: a model, and the values of its inputs by their names."""

    def export(tf: Any, folder: Path) -> Exported:
        keras = importlib.import_module(kind)
        keras.utils.set_random_seed(3)
        model, inputs = build(keras)
        weights = model.get_weights()
        if all(w.dtype.kind == "f" for w in weights):
            model.set_weights(
                [
                    abs(values(k, *w.shape, low=-0.7, high=0.7, dtype=w.dtype.name))
                    for k, w in enumerate(weights)
                ]
            )
        if kind == "keras":
            save = functools.partial(model.export, verbose=False)
        else:
            save = functools.partial(model.save, save_format="tf")
        return Exported(save, None, [Call("serving_default", **inputs)], tolerance=4.0)

    export.__name__ = f"{build.__name__}_{kind}"
    return export


def dense(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((5,), name="x")
    y = layers.Dense(4, activation="relu")(x)
    y = layers.LayerNormalization()(y)
    y = layers.Dropout(0.5)(y)
    y = layers.Dense(3, activation="softmax")(y)
    return keras.Model(x, y), {"x": values(1, 6, 5)}


def convolutions(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((8, 8, 3), name="image")
    y = layers.Conv2D(4, 3, padding="same", use_bias=False)(x)
    y = layers.BatchNormalization()(y)
    y = layers.Activation("relu")(y)
    y = layers.MaxPooling2D()(y)
    y = layers.DepthwiseConv2D(3, padding="same")(y)
    y = layers.SeparableConv2D(4, 3, activation="gelu")(y)
    y = layers.Conv2DTranspose(2, 2, strides=2)(y)
    y = layers.UpSampling2D()(y)
    y = layers.ZeroPadding2D(1)(y)
    y = layers.GlobalAveragePooling2D()(y)
    return keras.Model(x, layers.Dense(2, activation="sigmoid")(y)), {"image": values(2, 2, 8, 8, 3)}


def lstm(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((None,), dtype="int32", name="ids")
    y = layers.Embedding(11, 4, mask_zero=True)(x)
    y = layers.LSTM(5, return_sequences=True)(y)
    y = layers.LSTM(3)(y)
    ids = whole(3, 4, 6, low=1, high=11)
    ids[1:, 4:] = 0
    return keras.Model(x, layers.Dense(1)(y)), {"ids": ids}


def gru(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((6, 3), name="x")
    y = layers.Bidirectional(layers.GRU(4, return_sequences=True))(x)
    y = layers.SimpleRNN(3, return_sequences=True)(y)
    y = layers.TimeDistributed(layers.Dense(2))(y)
    y = layers.RNN(layers.GRUCell(2, reset_after=False))(y)
    return keras.Model(x, y), {"x": values(4, 2, 6, 3)}


def attention(keras: Any) -> Any:
    layers = keras.layers
    query, value = keras.Input((4, 6), name="query"), keras.Input((5, 6), name="value")
    y = layers.MultiHeadAttention(2, 3)(query, value)
    y = layers.Add()([y, query])
    z = layers.Attention()([y, value])
    y = layers.Concatenate()([y, z])
    pooled = layers.GlobalMaxPooling1D()(y)
    return keras.Model([query, value], {"all": y, "pooled": pooled}), {
        "query": values(5, 2, 4, 6),
        "value": values(6, 2, 5, 6),
    }


def preprocessing(keras: Any) -> Any:
    layers = keras.layers
    word = keras.Input((1,), dtype="string", name="word")
    number = keras.Input((2,), name="number")
    text = keras.Input((1,), dtype="string", name="text")
    lookup = layers.StringLookup(vocabulary=["red", "green", "blue"], output_mode="int")
    normalization = layers.Normalization(mean=[1.0, 2.0], variance=[4.0, 9.0])
    vectors = layers.TextVectorization(
        vocabulary=["the", "quick", "fox"], output_mode="int", output_sequence_length=4
    )
    bags = layers.TextVectorization(vocabulary=["the", "quick", "fox"], output_mode="multi_hot")
    outputs = {
        "word": lookup(word),
        "bag": bags(text),
        "number": normalization(number),
        "text": layers.Embedding(8, 3)(vectors(text)),
        "bin": layers.Discretization(bin_boundaries=[0.0, 1.0, 2.0])(number),
        "hash": layers.Hashing(num_bins=5)(word),
    }
    words = np.array([[b"red"], [b"pink"], [b"blue"]], object)
    texts = np.array([[b"The quick, quick dog!"], [b"fox"], [b"jumps over the lazy fox"]], object)
    return keras.Model([word, number, text], outputs), {
        "word": words,
        "number": values(7, 3, 2, low=-2, high=4),
        "text": texts,
    }


def one_lstm(keras: Any) -> Any:
    x = keras.Input((4, 3), name="x")
    return keras.Model(x, keras.layers.LSTM(2)(x)), {"x": values(8, 2, 4, 3)}


BUILDERS = {
    "keras": [dense, convolutions, lstm, gru, attention, preprocessing],
    "tf_keras": [
        dense,
        convolutions,
        one_lstm,
        attention,
        preprocessing,
    ],  # saving a layer with state takes it seconds
}
MODELS = [exported(build, kind) for kind, builders in BUILDERS.items() for build in builders]
