"""Modules and functions of TensorFlow 2, to be written with `tf.saved_model.save`.

Each function here gets the module `tensorflow` and a folder for files of its own, and returns an `Exported`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.interop.building import values, whole
from tests.interop.saved_model.tf2_exports import Call, Exported


def spec(tf: Any, shape: list[int | None] | None, dtype: str = "float32", name: str | None = None) -> Any:
    return tf.TensorSpec(shape, tf.as_dtype(dtype), name=name)


def variables_of_many_dtypes(tf: Any, folder: Path) -> Exported:
    module = tf.Module()
    module.w = tf.Variable(values(1, 3, 2), name="weights")
    module.again = tf.Variable(values(2, 3, 2), name="weights")
    module.wide = tf.Variable(values(3, 2, dtype="float64"))
    module.counts = tf.Variable(whole(4, 2), trainable=False)
    module.narrow = tf.Variable(tf.cast(values(5, 2), tf.bfloat16))
    module.flag = tf.Variable(True)
    module.word = tf.Variable(["one", "two"])
    module.parts = [tf.Variable(1.5), {"deep": tf.Variable([2.5])}]

    @tf.function(input_signature=[spec(tf, [None, 3], name="x")])
    def call(x):
        return {
            "sum": x @ (module.w + module.again) + module.parts[0] + module.parts[1]["deep"],
            "wide": tf.cast(x[:, :2], tf.float64) * module.wide,
            "counts": tf.where(module.flag, module.counts, -module.counts),
            "narrow": tf.cast(x[:, :2], tf.bfloat16) * module.narrow,
            "words": tf.strings.join([module.word, tf.as_string(module.counts)], "-"),
        }

    module.call = call
    return Exported(module, {"serving_default": call}, [Call("serving_default", x=values(6, 4, 3))])


def nested_functions(tf: Any, folder: Path) -> Exported:
    module = tf.Module()
    module.scale = tf.Variable([0.5, 2.0])
    module.total = tf.Variable(0.0)

    @tf.function
    def square(x):
        return x * x

    @tf.function
    def scaled(x, power=2):
        for _ in range(power):
            x = square(x) + module.scale
        return x

    @tf.function
    def counted(x):
        module.total.assign_add(tf.reduce_sum(x))
        return scaled(x, power=1), module.total.read_value()

    @tf.function(input_signature=[spec(tf, [None, 2], name="x")])
    def pure(x):
        return scaled(x) - square(x)

    @tf.function(input_signature=[spec(tf, [None, 2], name="x")])
    def stateful(x):
        value, total = counted(x)
        return {"value": value, "total": total, "again": scaled(value)}

    module.pure, module.stateful = pure, stateful
    x = values(1, 3, 2)
    calls = [Call("stateful", x=x), Call("pure", x=x), Call("stateful", x=2 * x)]
    return Exported(module, {"pure": pure, "stateful": stateful}, calls)


def conditionals(tf: Any, folder: Path) -> Exported:
    module = tf.Module()
    module.v = tf.Variable(1.5)

    @tf.function(input_signature=[spec(tf, [None], name="x"), spec(tf, [], "int32", name="branch")])
    def call(x, branch):
        if branch > 1:
            x = x * module.v
        elif branch < 0:
            x = -x
        picked = tf.switch_case(
            branch,
            {0: lambda: tf.exp(x), 1: lambda: tf.sin(x), 2: lambda: x + module.v},
            lambda: tf.zeros_like(x),
        )
        chosen = tf.cond(tf.reduce_sum(x) > 0, lambda: (x, x + 1.0), lambda: (2 * x, x - 1.0))
        return {"x": x, "picked": picked, "first": chosen[0], "second": chosen[1]}

    module.call = call
    calls = [Call("serving_default", x=values(1, 4), branch=np.int32(n)) for n in (0, 2, -1, 1, 5)]
    return Exported(module, {"serving_default": call}, calls)


def changes_in_branches(tf: Any, folder: Path) -> Exported:
    module = tf.Module()
    module.count = tf.Variable(0)

    @tf.function(input_signature=[spec(tf, [None], name="x")])
    def call(x):
        if tf.reduce_sum(x) > 0:
            module.count.assign_add(1)
            word, state = tf.constant("up"), module.count + 10
        else:
            word, state = tf.constant("down"), module.count.read_value()
        return {"word": word, "state": state, "count": module.count.read_value()}

    module.call = call
    calls = [
        Call("serving_default", x=values(n, 4, low=low, high=low + 1)) for n, low in ((1, 0), (2, -1), (3, 0))
    ]
    return Exported(module, {"serving_default": call}, calls)


def loops(tf: Any, folder: Path) -> Exported:
    module = tf.Module()
    module.step = tf.Variable(0.25)

    @tf.function(input_signature=[spec(tf, [None, 2], name="x"), spec(tf, [], "int32", name="n")])
    def call(x, n):
        total, i = tf.zeros([2]), 0
        while i < n:
            total += module.step * tf.cast(i, tf.float32)
            i += 1
            if tf.reduce_sum(total) > 3.0:
                break
        mapped = tf.map_fn(lambda row: tf.reduce_sum(row * row), x)
        scanned = tf.scan(lambda a, b: a * 0.5 + b, x)
        return {"total": total, "i": i, "mapped": mapped, "scanned": scanned}

    module.call = call
    calls = [Call("serving_default", x=values(n, 3 + n, 2), n=np.int32(3 * n)) for n in (0, 1, 3)]
    return Exported(module, {"serving_default": call}, calls)


def arrays_of_dynamic_size(tf: Any, folder: Path) -> Exported:
    module = tf.Module()

    @tf.function(input_signature=[spec(tf, [None, 2], name="x")])
    def positive(x):
        rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for k in tf.range(tf.shape(x)[0]):
            row = x[k]
            if row[0] > 0:
                rows = rows.write(rows.size(), row * 2.0)
        return tf.ensure_shape(rows.stack(), [None, 2])

    module.positive = positive
    return Exported(module, {"positive": positive}, [Call("positive", x=values(n, 4 + n, 2)) for n in (1, 2)])


def gradients_inside(tf: Any, folder: Path) -> Exported:
    module = tf.Module()
    module.w = tf.Variable(values(1, 2, 2))

    @tf.function(input_signature=[spec(tf, [None, 2], name="x"), spec(tf, [None, 2], name="y")])
    def train(x, y):
        with tf.GradientTape() as tape:
            state, weights = x, tf.convert_to_tensor(module.w)
            for _ in tf.range(3):
                state = tf.tanh(state @ weights)
            loss = tf.reduce_mean((state - y) ** 2)
        gradient = tape.gradient(loss, module.w)
        module.w.assign_sub(0.1 * gradient)
        return {"loss": loss, "gradient": gradient}

    module.train = train
    calls = [Call("train", x=values(2, 3, 2), y=values(3, 3, 2))] * 2
    return Exported(module, {"train": train}, calls)


def tables(tf: Any, folder: Path) -> Exported:
    vocabulary = folder / "words.txt"
    vocabulary.write_text("red\ngreen\nblue\n", encoding="utf-8")
    module = tf.Module()
    lookup = tf.lookup
    module.numbers = lookup.StaticHashTable(
        lookup.KeyValueTensorInitializer(["a", "b", "c"], tf.constant([1, 2, 3], tf.int64)), -1
    )
    module.words = lookup.StaticHashTable(
        lookup.KeyValueTensorInitializer(tf.constant([5, 6], tf.int64), ["five", "six"]), "?"
    )
    path, key, value = str(vocabulary), lookup.TextFileIndex.WHOLE_LINE, lookup.TextFileIndex.LINE_NUMBER
    module.index = lookup.StaticVocabularyTable(
        lookup.TextFileInitializer(path, tf.string, key, tf.int64, value), num_oov_buckets=4
    )
    module.colours = lookup.StaticHashTable(
        lookup.TextFileInitializer(path, tf.int64, value, tf.string, key), "none"
    )

    @tf.function(
        input_signature=[spec(tf, [None], "string", name="words"), spec(tf, [None], "int64", name="ids")]
    )
    def call(words, ids):
        return {
            "numbers": module.numbers.lookup(words),
            "words": module.words.lookup(ids),
            "index": module.index.lookup(words),
            "colours": module.colours.lookup(ids),
            "size": module.numbers.size(),
        }

    module.call = call
    words = np.array([b"a", b"green", b"unknown", b"c", b"blue"], object)
    calls = [Call("serving_default", words=words, ids=np.array([5, 0, 2, 7, 6], np.int64))]
    return Exported(module, {"serving_default": call}, calls)


def captured_values(tf: Any, folder: Path) -> Exported:
    weights = tf.constant(values(1, 40, 3))
    module = tf.Module()
    offsets = tf.Variable(values(2, 3))
    module.offsets = offsets
    module.kept = tf.constant([1, 2, 3])
    module.file = tf.saved_model.Asset(_file(folder / "asset.txt", "content of a file"))

    @tf.function(input_signature=[spec(tf, [None], "int32", name="ids")])
    def call(ids):
        return {
            "rows": tf.gather(weights, ids) + offsets,
            "kept": module.kept + 1,
            "content": tf.io.read_file(module.file.asset_path),
        }

    module.call = call
    return Exported(
        module, {"serving_default": call}, [Call("serving_default", ids=whole(3, 6, low=0, high=40))]
    )


def _file(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)


def strings(tf: Any, folder: Path) -> Exported:
    module = tf.Module()

    @tf.function(input_signature=[spec(tf, [None], "string", name="text")])
    def call(text):
        lower = tf.strings.lower(tf.strings.strip(text))
        cleaned = tf.strings.regex_replace(lower, r"[^a-z0-9 ]", "")
        split = tf.strings.split(cleaned)
        lengths = split.row_lengths()
        return {
            "cleaned": cleaned,
            "tokens": split.to_tensor("", shape=[None, 4]),
            "lengths": lengths,
            "buckets": tf.strings.to_hash_bucket_fast(split.values, 100),
            "numbers": tf.strings.to_number(tf.strings.regex_replace(lower, r"[^0-9]", "1")),
            "joined": tf.strings.reduce_join(split, axis=-1, separator="_"),
            "start": tf.strings.substr(lower, 0, 2),
            "characters": tf.strings.length(text, unit="UTF8_CHAR"),
        }

    module.call = call
    text = np.array(["  Hello, World 42", "naïve 7", "three  small words"], object)
    encoded = np.array([each.encode() for each in text], object)
    return Exported(module, {"serving_default": call}, [Call("serving_default", text=encoded)])


def random_numbers(tf: Any, folder: Path) -> Exported:
    module = tf.Module()
    module.generator = tf.random.Generator.from_seed(7, alg="philox")

    @tf.function(input_signature=[spec(tf, [2], "int32", name="seed")])
    def call(seed):
        return {
            "uniform": tf.random.stateless_uniform([2, 3], seed),
            "normal": tf.random.stateless_normal([4], seed),
            "whole": tf.random.stateless_uniform([4], seed, 0, 100, tf.int32),
            "drawn": module.generator.normal([3]),
            "truncated": tf.random.stateless_truncated_normal([5], seed),
        }

    module.call = call
    calls = [Call("serving_default", seed=np.array([3, n], np.int32)) for n in (1, 2)]
    return Exported(module, {"serving_default": call}, calls)


MODULES = [
    variables_of_many_dtypes,
    nested_functions,
    conditionals,
    changes_in_branches,
    loops,
    arrays_of_dynamic_size,
    gradients_inside,
    tables,
    captured_values,
    strings,
    random_numbers,
]

NATIVE = ["nested_functions", "conditionals", "loops", "gradients_inside"]
"""Those without strings, tables and other things that have no native form."""
